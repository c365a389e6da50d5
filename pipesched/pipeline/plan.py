"""A plan: what each device runs, in order. No times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from pipesched.errors import ConfigError
from pipesched.pipeline.ops import KINDS, TRANSFER_KINDS, Op, OpIndex, Pair, Slot
from pipesched.pipeline.problem import Problem


class Lane(NamedTuple):
    """What the two transfer lanes of a device (or of a pair of devices) move, in order: offloads out, loads back."""

    out: Sequence[int] = ()
    back: Sequence[int] = ()


@dataclass(frozen=True, eq=False)
class Plan:
    """`orders[d]` lists the operations of device d as numbers of `index`. A forward in `pairs` runs together with the
    backward that it maps to, which then stands in no order of its own.

    With offload, `lanes[k]` are the transfers of the lanes k (Problem.lane). Each pair of `waits` makes its second
    operation wait for the end of its first, so that a load does not come back at once, and that memory is there.
    """

    index: OpIndex
    orders: Sequence[Sequence[int]]
    pairs: Mapping[int, int] = field(default_factory=dict)
    note: str = ""  # what the algorithm decided that its user should know
    lanes: Sequence[Lane] = ()
    waits: Sequence[tuple[int, int]] = ()

    def __len__(self) -> int:
        """The number of operations (a pair counts twice)."""
        return sum(map(len, self.machines)) + len(self.pairs)

    @property
    def machines(self) -> Sequence[Sequence[int]]:
        """All that runs one thing at a time: the orders of the devices, then those of the lanes."""
        return [*self.orders, *chain(*self.lanes)] if self.lanes else self.orders

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
        if len(plan.lanes) in (0, problem.lane_count):
            return None
        return f"the plan has {len(plan.lanes)} pairs of transfer lanes; the problem has {problem.lane_count}"
    return (
        f"the plan is for {planned[0]} devices, {planned[1]} stages and {planned[2]} microbatches;"
        f" the problem has {problem.devices}, {problem.stages} and {problem.microbatches}"
    )


def plan_from_slots(
    devices: Iterable[Iterable[Slot]],
    stages: int,
    microbatches: int,
    lanes: Iterable[tuple[Iterable[Op], Iterable[Op]]] = (),
) -> Plan:
    """The plan that runs these slots and, on its lanes, these transfers (out, back).

    Raises ConfigError for an operation out of range or one that stands twice. Whether the plan is complete and runs
    on the right devices is for the check to say.
    """
    rows = [list(slots) for slots in devices]
    transfers = [(list(out), list(back)) for out, back in lanes]
    planned = list(chain(*map(_ops, rows), *chain(*transfers)))
    kinds = {"F", *(TRANSFER_KINDS if transfers else ()), *(op.kind for op in planned)}
    if "W" in kinds:
        kinds.add("I")  # the rules speak of both, also in a plan that lacks one
    index = OpIndex("".join(kind for kind in KINDS if kind in kinds), stages, microbatches)
    seen: set[Op] = set()
    for op in planned:
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
    orders = [[index.number(next(_ops([slot]))) for slot in slots] for slots in rows]
    numbers = [Lane(*([index.number(op) for op in way] for way in ways)) for ways in transfers]
    return Plan(index, orders, pairs, lanes=numbers)


def _ops(slots: Iterable[Slot]) -> Iterator[Op]:
    """The operations in the slots, a pair's forward first."""
    for slot in slots:
        if isinstance(slot, Pair):
            yield slot.forward
            yield slot.backward
        else:
            yield slot
