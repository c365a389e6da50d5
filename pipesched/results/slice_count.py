"""How many slices each microbatch is cut into, where the best number is to be found for an algorithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from pipesched.core.clock import look
from pipesched.errors import Deadlock, NoSchedule, NotApplicable, PipeschedError
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem, require_size
from pipesched.pipeline.quantities import canonical, plain
from pipesched.pipeline.schedule import Schedule


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
