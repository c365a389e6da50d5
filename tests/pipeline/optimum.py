"""The shortest schedule of a tiny problem, by trying every order: for judging lower bounds.

Operations are appended one after another, each as early as its device and its inputs allow. Two beginnings that have
run the same operations are compared, and one that is later everywhere is dropped; nothing else is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from pipesched.pipeline.problem import Problem
from tests.replay import Op, device_of, inputs, length, name

Ends = dict[Op, int]


class _State(NamedTuple):
    """How far a beginning has come: when each device is free, and when what others still wait for has ended."""

    free: tuple[int, ...]
    ends: tuple[int, ...]  # of the open operations, in the order of the problem's list
    began: tuple[int, ...]  # for the span: minus the first start of each device (0 for the makespan)


def optimum(problem: Problem, kinds: str, *, pairs: bool = False, span: bool = False) -> int | None:
    """The least makespan, or span, over all orders of `kinds` ("FB" or "FIW"), within the budget if there is one.

    With `pairs`, an F and a B may also run together. None when no order fits the budget. Under a budget, durations
    must be positive: operations of no length are there and gone within an instant.
    """
    return _Search(problem, kinds, pairs, span).run()


def optimum_of_choices(problem: Problem, *, span: bool = False) -> int | None:
    """The same over all ways to run each backward whole or as its halves."""
    places = [*product(range(problem.stages), range(problem.microbatches))]
    found = []
    for whole in product((False, True), repeat=len(places)):
        search = _Search(problem, "F", False, span)
        kinds = zip(places, ("B" if one else "IW" for one in whole), strict=True)
        search.of([*search.ops, *(Op(stage, kind, one) for (stage, one), both in kinds for kind in both)])
        found.append(search.run())
    return min((one for one in found if one is not None), default=None)


class _Search:
    def __init__(self, problem: Problem, kinds: str, pairs: bool, span: bool) -> None:
        self.problem, self.pairs, self.span = problem, pairs, span
        self.of([Op(*op) for op in product(range(problem.stages), kinds, range(problem.microbatches))])

    def of(self, ops: list[Op]) -> None:
        """Search the orders of these operations."""
        problem, self.ops = self.problem, ops
        self.device = {op: device_of(problem, op.stage, op.microbatch) for op in self.ops}
        known = set(self.ops)
        self.inputs = {op: [((one & known).pop(), lag) for one, lag in inputs(problem, op)] for op in self.ops}
        self.after: dict[Op, list[Op]] = {op: [] for op in self.ops}
        for op, befores in self.inputs.items():
            for before, _ in befores:
                self.after[before].append(op)

    def run(self) -> int | None:
        levels: list[dict[frozenset[Op], list[_State]]] = [{} for _ in range(len(self.ops) + 1)]
        levels[0][frozenset()] = [_State((0,) * self.problem.devices, (), (0,) * self.problem.devices)]
        for level in levels[:-1]:
            for done, states in level.items():
                for slot in self._slots(done):
                    after = done | set(slot)
                    front = levels[len(after)].setdefault(after, [])
                    for state in states:
                        _keep(front, self._append(done, state, slot))
        finals = [
            max(end + began for end, began in zip(state.free, state.began, strict=True))
            for states in levels[-1].values()
            for state in states
        ]
        return min(finals, default=None)

    def _slots(self, done: frozenset[Op]) -> Iterator[tuple[Op, ...]]:
        """What may run next. Microbatches are alike, so they enter in the order of their numbers (in each half)."""
        ready = [op for op in self.ops if op not in done and all(before in done for before, _ in self.inputs[op])]
        half = self.problem.microbatches // 2 if self.problem.settled_placement.mirrored else 0
        ready = [
            op
            for op in ready
            if (op.stage, op.kind) != (0, "F") or op.microbatch in (0, half) or Op(0, "F", op.microbatch - 1) in done
        ]
        ready = [op for op in ready if self._fits(done, op)]
        yield from ((op,) for op in ready)
        if self.pairs:
            forwards, backwards = ([op for op in ready if op.kind == kind] for kind in "FB")
            yield from (both for both in product(forwards, backwards) if len({self.device[op] for op in both}) == 1)

    def _fits(self, done: frozenset[Op], op: Op) -> bool:
        device, memory = self.device[op], self.problem.grains.largest
        capacity = self.problem.capacity_grains[device]
        if capacity is None or op.kind not in "FI":
            return True
        sign = {"F": 1, "B": -1}
        level = 0
        for other in (other for other in done if self.device[other] == device):
            whole, kept = memory["activation"][other.stage], memory["retained"][other.stage]
            level += {"I": kept - whole, "W": -kept}.get(other.kind, sign.get(other.kind, 0) * whole)
        own = memory["activation"][op.stage]
        taken = own if op.kind == "F" else max(memory["retained"][op.stage] - own, 0)
        return level + taken <= capacity

    def _append(self, done: frozenset[Op], state: _State, slot: tuple[Op, ...]) -> _State:
        device = self.device[slot[0]]
        ends = dict(zip(self._open(done), state.ends, strict=True))
        ready = [ends[before] + lag for op in slot for before, lag in self.inputs[op]]
        text = name(slot[0]) if len(slot) == 1 else f"({name(slot[0])};{name(slot[1])})OVERLAP_F_B"
        start = max(state.free[device], *ready, 0)
        end = start + length(self.problem, text)
        ends.update(dict.fromkeys(slot, end))
        free = (*state.free[:device], end, *state.free[device + 1 :])
        began = state.began
        if self.span and device not in {self.device[op] for op in done}:
            began = (*began[:device], -start, *began[device + 1 :])
        return _State(free, tuple(ends[op] for op in self._open(done | set(slot))), began)

    def _open(self, done: frozenset[Op]) -> list[Op]:
        """The operations in `done` that others still wait for."""
        return [op for op in self.ops if op in done and not all(after in done for after in self.after[op])]


def _keep(front: list[_State], state: _State) -> None:
    """Add `state` unless one of `front` is as early everywhere; drop what it is as early as."""

    def as_early(one: _State, other: _State) -> bool:
        return all(a <= b for a, b in zip(_all(one), _all(other), strict=True))

    if any(as_early(one, state) for one in front):
        return
    front[:] = [one for one in front if not as_early(state, one)]
    front.append(state)


def _all(state: _State) -> tuple[int, ...]:
    return state.free + state.ends + state.began
