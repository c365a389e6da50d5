"""The main path: a problem and the name of an algorithm become a checked schedule with its bound."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from pipesched.errors import Deadlock, NotApplicable
from pipesched.pipeline.bounds import Bound, lower_bound
from pipesched.pipeline.check import checked
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.schedulers.family import Family, option_name, prepare
from pipesched.schedulers.registry import family


class SolveReport(NamedTuple):
    """What a solve knows beside its schedule. `objective` is makespan or span; values and bounds are in ticks."""

    objective: str
    status: str  # optimal or feasible
    value: int
    bound: Bound  # on the objective, over every placement that was tried
    makespan_bound: Bound  # for the placement of the schedule
    seconds: float
    stopped_by: str  # proof, gap, time limit, interrupt, or search (a method that ended without proof)
    source: str  # what found the schedule
    heuristic: tuple[str, int] | None  # the best one that fits, and its value
    placements: tuple[str, ...]  # all that were tried

    @property
    def gap(self) -> float:
        """(value - bound) / bound."""
        return (self.value - self.bound.ticks) / self.bound.ticks if self.bound.ticks else 0.0


@dataclass(frozen=True)
class Outcome:
    """A schedule with what is known about it; `report` is a solve's."""

    algorithm: str
    schedule: Schedule
    report: SolveReport | None = None

    @cached_property
    def bound(self) -> Bound:
        """The best lower bound on the makespan."""
        found = lower_bound(self.schedule)
        return found if self.report is None else max(found, self.report.makespan_bound, key=lambda one: one.ticks)

    @property
    def gap(self) -> float:
        """(makespan - bound) / bound."""
        return (self.schedule.makespan - self.bound.ticks) / self.bound.ticks if self.bound.ticks else 0.0

    @property
    def status(self) -> str:
        """Optimal when the makespan equals a bound, else heuristic; a solve's own word for its objective."""
        if self.report is not None:
            return self.report.status
        return "optimal" if self.schedule.makespan == self.bound.ticks else "heuristic"


def run(problem: Problem, algorithm: str, **options: Any) -> Outcome:
    """Schedule `problem` by the algorithm of that name or alias; `options` are the algorithm's own.

    Raises NotApplicable when the algorithm does not suit the problem, NoSchedule when it obeys the budget and finds
    nothing.
    """
    chosen = family(algorithm)
    unknown = [name for name in options if name not in chosen.options]
    if unknown:
        takes = ", ".join(chosen.option_names()) or "no options"
        raise NotApplicable(f"{chosen.name} has no option {option_name(unknown[0])}; it takes {takes}")
    return Outcome(chosen.name, _schedule(prepare(problem, chosen), chosen, options))


def _schedule(problem: Problem, chosen: Family, options: dict[str, Any]) -> Schedule:
    plan = chosen.plan(problem, **options)
    try:
        return checked(schedule_plan(problem, plan))
    except Deadlock as error:
        given = ", ".join(f"{option_name(name)} {value}" for name, value in options.items())
        raise NotApplicable(f"{chosen.name} with {given or 'these numbers'} has no valid order here: {error}") from None
