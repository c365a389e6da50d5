"""The frontier of makespan and memory (`frontier`): the best schedule at every budget, from the floor to no limit.

Budgets are tried from the top. A schedule is as good at every budget down to its own peak, so the next budget lies just
below that peak (`_walk`). A schedule fits all larger budgets too, and a bound holds at all smaller ones. An open cut is
balanced for each budget: a peak where it is another cut is a budget of its own, and a bound holds there alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from threading import Event as StopEvent
from typing import TYPE_CHECKING, Any

from pipesched.checks import MOST_SECONDS, MOST_WORKERS, require_callable, require_number, require_type, require_whole
from pipesched.core.clock import Clock, TimeIsUp
from pipesched.errors import NoSchedule
from pipesched.executors.opening import FEWEST_OPERATIONS, chosen, lent, workers_of
from pipesched.pipeline.bounds.bounds import Bound
from pipesched.pipeline.layers.recut import is_cut_open, layout_of
from pipesched.pipeline.plan.message_programs import require_free
from pipesched.pipeline.problem.kinds import MemorySavings
from pipesched.pipeline.problem.placement import placement_name
from pipesched.pipeline.problem.problem import Problem, require_problem
from pipesched.pipeline.problem.quantities import in_units
from pipesched.results.comparison import Frontier, FrontierPoint
from pipesched.results.outcome import Outcome, Status, StoppedBy, of_search
from pipesched.solver.ahead import WorkAhead
from pipesched.solver.feasible import least_budget, least_step, placed_with, within
from pipesched.solver.request import SolveRequest
from pipesched.solver.search import Event, Listener
from pipesched.solver.solve import solve_request

if TYPE_CHECKING:
    from concurrent.futures import Executor


def frontier(
    problem: Problem,
    *,
    objective: str = "makespan",
    time_limit: float = 60.0,
    gap: float = 0.0,
    workers: int = 0,
    seed: int = 0,
    placement: str | Sequence[str] | None = None,
    split_backward: bool | None = None,
    offload: bool = False,
    recompute: bool = False,
    method: str = "auto",
    polish: bool = True,
    listener: Listener | None = None,
    stop: StopEvent | None = None,
    jobs: int = 1,
    executor: Executor | str | None = None,
    chunks: Sequence[int] | None = None,
) -> Frontier:
    """Find the best schedules by rising budget, the same for every device.

    Args:
        problem: What to schedule. A budget of its own is the upper end.
        objective: "makespan", or "span"; like `gap`, `workers`, `seed`, `placement`, `split_backward`, `offload`,
            `recompute`, `method`, `polish` and `listener` as for `solve`, at each point.
        time_limit: Seconds for all points together.
        stop: Set it, from any thread, to end the search with the points so far, as Ctrl-C does.
        jobs: Processes of this machine that solve budgets ahead of their turn, once the highest is solved here; 0 is
            one a core. `workers` are then by default a share of the cores. Points that are proved are the same.
        executor: What does that instead: the text of `open_executor`, or what it returns. On a Dask cluster `workers`
            are by default one.
        chunks: As for `solve`. Where the cut is open, each placement has its balanced cut at each budget, and points
            are proved for these cuts.

    Returns:
        One point for each budget that buys a shorter schedule, each with its bound.

    Raises:
        NoSchedule: Nothing fits the budget, or no point was found before it was stopped.
        ConfigError: A bad argument, or two that do not go together; its `key` is the parameter.
    """
    allowed = MemorySavings(offload, recompute)
    require_free(require_problem(problem), "a frontier")
    require_callable(listener, "listener")
    if stop is not None:
        require_type(stop, StopEvent, "a threading.Event or None", "stop")
    clock = Clock(require_number(time_limit, "time_limit", most=MOST_SECONDS, above=True), stop)
    settings: dict[str, Any] = {
        "objective": objective, "gap": gap, "workers": workers, "seed": seed, "placement": placement,
        "split_backward": split_backward, "offload": offload, "recompute": recompute, "method": method,
        "polish": polish, "chunks": chunks,
    }  # fmt: skip
    runs = chosen(executor, require_whole(jobs, "jobs", most=MOST_WORKERS))
    floor = min(least_budget(one, allowed) for one in placed_with(problem, placement, chunks or ()))
    with lent(runs, FEWEST_OPERATIONS) as pool, closing(WorkAhead[Outcome](pool)) as ahead:
        budgets = _Budgets(problem, clock, listener, settings, ahead)
        solved = _walk(budgets, floor, least_step(problem, allowed))
    points, report = _joined(solved, problem), solved[0][-1].report
    assert report is not None
    covers = of_search(solved[-1][-1].problem, allowed, report.placements)
    return Frontier(points, objective, problem.time_unit, problem.memory.unit, covers)


@dataclass
class _Budgets:
    """Solves a problem at the budgets of its frontier, with the `settings` of `solve`; in a pool ahead of their turn.

    Which budget comes next depends on the memory that the schedule of the last one uses. Mostly it is the next step
    down, so workers that have nothing else to do solve the next steps. What turns out to be no budget of the frontier
    is dropped.
    """

    problem: Problem
    clock: Clock
    listener: Listener | None
    settings: Mapping[str, Any]
    ahead: WorkAhead[Outcome]

    def solved(self, budget: int | None, points: int, next_ones: Iterable[int]) -> Outcome:
        """Return the outcome at a budget in grains (None: the problem's own). Raises NoSchedule and WorkerDied."""
        limited = self.problem if budget is None else within(self.problem, budget)
        listener, limit = self.listener, limited.memory.budget
        label = "no budget" if limit is None else f"budget {float(limit[0]):.9g}"
        heard = listener and (lambda event: listener(event._replace(step=f"{label}, {event.step}")))
        if self.ahead.pool is None or budget is None:
            few = points if budget is not None else min(points, 4)
            return self._solve(limited, few, listener=heard, stop=self.clock.stop)()
        for other in [other for other in self.ahead.sent if other > budget]:
            self.ahead.drop(other)
        self._send(budget, points)
        for other in next_ones:
            if self.ahead.under_way >= workers_of(self.ahead.pool):
                break
            self._send(other, points)
        try:
            outcome = self.ahead.result(budget)
        except TimeIsUp:
            raise NoSchedule("stopped before any schedule was found") from None
        if heard is not None and outcome.report is not None:
            report = outcome.report
            heard(Event("solved", self.clock.seconds, report.value, report.source, report.bound.value))
        return outcome

    def cuts(self, budget: int | None) -> list[tuple[int, ...]]:
        """Return the layouts of open cuts that are balanced for a budget in grains (None: the problem's own)."""
        limited = self.problem if budget is None else within(self.problem, budget)
        tried = placed_with(limited, self.settings["placement"], self.settings["chunks"] or ())
        return [*map(layout_of, tried)]

    def _solve(self, problem: Problem, points: float, **more: Any) -> Callable[[], Outcome]:
        """Return a solve that has its share when so many points, at most, divide the time that is left."""
        share = self.clock.left * min(workers_of(self.ahead.pool) / points, 1)
        seconds = max(min(max(share, 0.1), self.clock.left), 1e-6)  # the portfolio gives a schedule in 0.1 s
        settings = {**self.settings, "time_limit": seconds, "advice": False, **more}
        return partial(solve_request, SolveRequest(problem, keeps_cuts=True, **settings))

    def _send(self, budget: int, points: int) -> None:
        """Let a worker solve a budget, unless one does already."""
        pool, searches = self.ahead.pool, self.settings["method"] != "portfolio"
        workers = self.settings["workers"] or (getattr(pool, "cores_each", 1) if pool is not None and searches else 0)
        call = self._solve(within(self.problem, budget), points, workers=workers)
        until = Clock(self.clock.left + 0.2, self.clock.stop)
        self.ahead.send(budget, call, "the solve of a budget", until)


def _walk(budgets: _Budgets, floor: int, step: int) -> list[tuple[int | None, int, Outcome]]:
    """Solve falling budgets; return these, what outcomes use, in grains, and outcomes. Raises if nothing was found."""
    problem, clock, most_points = budgets.problem, budgets.clock, 24  # about
    budget, most = None, max(problem.grains.budget or (0,))  # None: the problem's own, or no limit, which comes first
    solved: list[tuple[int | None, int, Outcome]] = []
    while (budget is None or budget >= floor) and not (solved and clock.is_over):
        left = max(((budget or most) - floor) // step + 1, 1)  # points, at most
        left = min(left, most_points) if budget is None else left
        lower = () if budget is None else (*range(budget - step, floor, -step), floor)
        try:
            outcome = budgets.solved(budget, left, lower)
        except (NoSchedule, KeyboardInterrupt) as error:
            if not solved or (clock.is_stopped and isinstance(error, KeyboardInterrupt)):
                raise
            break
        per_unit = outcome.problem.grains.per_unit  # of another budget a grain may have another size
        used = max(outcome.schedule.memory_grains) * problem.grains.per_unit // per_unit
        solved.append((budget, used, outcome))
        if outcome.report is not None and outcome.report.stopped_by == StoppedBy.INTERRUPT:
            break
        if budget is None:
            step *= max((used - floor) // (step * most_points), 1)
        is_cut_anew = is_cut_open(problem) and used != budget and budgets.cuts(used) != budgets.cuts(budget)
        budget = used if is_cut_anew else max(used - step, floor) if used > floor else floor - 1
    return solved


def _joined(solved: Sequence[tuple[int | None, int, Outcome]], problem: Problem) -> tuple[FrontierPoint, ...]:
    """Return the points by rising budget, each strictly better than all before, with the bounds that hold for them."""
    points: list[tuple[Fraction, FrontierPoint]] = []  # by rising budget, with their values
    least, is_open = Bound(0, "", problem.ticks.per_unit), is_cut_open(problem)
    following = [(budget, outcome.report) for budget, _, outcome in solved[1:]]
    for (_, used, outcome), (budget, below) in zip(solved, [*following, (None, None)], strict=True):
        report = outcome.report
        assert report is not None
        known = [report.bound, *([below.bound] if below and budget == used else [])]  # of both cuts for this budget
        least = min(known, key=_value_of) if is_open else max(least, report.bound, key=_value_of)
        value, bound = Fraction(report.value_ticks, report.bound.per_unit), _value_of(least)
        point = FrontierPoint(
            budget=in_units(used, problem.grains.per_unit),
            value=in_units(report.value_ticks, report.bound.per_unit),
            bound=least.value,
            gap=float((value - bound) / bound) if bound else 0.0,
            status=Status.OPTIMAL if value == bound else Status.FEASIBLE,
            placement=placement_name(outcome.problem.settled_placement, problem.devices),
            source=report.source,
            outcome=outcome,
        )
        points = [(value, point), *(other for other in points if other[0] < value)]
    return tuple(point for _, point in points)


def _value_of(bound: Bound) -> Fraction:
    """Return a bound in units of time, as those of several cuts have ticks of several lengths."""
    return Fraction(bound.ticks, bound.per_unit)
