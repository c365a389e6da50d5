"""The shortest schedule of a tiny problem with offload and recompute, by walking through all states step by step.

Written from docs/explanation/semantics.md for one stage a device, whole backwards and no latency. At every step what
has ended frees its memory, then every set of operations that may start is tried. Slow, plain, complete: a step is the
largest number of ticks that divides all durations, since nothing ends within it; and states that differ only in which
microbatch is which are one, where all microbatches are alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import NamedTuple

from pipesched import Problem

# What an activation is in: waiting for F; resident (after F, R or L); dropped to its checkpoint; on the host; done.
NEW, HERE, DROPPED, AWAY, DONE = "new", "here", "dropped", "away", "done"


class Activation(NamedTuple):
    """A stage of a microbatch: where it is and what runs on it ("" for nothing) for how many more steps."""

    place: str
    running: str = ""
    left: int = 0
    saved: bool = False  # it will be, or was, recomputed or offloaded: once at most


State = tuple[Activation, ...]


class EveryWay:
    """All schedules of `problem`; `allowed` says which of "R" and "O" may run."""

    def __init__(self, problem: Problem, allowed: str) -> None:
        self.problem, self.allowed = problem, allowed
        self.where = [(stage, mb) for stage in range(problem.stages) for mb in range(problem.microbatches)]
        table = {"F": "forward", "f": "forward", "B": "backward", "R": "recompute", "O": "offload", "L": "reload"}
        self.durations = {kind: self._lasts(key) for kind, key in table.items()}
        self.step = gcd(*(duration for row in self.durations.values() for duration in row))
        self.sizes, self.kept = (problem.grains.each(name).ravel().tolist() for name in ("activation", "checkpointed"))

    def _lasts(self, key: str) -> list[int]:
        """What operations of a kind last, for each activation."""
        ticks = self.problem.ticks
        found: list[int] = ticks.each(key).ravel().tolist() if key in ticks.rows else []
        return found

    def makespan(self) -> int | None:
        """The least makespan in ticks; None when no order fits the budget."""
        states: set[State] = {(Activation(NEW),) * len(self.where)}
        seen: set[State] = set()
        time = 0
        while states:
            if any(all(one.place == DONE for one in state) for state in states):
                return time * self.step
            started = {self._sorted(after) for state in states for after in self._starts(state)} - seen
            seen |= started
            states = {self._stepped(state) for state in started if any(one.running for one in state)}
            time += 1
        return None

    def _sorted(self, state: State) -> State:
        """The same state with its microbatches in the order of what they are in, where they are alike."""
        count = self.problem.microbatches
        if self.problem.has_units:
            return state
        columns = sorted(state[mb::count] for mb in range(count))
        return tuple(one for row in zip(*columns, strict=True) for one in row)

    def _stepped(self, state: State) -> State:
        """A step later."""
        return tuple(self._older(one) if one.running else one for one in state)

    def _older(self, one: Activation) -> Activation:
        if one.left > 1:
            return one._replace(left=one.left - 1)
        ends = {"F": HERE, "f": DROPPED, "B": DONE, "R": HERE, "O": AWAY, "L": HERE}
        saved = one.saved or one.running in "fRO"
        return Activation(ends[one.running], saved=saved)

    def _starts(self, state: State, first: int = 0) -> Iterator[State]:
        """`state` after every set of starts that its resources and its memory allow."""
        yield state
        for number in range(first, len(state)):
            for kind in self._ready(state, number):
                after = (*state[:number], self._start(state[number], number, kind), *state[number + 1 :])
                if self._fits(after, self.where[number][0]):
                    yield from self._starts(after, number + 1)

    def _start(self, one: Activation, number: int, kind: str) -> Activation:
        return one._replace(running=kind, left=self.durations[kind][number] // self.step)

    def _ready(self, state: State, number: int) -> Iterator[str]:
        """What may start on an activation; `f` is a forward that will be recomputed."""
        one, (stage, mb) = state[number], self.where[number]
        if one.running:
            return
        device_free = not any(other.running and other.running in "FfBR" for other in self._on(state, stage))
        if one.place == NEW and device_free and self._has_run_forward(state, stage - 1, mb):
            yield from "Ff" if "R" in self.allowed else "F"
        if one.place == DROPPED and device_free:
            yield "R"
        if one.place == HERE and device_free and self._is_done(state, stage + 1, mb):
            yield "B"
        if one.place == HERE and "O" in self.allowed and not one.saved and self._lane_free(state, "O", stage):
            yield "O"
        if one.place == AWAY and self._lane_free(state, "L", stage):
            yield "L"

    def _on(self, state: State, stage: int) -> State:
        return tuple(one for one, (there, _) in zip(state, self.where, strict=True) if there == stage)

    def _lane_free(self, state: State, kind: str, stage: int) -> bool:
        pairs = zip(state, self.where, strict=True)
        return not any(one.running == kind and there == stage for one, (there, _) in pairs)

    def _has_run_forward(self, state: State, stage: int, mb: int) -> bool:
        if stage < 0:
            return True
        one = state[self.where.index((stage, mb))]
        return one.place != NEW

    def _is_done(self, state: State, stage: int, mb: int) -> bool:
        return stage == self.problem.stages or state[self.where.index((stage, mb))].place == DONE

    def _fits(self, state: State, stage: int) -> bool:
        capacity, level = self.problem.capacity_grains[stage], 0
        for one, size, kept, (there, _) in zip(state, self.sizes, self.kept, self.where, strict=True):
            if there != stage:
                continue
            if one.running in ("F", "f", "B", "R", "O", "L") or one.place == HERE:
                level += size
            elif one.place == DROPPED:
                level += kept
        return capacity is None or level <= capacity


def least_makespan(problem: Problem, allowed: str) -> int | None:
    """The least makespan of `problem` in ticks, where the actions in `allowed` ("R", "O", "RO") may be taken."""
    return EveryWay(problem, allowed).makespan()
