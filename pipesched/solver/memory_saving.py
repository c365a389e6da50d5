"""Heuristics that save memory: a plan over its budget, with recompute and offload where memory is missing.

The order of the plan stays. A walk along each device keeps what is needed soonest and evicts what is needed last
(Belady's rule). What was evicted is recomputed right before its backward, or offloaded at once and loaded back just in
time. `MIXED` offloads by PipeOffload's rule, when the transfer takes no longer than the work beside it: the offload
must be over before its memory is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from pipesched.pipeline.kinds import GRADIENT_LETTERS, KINDS, Allowed
from pipesched.pipeline.lowering import MemoryEvent, memory_waits
from pipesched.pipeline.ops import Op, OpIndex
from pipesched.pipeline.plan import LanePair, Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule

RECOMPUTE, OFFLOAD, MIXED = "recompute", "offload", "offload or recompute"
BRINGS_BACK = {"R": "R", "O": "L"}  # by what was done with an activation
Activation = tuple[int, int]  # stage, microbatch


class SavingRule(NamedTuple):
    """How memory is saved: by which action, for `every` activation or those that do not fit; `spare` stay free."""

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
    """Return the plan of `base`, which has no pairs, with memory saved by `rule`; None if it still does not fit."""
    problem, plan = base.problem, base.plan
    index = plan.index.with_letters(allowed.letters)
    devices = []
    for device in range(problem.devices):
        memory = _MemorySimulation(base, device, index, rule)
        if not (memory.choose() and memory.run()):
            return None
        devices.append(memory)
    pairs: list[tuple[list[tuple[int, int]], list[tuple[int, int]]]] = [([], []) for _ in range(problem.lane_pairs)]
    for memory in devices if allowed.offload else ():  # by the times at which the base schedule would start transfers
        for moves, kind in zip(pairs[problem.lane_pair(memory.device)], "OL", strict=True):
            moves += [(time, index.number(Op(a[0], kind, a[1]))) for time, a in memory.moves[kind]]
    lanes = [LanePair(*([number for _, number in sorted(moves)] for moves in pair)) for pair in pairs]
    return replace(
        plan,
        index=index,
        orders=[memory.order for memory in devices],
        lanes=lanes if allowed.offload else (),
        waits=[wait for memory in devices for wait in memory_waits(memory.changes)],
    )


def _sizes(problem: Problem, column: str | None) -> Callable[[Activation], int]:
    """Return what an activation has of a column of Kind.takes or Kind.gives, in grains."""
    sizes = problem.model.column(column)
    return lambda own: int(sizes[own])


def _lasts(problem: Problem, key: str, own: Activation) -> int:
    """Return how long a transfer of an activation lasts, in ticks."""
    return int(problem.model.ticks[key][own])


class _MemorySimulation:
    """The memory of one device: `choose` says what is evicted, `run` makes the order and the changes of memory."""

    def __init__(self, base: Schedule, device: int, index: OpIndex, rule: SavingRule) -> None:
        self.base, self.device, self.index, self.rule = base, device, index, rule
        problem, capacity = base.problem, base.problem.capacity_grains[device]
        self.takes = {letter: _sizes(problem, kind.takes) for letter, kind in KINDS.items()}
        self.gives = {letter: _sizes(problem, kind.gives) for letter, kind in KINDS.items()}
        ops = map(base.plan.index.op, base.plan.orders[device])
        self.slots = [(op.kind, (op.stage, op.microbatch)) for op in ops]
        enough = sum(self.takes["F"](own) + self.takes["I"](own) for _, own in self.slots)
        self.capacity = enough if capacity is None else capacity
        self.forward = {own: position for position, (kind, own) in enumerate(self.slots) if kind == "F"}
        self.backward = {own: position for position, (kind, own) in enumerate(self.slots) if kind in GRADIENT_LETTERS}
        self.actions: dict[Activation, str] = {}  # of those that are not kept: "R" or "O"
        self.levels: list[int] = []  # during each slot, if offloads take no time and loads come as late as possible
        self.lane_free = 0  # when the last offload so far is over
        self.level, self.pending = 0, list[Activation]()  # offloads that nothing had to wait for so far, in order
        self.order, self.changes = list[int](), list[MemoryEvent]()
        self.moves: dict[str, list[tuple[int, Activation]]] = {"O": [], "L": []}

    def choose(self) -> bool:
        """Choose activations to evict until all that is held at any slot fits; return whether that is possible."""
        held, level = set[Activation](), 0
        spare = self.rule.spare * max((self.takes["F"](own) for _, own in self.slots), default=0)
        for position, (kind, own) in enumerate(self.slots):
            need = self.takes[kind](own) + (self._evicted(own) if kind in GRADIENT_LETTERS else 0)
            while held - {own} and (level + need > self.capacity - spare):
                evicted = max(held - {own}, key=lambda activation: self.backward[activation])
                held.remove(evicted)
                level -= self._evict(evicted, position)
            level += need
            if level > self.capacity:
                return False
            self.levels.append(level)
            if kind != "F":
                held.discard(own)
                level -= self.gives[kind](own)
            elif self.rule.every:
                level -= self._evict(own, position + 1)
            else:
                held.add(own)
        return True

    def _evict(self, activation: Activation, position: int) -> int:
        """Choose the action for an activation whose memory a slot needs; return what it frees, since its forward."""
        problem, first = self.base.problem, self.forward[activation]
        self.actions[activation] = "R"
        if self.rule.action != RECOMPUTE and problem.costs.offload is not None:
            begins = max(self.lane_free, self.base.slot_end_ticks[self.device][first])
            over = begins + _lasts(problem, "offload", activation)
            if self.rule.action == OFFLOAD or over <= self._time(position):
                self.actions[activation], self.lane_free = "O", over
        freed = self._evicted(activation)
        for between in range(first + 1, position):
            self.levels[between] -= freed
        return freed

    def _number(self, kind: str, activation: Activation) -> int:
        return self.index.number(Op(activation[0], kind, activation[1]))

    def _time(self, position: int) -> int:
        """Return when the slot at `position` starts in the base schedule."""
        return self.base.slot_start_ticks[self.device][position]

    def _evicted(self, activation: Activation) -> int:
        """Return what is away of an activation between its forward and its backward, in grains."""
        action = self.actions.get(activation)
        return 0 if action is None else self.takes[BRINGS_BACK[action]](activation)

    def run(self) -> bool:
        """Make the order with its recomputes, the transfers, and all changes of memory; return whether all fits."""
        loads = self._loads()
        for position, (kind, own) in enumerate(self.slots):
            loaded = loads.get(position, [])
            kinds = "R" * (kind in GRADIENT_LETTERS and self.actions.get(own) == "R") + kind
            takers = [one for one in kinds if one in "FR" or self.takes[one](own)]
            for taker, activation in [*(("L", one) for one in loaded), *((one, own) for one in takers)]:
                if not self._take(taker, activation):
                    return False
            self.moves["L"] += [(self._time(position), one) for one in loaded]
            self.order += [self._number(one, own) for one in kinds]
            self._give(kind, own)
        return True

    def _take(self, kind: str, activation: Activation) -> bool:
        """Take memory, after as many offloads as that needs; return whether there is enough."""
        if kind == "L" and activation in self.pending:
            self._end_offloads(self.pending.index(activation) + 1)
        size = self.takes[kind](activation)
        while self.pending and self.level + size > self.capacity:
            self._end_offloads(1)
        self.level += size
        self.changes.append(MemoryEvent(self._number(kind, activation), False, KINDS[kind].is_transfer))
        return self.level <= self.capacity

    def _end_offloads(self, count: int) -> None:
        """Count the first offloads as over."""
        for activation in self.pending[:count]:
            self.level -= self.gives["O"](activation)
            self.changes.append(MemoryEvent(self._number("O", activation), True, True))
        del self.pending[:count]

    def _give(self, kind: str, own: Activation) -> None:
        """Count what the end of a slot gives back, and the offload that it starts."""
        number, given = self._number(kind, own), self.gives[kind](own)
        if kind == "F" and self.actions.get(own) == "R":
            given = self._evicted(own)
        elif kind == "F" and own in self.actions:
            self.pending.append(own)
            self.moves["O"].append((self.base.end_ticks[number], own))
        if given:
            self.level -= given
            self.changes.append(MemoryEvent(number, True, False))

    def _loads(self) -> dict[int, list[Activation]]:
        """Return the loads that start before each slot: the last from which they are in time, or later for memory."""
        free = [self.capacity - level for level in self.levels]
        ends, loads = self.base.slot_end_ticks[self.device], dict[int, list[Activation]]()
        problem, latest, begins = self.base.problem, max(self.base.last_end_ticks), dict[Activation, int]()
        offloaded = (one for one, action in self.actions.items() if action == "O")
        for activation in sorted(offloaded, key=self.backward.__getitem__, reverse=True):
            latest = min(latest, self._time(self.backward[activation])) - _lasts(problem, "reload", activation)
            begins[activation] = latest  # for its backward and for the loads after it
        earliest = 0
        for activation, begin in reversed(begins.items()):
            needed, size = self.backward[activation], self.takes["L"](activation)
            position = needed
            while position > earliest and ends[position - 1] > begin:
                position -= 1
            tight = [number for number in range(position, needed) if free[number] < size]
            earliest = position = tight[-1] + 1 if tight else position
            for number in range(position, needed):
                free[number] -= size
            loads.setdefault(position, []).append(activation)
        return loads
