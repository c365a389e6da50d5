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
    is_long = problem.ticks.mean["forward"][0] > problem.ticks.mean["backward"][0] // 2
    return run(problem, "naive" if is_long else "1f1b").schedule.plan


def as_naive(problem: Problem) -> Any:
    return run(problem, "naive").schedule.plan


def says_no(problem: Problem) -> Any:
    raise NotApplicable("never")


def rarely(problem: Problem) -> Any:
    if (problem.devices, problem.microbatches % 3) != (1, 0):
        raise NotApplicable("nearly never")
    return run(problem, "1f1b").schedule.plan


def never_sliced(problem: Problem) -> Any:
    if problem.slices.are_several:
        raise NotApplicable("it says so too late")
    return run(problem, "1f1b").schedule.plan


def without_slices(problem: Problem) -> Any:
    return [[f"{d}{kind}{m}" for kind in "FB" for m in range(problem.microbatches)] for d in range(problem.devices)]


def of_numbers(problem: Problem) -> Any:
    return [] if problem.sizes else run(problem, "1f1b").schedule.plan


def drops_of_odd(problem: Problem) -> Any:
    if problem.microbatches % 2 == 0:
        return run(problem, "chimera").schedule.plan
    return [[] for _ in range(problem.devices)]


@pytest.mark.parametrize(
    ("function", "facts", "said"),
    [(rarely, {}, "rarely makes a schedule of [1-5] of 60 problems$"),
     (never_sliced, {"slices": True}, "never-sliced makes a schedule of none of [0-9]+ problems for slices=True"),
     (without_slices, {"slices": True}, "without-slices: (.|\n)*slices="),
     (without_slices, {"forward_only": True}, "without-slices: (.|\n)*mode='forward'"),
     (of_numbers, {"looks_at_each": True}, "of-numbers: "),
     (drops_of_odd, {"placement": "bidirectional"}, r"drops-of-odd: (.|\n)*microbatches=[0-9]*[13579],"),
     (forgets_the_last, {}, r"forgets-the-last: .*\non pipesched.make_problem\(devices=.*microbatches=(?!1,|2,|3,)"),
     (by_costs, {"settled_order": True}, "its order depends on costs"),
     (as_naive, {"obeys_budget": True}, "exceeds the budget"),
     (says_no, {}, "says-no makes a schedule of none of 60 problems")],
)  # fmt: skip
def test_what_is_wrong_is_found(function: Callable[[Problem], Any], facts: dict[str, Any], said: str) -> None:
    """A missing operation, and a fact that does not hold, are found; the message makes the problem again."""
    pipesched.family(function, **{"placement": "linear", **facts})
    with pytest.raises(AssertionError, match=said):
        check_family(function, n=60)


def test_every_family_is_tried_on_what_all_run() -> None:
    """Microbatches that differ and steps are among the problems of a family that claims nothing; slices are not."""
    seen: list[Problem] = []
    pipesched.family(as_naive, placement="linear", requires=seen.append)
    assert check_family(as_naive, n=40) == 40
    assert [{getattr(one, key) for one in seen} for key in ("has_units", "has_step")] == [{False, True}] * 2
    assert not any(one.slices.are_several or one.mode == "forward" for one in seen)


def test_claims_that_hold() -> None:
    """A family that has what it claims passes: slices, and forwards alone."""
    pipesched.family(as_naive, placement="linear", slices=True, forward_only=True)
    assert check_family(as_naive, n=40) == 40
