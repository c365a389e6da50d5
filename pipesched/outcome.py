"""The main path: a problem and the name of an algorithm become a checked schedule with its bound."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pipesched.errors import Deadlock, NotApplicable
from pipesched.pipeline.bounds import Bound, lower_bound
from pipesched.pipeline.check import checked
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.schedulers.family import Family, option_name, prepare
from pipesched.schedulers.registry import family


@dataclass(frozen=True)
class Outcome:
    """A schedule with what is known about it."""

    algorithm: str
    schedule: Schedule

    @cached_property
    def bound(self) -> Bound:
        """The best lower bound on the makespan."""
        return lower_bound(self.schedule)

    @property
    def gap(self) -> float:
        """(makespan - bound) / bound."""
        return (self.schedule.makespan - self.bound.ticks) / self.bound.ticks if self.bound.ticks else 0.0

    @property
    def status(self) -> str:
        """One of two words: optimal when the makespan equals a bound, else heuristic."""
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
