"""The placement of a plan: the device of a stage is that which runs its operations."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from pipesched.checks import joined
from pipesched.errors import ConfigError
from pipesched.pipeline.ops import Op
from pipesched.pipeline.placement import Placement
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem


def settled(problem: Problem, plan: Plan) -> Problem:
    """Return `problem` with its placement, or where that is left open with the placement of `plan`.

    Raises ConfigError for a plan that leaves a device without a stage, or runs a stage on several devices, unless the
    placement is bidirectional.
    """
    if problem.placement is not None:
        return problem
    try:
        return replace(problem, placement=placement_of(plan))
    except ConfigError as error:
        raise ConfigError(error.message, "plan") from None


OpsByDevice = dict[int, list[Op]]


def _spread(early: OpsByDevice, late: OpsByDevice) -> str:
    """Return the devices of a stage, and which operations are elsewhere than most of them, if most are on one."""
    together = {device: [*early.get(device, ()), *late.get(device, ())] for device in sorted({*early, *late})}
    where = " and ".join(map(str, together)) or "none"
    most = max(map(len, together.values()), default=0)
    home = [device for device, ops in together.items() if len(ops) == most]
    if len(home) != 1:
        return where
    astray = [f"{op} on {device}" for device, ops in together.items() if device != home[0] for op in ops]
    return f"{where}: {joined(astray)}, the rest on {home[0]}"


def placement_of(plan: Plan) -> Placement:
    """Return the device of each stage in `plan`. Raises ConfigError where there is none, or several."""
    index, half = plan.index, plan.index.microbatches // 2
    runs: list[tuple[OpsByDevice, OpsByDevice]] = [(defaultdict(list), defaultdict(list)) for _ in range(index.stages)]
    for device, order in enumerate(plan.orders):
        for number in order:
            op = index.op(number)
            runs[op.stage][op.microbatch >= half][device].append(op)
    for stage, halves in enumerate(runs):
        if not any(halves) or any(len(devices) > 1 for devices in halves):
            raise ConfigError(f"stage {stage} must run on one device; this plan has it on {_spread(*halves)}", "plan")
    seen = [(set(early), set(late)) for early, late in runs]
    last = len(plan.orders) - 1
    first = [next(iter(early or late)) for early, late in seen]
    if all(early == late or not early or not late for early, late in seen):
        return Placement(tuple(first))
    if all(late == {last - device} for device, (_, late) in zip(first, seen, strict=True)):
        return Placement(tuple(first), mirrored=True)
    raise ConfigError("each stage must run on one device, or on two that mirror each other", "plan")
