"""The best orders of microbatches that differ are no worse than they were: searched, and where each is planned anew."""

from __future__ import annotations

import pytest

from pipesched.pipeline.bounds.bounds import lower_bound
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.results.outcome import run
from tests.quality_problems import UNLIKE
from tests.quality_table import Table, golden_test


def reached(name: str, case: str) -> int | None:
    """Return the makespan of the best order of a family; None where it exceeds the budget."""
    schedule = run(make_problem(**UNLIKE[case]), name, order="best").schedule
    return schedule.makespan_ticks if schedule.fits else None


def few_are_tried(name: str, case: str) -> int | None:
    """Return the same of a search that tries only a few orders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipesched.schedulers.ordering.MOST_ORDERS", 1_600)
        return reached(name, case)


def least(case: str) -> int:
    """Return a time that no schedule of the case is below, whether its backwards are split or not."""
    return min(lower_bound(run(make_problem(**UNLIKE[case]), name).schedule).ticks for name in ("1f1b", "zb-h1"))


SEARCHED = Table(
    reached,
    least,
    variants=("1f1b", "zb-h1"),
    cases=tuple(UNLIKE),
    golden={"1f1b": (280, 939, 19460, 146), "zb-h1": (243, 691, 14810, 115)},
)
HASTY = Table(
    few_are_tried,
    least,
    variants=("1f1b", "eager-1f1b", "zb-h1"),
    cases=tuple(UNLIKE),
    golden={"1f1b": (282, 940, 19680, 146), "eager-1f1b": (286, 916, 19030, None), "zb-h1": (243, 693, 14940, 115)},
)
PLANNED = Table(reached, least, variants=("list",), cases=tuple(UNLIKE), golden={"list": (280, 914, 19080, 149)})

test_searched = golden_test(SEARCHED, nightly=True)
test_searched_in_haste = golden_test(HASTY)
test_planned_anew = golden_test(PLANNED, nightly=True)
