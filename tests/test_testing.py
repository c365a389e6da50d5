"""`pipesched.testing`: what is right passes on random problems, and what is wrong is found with its problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import pipesched
from pipesched import NotApplicable, Problem, run
from pipesched.testing import check_family

pytestmark = pytest.mark.usefixtures("no_own_families")


@pytest.mark.parametrize("name", ["1f1b", "interleaved", "zb-h1", "dualpipe", "list"])
def test_ours_are_right(name: str) -> None:
    """Families of every number of stages, of two copies, and under a budget, pass."""
    assert check_family(name, n=8) >= 4


def forgets_the_last(problem: Problem) -> Any:
    plan = run(problem, "1f1b").schedule.plan
    rows = [[*map(str, plan.slots(device))] for device in range(problem.devices)]
    return [*rows[:-1], rows[-1][:-1] if problem.microbatches > 3 else rows[-1]]


def by_costs(problem: Problem) -> Any:
    is_long = problem.ticks.forward[0] > problem.ticks.backward[0] // 2
    return run(problem, "naive" if is_long else "1f1b").schedule.plan


def as_naive(problem: Problem) -> Any:
    return run(problem, "naive").schedule.plan


def says_no(problem: Problem) -> Any:
    raise NotApplicable("never")


@pytest.mark.parametrize(
    ("function", "facts", "said"),
    [(forgets_the_last, {}, r"forgets-the-last: .*\non pipesched.make_problem\(devices=.*microbatches=(?!1,|2,|3,)"),
     (by_costs, {"settled_order": True}, "its order depends on costs"),
     (as_naive, {"obeys_budget": True}, "exceeds the budget"),
     (says_no, {}, "says-no makes a schedule of none of 60 problems")],
)  # fmt: skip
def test_what_is_wrong_is_found(function: Callable[[Problem], Any], facts: dict[str, Any], said: str) -> None:
    """A missing operation, and a fact that does not hold, are found; the message makes the problem again."""
    pipesched.family(function, placement="linear", **facts)
    with pytest.raises(AssertionError, match=said):
        check_family(function, n=60)
