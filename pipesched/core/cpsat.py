"""The exact model of a task graph, solved by OR-Tools CP-SAT. One rule of the problem is one method.

OR-Tools takes most of a second to load, so it is imported when the first model is made, never before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, inf
from threading import Event, Thread
from typing import Any, NamedTuple

from pipesched.core.loading import load

WORDS = {"OPTIMAL": "optimal", "FEASIBLE": "feasible", "INFEASIBLE": "infeasible"}
Progress = Callable[[list[int], int, int], None]  # (starts, objective, bound), at every better schedule
FINEST_WAIT = 0.05  # seconds between two looks for Ctrl-C


class Limits(NamedTuple):
    """When to stop: seconds, and a gap relative to the bound, which is enough. One worker: same seed, same answer."""

    seconds: float = 60.0
    gap: float = 0.0
    workers: int = 0  # 0: one a core
    seed: int = 0
    effort: float = inf  # in CP-SAT's deterministic time: seconds of a machine that is always equally fast
    linearization: int = 1  # how much of the model its linear relaxation holds: 0, 1 or 2


class Answer(NamedTuple):
    """What CP-SAT knows at the end: a word (optimal, feasible, infeasible, unknown), starts in ticks, and bounds."""

    status: str
    starts: list[int]  # empty without a schedule
    objective: int | None
    bound: int
    seconds: float
    interrupted: bool = False  # by Ctrl-C; what was found until then is here


class Model:
    """Tasks on a time axis of integer ticks. Each method adds one rule and may be called many times."""

    def __init__(self) -> None:
        self.cp = load("sat.python.cp_model")
        self.model = self.cp.CpModel()
        self.starts: list[Any] = []
        self.durations: list[int] = []
        self.intervals: list[Any] = []

    def task(self, duration: int, earliest: int, latest: int) -> int:
        """A new task that starts in [earliest, latest]; returns its number, counted from 0."""
        start = self.model.new_int_var(earliest, latest, "")
        self.starts.append(start)
        self.durations.append(duration)
        self.intervals.append(self.model.new_fixed_size_interval_var(start, duration, ""))
        return len(self.starts) - 1

    def end(self, task: int) -> Any:
        """The end of a task, as an expression."""
        return self.starts[task] + self.durations[task]

    def after(self, before: int, after: int, lag: int = 0) -> None:
        """`after` starts `lag` ticks after the end of `before`, or later."""
        self.model.add(self.starts[after] >= self.end(before) + lag)

    def one_at_a_time(self, tasks: Iterable[int]) -> None:
        """No two of `tasks` run at once."""
        self.model.add_no_overlap([self.intervals[task] for task in tasks])

    def at_most(self, capacity: int, tasks: Sequence[int], demands: Sequence[int]) -> None:
        """The demands of those of `tasks` that run at any time sum up to `capacity` at most."""
        self.model.add_cumulative([self.intervals[task] for task in tasks], list(demands), capacity)

    def shortest(self, tails: Sequence[int], least: int, most: int) -> None:
        """Minimize the largest (end + tail) of all tasks, which lies in [least, most]."""
        last = self.model.new_int_var(least, most, "last")
        for task, tail in enumerate(tails):
            self.model.add(self.end(task) + tail <= last)
        self.model.minimize(last)

    def tune(self, parameters: Any, limits: Limits) -> None:
        """Set further parameters of CP-SAT that suit a kind of problem; none by default."""

    def hint(self, starts: Sequence[int]) -> None:
        """A schedule to begin from: the start of each task."""
        for variable, start in zip(self.starts, starts, strict=True):
            self.model.add_hint(variable, start)

    def solve(
        self, limits: Limits, progress: Progress | None = None, on_bound: Callable[[int], None] | None = None
    ) -> Answer:
        """Search until the optimum is proved, a limit is reached, or Ctrl-C. `on_bound` hears of every better bound.

        Both callbacks are called from other threads.
        """
        solver = self.cp.CpSolver()
        solver.parameters.max_time_in_seconds = limits.seconds
        solver.parameters.max_deterministic_time = limits.effort
        solver.parameters.relative_gap_limit = limits.gap / (1 + limits.gap)  # CP-SAT's is relative to the objective
        solver.parameters.num_workers = limits.workers
        solver.parameters.random_seed = limits.seed
        solver.parameters.linearization_level = limits.linearization
        solver.parameters.catch_sigint_signal = False
        self.tune(solver.parameters, limits)
        if on_bound is not None:
            solver.best_bound_callback = lambda bound: on_bound(_rounded_up(bound))
        status, interrupted = _in_thread(solver, self.model, self._reporter(progress))
        found = status in {"OPTIMAL", "FEASIBLE"}
        return Answer(
            WORDS.get(status, "unknown"),
            [solver.value(start) for start in self.starts] if found else [],
            round(solver.objective_value) if found else None,
            _rounded_up(solver.best_objective_bound),
            solver.wall_time,
            interrupted,
        )

    def _reporter(self, progress: Progress | None) -> Any:
        """A CP-SAT callback that hands every better schedule to `progress`."""
        if progress is None:
            return None
        tell, starts = progress, self.starts

        class Reporter(self.cp.CpSolverSolutionCallback):  # type: ignore[name-defined, misc]
            def on_solution_callback(self) -> None:
                values = [self.value(start) for start in starts]
                tell(values, round(self.objective_value), round(self.best_objective_bound))

        return Reporter()


def _rounded_up(bound: float) -> int:
    """An objective is whole, so a bound of 7.3 is one of 8; what floats add to a whole number is no reason."""
    return ceil(bound - 1e-6)


def _in_thread(solver: Any, model: Any, reporter: Any) -> tuple[str, bool]:
    """Solve beside this thread, which alone hears Ctrl-C: the status, and whether that stopped it.

    The event says when it is over: a `join` that Ctrl-C interrupts takes the thread for ended (in Python before 3.13).
    """
    status: list[str] = []
    over = Event()

    def search() -> None:
        try:
            status.append(solver.status_name(solver.solve(model, reporter)))
        finally:
            over.set()

    Thread(target=search, daemon=True).start()
    interrupted = False
    while not over.is_set():
        try:
            if interrupted:
                solver.stop_search()  # again and again: it goes unheard until the search has begun
            over.wait(FINEST_WAIT)
        except KeyboardInterrupt:
            interrupted = True
    return status[0], interrupted
