"""The placement of a plan: the device of a stage is that which runs its operations."""

from __future__ import annotations

from dataclasses import replace

from pipesched.errors import ConfigError
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


def placement_of(plan: Plan) -> Placement:
    """Return the device of each stage in `plan`. Raises ConfigError where there is none, or several."""
    index, half = plan.index, plan.index.microbatches // 2
    seen: list[tuple[set[int], set[int]]] = [(set(), set()) for _ in range(index.stages)]
    for device, order in enumerate(plan.orders):
        for number in order:
            op = index.op(number)
            seen[op.stage][op.microbatch >= half].add(device)
    for stage, halves in enumerate(seen):
        if not any(halves) or any(len(devices) > 1 for devices in halves):
            where = " and ".join(map(str, sorted(set.union(*halves)))) or "none"
            raise ConfigError(f"stage {stage} must run on one device; this plan has it on {where}", "plan")
    last = len(plan.orders) - 1
    first = [next(iter(early or late)) for early, late in seen]
    if all(early == late or not early or not late for early, late in seen):
        return Placement(tuple(first))
    if all(late == {last - device} for device, (_, late) in zip(first, seen, strict=True)):
        return Placement(tuple(first), mirrored=True)
    raise ConfigError("each stage must run on one device, or on two that mirror each other", "plan")
