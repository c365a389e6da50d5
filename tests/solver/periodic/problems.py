"""Random problems with budgets that are tight."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pipesched import Problem
from pipesched.pipeline.bounds.memory import least_capacity
from tests.strategies import problems, with_capacities

PLACEMENTS = ("linear", "loop", "v", "wave", "explicit")


@st.composite
def tight(draw: st.DrawFn, /, **sizes: Any) -> Problem:
    """A problem with a budget somewhere between its floor and three times that."""
    problem = draw(problems(PLACEMENTS, **sizes))
    capacities = [least_capacity(problem, device) for device in range(problem.devices)]
    return with_capacities(problem, [capacity + draw(st.integers(0, 2 * capacity)) for capacity in capacities])
