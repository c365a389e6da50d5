"""The placements that a solve tries, and families' plans as plans of those."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from pipesched.errors import ConfigError, NotApplicable
from pipesched.lookup import find
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.placement import PLACEMENTS, Placement, place
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import shown

AUTO = "auto"
TRIED = ("linear", "loop", "v", "wave")  # bidirectional keeps two copies of the weights: only when it is asked for


def placed(problem: Problem, names: Sequence[str]) -> list[Problem]:
    """`problem` on each placement to try: its own if it has one, else those named, `auto` being all of TRIED.

    Raises NotApplicable when none of the named ones suits the number of stages.
    """
    if problem.placement is not None:
        return [problem]
    found: dict[Placement, Problem] = {}
    reasons = []
    for name in names:
        try:
            homes = list(_every(problem)) if name == AUTO else [place(name, problem.devices, problem.stages)]
        except ConfigError as error:
            find(PLACEMENTS, name, "placement", "placement")
            reasons.append(str(error))
            continue
        for home in homes:
            found.setdefault(home, replace(problem, placement=home))
    if not found:
        raise NotApplicable("; ".join(reasons), "placement")
    return list(found.values())


def _every(problem: Problem) -> Iterator[Placement]:
    """Linear, and where the stages allow it loop, and v or wave of blocks."""
    devices, stages = problem.devices, problem.stages
    yield place("linear", devices, stages)
    if stages % devices == 0:
        yield place("loop", devices, stages)
    if stages % (2 * devices) == 0:
        yield in_blocks(place("v", devices, 2 * devices), stages)
        yield place("wave", devices, stages)


def in_blocks(placement: Placement, stages: int) -> Placement:
    """`placement` with each of its stages cut into equal parts that stay together, `stages` in all."""
    parts = stages // len(placement.devices)
    return Placement(tuple(home for home in placement.devices for _ in range(parts)), placement.mirrored)


def name_of(problem: Problem) -> str:
    """What people call a problem's placement: its name, or the devices that it lists."""
    home, devices, stages = problem.home(), problem.devices, problem.stages
    if home.mirrored:
        return "bidirectional"
    for name in TRIED:
        unit = 2 * devices if name in ("v", "wave") else devices
        if stages % unit and name != "linear":
            continue
        named = place(name, devices, unit if name == "v" else stages)
        if in_blocks(named, stages) == home:
            return name
    return shown(home.devices)


def refined(plan: Plan, kinds: str, stages: int) -> Plan | None:
    """`plan` of fused stages as a plan of the model's own `stages`, without pairs and in these kinds.

    It is never later: a fused operation is its parts one after another, a pair its forward and then its backward, a
    full backward I and then W. None when the plan splits a backward and `kinds` does not.
    """
    if kinds == "FB" and "I" in plan.index.kinds:
        return None
    if not plan.pairs and (plan.index.kinds, plan.index.stages) == (kinds, stages):
        return plan
    parts = _Parts(plan.index, OpIndex(kinds, stages, plan.index.microbatches))
    orders = []
    for order in plan.orders:
        single = chain.from_iterable(
            (number, plan.pairs[number]) if number in plan.pairs else (number,) for number in order
        )
        orders.append(list(chain.from_iterable(map(parts.of, single))))
    return Plan(parts.fine, orders)


class _Parts:
    """From an operation of fused stages to what it consists of."""

    def __init__(self, coarse: OpIndex, fine: OpIndex) -> None:
        self.coarse, self.fine = coarse, fine
        self.size = fine.stages // coarse.stages

    def of(self, number: int) -> Iterator[int]:
        """The operations in the order in which they run."""
        op = self.coarse.op(number)
        kinds = "IW" if op.kind == "B" and "I" in self.fine.kinds else op.kind
        stages = range(op.stage * self.size, (op.stage + 1) * self.size)
        for kind in kinds:
            for stage in stages if kind == "F" else reversed(stages):
                yield self.fine.row(kind, stage)[op.microbatch]
