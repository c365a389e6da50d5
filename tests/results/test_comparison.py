"""Which schedules of a comparison are dominated: the rule, its ties, and the budget."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import pipesched
from pipesched import Outcome
from pipesched.results.comparison import ParetoPoint, pareto_points

AUTOPIPE: dict[str, Any] = {"devices": 4, "stages": 8, "microbatches": 8, "forward": 5, "backward": 10}


def at(makespan: int, peak: int, fits: bool = True) -> ParetoPoint:
    """A schedule that is nothing but these figures."""
    outcome = cast("Outcome", SimpleNamespace(schedule=SimpleNamespace(fits=fits)))
    return ParetoPoint(outcome, {}, Fraction(makespan), Fraction(peak))


def placed(names: list[str], **values: Any) -> dict[str, ParetoPoint]:
    """The pareto_points of a comparison, by algorithm."""
    entries = pipesched.compare(pipesched.make_problem(**{**AUTOPIPE, **values}), names)
    return {one.outcome.algorithm: one for one in pareto_points(entries)}


def test_better_in_one_and_no_worse_in_the_other_dominates() -> None:
    """A tie in one figure is decided by the other; what is over budget dominates nothing that fits."""
    figures = [*product((1, 2), repeat=2)]
    for (mine, held), (time, memory), fits, others in product(figures, figures, (True, False), (True, False)):
        better = mine <= time and held <= memory and (mine, held) != (time, memory)
        assert at(mine, held, fits).dominates(at(time, memory, others)) == (better and (fits or not others))


def test_equal_schedules_stay_on_the_frontier_together() -> None:
    """1F1B twice: neither dominates the other, and both dominate naive, which holds more."""
    naive, one = pipesched.compare(pipesched.make_problem(**AUTOPIPE), ["naive", "1f1b"])
    found = pareto_points(pipesched.Comparison((naive, one, one)))
    assert [(one.outcome.algorithm, one.dominated_by) for one in found] == [
        ("1f1b", None),
        ("1f1b", None),
        ("naive", 0),
    ]


def test_a_second_copy_of_the_weights_costs_the_place_on_the_frontier() -> None:
    """DualPipe (260) holds its weights twice: over the budget with them, it no longer dominates 1F1B (330)."""
    names = ["dualpipe", "1f1b-overlap"]
    assert placed(names)["1f1b-overlap"].dominated_by is not None
    found = placed(names, static=10, budget=29)
    assert [(name, one.fits, one.dominated_by) for name, one in found.items()] == [
        ("1f1b-overlap", True, None),
        ("dualpipe", False, None),
    ]
