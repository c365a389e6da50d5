"""The linear relaxation of a task graph in time windows: a task may start in parts, at several ticks.

A column says how much of a task has started by a tick: 0 before its window, never falling, 1 at the end of its window.
In these columns a precedence at a tick is one comparison, and the tasks that run at a tick are what has started by
then less what had started a duration before. (The relaxation is that of `timeindexed`, whose columns are the
differences of these; this one has a third or a quarter of its coefficients.)

GLOP, the solver, computes in floating point. Claims are proved in integers: its dual values, rounded, weigh the rules
so that their sum alone is a contradiction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from pipesched.core.cpsat import load
from pipesched.core.tasks import TaskGraph

SCALE = 1 << 30  # of dual values, which are rounded to multiples of 1 / SCALE
TOLERANCE = 1e-6  # an excess over a limit that is not worth a proof
PATIENCE = 250  # milliseconds that GLOP runs between two checks for Ctrl-C and of the clock
EXCESS = 0  # the column of units that every resource has besides its own: 0, except to measure how many are missing


class Impossible(Exception):
    """Raised where no schedule lies within the windows, nor a fractional one."""


class OutOfTime(Exception):
    """Raised once the deadline has passed."""


class Relaxation:
    """Fractional schedules of `graph`, each task starting within [earliest, latest], in ticks.

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
        for before, after, lag in graph.arrows():
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
        """Start `task` within [earliest, latest] from now on."""
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
        """Limit what has started by the (task, tick) of `more`, less what has by those of `less`, to `most`.

        The columns of `excess` count with `less`. Rules that always hold are left out.
        """
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
        """Return whether the dual values at hand prove that the least `costs` exceed `limit`.

        costs x >= costs x + sum over rules of weight (more x - less x - most), whatever the weights, if none is
        negative; each column adds least at one of its bounds.
        """
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
