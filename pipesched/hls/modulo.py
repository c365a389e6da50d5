"""Modulo scheduling (`pipeline`): a loop starts an iteration every T cycles, all by one schedule; the least T, proved.

T is at least what the units have to do in an iteration (ResMII), and what a recurrence takes over the iterations that
it spans (RecMII; both Rau 1994). From there CP-SAT tries one T after the other: what it refutes is proved to be too
short.

Only precedences inside a recurrence limit T: any other is met by starting the later operation some multiple of T later.
So whether T is possible is a question of residues modulo T, with precedences inside recurrences alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from time import monotonic
from typing import NamedTuple

from pipesched.core.arrays import ceil_div
from pipesched.core.cpsat import Limits, SearchAnswer, TimeIndexed, terms
from pipesched.errors import NoSchedule
from pipesched.hls.graph import DataflowGraph
from pipesched.hls.outcome import HardwareOutcome, list_outcome, search_limits
from pipesched.hls.schedule import HardwareSchedule, Units, assign_classes, bound_to_units, checked

PART = 0.6  # of the time left that one interval may take
MOST_POLISHING = 3.0  # seconds to look for a lower latency, once the interval is settled
MOST_TERMS = 5_000_000  # of a model that is worth its memory
Window = tuple[int, int]  # the first and the last start, in cycles
Wait = tuple[int, int, int]  # (i, j, c) at interval T: start[j] >= start[i] + c, with c = latency - T * distance


class Intervals(NamedTuple):
    """The two lower bounds on the initiation interval, in cycles."""

    resources: int
    recurrences: int


def interval_bounds(graph: DataflowGraph, units: Units) -> Intervals:
    """Return ResMII and RecMII: the least interval by the units, and by the recurrences, in cycles.

    Raises ConfigError for what is no graph or no units, and for an operation without a unit.
    """
    classes = assign_classes(graph, units)
    work = Counter[int]()  # the cycles for which the operations of an iteration hold their units
    for number in classes:
        work[number] += units[number].interval
    resources = max(ceil_div(cycles, units[number].count) for number, cycles in work.items())
    latencies = [units[number].latency for number in classes]
    starts = dict.fromkeys(range(len(graph)), 0)
    periods = range(1, sum(latencies))  # max over cycles of ceil(latency around it / iterations around it)
    high = 1 + bisect_left(periods, True, key=lambda one: _longest(_waits(graph, latencies, one), starts) is not None)
    return Intervals(resources, high if graph.is_loop else 1)


def _waits(graph: DataflowGraph, latencies: Sequence[int], period: int) -> list[Wait]:
    return [(before, after, latencies[before] - period * far) for before, after, far in graph.dependences]


def _longest(waits: Iterable[Wait], starts: dict[int, int], *, backwards: bool = False) -> dict[int, int] | None:
    """Return the longest path to each task from those in `starts`; None if a cycle makes it endless (Bellman-Ford)."""
    waits = [(after, before, cycles) if backwards else (before, after, cycles) for before, after, cycles in waits]
    longest = dict(starts)
    tasks = len({task for before, after, _ in waits for task in (before, after)} | set(starts))
    for _ in range(tasks + 1):
        changed = False
        for before, after, cycles in waits:
            if before in longest and (after not in longest or longest[after] < longest[before] + cycles):
                longest[after], changed = longest[before] + cycles, True
        if not changed:
            return longest
    return None


def pipeline(
    graph: DataflowGraph, units: Units, *, time_limit: float = 60.0, workers: int = 0, seed: int = 0
) -> HardwareOutcome:
    """Find the schedule of the least initiation interval, and at that interval of the least latency.

    When the time is over before any interval has a schedule, or at Ctrl-C, it is a list schedule, repeated as soon as
    units and recurrences allow.

    Args:
        graph: The body of the loop.
        units: What it runs on.
        time_limit: As for `solve`, like `workers` and `seed`.

    Raises:
        ConfigError: A bad argument, or an operation without a unit.
        NoSchedule: An interval that is too long to be searched.
    """
    limits = search_limits(time_limit, workers, seed)
    begin = monotonic()
    classes = assign_classes(graph, units)
    at_least = interval_bounds(graph, units)
    bound, stopped = max(at_least), ""
    proof = "units (ResMII)" if at_least.resources == bound else "recurrence (RecMII)"
    for period in count(bound):
        seconds = limits.seconds - (monotonic() - begin)
        if seconds <= 0:
            stopped = "time"
            break
        loop = _Loop(graph, units, classes, period)
        answer = loop.solve(limits._replace(seconds=PART * seconds))
        starts = answer.starts
        if starts:
            if not answer.interrupted:
                starts = loop.soonest(starts, limits._replace(seconds=min((1 - PART) * seconds, MOST_POLISHING)))
            schedule = checked(bound_to_units(graph, units, classes, starts, period))
            status = "optimal" if period == bound else "feasible"
            return HardwareOutcome(schedule, "modulo (CP-SAT)", bound, proof, status, stopped)
        if answer.status != "infeasible":
            stopped = "time"
        elif not stopped:
            bound, proof = period + 1, f"no interval of {period} (CP-SAT)"
        if answer.interrupted:
            stopped = "interrupt"
            break
    schedule = checked(_repeated(graph, units, classes, bound))
    status = "optimal" if schedule.interval == bound else "feasible"
    return HardwareOutcome(schedule, "list, repeated", bound, proof, status, "" if status == "optimal" else stopped)


def _repeated(graph: DataflowGraph, units: Units, classes: Sequence[int], bound: int) -> HardwareSchedule:
    """Return a list schedule, repeated as soon as units and recurrences allow; at worst one iteration at a time."""
    once = list_outcome(graph, units).schedule
    latencies = [units[number].latency for number in classes]
    for period in count(bound):
        waits = _waits(graph, latencies, period)
        held = Counter(  # the units at every residue
            (number, (start + cycle) % period)
            for number, start in zip(classes, once.starts, strict=True)
            for cycle in range(units[number].interval)
        )
        are_free = all(users <= units[number].count for (number, _), users in held.items())
        if are_free and all(once.starts[after] >= once.starts[before] + wait for before, after, wait in waits):
            break
    return bound_to_units(graph, units, classes, once.starts, period)


class _Loop:
    """The exact models of a loop at one initiation interval T."""

    def __init__(self, graph: DataflowGraph, units: Units, classes: Sequence[int], period: int) -> None:
        self.graph, self.units, self.classes, self.period = graph, units, classes, period
        self.latencies = [units[number].latency for number in classes]
        self.waits = _waits(graph, self.latencies, period)

    def solve(self, limits: Limits) -> SearchAnswer:
        """Return CP-SAT's answer to whether T is possible, with starts in cycles if it is. Raises NoSchedule."""
        windows: list[Window] = [(0, self.period - 1)] * len(self.graph)
        inside: list[Wait] = []
        recurrences: list[set[int]] = []  # operations that are on them together: each waits for every other
        left = {edge.after for edge in self.graph.dependences}
        while left:
            task = min(left)
            after = _reach(task, lambda operation: [edge.after for edge in self.graph.uses(operation)])
            tasks = after & _reach(task, lambda operation: [edge.before for edge in self.graph.inputs(operation)])
            recurrences += [tasks] if tasks else []
            left -= tasks | {task}
        for rank, tasks in enumerate(sorted(recurrences, key=len, reverse=True)):
            own = [wait for wait in self.waits if tasks.issuperset(wait[:2])]
            inside += own
            anchor = min(tasks)
            first = _longest(own, {anchor: 0}) or {}
            last = _longest(own, {anchor: 0}, backwards=True) or {}
            latest = self.period - 1 if rank else 0  # time may be counted from the largest recurrence's anchor
            for task in tasks:
                windows[task] = (first[task], latest - last[task])
        if self._terms(windows) > MOST_TERMS:
            raise NoSchedule(f"an initiation interval of {self.period} cycles is too long to be searched")
        answer = self._model(windows, inside).solve(limits._replace(linearization=2))
        residues = [start % self.period for start in answer.starts]
        if not residues:
            return answer
        turns = [  # of T, by which an operation is later than its residue, as its waits ask for
            (before, after, ceil_div(residues[before] + cycles - residues[after], self.period))
            for before, after, cycles in self.waits
        ]
        delays = _longest(turns, dict.fromkeys(range(len(residues)), 0)) or {}
        return answer._replace(starts=[self.period * delays[task] + start for task, start in enumerate(residues)])

    def soonest(self, starts: list[int], limits: Limits) -> list[int]:
        """Return the starts of the least latency that is found in time, `starts` at worst."""
        horizon = max(map(sum, zip(starts, self.latencies, strict=True)))
        first = _longest(self.waits, dict.fromkeys(range(len(starts)), 0)) or {}
        last = _longest(self.waits, dict(enumerate(self.latencies)), backwards=True) or {}
        windows = [(first[task], horizon - last[task]) for task in range(len(starts))]
        if self._terms(windows) > MOST_TERMS:
            return starts
        model = self._model(windows, self.waits)
        beyond = [latency - held for latency, held in zip(self.latencies, model.durations, strict=True)]
        model.shortest(beyond, max(self.latencies), horizon)
        model.hint(starts)
        return model.solve(limits).starts or starts

    def _terms(self, windows: Sequence[Window]) -> int:
        held = (self.units[number].interval for number in self.classes)
        return sum(terms(last - first + 1, cycles) for (first, last), cycles in zip(windows, held, strict=True))

    def _model(self, windows: Sequence[Window], waits: Iterable[Wait]) -> TimeIndexed:
        """Return a model with starts in their windows, `waits`, and no more operations at any residue than units."""
        model = TimeIndexed()
        for number, window in zip(self.classes, windows, strict=True):
            model.task(self.units[number].interval, *window)
        for before, after, cycles in waits:
            model.after(before, after, cycles - model.durations[before])
        for number, unit in enumerate(self.units):
            users = [task for task, used in enumerate(self.classes) if used == number]
            model.at_most_every(self.period, unit.count, users)
        return model


def _reach(task: int, following: Callable[[int], Iterable[int]]) -> set[int]:
    """Return all that is reached from `task` in one step or more."""
    reached: set[int] = set()
    coming = [task]
    while coming:
        fresh = set(following(coming.pop())) - reached
        reached |= fresh
        coming += fresh
    return reached
