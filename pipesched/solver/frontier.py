"""The makespan-memory frontier: the best schedule at every budget, from the floor to what no limit would use.

Budgets are tried from the top: the best schedule's own peak covers all budgets down to it, so the next one to try lies
just below that peak. What is known at one budget holds at others: a schedule at all larger ones, a bound at all smaller
ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd
from time import monotonic
from typing import Any, NamedTuple

from pipesched.errors import NoSchedule
from pipesched.outcome import Outcome
from pipesched.pipeline.floor import Relief
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import in_units
from pipesched.solver.feasible import least_budget
from pipesched.solver.placements import AUTO, name_of, placed
from pipesched.solver.search import Listener
from pipesched.solver.solve import solve

MOST_POINTS = 24
SHORTEST = 0.1  # seconds for a point, whatever is left: the portfolio gives a schedule


class FrontierPoint(NamedTuple):
    """The best at a budget (grains, the same for every device, static memory included) and at all below the next one.

    Value and bound are of the objective, in ticks.
    """

    budget: int
    outcome: Outcome
    value: int
    bound: int

    @property
    def gap(self) -> float:
        """(value - bound) / bound."""
        return (self.value - self.bound) / self.bound if self.bound else 0.0

    @property
    def placement(self) -> str:
        """The placement of the schedule."""
        return name_of(self.outcome.schedule.problem)

    @property
    def source(self) -> str:
        """What found the schedule."""
        return self.outcome.report.source if self.outcome.report else self.outcome.algorithm

    @property
    def status(self) -> str:
        """Optimal where value and bound meet."""
        return "optimal" if self.value == self.bound else "feasible"


def frontier(
    problem: Problem,
    *,
    time_limit: float = 60.0,
    placement: Sequence[str] = (AUTO,),
    listener: Listener | None = None,
    **settings: Any,
) -> list[FrontierPoint]:
    """The best schedules by rising budget; a budget of the problem's own is left out. `time_limit` is for all of them.

    `settings` are those of `solve`. Raises what `solve` raises; Ctrl-C gives the points so far.
    """
    problem = replace(problem, memory=replace(problem.memory, budget=None))
    relief = Relief(settings.get("offload", False), settings.get("recompute", False))
    floor = min(least_budget(one, relief) for one in placed(problem, placement))
    kept = problem.memory.checkpointed if relief.recompute else ()
    step = gcd(*problem.memory.activation, *problem.memory.retained, *kept) or 1
    until, budget = monotonic() + time_limit, None
    points: list[tuple[int, Outcome]] = []
    while budget is None or budget >= floor:
        left = 1 if budget is None else (budget - floor) // step + 1  # points, at most
        seconds = max((until - monotonic()) / left, SHORTEST)
        limited = problem if budget is None else _within(problem, budget)
        try:
            heard = _labelled(listener, limited)
            outcome = solve(limited, time_limit=seconds, placement=placement, listener=heard, **settings)
        except (NoSchedule, KeyboardInterrupt):
            if not points:
                raise
            break
        used = _used(outcome)
        points.append((used, outcome))
        if outcome.report is not None and outcome.report.stopped_by == "interrupt":
            break
        if budget is None:
            step *= max((used - floor) // (step * MOST_POINTS), 1)
        budget = max(used - step, floor) if used > floor else floor - 1
    return _joined(points)


def _labelled(listener: Listener | None, problem: Problem) -> Listener | None:
    """A listener that also hears which budget a solve is for."""
    if listener is None:
        return None
    tell, memory = listener, problem.memory
    label = "no budget" if memory.budget is None else f"budget {in_units(memory.budget[0], memory.scale):g}"
    return lambda event: tell(event._replace(stage=f"{label}, {event.stage}"))


def _within(problem: Problem, budget: int) -> Problem:
    return replace(problem, memory=replace(problem.memory, budget=(budget,) * problem.devices))


def _used(outcome: Outcome) -> int:
    """The most memory of a device, static memory included."""
    schedule = outcome.schedule
    return max(peak + schedule.problem.static_memory(device) for device, peak in enumerate(schedule.peak_memory))


def _joined(points: Sequence[tuple[int, Outcome]]) -> list[FrontierPoint]:
    """The points by rising budget, each strictly better than all before, with the bounds that hold for them."""
    found: list[FrontierPoint] = []
    bound = 0
    for used, outcome in points:  # falling budgets: bounds rise
        assert outcome.report is not None
        bound = max(bound, outcome.report.bound.ticks)
        found.append(FrontierPoint(used, outcome, outcome.report.value, bound))
    best: list[FrontierPoint] = []
    for point in reversed(found):
        if not best or point.value < best[-1].value:
            best.append(point)
    return best
