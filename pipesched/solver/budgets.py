"""Other budgets for a problem: one limit for every device, and the steps in which limits make a difference."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from pipesched.pipeline.kinds import Allowed
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import canonical, to_fraction


def least_step(problem: Problem, allowed: Allowed) -> int:
    """Return the least difference in grains that two peaks can have."""
    kept = problem.grains.checkpointed if allowed.recompute else ()
    return gcd(*problem.grains.activation, *problem.grains.retained, *kept) or 1


def within(problem: Problem, budget: int) -> Problem:
    """Return the problem under a budget in grains on every device, or its own where that is lower."""
    limit = canonical(to_fraction(budget) / problem.grains.per_unit)
    own = problem.memory.budget or (limit,) * problem.devices
    return replace(problem, memory=replace(problem.memory, budget=tuple(min(limit, most) for most in own)))
