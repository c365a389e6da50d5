"""Heuristics that save memory: a plan over its budget, with recompute and offload where memory is missing.

The order of the plan stays. A walk along each device keeps what is needed soonest and evicts what is needed last
(Belady's rule). What was evicted is recomputed right before its backward, or offloaded at once and loaded back just in
time. `MIXED` offloads by PipeOffload's rule, when the transfer takes no longer than the work beside it: the offload
must be over before its memory is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from pipesched.pipeline.kinds import GRADIENT_LETTERS, KINDS, Allowed
from pipesched.pipeline.ops import Op, OpIndex
from pipesched.pipeline.plan import LanePair, Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.waits import MemoryEvent, memory_waits

RECOMPUTE, OFFLOAD, MIXED = "recompute", "offload", "offload or recompute"
Activation = tuple[int, int]  # stage, microbatch


class SavingRule(NamedTuple):
    """How memory is saved: the action for activations that do not fit, or with `every` for all of them.

    `spare` is how many activations' worth of memory to keep free.
    """

    action: str
    spare: int = 0
    every: bool = False

    def __str__(self) -> str:
        spare = f", {self.spare} spare" if self.spare else ""
        return f"{'full ' if self.every else ''}{self.action}{spare}"


def saving_rules(allowed: Allowed) -> Iterator[SavingRule]:
    """Yield every rule whose actions are allowed, the more promising first."""
    if allowed.offload:
        yield from (SavingRule(OFFLOAD, spare) for spare in (1, 0, 2))
    if allowed.offload and allowed.recompute:
        yield from (SavingRule(MIXED, spare) for spare in (1, 0, 2))
    if allowed.recompute:
        yield SavingRule(RECOMPUTE)
        yield SavingRule(RECOMPUTE, every=True)


def with_savings(base: Schedule, allowed: Allowed, rule: SavingRule) -> Plan | None:
    """Return the plan of `base` with the action of `rule` where activations do not fit; None if they still do not.

    `base` has no overlapped pairs.
    """
    problem, plan = base.problem, base.plan
    index = plan.index.with_letters(allowed.letters)
    devices = []
    for device in range(problem.devices):
        walk = _Walk(base, device, index, rule)
        if not (walk.choose() and walk.run()):
            return None
        devices.append(walk)
    return replace(
        plan,
        index=index,
        orders=[walk.order for walk in devices],
        lanes=_lanes(problem, index, devices) if allowed.offload else (),
        waits=[wait for walk in devices for wait in memory_waits(walk.changes)],
    )


def _lanes(problem: Problem, index: OpIndex, devices: Sequence[_Walk]) -> list[LanePair]:
    """Return the transfers of each pair of lanes, by the times at which the base schedule would start them."""
    pairs: list[tuple[list[tuple[int, int]], list[tuple[int, int]]]] = [([], []) for _ in range(problem.lane_pairs)]
    for walk in devices:
        for moves, kind in zip(pairs[problem.lane_pair(walk.device)], "OL", strict=True):
            moves += [(time, index.number(Op(a[0], kind, a[1]))) for time, a in walk.moves[kind]]
    return [LanePair(*([number for _, number in sorted(moves)] for moves in pair)) for pair in pairs]


class _Walk:
    """The walk along one device: first it chooses actions, then it makes the order and the changes of memory."""

    def __init__(self, base: Schedule, device: int, index: OpIndex, rule: SavingRule) -> None:
        self.base, self.device, self.index, self.rule = base, device, index, rule
        grains, capacity = base.problem.grains, base.problem.capacity_grains[device]
        self.sizes, self.checkpoints, self.caught = grains.activation, grains.checkpointed, grains.caught
        self.ops = [base.plan.index.op(number) for number in base.plan.orders[device]]
        enough = sum(self.sizes[op.stage] + self.caught[op.stage] for op in self.ops)
        self.capacity = enough if capacity is None else capacity
        self.backward = {
            (op.stage, op.microbatch): position for position, op in enumerate(self.ops) if _uses_activation(op)
        }
        self.actions: dict[Activation, str] = {}  # of those that are not kept: "R" or "O"
        self.order: list[int] = []
        self.changes: list[MemoryEvent] = []
        self.moves: dict[str, list[tuple[int, Activation]]] = {"O": [], "L": []}
        self.level = 0

    def choose(self) -> bool:
        """Choose activations to evict until all that is held at any slot fits; return whether that is possible."""
        held = set[Activation]()
        spare = self.rule.spare * max((self.sizes[op.stage] for op in self.ops), default=0)
        level = lane_free = 0
        for position, op in enumerate(self.ops):
            own = op.stage, op.microbatch
            need = self._taken(op, own)
            while held - {own} and (level + need > self.capacity - spare):
                evicted = max(held - {own}, key=lambda activation: self.backward[activation])
                held.remove(evicted)
                lane_free = self._evict(evicted, position, lane_free)
                level -= self._freed_by_eviction(evicted)
            if level + need > self.capacity:
                return False
            level += need
            if op.kind == "F":
                held.add(own)
            else:
                held.discard(own)
                level -= self._freed(op)
            if self.rule.every and op.kind == "F":
                held.remove(own)
                lane_free = self._evict(own, position, lane_free)
                level -= self._freed_by_eviction(own)
        return True

    def _evict(self, activation: Activation, position: int, lane_free: int) -> int:
        """Choose the action for an activation whose memory a slot needs; return when the lane is free after it."""
        offload, stage = self.base.problem.ticks.offload, activation[0]
        if self.rule.action != RECOMPUTE and offload is not None:
            begins = max(lane_free, self.base.end_ticks[self._number("F", activation)])
            over = begins + offload[stage]
            if self.rule.action == OFFLOAD or over <= self._time(position):
                self.actions[activation] = "O"
                return over
        self.actions[activation] = "R"
        return lane_free

    def _number(self, kind: str, activation: Activation) -> int:
        return self.index.number(Op(activation[0], kind, activation[1]))

    def _time(self, position: int) -> int:
        """Return when the slot at `position` starts in the base schedule."""
        return self.base.slot_start_ticks[self.device][position]

    def _kept(self, activation: Activation) -> int:
        """Return what stays of an evicted activation, in grains: a checkpoint if it is recomputed."""
        return self.checkpoints[activation[0]] if self.actions.get(activation) == "R" else 0

    def _freed_by_eviction(self, activation: Activation) -> int:
        return self.sizes[activation[0]] - self._kept(activation)

    def _taken(self, op: Op, own: Activation) -> int:
        """Return what a slot takes, in grains: a forward its activation, a backward what was evicted of it, and an I
        what it catches beside it."""
        if op.kind == "F":
            return self.sizes[op.stage]
        brought_back = self._freed_by_eviction(own) if _uses_activation(op) and own in self.actions else 0
        return brought_back + (self.caught[op.stage] if op.kind == "I" else 0)

    def _freed(self, op: Op) -> int:
        """Return what the end of a backward, or of a part of it, frees, in grains."""
        return self.base.problem.grains.of(KINDS[op.kind].gives)[op.stage]

    def run(self) -> bool:
        """Make the order with its recomputes, the transfers, and all changes of memory; return whether all fits."""
        loads = self._loads()
        pending: list[Activation] = []  # offloads that nothing has had to wait for so far, in order
        for position, op in enumerate(self.ops):
            own = op.stage, op.microbatch
            for loaded in loads.get(position, ()):
                if loaded in pending:
                    self._end_offloads(pending, pending.index(loaded) + 1)
                if not self._take(pending, self.sizes[loaded[0]], "L", loaded):
                    return False
                self.moves["L"].append((self._time(position), loaded))
            if _uses_activation(op) and self.actions.get(own) == "R":
                if not self._take(pending, self._freed_by_eviction(own), "R", own):
                    return False
                self.order.append(self._number("R", own))
            if op.kind == "F" and not self._take(pending, self._taken(op, own), "F", own):
                return False
            if op.kind == "I" and self.caught[op.stage] and not self._take(pending, self.caught[op.stage], "I", own):
                return False
            self.order.append(self._number(op.kind, own))
            self._give(op, own, pending)
        return True

    def _take(self, pending: list[Activation], size: int, kind: str, activation: Activation) -> bool:
        """Take memory, after as many offloads as that needs; return whether there is enough."""
        while pending and self.level + size > self.capacity:
            self._end_offloads(pending, 1)
        self.level += size
        self.changes.append(MemoryEvent(self._number(kind, activation), False, KINDS[kind].is_transfer))
        return self.level <= self.capacity

    def _end_offloads(self, pending: list[Activation], count: int) -> None:
        """Count the first offloads as over."""
        for activation in pending[:count]:
            self.level -= self.sizes[activation[0]]
            self.changes.append(MemoryEvent(self._number("O", activation), True, True))
        del pending[:count]

    def _give(self, op: Op, own: Activation, pending: list[Activation]) -> None:
        """Count what the end of a slot gives back, and the offload that it starts."""
        number, action = self._number(op.kind, own), self.actions.get(own)
        given = self._freed(op) if op.kind != "F" else 0
        if op.kind == "F" and action == "R":
            given = self._freed_by_eviction(own)
        if op.kind == "F" and action == "O":
            pending.append(own)
            self.moves["O"].append((self.base.end_ticks[number], own))
        if given:
            self.level -= given
            self.changes.append(MemoryEvent(number, True, False))

    def _loads(self) -> dict[int, list[Activation]]:
        """Return the loads that start before each slot: the last from which they are in time, or later for memory."""
        free = [self.capacity - level for level in self._levels()]
        loads: dict[int, list[Activation]] = {}
        earliest = 0
        for activation, begin in sorted(self._load_starts(), key=lambda load: self.backward[load[0]]):
            needed, size = self.backward[activation], self.sizes[activation[0]]
            ends = self.base.slot_end_ticks[self.device]
            position = needed
            while position > earliest and ends[position - 1] > begin:
                position -= 1
            tight = [number for number in range(position, needed) if free[number] < size]
            position = tight[-1] + 1 if tight else position
            for number in range(position, needed):
                free[number] -= size
            loads.setdefault(position, []).append(activation)
            earliest = position
        return loads

    def _load_starts(self) -> Iterator[tuple[Activation, int]]:
        """Yield the latest start of each load for its backward and for the loads after it, by the base schedule."""
        reload, latest = self.base.problem.ticks.reload or (), max(self.base.last_end_ticks)
        offloaded = [activation for activation, action in self.actions.items() if action == "O"]
        for activation in sorted(offloaded, key=lambda activation: self.backward[activation], reverse=True):
            latest = min(latest, self._time(self.backward[activation])) - reload[activation[0]]
            yield activation, latest

    def _levels(self) -> list[int]:
        """Return the grains held during each slot if offloads take no time and loads come as late as possible."""
        levels, level = [], 0
        for op in self.ops:
            own = op.stage, op.microbatch
            level += self._taken(op, own)
            levels.append(level)
            if op.kind != "F":
                level -= self._freed(op)
            elif own in self.actions:
                level -= self._freed_by_eviction(own)
        return levels


def _uses_activation(op: Op) -> bool:
    """Return whether an operation needs the whole activation of its forward: B or I."""
    return op.kind in GRADIENT_LETTERS
