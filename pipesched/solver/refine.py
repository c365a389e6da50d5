"""Plans of fused stages, refined to plans of the problem's own stages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from pipesched.core.clock import look
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan


def refined(plan: Plan, letters: str, stages: int) -> Plan | None:
    """Return `plan` of fused stages as a plan of `stages`, without pairs and with operations of the kinds `letters`.

    It is never later: a fused operation is its parts one after another, a pair its forward and then its backward, a
    full backward I and then W. None when the plan splits a backward and `letters` do not.
    """
    if "I" in plan.index.letters and "I" not in letters:
        return None
    if not plan.pairs and (plan.index.letters, plan.index.stages) == (letters, stages):
        return plan
    parts = _Parts(plan.index, OpIndex(letters, stages, plan.index.microbatches))
    orders = []
    for order in plan.orders:
        look()
        single = chain.from_iterable(
            (number, plan.pairs[number]) if number in plan.pairs else (number,) for number in order
        )
        orders.append(list(chain.from_iterable(map(parts.of, single))))
    return Plan(parts.fine, orders)


class _Parts:
    """A map from the operations of fused stages to their parts."""

    def __init__(self, coarse: OpIndex, fine: OpIndex) -> None:
        self.coarse, self.fine = coarse, fine
        self.size = fine.stages // coarse.stages

    def of(self, number: int) -> Iterator[int]:
        """Yield the operations in the order in which they run."""
        op = self.coarse.op(number)
        kinds = "IW" if op.kind == "B" and "I" in self.fine.letters else op.kind
        stages = range(op.stage * self.size, (op.stage + 1) * self.size)
        for kind in kinds:
            for stage in stages if kind == "F" else reversed(stages):
                yield self.fine.row(kind, stage)[op.microbatch]
