"""The exact model of a task graph, solved by OR-Tools CP-SAT. Each rule of the problem is a method.

`TaskModel` is made, filled by a method a rule, and then solved (`solve`). `TimeIndexed` has a Boolean for each task and
tick: it refutes a horizon one tick too short far sooner, and grows with it. OR-Tools takes most of a second to load, so
it is imported when the first model is made, never before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from math import ceil, gcd, inf
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

from pipesched.core.clock import check_deadline
from pipesched.core.timing import UNTIMED

WORDS = {"OPTIMAL": "optimal", "FEASIBLE": "feasible", "INFEASIBLE": "infeasible"}
Progress = Callable[[list[int], int, int], None]  # (starts, objective, bound), at every better schedule
FINEST_WAIT = 0.05  # seconds between two checks for Ctrl-C


def load(module: str) -> Any:
    """Return a module of OR-Tools.

    Raises KeyboardInterrupt for Ctrl-C while it loads, of which its binary parts make an ImportError.
    """
    try:
        return import_module(f"ortools.{module}")
    except ImportError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise error.__cause__ from None
        raise


class Limits(NamedTuple):
    """When a search stops: after `seconds`, or at a `gap` relative to the bound. One worker repeats a seed's answer."""

    seconds: float = 60.0
    gap: float = 0.0
    workers: int = 0  # threads; 0: one for each core
    seed: int = 0
    effort: float = inf  # in CP-SAT's deterministic time: seconds of a machine that is always equally fast
    linearization: int = 1  # how much of the model its linear relaxation holds: 0, 1 or 2
    stop: Event | None = None  # ends a search from any thread


class SearchAnswer(NamedTuple):
    """The result of a search. `status` is optimal, feasible, infeasible or unknown; times are in ticks."""

    status: str
    starts: list[int]  # empty without a schedule
    objective: int | None
    bound: int
    seconds: float
    interrupted: bool = False  # by Ctrl-C or `stop`; the answer is what was known by then


class TaskModel:
    """Tasks on a time axis of integer ticks. Each method adds one rule and may be called many times."""

    def __init__(self) -> None:
        self.cp = load("sat.python.cp_model")
        self.model = self.cp.CpModel()
        self.starts: list[Any] = []
        self.durations: list[int] = []
        self.intervals: list[Any] = []
        self.presences: dict[int, Any] = {}  # of tasks that may be left out

    def task(self, duration: int, earliest: int, latest: int) -> int:
        """Add a task that starts in [earliest, latest], and return its number, counted from 0."""
        check_deadline()
        start = self.model.new_int_var(earliest, latest, "")
        self.starts.append(start)
        self.durations.append(duration)
        self.intervals.append(self.model.new_fixed_size_interval_var(start, duration, ""))
        return len(self.starts) - 1

    def optional(self, duration: int, latest: int) -> int:
        """Add a task that may be left out, and then starts at UNTIMED; return its number."""
        check_deadline()
        windows = [[UNTIMED, UNTIMED], *([[0, latest]] if latest >= 0 else [])]
        start = self.model.new_int_var_from_domain(self.cp.Domain.from_intervals(windows), "")
        present = self.model.new_bool_var("")
        self.model.add(start >= 0).only_enforce_if(present)
        self.model.add(start == UNTIMED).only_enforce_if(~present)
        self.presences[len(self.starts)] = present
        self.starts.append(start)
        self.durations.append(duration)
        self.intervals.append(self.model.new_optional_fixed_size_interval_var(start, duration, present, ""))
        return len(self.starts) - 1

    def end(self, task: int) -> Any:
        return self.starts[task] + self.durations[task]

    def after(self, before: int, after: int, lag: int = 0) -> None:
        """Start `after` at least `lag` ticks after the end of `before`."""
        check_deadline()
        self.model.add(self.starts[after] >= self.end(before) + lag)

    def one_at_a_time(self, tasks: Iterable[int]) -> None:
        self.model.add_no_overlap([self.intervals[task] for task in tasks])

    def at_most(self, capacity: int, tasks: Sequence[int], demands: Sequence[int]) -> None:
        """Let the demands of those of `tasks` that run at any time sum up to `capacity` at most."""
        self.model.add_cumulative([self.intervals[task] for task in tasks], list(demands), capacity)

    def between(self, start: Any, end: Any, longest: int, present: Any = None) -> Any:
        """Return an interval from `start` to `end`; with `present` one that is there if this literal holds."""
        check_deadline()
        length = self.model.new_int_var(0, longest, "")
        if present is None:
            return self.model.new_interval_var(start, length, end, "")
        return self.model.new_optional_interval_var(start, length, end, present, "")

    def hold(self, intervals: Sequence[Any], sizes: Sequence[int], capacity: int) -> None:
        """Let the sizes of those of `intervals` that overlap at any time sum up to `capacity` at most.

        Sizes and capacity are divided by what all sizes have in common, which CP-SAT does not do by itself.
        """
        unit = gcd(*sizes) or 1
        self.model.add_cumulative(intervals, [size // unit for size in sizes], capacity // unit)

    def shortest(self, tails: Sequence[int], least: int, most: int) -> None:
        """Minimize the largest (end + tail) of all tasks, which lies in [least, most]. A tail follows an end."""
        last = self.model.new_int_var(least, most, "last")
        for task, tail in enumerate(tails):
            self.model.add(self.end(task) + tail <= last)
        self.model.minimize(last)

    def tune(self, parameters: Any, limits: Limits) -> None:
        """Set further parameters of CP-SAT; the models of solver/ that override this do, by default none."""

    def hint(self, starts: Sequence[int]) -> None:
        """Begin the search from a schedule: the start of each task, UNTIMED for one that is left out."""
        for variable, start in zip(self.starts, starts, strict=True):
            self.model.add_hint(variable, start)
        for task, present in self.presences.items():
            self.model.add_hint(present, starts[task] != UNTIMED)

    def solve(
        self, limits: Limits, progress: Progress | None = None, on_bound: Callable[[int], None] | None = None
    ) -> SearchAnswer:
        """Search until the optimum is proved, a limit is reached, `limits.stop` is set, or Ctrl-C.

        `progress` is called with every better schedule, `on_bound` with every better bound: from other threads, but
        never both at once. An exception of theirs ends the search and is raised here.
        """
        solver = self.cp.CpSolver()
        self._set(solver.parameters, limits)
        callbacks = _Callbacks(solver)
        if on_bound is not None:
            tell_bound = callbacks.guarded(on_bound)
            solver.best_bound_callback = lambda bound: tell_bound(_rounded_up(bound))
        reporter, variables = None, self.starts
        if progress is not None:
            tell = callbacks.guarded(progress)

            class Reporter(self.cp.CpSolverSolutionCallback):  # type: ignore[name-defined, misc]
                def on_solution_callback(self) -> None:
                    values = [self.value(start) for start in variables]
                    tell(values, round(self.objective_value), round(self.best_objective_bound))

            reporter = Reporter()
        status, interrupted = _in_thread(solver, self.model, reporter, limits.stop)
        if callbacks.failure is not None:
            raise callbacks.failure
        is_solved, bound = status in {"OPTIMAL", "FEASIBLE"}, _rounded_up(solver.best_objective_bound)
        starts = [solver.value(start) for start in self.starts] if is_solved else []
        objective = round(solver.objective_value) if is_solved else None
        return SearchAnswer(WORDS.get(status, "unknown"), starts, objective, bound, solver.wall_time, interrupted)

    def _set(self, parameters: Any, limits: Limits) -> None:
        parameters.max_time_in_seconds = limits.seconds
        parameters.max_deterministic_time = limits.effort
        parameters.relative_gap_limit = limits.gap / (1 + limits.gap)  # CP-SAT's is relative to the objective
        parameters.num_workers = limits.workers
        parameters.random_seed = limits.seed
        parameters.linearization_level = limits.linearization
        parameters.catch_sigint_signal = False
        self.tune(parameters, limits)


class _Callbacks:
    """Functions that CP-SAT's threads call: one at a time, and an exception of theirs ends the search."""

    def __init__(self, solver: Any) -> None:
        self.solver, self.lock = solver, Lock()
        self.failure: BaseException | None = None

    def guarded(self, function: Callable[..., None]) -> Callable[..., None]:
        """Wrap `function` so that it never raises: an exception in a thread of CP-SAT would end the process."""

        def call(*values: Any) -> None:
            with self.lock:
                if self.failure is None:
                    try:
                        function(*values)
                    except BaseException as error:
                        self.failure = error
                        self.solver.stop_search()

        return call


def _rounded_up(bound: float) -> int:
    """Round a bound up to a whole number, as objectives are: 7.3 to 8, but 7.0000001, an error of floats, to 7."""
    return ceil(bound - 1e-6)


def _in_thread(solver: Any, model: Any, reporter: Any, stop: Event | None) -> tuple[str, bool]:
    """Solve in another thread, since only this one receives Ctrl-C; return the status, and if it was interrupted."""
    # an event says when it is over: before Python 3.13 a `join` that Ctrl-C interrupts takes the thread for ended
    status, failures = list[str](), list[BaseException]()
    over = Event()

    def search() -> None:
        try:
            status.append(solver.status_name(solver.solve(model, reporter)))
        except BaseException as error:
            failures.append(error)
        finally:
            over.set()

    Thread(target=search, daemon=True).start()
    interrupted = False
    while not over.is_set():
        try:
            interrupted = interrupted or (stop is not None and stop.is_set())
            if interrupted:
                solver.stop_search()  # again and again: it has no effect until the search has begun
            over.wait(FINEST_WAIT)
        except KeyboardInterrupt:
            if interrupted or (stop is not None and stop.is_set()):
                raise  # asked for again: the search may end by itself
            interrupted = True
    if failures:
        raise failures[0]
    return status[0], interrupted


class TimeIndexed(TaskModel):
    """The rules of TaskModel over the ticks of each task's window; none may be left out (`optional`)."""

    def __init__(self) -> None:
        super().__init__()
        self.at: list[dict[int, Any]] = []  # for each task: tick -> whether it starts there

    def task(self, duration: int, earliest: int, latest: int) -> int:
        at = {tick: self.model.new_bool_var("") for tick in range(earliest, latest + 1)}
        self.model.add_exactly_one(at.values())
        self.at.append(at)
        self.starts.append(sum(tick * chosen for tick, chosen in at.items()))
        self.durations.append(duration)
        return len(self.starts) - 1

    def after(self, before: int, after: int, lag: int = 0) -> None:
        """Add the disaggregated precedence: at no tick has `after` started by then and `before` starts too late."""
        gap = self.durations[before] + lag
        for tick in self.at[after]:
            late = [chosen for start, chosen in self.at[before].items() if start + gap > tick]
            early = [chosen for start, chosen in self.at[after].items() if start <= tick]
            if late:
                self.model.add_at_most_one(late + early)

    def one_at_a_time(self, tasks: Iterable[int]) -> None:
        self._limit(1, ((task, 1) for task in tasks), lambda tick: tick)

    def at_most(self, capacity: int, tasks: Sequence[int], demands: Sequence[int]) -> None:
        self._limit(capacity, zip(tasks, demands, strict=True), lambda tick: tick)

    def at_most_every(self, period: int, capacity: int, tasks: Sequence[int]) -> None:
        """Let at most `capacity` of `tasks` run at any time when all are repeated every `period` ticks."""
        self._limit(capacity, ((task, 1) for task in tasks), lambda tick: tick % period)

    def _limit(self, capacity: int, users: Iterable[tuple[int, int]], moment: Callable[[int], int]) -> None:
        running: dict[int, list[Any]] = {}
        for task, demand in users:
            for start, chosen in self.at[task].items():
                for tick in range(start, start + self.durations[task]):
                    running.setdefault(moment(tick), []).append(demand * chosen)
        for terms in running.values():
            self.model.add(sum(terms) <= capacity)

    def hint(self, starts: Sequence[int]) -> None:
        for at, start in zip(self.at, starts, strict=True):
            for tick, chosen in at.items():
                self.model.add_hint(chosen, tick == start)


def terms(starts: int, duration: int) -> int:
    """Return about how large a `TimeIndexed` is by a task of so many possible starts, in terms of its rules."""
    return starts * (starts + duration)
