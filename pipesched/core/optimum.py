"""The shortest schedule of a task graph without memory: bounds, list schedules, and a search for what they leave open.

`shortest` is where one begins. The stages, each only if the ones before leave a gap: bounds; list schedules; each
improved backwards and forwards; bounds that count the resources; CP-SAT with intervals, if the gap is wide; a search at
the horizon of the bound, which it raises tick by tick, or meets; the same one tick below the best schedule; CP-SAT with
intervals again, which needs no horizon.

That search (`HorizonSearch`) is branch and bound on time windows: shave them by a linear relaxation, split one into
halves, and go on. On the way, each fractional schedule gives an order for list scheduling. To shave a window is to
prove that its task never starts in some first or last ticks of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from time import monotonic
from typing import Any, NamedTuple

from pipesched.core.bounds import critical_path, energy, sharpened
from pipesched.core.cpsat import Limits, TaskModel, TimeIndexed, load, terms
from pipesched.core.listsched import (
    Listing,
    back_and_forth,
    backwards_in_time,
    by_middles,
    by_rules,
    by_tails,
    length_of,
)
from pipesched.core.tasks import TaskGraph, violations
from pipesched.core.timing import heads, tails

SCALE = 1 << 30  # of dual values, which are rounded to multiples of 1 / SCALE
TOLERANCE = 1e-6  # an excess over a limit that is not worth a proof
PATIENCE = 250  # milliseconds that GLOP runs between two checks for Ctrl-C and of the clock
EXCESS = 0  # the column of units that every resource has besides its own: 0, except to measure how many are missing


class Impossible(Exception):
    """Raised where no schedule lies within the windows, nor a fractional one."""


class OutOfTime(Exception):
    """Raised once the deadline has passed."""


class Relaxation:
    """Fractional schedules of `graph`, each task starting within [earliest, latest], in ticks: at several in parts.

    A column says how much of a task has started by a tick, so that a precedence at a tick is one comparison, and the
    tasks that run at a tick are what has started by then less what had started a duration before. GLOP computes in
    floating point; claims are proved in integers: its dual values, rounded, weigh the rules so that their sum alone is
    a contradiction.

    The windows must respect the precedences. `check`, `never_by` and `never_after` raise Impossible where no fractional
    schedule is left. They, and making one, raise OutOfTime after `deadline` (of time.monotonic).
    """

    def __init__(self, graph: TaskGraph, earliest: Sequence[int], latest: Sequence[int], deadline: float) -> None:
        self.earliest, self.latest = tuple(earliest), tuple(latest)  # as they were at first: the columns
        self.deadline = deadline
        self.glop = load("linear_solver.pywraplp")
        self.solver = self.glop.Solver.CreateSolver("GLOP")
        self.columns = [self.solver.NumVar(0, 0, "")]
        self.bounds = [(0, 0)]
        self.first: list[int] = []  # the column of each task at the first tick of its window
        self.rules: list[tuple[list[int], list[int], int]] = []  # the sum of some columns less that of others, at most
        self.rows: list[Any] = []
        for task in range(len(graph)):
            self.first.append(len(self.columns))
            for tick in range(self.earliest[task], self.latest[task]):  # by the last all of the task has started
                self.columns.append(self.solver.NumVar(0, 1, ""))
                self.bounds.append((0, 1))
                if tick > self.earliest[task]:
                    self._rule([(task, tick - 1)], [(task, tick)], 0)
        for before, after, lag in graph.edges:
            gap = graph.durations[before] + lag
            for tick in range(self.earliest[after], self.latest[after]):
                self._rule([(after, tick)], [(before, tick - gap)], 0)
        for resource, capacity in enumerate(graph.unit_counts):
            users = [task for task, used in enumerate(graph.resources) if used == resource and graph.durations[task]]
            ends = [self.latest[task] + graph.durations[task] for task in users]
            for tick in range(max(ends, default=0)):
                over = [(task, tick - graph.durations[task]) for task in users]
                self._rule([(task, tick) for task in users], over, capacity, EXCESS)
        self.values = [0.0] * len(self.columns)  # of the last fractional schedule
        self.status = self.glop.Solver.NOT_SOLVED
        options = self.parameters = self.glop.MPSolverParameters()
        options.SetIntegerParam(options.INCREMENTALITY, options.INCREMENTALITY_ON)
        options.SetIntegerParam(options.LP_ALGORITHM, options.PRIMAL)
        options.SetIntegerParam(options.PRESOLVE, options.PRESOLVE_OFF)

    def check(self) -> None:
        """Raise Impossible if no fractional schedule is left."""
        self._bound(EXCESS, 0, len(self.first))
        try:
            if self._is_more({EXCESS: 1}, 0):
                raise Impossible
        finally:
            self._bound(EXCESS, 0, 0)

    def never_by(self, task: int, tick: int) -> bool:
        """Return whether no fractional schedule starts all of `task` by `tick` (in its window, before the end)."""
        return self._test({self._column(task, tick): -1}, -1)

    def never_after(self, task: int, tick: int) -> bool:
        """Return whether every fractional schedule starts some of `task` by `tick` (in its window, before the end)."""
        return self._test({self._column(task, tick): 1}, 0)

    def narrow(self, task: int, earliest: int, latest: int) -> None:
        for tick in range(self.earliest[task], self.latest[task]):
            self._bound(self._column(task, tick), int(tick >= latest), int(tick >= earliest))

    def middles(self) -> list[float]:
        """Return the mean start of each task in the last fractional schedule, in ticks."""
        ends = [*self.first, len(self.values)][1:]
        begun = [sum(self.values[first:end]) for first, end in zip(self.first, ends, strict=True)]
        return [round(latest - ticks, 3) for latest, ticks in zip(self.latest, begun, strict=True)]

    def _column(self, task: int, tick: int) -> int:
        return self.first[task] + tick - self.earliest[task]

    def _rule(self, more: list[tuple[int, int]], less: list[tuple[int, int]], most: int, *excess: int) -> None:
        """Limit what has started by `more`, less what has by `less` and `excess`; what always holds is no rule."""
        if monotonic() > self.deadline:
            raise OutOfTime
        plus, sure_plus = self._started(more)
        minus, sure_minus = self._started(less)
        most += sure_minus - sure_plus
        if len(plus) <= most:
            return
        minus += excess
        row = self.solver.Constraint(-self.solver.infinity(), most)
        for column in plus:
            row.SetCoefficient(self.columns[column], 1)
        for column in minus:
            row.SetCoefficient(self.columns[column], -1)
        self.rules.append((plus, minus, most))
        self.rows.append(row)

    def _started(self, wanted: list[tuple[int, int]]) -> tuple[list[int], int]:
        """Return the columns of the (task, tick) within their windows, and how many ticks lie behind theirs."""
        columns = [self._column(task, tick) for task, tick in wanted if self.earliest[task] <= tick < self.latest[task]]
        return columns, sum(tick >= self.latest[task] for task, tick in wanted)

    def _bound(self, column: int, low: int, high: int) -> None:
        if self.bounds[column] != (low, high):
            self.bounds[column] = (low, high)
            self.columns[column].SetBounds(low, high)

    def _test(self, costs: Mapping[int, int], limit: int) -> bool:
        """Return whether `costs` exceed `limit` in every fractional schedule. Raises Impossible if there is none."""
        is_more = self._is_more(costs, limit)
        if self.status == self.glop.Solver.INFEASIBLE:
            self.check()
        return is_more

    def _is_more(self, costs: Mapping[int, int], limit: int) -> bool:
        """Return whether the least `costs` that GLOP finds exceed `limit`, and that can be proved."""
        objective = self.solver.Objective()
        objective.Clear()
        for column, cost in costs.items():
            objective.SetCoefficient(self.columns[column], cost)
        objective.SetMinimization()
        self.status = self.glop.Solver.NOT_SOLVED
        while self.status in {self.glop.Solver.NOT_SOLVED, self.glop.Solver.FEASIBLE}:
            left = self.deadline - monotonic()
            if left <= 0:
                raise OutOfTime
            self.solver.SetTimeLimit(max(min(round(left * 1000), PATIENCE), 1))
            self.status = self.solver.Solve(self.parameters)  # it goes on where the clock stopped it
        if self.status != self.glop.Solver.OPTIMAL:
            return False
        self.values = [column.solution_value() for column in self.columns]
        return objective.Value() > limit + TOLERANCE and self._proves(costs, limit)

    def _proves(self, costs: Mapping[int, int], limit: int) -> bool:
        """Return whether the dual values at hand prove that the least `costs` exceed `limit`."""
        # costs x >= costs x + sum over rules of weight (more x - less x - most), if no weight is negative
        total = 0
        reduced = {column: cost * SCALE for column, cost in costs.items()}
        for row, (more, less, most) in zip(self.rows, self.rules, strict=True):
            weight = round(-row.dual_value() * SCALE)
            if weight > 0:
                total -= weight * most
                for column in more:
                    reduced[column] = reduced.get(column, 0) + weight
                for column in less:
                    reduced[column] = reduced.get(column, 0) - weight
        total += sum(value * self.bounds[column][value < 0] for column, value in reduced.items())
        return total > limit * SCALE


MOST_SHAVED = 30  # tasks of a pass; the many that few others wait for gain little
Part = tuple[int, int, int]  # a task, its earliest and its latest start
MOST_TERMS = 600_000  # of a time-indexed model that is worth its memory
FIRST_TURN, GROWTH = 0.5, 16  # seconds of branching before CP-SAT's first turn; before the next, so many times as much
SEARCH, LEAST_SEARCH = 0.25, 1.0  # a turn of CP-SAT: of the branching so far, but at least so many seconds


class Bounds(NamedTuple):
    """The earliest and the latest start of each task, in ticks."""

    earliest: list[int]
    latest: list[int]


class Windows:
    """The windows of the tasks of `graph`, which become narrower; `deadline` is one of time.monotonic.

    Methods raise Impossible where no schedule is left, and OutOfTime.
    """

    def __init__(self, graph: TaskGraph, bounds: Bounds, deadline: float) -> None:
        self.graph = graph
        self.bounds = Bounds(*map(list, bounds))
        self.relaxation = Relaxation(graph, *bounds, deadline)

    def slack(self, task: int) -> int:
        """Return the ticks between the first and the last start of `task`."""
        return self.bounds.latest[task] - self.bounds.earliest[task]

    def reset(self, bounds: Bounds) -> None:
        """Set the windows to `bounds`, which may be wider than they are."""
        self.bounds = Bounds(*map(list, bounds))
        for task, window in enumerate(zip(*bounds, strict=True)):
            self.relaxation.narrow(task, *window)

    def narrow(self, task: int, earliest: int, latest: int) -> None:
        """Start `task` within [earliest, latest], and those before and after it accordingly."""
        durations, bounds = self.graph.durations, self.bounds
        pending = [(task, earliest, latest)]
        while pending:
            task, earliest, latest = pending.pop()
            earliest, latest = max(earliest, bounds.earliest[task]), min(latest, bounds.latest[task])
            if earliest > latest:
                raise Impossible
            if (earliest, latest) == (bounds.earliest[task], bounds.latest[task]):
                continue
            bounds.earliest[task], bounds.latest[task] = earliest, latest
            self.relaxation.narrow(task, earliest, latest)
            for after, lag in self.graph.successors[task]:
                pending.append((after, earliest + durations[task] + lag, bounds.latest[after]))
            for before, lag in self.graph.predecessors[task]:
                pending.append((before, bounds.earliest[before], latest - lag - durations[before]))

    def shave(self) -> Iterator[Sequence[float]]:
        """Shave once, and yield after each step the mean start of each task in a fractional schedule, in ticks.

        The tasks that most others wait for come first: they narrow most windows.
        """
        self.relaxation.check()
        yield self.relaxation.middles()
        waiting = {task for task in range(len(self.graph)) if self.slack(task)}
        for _ in range(min(MOST_SHAVED, len(waiting))):
            task = min(waiting, key=lambda one: (-len(self.graph.successors[one]), self.slack(one)))
            waiting.remove(task)
            yield from self._shave_end(task, at_front=True)
            yield from self._shave_end(task, at_front=False)

    def _shave_end(self, task: int, *, at_front: bool) -> Iterator[Sequence[float]]:
        """Shave 1, 2, 4, ... ticks at a time, and from the first failure on half as many each time."""
        ticks, is_growing = 1, True
        while ticks and (slack := self.slack(task)):
            ticks = min(ticks, slack)
            first, last = self.bounds.earliest[task], self.bounds.latest[task]
            if at_front:
                first += ticks
                is_shaved = self.relaxation.never_by(task, first - 1)
            else:
                last -= ticks
                is_shaved = self.relaxation.never_after(task, last)
            yield self.relaxation.middles()
            if is_shaved:
                self.narrow(task, first, last)
            is_growing = is_growing and is_shaved
            ticks = 2 * ticks if is_growing else ticks // 2


class Branching:
    """A search for schedules of `graph` in which each task starts within its bounds."""

    def __init__(self, graph: TaskGraph, bounds: Bounds, deadline: float) -> None:
        self.graph, self.deadline = graph, deadline
        self.bounds = bounds  # every schedule lies within; narrower until the first split
        self.is_refuted = False  # there is no such schedule

    def run(self) -> Iterator[Listing]:
        """Yield schedules, some outside the bounds, until no window is left to split or the time is over."""
        fits, backwards = False, backwards_in_time(self.graph)
        waiting: list[tuple[Bounds, Part | None]] = [(self.bounds, None)]
        try:
            self.windows = Windows(self.graph, self.bounds, self.deadline)
            while waiting:
                try:
                    for listing in self._node(*waiting.pop(), backwards):
                        windows = zip(self.bounds.earliest, listing.starts, self.bounds.latest, strict=True)
                        fits = fits or all(first <= start <= last for first, start, last in windows)
                        yield listing
                    # the later and the earlier half of a window: of a task that most others wait for, then the widest
                    bounds, slack, after = self.windows.bounds, self.windows.slack, self.graph.successors
                    wide = [(len(after[task]), slack(task), -task) for task in range(len(self.graph)) if slack(task)]
                    if wide:
                        task = -max(wide)[2]
                        first, last = bounds.earliest[task], bounds.latest[task]
                        middle = (first + last) // 2
                        waiting += [(bounds, (task, middle + 1, last)), (bounds, (task, first, middle))]
                except Impossible:
                    pass
            self.is_refuted = not fits
        except OutOfTime:
            pass

    def _node(self, bounds: Bounds, part: Part | None, backwards: TaskGraph) -> Iterator[Listing]:
        """Set the windows to `bounds`, one of them to `part`; shave them, and yield the list schedules of each step."""
        self.windows.reset(bounds)
        if part is None:
            self.bounds = self.windows.bounds  # which shaving narrows
        else:
            self.windows.narrow(*part)
        for middles in self.windows.shave():
            yield from by_middles(self.graph, backwards, middles)
        starts = self.windows.bounds.earliest.copy()
        if not any(violations(self.graph, starts)):  # a schedule, and the only one when no window is left to split
            yield Listing(starts, "linear relaxation")


class Margins(NamedTuple):
    """A graph with a head and a tail for each task: the ticks that pass before its start and after its end."""

    graph: TaskGraph
    before: Sequence[int]
    after: Sequence[int]

    def within(self, horizon: int) -> Bounds:
        """Return the earliest and the latest start of each task in a schedule of `horizon` ticks."""
        ends = zip(self.after, self.graph.durations, strict=True)
        return Bounds(list(self.before), [horizon - tail - time for tail, time in ends])


class HorizonSearch:
    """A search for a schedule in which each task starts within its bounds."""

    def __init__(self, graph: TaskGraph, bounds: Bounds, limits: Limits) -> None:
        self.graph, self.limits = graph, limits
        self.begin = monotonic()
        self.branching = Branching(graph, bounds, self.begin + limits.seconds)
        self.refuted_by = ""  # what proved that there is none
        self.is_interrupted = False  # by Ctrl-C, in CP-SAT

    def run(self) -> Iterator[Listing]:
        """Yield schedules, some outside the bounds, until there is none within, or the time is over."""
        turn, searched = FIRST_TURN, 0.0
        for listing in self.branching.run():
            yield listing
            branched = monotonic() - self.begin - searched
            if branched > turn:
                turn *= GROWTH
                before = monotonic()
                yield from self._by_ticks(max(SEARCH * branched, LEAST_SEARCH))
                searched += monotonic() - before
                if self.refuted_by or self.is_interrupted:
                    return
        if self.branching.is_refuted:
            self.refuted_by = "linear relaxation"

    def _by_ticks(self, seconds: float) -> Iterator[Listing]:
        """Search with CP-SAT within the windows as they are by now."""
        bounds = self.branching.bounds
        lasts = zip(*bounds, self.graph.durations, strict=True)
        if sum(terms(last - first + 1, time) for first, last, time in lasts) > MOST_TERMS:
            return
        model = TimeIndexed()
        state(model, self.graph, bounds)
        left = self.limits.seconds - (monotonic() - self.begin)
        if left <= 0:
            return
        answer = model.solve(self.limits._replace(seconds=min(seconds, left), linearization=2))
        self.is_interrupted = answer.interrupted
        if answer.status == "infeasible":
            self.refuted_by = "time-indexed CP-SAT"
        elif answer.starts:
            yield Listing(answer.starts, "time-indexed CP-SAT")


def state(model: TaskModel, graph: TaskGraph, bounds: Bounds) -> None:
    """Add `graph` to a model: each task in its window, its precedences, the units of its resource."""
    for first, duration, last in zip(bounds.earliest, graph.durations, bounds.latest, strict=True):
        model.task(duration, first, last)
    for edge in graph.edges:
        model.after(*edge)
    for resource, capacity in enumerate(graph.unit_counts):
        users = [task for task, used in enumerate(graph.resources) if used == resource and graph.durations[task]]
        if capacity == 1:
            model.one_at_a_time(users)
        elif len(users) > capacity:
            model.at_most(capacity, users, [1] * len(users))


MOST_SHARPENED = 500  # tasks; sharpened bounds cost up to their cube
FEW_TICKS = 5  # of a gap that is soon closed tick by tick; CP-SAT with intervals comes first where it is wider
FIRST_SECONDS, FIRST_PART = 0.05, 0.3  # of that search: for each tick of the gap, and at most a part of the time
MOST_COLUMNS = 50_000  # of a relaxation that is worth its memory; it takes half a minute to solve
FEW_COLUMNS = 15_000  # some seconds
PART, PART_OF_MANY = 0.99, 0.75  # of the time left, for all horizons: few and small ones, or others
PART_OF_ONE = 0.95  # of the time left for horizons, for one of them


@dataclass(frozen=True)
class Optimum:
    """The best schedule of a search, its length, the best bound, and the method of each. Times are in ticks."""

    starts: Sequence[int]
    length: int
    bound: int
    method: str  # what made the schedule
    proof: str  # what gave the bound
    stopped_by: str = ""  # time or interrupt, when a gap was left

    @property
    def is_proved(self) -> bool:
        return self.length == self.bound

    @property
    def is_open(self) -> bool:
        """Whether a gap is left, and nothing has ended the search."""
        return not self.is_proved and not self.stopped_by

    def raised(self, bound: int, proof: str) -> Optimum:
        return replace(self, bound=bound, proof=proof) if bound > self.bound else self


def lower_bound(graph: TaskGraph) -> tuple[int, str]:
    """Return the larger of critical path and energy bound, in ticks, and its name."""
    before, after = heads(graph), tails(graph)
    return max((critical_path(graph), "critical path"), (energy(graph, before, after), "energy"), key=itemgetter(0))


def shortest(graph: TaskGraph, limits: Limits) -> Optimum:
    """Return the shortest schedule that `limits` allow to find, and what is proved about it.

    The search goes on until the gap is closed, whatever gap `limits` allow. The clock decides when each method has its
    turn, so that answers need not repeat. OR-Tools is loaded only when bounds and list schedules disagree.
    """
    begin = monotonic()
    bound, proof = lower_bound(graph)
    best = Optimum((), sum(graph.durations) + critical_path(graph) + 1, bound, "", proof)
    best = _better(graph, best, by_rules(graph))
    if not best.is_proved:
        best = _better(graph, best, back_and_forth(graph))
    if best.is_proved:
        return best
    before, after = heads(graph), tails(graph)
    if len(graph) <= MOST_SHARPENED:
        before, after = sharpened(graph)
        bound = max(energy(graph, before, after), *map(sum, zip(before, graph.durations, after, strict=True)))
        best = best.raised(bound, "sharpened energy")
        best = best if best.is_proved else _better(graph, best, by_tails(graph, after))
    if best.is_proved:
        return best
    best = _searched(Margins(graph, before, after), best, limits, begin)
    return replace(best, stopped_by="time") if best.is_open else best


def _better(graph: TaskGraph, best: Optimum, listings: Iterable[Listing]) -> Optimum:
    """Return `best` or the best of `listings`, which are made until one meets the bound."""
    for starts, method in listings:
        length = length_of(graph, starts)
        if length < best.length:
            best = replace(best, starts=starts, length=length, method=method)
        if best.is_proved:
            break
    return best


def _searched(margins: Margins, best: Optimum, limits: Limits, begin: float) -> Optimum:
    """Search by horizons, and by CP-SAT with intervals: first where the gap is wide, and last where any is left."""

    def left(share: float = 1) -> float:
        return max(limits.seconds - (monotonic() - begin), 0.01) * share

    try:
        gap = best.length - best.bound
        if gap > FEW_TICKS:
            best = _by_intervals(margins, best, limits._replace(seconds=min(FIRST_SECONDS * gap, left(FIRST_PART))))
        earliest, latest = margins.within(best.length)
        columns = sum(latest) - sum(earliest) + 1  # of the linear relaxation
        if best.is_open and columns < MOST_COLUMNS:
            is_easy = columns < FEW_COLUMNS and best.length - best.bound <= FEW_TICKS
            best = _by_horizons(margins, best, limits, monotonic() + left(PART if is_easy else PART_OF_MANY))
        return _by_intervals(margins, best, limits._replace(seconds=left())) if best.is_open else best
    except KeyboardInterrupt:
        return replace(best, stopped_by="interrupt")


def _by_horizons(margins: Margins, best: Optimum, limits: Limits, deadline: float) -> Optimum:
    """Search horizons from the bound upwards as long as they are refuted, then from the best schedule downwards."""
    tried = -1
    for is_upwards in (True, False):
        while best.is_open and (horizon := best.bound if is_upwards else best.length - 1) != tried:
            left, tried = deadline - monotonic(), horizon
            if left <= 0:
                return best
            part = limits._replace(seconds=left * PART_OF_ONE)
            search = HorizonSearch(margins.graph, margins.within(horizon), part)
            try:
                for listing in search.run():
                    best = _better(margins.graph, best, [listing])
                    if best.length <= horizon:
                        break
            except KeyboardInterrupt:
                return replace(best, stopped_by="interrupt")
            if search.refuted_by:
                best = best.raised(horizon + 1, f"no schedule of {horizon} ({search.refuted_by})")
            if search.is_interrupted and not best.is_proved:
                return replace(best, stopped_by="interrupt")
    return best


def _by_intervals(margins: Margins, best: Optimum, limits: Limits) -> Optimum:
    """Look for a shorter schedule, from the best one, and for a higher bound."""
    model = TaskModel()
    state(model, margins.graph, margins.within(best.length))
    model.shortest(margins.after, best.bound, best.length)
    model.hint(best.starts)
    answer = model.solve(limits)
    if answer.starts:
        best = _better(margins.graph, best, [Listing(answer.starts, "CP-SAT")])
    best = best.raised(min(answer.bound, best.length), "CP-SAT")
    return replace(best, stopped_by="interrupt") if answer.interrupted and not best.is_proved else best
