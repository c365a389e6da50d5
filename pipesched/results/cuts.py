"""What was left open and found: the cut of layers into stages, and the number of slices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from pipesched.core.clock import look
from pipesched.errors import Deadlock, NoSchedule, NotApplicable, PipeschedError
from pipesched.pipeline.bounds import Bound
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem, require_size
from pipesched.pipeline.quantities import canonical, plain
from pipesched.pipeline.schedule import Schedule
from pipesched.results.status import Status


class TriedCut(NamedTuple):
    """A cut that was tried: the layers of each stage, and the largest work of a device for one microbatch.

    `makespan` is that of the best schedule found on it, None where it was not scheduled. Times are in the user's unit.
    """

    chunks: int
    placement: str
    layout: tuple[int, ...]
    work: int | float
    makespan: int | float | None


class CutReport(NamedTuple):
    """The cut of a solve's answer, the bound and the status of schedules on it and its placement alone; all `tried`."""

    layout: tuple[int, ...]
    chunks: int
    bound: Bound
    status: Status
    tried: tuple[TriedCut, ...]

    @property
    def chunks_tried(self) -> tuple[int, ...]:
        """The numbers of stages a device that were tried."""
        return tuple(sorted({cut.chunks for cut in self.tried}))


def with_best_slices(
    problem: Problem, plan: Callable[[Problem], Plan], timed: Callable[[Problem, Plan], Schedule]
) -> Problem:
    """Return `problem` with the number of slices of which `plan` is the shortest, of equals the smallest number.

    Every number up to the most that its rule allows is tried, and a problem without a rule is returned as it is.
    Raises what `plan` does where there is no plan for any of them, and ConfigError where the most are too many.
    """
    rule = problem.slices.rule
    if rule is None:
        return problem
    require_size(problem.letters, problem.stages, problem.microbatches, rule.most)
    tried, refusals = dict[int, Fraction](), list[PipeschedError]()
    for count in range(1, rule.most + 1):
        look()
        sliced = replace(problem, slices=rule.slices(count))
        try:
            schedule = timed(sliced, plan(sliced))
        except (NotApplicable, NoSchedule, Deadlock) as error:
            refusals.append(error)
        else:
            tried[count] = Fraction(schedule.makespan_ticks, sliced.ticks.per_unit)
    if not tried:
        raise refusals[0]
    best = rule.slices(min(tried, key=lambda count: tried[count]))
    makespans = tuple((count, plain(canonical(makespan))) for count, makespan in tried.items())
    return replace(problem, slices=replace(best, tried=makespans))
