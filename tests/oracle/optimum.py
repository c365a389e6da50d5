"""The shortest schedule of a tiny pipeline whose microbatches differ, by trying every order: for judging bounds.

Operations are appended one after another, each as early as its device and its needs allow. Of two beginnings that have
run the same operations, one that is later everywhere is dropped; so is one that cannot be shorter than what is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import lcm
from operator import le
from typing import NamedTuple

from tests.oracle.replay import Op, lag, memory_moves, needs, slot_duration
from tests.oracle.setup import ZERO, Setup

State = tuple[int, ...]  # when each device is free, and when what others still wait for has ended


class Task(NamedTuple):
    """An operation in numbers: times as whole parts of a unit, memory as it is."""

    devices: tuple[int, ...]  # of a step also network lanes, numbered behind the devices
    duration: int
    inputs: list[tuple[int, int]]  # the number of another operation, and the latency from it
    takes: Fraction  # at its start
    gives: Fraction  # at its end


def optimum(setup: Setup, kinds: str) -> Fraction | None:
    """The least makespan over all orders of `kinds` ("F", "FB" or "FIW"), within the budget if there is one.

    None when no order fits. Under a budget durations must be positive: what has no length is there and gone at once.
    """
    return optimum_of(
        setup, [Op(stage, kind, *unit) for kind in kinds for stage in range(setup.stages) for unit in setup.units]
    )


def optimum_of_choices(setup: Setup) -> Fraction | None:
    """The same over all ways to run each backward whole or as its halves."""
    places = [*product(range(setup.stages), range(setup.microbatches))]
    found = []
    for wholes in product(("FB", "FIW"), repeat=len(places)):
        ops = [Op(stage, kind, mb) for (stage, mb), kinds in zip(places, wholes, strict=True) for kind in kinds]
        found.append(optimum_of(setup, ops))
    return min((one for one in found if one is not None), default=None)


def optimum_of(setup: Setup, ops: list[Op]) -> Fraction | None:
    """The least makespan over all orders of these operations, within the budget if there is one."""
    tasks, scale = _tasks(setup, ops)
    capacity = None
    if setup.budget is not None:
        capacity = [limit - static for limit, static in zip(setup.budget, setup.statics(), strict=True)]
    best = Search(setup.devices, tasks, capacity).run()
    return None if best is None else Fraction(best, scale)


def head_work_tail(setup: Setup, kinds: str) -> Fraction:
    """A length below that of every schedule: the longest microbatch, and the work of each device between others.

    A device's first operation belongs to some microbatch, which first has to come there; all its work follows; then
    the last one, perhaps of another microbatch, has to go out. With W the way out may be empty.
    """
    ops = [Op(stage, kind, *unit) for kind in kinds for stage in range(setup.stages) for unit in setup.units]
    tasks, scale = _tasks(setup, ops)
    ways_in = _ways(tasks)
    ways_out = _ways(_reversed(tasks))
    longest = max(before + task.duration + after for before, task, after in zip(ways_in, tasks, ways_out, strict=True))
    for device in range(setup.devices):
        here = [number for number, task in enumerate(tasks) if device in task.devices]
        for chosen in [kinds] if kinds != "FIW" else ["FI", "FIW"]:
            some = [number for number in here if ops[number].kind in chosen]
            work = sum(tasks[number].duration for number in some)
            longest = max(longest, min(ways_in[one] for one in some) + work + min(ways_out[one] for one in some))
    return Fraction(longest, scale)


def _tasks(setup: Setup, ops: list[Op]) -> tuple[list[Task], int]:
    """Every operation in numbers, and how many parts of a unit of time are one."""
    planned = {op: number for number, op in enumerate(ops)}
    tasks, times = [], []
    for op in ops:
        device = setup.device(op.stage, op.microbatch)
        duration = slot_duration(setup, [op], device)
        inputs = [
            (planned[one], lag(setup, one, op, setup.device(one.stage, one.microbatch), device))
            for one in needs(setup, op, planned)
        ]
        moves = [*memory_moves(setup, op, planned)]
        takes = sum((move.change for move in moves if not move.at_end), ZERO)
        gives = -sum((move.change for move in moves if move.at_end), ZERO)
        tasks.append(((device,), duration, inputs, takes, gives))
        times += [duration, *(latency for _, latency in inputs)]
    scale = lcm(*(time.denominator for time in times))
    whole = [
        Task(devices, int(duration * scale), [(one, int(late * scale)) for one, late in inputs], takes, gives)
        for devices, duration, inputs, takes, gives in tasks
    ]
    return whole, scale


def _reversed(tasks: list[Task]) -> list[Task]:
    """The same tasks with every need turned around."""
    turned = [task._replace(inputs=[]) for task in tasks]
    for number, task in enumerate(tasks):
        for one, latency in task.inputs:
            turned[one].inputs.append((number, latency))
    return turned


def _ways(tasks: list[Task]) -> list[int]:
    """How long the longest way to each task is."""
    known: dict[int, int] = {}

    def way(number: int) -> int:
        if number not in known:
            inputs = tasks[number].inputs
            known[number] = max((way(one) + tasks[one].duration + late for one, late in inputs), default=0)
        return known[number]

    return [way(number) for number in range(len(tasks))]


class Search:
    """All orders of tasks on so many devices, which hold no more than their capacity if there is one."""

    def __init__(self, devices: int, tasks: list[Task], capacity: list[Fraction] | None = None) -> None:
        self.devices, self.tasks, self.capacity = devices, tasks, capacity
        self.after = _reversed(tasks)
        self.tails = _ways(self.after)
        depths = _ways([Task((), 1, [(one, 0) for one, _ in task.inputs], ZERO, ZERO) for task in tasks])
        self.sorted = sorted(range(len(tasks)), key=lambda number: depths[number])

    def run(self, limit: int | None = None) -> int | None:
        """Return the least makespan (below `limit`): that of a few beginnings, or one below it."""
        known = self._run(limit, width=30)
        known = limit if known is None else known
        better = self._run(known)
        return known if better is None else better

    def _run(self, limit: int | None, width: int | None = None) -> int | None:
        """Return the least makespan below `limit`, of the `width` most promising beginnings of each length."""
        level: dict[frozenset[int], list[State]] = {frozenset(): [(0,) * self.devices]}
        for _ in self.tasks:
            coming: dict[frozenset[int], list[State]] = {}
            for done, states in level.items():
                open_ = self._open(done)
                for number in self._ready(done):
                    after = done | {number}
                    kept = self._open(after)
                    front = coming.setdefault(after, [])
                    for state in states:
                        _keep(front, self._append(open_, kept, state, number))
            level = self._promising(coming, limit, width)
        return min((max(state) for states in level.values() for state in states), default=None)

    def _promising(
        self, level: dict[frozenset[int], list[State]], limit: int | None, width: int | None
    ) -> dict[frozenset[int], list[State]]:
        """Return the beginnings that may be shorter than `limit`, or the `width` best of them."""
        judged = [(self._least(done, state), done, state) for done, states in level.items() for state in states]
        judged = [one for one in judged if limit is None or one[0] < limit]
        if width is not None:
            judged = sorted(judged, key=lambda one: (one[0], sum(one[2][: self.devices])))[:width]
        promising: dict[frozenset[int], list[State]] = {}
        for _, done, state in judged:
            promising.setdefault(done, []).append(state)
        return promising

    def _least(self, done: frozenset[int], state: State) -> int:
        """Return how long a beginning takes at least: as `head_work_tail`, from where it is."""
        ends = dict(zip(self._open(done), state[self.devices :], strict=True))
        first, rest, last = [-1] * self.devices, [0] * self.devices, [-1] * self.devices
        least = max(state[: self.devices])
        for number in self.sorted:
            if number in done:
                continue
            devices, duration, inputs, *_ = self.tasks[number]
            start = max(0, *(state[device] for device in devices), *(ends[one] + late for one, late in inputs))
            ends[number] = start + duration
            tail = self.tails[number]
            least = max(least, ends[number] + tail)
            for device in devices:
                first[device] = start if first[device] < 0 else min(first[device], start)
                last[device] = tail if last[device] < 0 else min(last[device], tail)
                rest[device] += duration
        return max(least, *(sum(parts) for parts in zip(first, rest, last, strict=True)))

    def _ready(self, done: frozenset[int]) -> Iterator[int]:
        """Return what may run next: what has its needs, and fits."""
        for number, task in enumerate(self.tasks):
            if number not in done and all(one in done for one, _ in task.inputs) and self._fits(done, task):
                yield number

    def _fits(self, done: frozenset[int], task: Task) -> bool:
        if self.capacity is None or not task.takes:
            return True
        (device,) = task.devices
        here = [self.tasks[one] for one in done if device in self.tasks[one].devices]
        level = sum((other.takes - other.gives for other in here), ZERO)
        return level + task.takes <= self.capacity[device]

    def _append(self, open_: list[int], kept: list[int], state: State, number: int) -> State:
        task = self.tasks[number]
        ends = dict(zip(open_, state[self.devices :], strict=True))
        starts = [*(state[device] for device in task.devices), *(ends[one] + late for one, late in task.inputs)]
        ends[number] = max(starts) + task.duration
        free = [ends[number] if device in task.devices else state[device] for device in range(self.devices)]
        return (*free, *(ends[one] for one in kept))

    def _open(self, done: frozenset[int]) -> list[int]:
        """Return the operations in `done` that others still wait for."""
        return sorted(one for one in done if any(other not in done for other, _ in self.after[one].inputs))


def _keep(front: list[State], state: State) -> None:
    """Add `state` unless one of `front` is as early everywhere; drop what it is as early as."""
    if any(all(map(le, one, state)) for one in front):
        return
    front[:] = [one for one in front if not all(map(le, state, one))]
    front.append(state)
