"""Heuristics that save memory: any plan, over its budget, with recompute and just-in-time offload where it needs them.

The order of the plan stays. A walk along each device keeps what is needed soonest and lets go of what is needed last
(Belady's rule); what was let go is recomputed right before its backward, or offloaded at once and loaded back just in
time. PipeOffload's rule, offload when the transfer takes no longer than the work beside it, is what `MIXED` asks of
each activation: its offload must be over before its room is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from pipesched.pipeline.floor import Relief
from pipesched.pipeline.ops import Op, OpIndex
from pipesched.pipeline.plan import Lane, Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.waits import Change, memory_waits

RECOMPUTE, OFFLOAD, MIXED = "recompute", "offload", "offload or recompute"
Activation = tuple[int, int]  # stage, microbatch


class Way(NamedTuple):
    """How to relieve: what to do with an activation, how many of them to leave room for, and whether with all."""

    treatment: str
    spare: int = 0
    everything: bool = False

    def __str__(self) -> str:
        spare = f", room for {self.spare}" if self.spare else ""
        return f"{'full ' if self.everything else ''}{self.treatment}{spare}"


def ways(relief: Relief) -> Iterator[Way]:
    """Every way that `relief` allows, the more promising first."""
    if relief.offload:
        yield from (Way(OFFLOAD, spare) for spare in (1, 0, 2))
    if relief.offload and relief.recompute:
        yield from (Way(MIXED, spare) for spare in (1, 0, 2))
    if relief.recompute:
        yield Way(RECOMPUTE)
        yield Way(RECOMPUTE, everything=True)


def relieved(base: Schedule, relief: Relief, way: Way) -> Plan | None:
    """The plan of `base` with what `way` makes of its activations where they do not fit; None where that fails.

    `base` has no overlapped pairs.
    """
    problem, plan = base.problem, base.plan
    saving = "R" * relief.recompute + "OL" * relief.offload
    index = OpIndex(plan.index.kinds + saving, plan.index.stages, plan.index.microbatches)
    devices = []
    for device in range(problem.devices):
        walk = _Walk(base, device, index, way)
        if not (walk.choose() and walk.run()):
            return None
        devices.append(walk)
    return replace(
        plan,
        index=index,
        orders=[walk.order for walk in devices],
        lanes=_lanes(problem, index, devices) if relief.offload else (),
        waits=[wait for walk in devices for wait in memory_waits(walk.changes)],
    )


def _lanes(problem: Problem, index: OpIndex, devices: Sequence[_Walk]) -> list[Lane]:
    """The transfers of each pair of lanes, by the times at which the base schedule would start them."""
    lanes: list[tuple[list[tuple[int, int]], list[tuple[int, int]]]] = [([], []) for _ in range(problem.lane_count)]
    for walk in devices:
        for moves, kind in zip(lanes[problem.lane(walk.device)], "OL", strict=True):
            moves += [(time, index.number(Op(a[0], kind, a[1]))) for time, a in walk.moves[kind]]
    return [Lane(*([number for _, number in sorted(moves)] for moves in ways)) for ways in lanes]


class _Walk:
    """One device: first what to do with each activation, then its order and the changes of its memory."""

    def __init__(self, base: Schedule, device: int, index: OpIndex, way: Way) -> None:
        self.base, self.device, self.index, self.way = base, device, index, way
        problem = base.problem
        self.ops = [base.plan.index.op(number) for number in base.plan.orders[device]]
        room = problem.room()[device]
        self.room = sum(problem.memory.activation[op.stage] for op in self.ops) if room is None else room
        self.backward = {(op.stage, op.microbatch): place for place, op in enumerate(self.ops) if op.kind in "BI"}
        self.treated: dict[Activation, str] = {}  # "R" or "O"
        self.order: list[int] = []
        self.changes: list[Change] = []
        self.moves: dict[str, list[tuple[int, Activation]]] = {"O": [], "L": []}
        self.level = 0

    def choose(self) -> bool:
        """Let go of activations until all that is held at any slot fits; whether that is possible."""
        memory, held = self.base.problem.memory, set[Activation]()
        spare = self.way.spare * max((memory.activation[op.stage] for op in self.ops), default=0)
        level = lane_free = 0
        for place, op in enumerate(self.ops):
            here = op.stage, op.microbatch
            need = self._taken(op, here)
            while held - {here} and (level + need > self.room - spare):
                there = max(held - {here}, key=lambda one: self.backward[one])
                held.remove(there)
                lane_free = self._let_go(there, place, lane_free)
                level -= memory.activation[there[0]] - self._checkpoint(there)
            if level + need > self.room:
                return False
            level += need
            if op.kind == "F":
                held.add(here)
            else:
                held.discard(here)
                level -= self._freed(op)
            if self.way.everything and op.kind == "F":
                held.remove(here)
                lane_free = self._let_go(here, place, lane_free)
                level -= memory.activation[op.stage] - self._checkpoint(here)
        return True

    def _let_go(self, here: Activation, place: int, lane_free: int) -> int:
        """Treat an activation whose room the slot at `place` needs; when the lane is free after that."""
        costs, treatment = self.base.problem.costs, self.way.treatment
        if treatment != RECOMPUTE and costs.offload is not None:
            begins = max(lane_free, self.base.ends[self._number("F", here)])
            over = begins + costs.offload[here[0]]
            if treatment == OFFLOAD or over <= self._time(place):
                self.treated[here] = "O"
                return over
        self.treated[here] = "R"
        return lane_free

    def _number(self, kind: str, here: Activation) -> int:
        return self.index.number(Op(here[0], kind, here[1]))

    def _time(self, place: int) -> int:
        """When the slot at `place` starts in the base schedule."""
        return self.base.slot_starts[self.device][place]

    def _checkpoint(self, here: Activation) -> int:
        return self.base.problem.memory.checkpointed[here[0]] if self.treated.get(here) == "R" else 0

    def _taken(self, op: Op, here: Activation) -> int:
        """What a slot takes: a forward its activation, a backward what was let go of it."""
        size = self.base.problem.memory.activation[op.stage]
        if op.kind == "F":
            return size
        return size - self._checkpoint(here) if op.kind in "BI" and here in self.treated else 0

    def _freed(self, op: Op) -> int:
        """What the end of a backward, or of a part of it, frees."""
        size, held = (
            sizes[op.stage] for sizes in (self.base.problem.memory.activation, self.base.problem.memory.retained)
        )
        return {"B": size, "I": size - held, "W": held}[op.kind]

    def run(self) -> bool:
        """The order with its recomputes, the transfers, and every change of memory in order; whether all fits."""
        loads = self._loads()
        pending: list[Activation] = []  # offloads that nobody has had to wait for, in order
        for place, op in enumerate(self.ops):
            here = op.stage, op.microbatch
            for there in loads.get(place, ()):
                if there in pending:
                    self._offload(pending, pending.index(there) + 1)
                if not self._take(pending, self.base.problem.memory.activation[there[0]], "L", there):
                    return False
                self.moves["L"].append((self._time(place), there))
            if op.kind in "BI" and self.treated.get(here) == "R":
                if not self._take(pending, self._taken(op, here), "R", here):
                    return False
                self.order.append(self._number("R", here))
            if op.kind == "F" and not self._take(pending, self._taken(op, here), "F", here):
                return False
            self.order.append(self._number(op.kind, here))
            self._give(op, here, pending)
        return True

    def _take(self, pending: list[Activation], size: int, kind: str, here: Activation) -> bool:
        """Take memory, after as many offloads as that needs; whether there is enough."""
        while pending and self.level + size > self.room:
            self._offload(pending, 1)
        self.level += size
        self.changes.append(Change(self._number(kind, here), False, kind == "L"))
        return self.level <= self.room

    def _offload(self, pending: list[Activation], count: int) -> None:
        """The first offloads are over."""
        for here in pending[:count]:
            self.level -= self.base.problem.memory.activation[here[0]]
            self.changes.append(Change(self._number("O", here), True, True))
        del pending[:count]

    def _give(self, op: Op, here: Activation, pending: list[Activation]) -> None:
        """What the end of a slot gives back, and the offload that it starts."""
        number, treated = self._number(op.kind, here), self.treated.get(here)
        given = self._freed(op) if op.kind != "F" else 0
        if op.kind == "F" and treated == "R":
            given = self.base.problem.memory.activation[op.stage] - self._checkpoint(here)
        if op.kind == "F" and treated == "O":
            pending.append(here)
            self.moves["O"].append((self.base.ends[number], here))
        if given:
            self.level -= given
            self.changes.append(Change(number, True, False))

    def _loads(self) -> dict[int, list[Activation]]:
        """Before which slot each load starts: the last one from which it is in time, or a later one with room."""
        room = [self.room - level for level in self._levels()]
        loads: dict[int, list[Activation]] = {}
        earliest = 0
        for here, begin in sorted(self._load_starts(), key=lambda load: self.backward[load[0]]):
            needed, size = self.backward[here], self.base.problem.memory.activation[here[0]]
            ends = self.base.slot_ends[self.device]
            place = needed
            while place > earliest and ends[place - 1] > begin:
                place -= 1
            tight = [at for at in range(place, needed) if room[at] < size]
            place = tight[-1] + 1 if tight else place
            for at in range(place, needed):
                room[at] -= size
            loads.setdefault(place, []).append(here)
            earliest = place
        return loads

    def _load_starts(self) -> Iterator[tuple[Activation, int]]:
        """The latest start of each load for its backward and for the loads after it, by the base schedule's times."""
        costs, latest = self.base.problem.costs, max(self.base.last_end)
        offloaded = [here for here, treated in self.treated.items() if treated == "O"]
        for here in sorted(offloaded, key=lambda one: self.backward[one], reverse=True):
            latest = min(latest, self._time(self.backward[here])) - (costs.reload or ())[here[0]]
            yield here, latest

    def _levels(self) -> list[int]:
        """What is held during each slot if offloads take no time and loads come at the last moment."""
        levels, level = [], 0
        for op in self.ops:
            here = op.stage, op.microbatch
            level += self._taken(op, here)
            levels.append(level)
            if op.kind != "F":
                level -= self._freed(op)
            elif here in self.treated:
                level -= self.base.problem.memory.activation[op.stage] - self._checkpoint(here)
        return levels
