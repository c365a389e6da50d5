"""A plan: what each device runs, in order. No times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pipesched.errors import ConfigError
from pipesched.pipeline.ops import KINDS, Op, OpIndex, Pair, Slot
from pipesched.pipeline.problem import Problem


@dataclass(frozen=True, eq=False)
class Plan:
    """`orders[d]` lists the operations of device d as numbers of `index`. A forward in `pairs` runs together with the
    backward that it maps to, which then stands in no order of its own."""

    index: OpIndex
    orders: Sequence[Sequence[int]]
    pairs: Mapping[int, int] = field(default_factory=dict)
    note: str = ""  # what the algorithm decided that its user should know

    def __len__(self) -> int:
        """The number of operations (a pair counts twice)."""
        return sum(map(len, self.orders)) + len(self.pairs)

    def slot(self, number: int) -> Slot:
        """The slot that an entry of an order stands for."""
        op = self.index.op(number)
        return Pair(op, self.index.op(self.pairs[number])) if number in self.pairs else op

    def paired(self, number: int) -> Op | None:
        """The backward that runs together with an entry of an order, if any."""
        return self.index.op(self.pairs[number]) if number in self.pairs else None

    def slots(self, device: int) -> Iterator[Slot]:
        """What a device runs, in order."""
        return map(self.slot, self.orders[device])


def mismatch(problem: Problem, plan: Plan) -> str | None:
    """What is wrong when a plan is for another number of devices, stages or microbatches than the problem has."""
    planned = (len(plan.orders), plan.index.stages, plan.index.microbatches)
    if planned == (problem.devices, problem.stages, problem.microbatches):
        return None
    return (
        f"the plan is for {planned[0]} devices, {planned[1]} stages and {planned[2]} microbatches;"
        f" the problem has {problem.devices}, {problem.stages} and {problem.microbatches}"
    )


def plan_from_slots(devices: Iterable[Iterable[Slot]], stages: int, microbatches: int) -> Plan:
    """The plan that runs these slots. Raises ConfigError for an operation out of range or one that stands twice.

    Whether the plan is complete and runs on the right devices is for the check to say.
    """
    rows = [list(slots) for slots in devices]
    kinds = {"F", *(op.kind for slots in rows for op in _ops(slots))}
    if "W" in kinds:
        kinds.add("I")  # the rules speak of both, also in a plan that lacks one
    index = OpIndex("".join(kind for kind in KINDS if kind in kinds), stages, microbatches)
    seen: set[Op] = set()
    for op in (op for slots in rows for op in _ops(slots)):
        if op.stage >= stages or op.microbatch >= microbatches:
            raise ConfigError(
                f"{op} is out of range: stages are 0 to {stages - 1}, microbatches 0 to {microbatches - 1}"
            )
        if op in seen:
            raise ConfigError(f"{op} stands twice in the plan")
        seen.add(op)
    pairs = {
        index.number(slot.forward): index.number(slot.backward)
        for slots in rows
        for slot in slots
        if isinstance(slot, Pair)
    }
    return Plan(index, [[index.number(next(_ops([slot]))) for slot in slots] for slots in rows], pairs)


def _ops(slots: Iterable[Slot]) -> Iterator[Op]:
    """The operations in the slots, a pair's forward first."""
    for slot in slots:
        if isinstance(slot, Pair):
            yield slot.forward
            yield slot.backward
        else:
            yield slot
