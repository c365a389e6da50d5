"""Justification, windows and the frontier: what they find is legal, fits, and is no worse."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from hypothesis import given

from pipesched import Problem, frontier, make_problem, run
from pipesched.core.clock import Clock
from pipesched.core.cpsat import Limits, SearchAnswer
from pipesched.pipeline.check.check import violations
from pipesched.solver.neighbourhood import Neighbourhood, NeighbourhoodModel, _NeighbourhoodSearch, improve
from pipesched.solver.portfolio import justify
from pipesched.solver.recompute_offload import PlainVariant
from pipesched.solver.search import Search
from pipesched.solver.variant import Variant
from tests.examples import examples
from tests.strategies import problems

UNIT: dict[str, Any] = {"forward": 1, "backward_input": 1, "backward_weight": 1}
LOOP: dict[str, Any] = {
    "devices": 4, "stages": 8, "placement": "loop", "forward": 1, "backward": 2, "budget": 6, "activation": 1,
}  # fmt: skip


def searched(case: Variant) -> Search:
    """A search that knows the first heuristic that fits."""
    search = Search([case], Limits(30, workers=1), Clock(30))
    for candidate in case.named_candidates():
        if search.offer(0, candidate):
            break
    return search


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "values", "most"),
    [
        (justify, {**UNIT, "stages": 8, "placement": "v", "budget": 5}, 60),
        (improve, {"forward": 1, "backward": 2, "stages": 8, "placement": "loop", "budget": 6}, 67),
        (improve, {**UNIT, "budget": 3}, 31),
        (improve, {"forward": 5, "backward_input": 6, "backward_weight": 4, "retain": 0.5, "budget": 2}, 215),
        (justify, {"forward": 2, "backward": 4, "p2p": 1, "budget": 5}, 78),
    ],
)
def test_improvement(method: Any, values: dict[str, Any], most: int) -> None:
    """From the first heuristic that fits to a makespan near the optimum; the result keeps rules and budget."""
    case = PlainVariant(
        make_problem(**{"devices": 4, "microbatches": 8, "placement": "linear", "activation": 1, **values})
    )
    search = searched(case)
    assert search.best is not None
    before, clock = search.value, Clock(20)
    search.try_all(0, method(case, search.best.schedule, search.limits, clock), clock)
    assert search.best is not None
    assert search.value < before
    assert search.value <= most
    assert search.best.schedule.fits
    assert not list(violations(search.best.schedule))


@given(problems(("linear", "loop", "v", "bidirectional", "two-v"), least=1, most_devices=3, most_microbatches=4))
@examples(20)
def test_a_window_never_makes_it_worse(problem: Problem) -> None:
    """The middle third of a list schedule, freed and solved: legal, within the budget, no longer."""
    case = PlainVariant(problem)
    search = searched(case)
    assert search.best is not None
    schedule = case.replay(search.best.schedule.start_ticks)
    model = NeighbourhoodModel(
        case, schedule, Neighbourhood(schedule.makespan_ticks // 3, 2 * schedule.makespan_ticks // 3)
    )
    answer = model.solve(Limits(10, workers=1))
    assert answer.status == "optimal"
    better = model.schedule(answer.starts, schedule)
    assert better.makespan_ticks <= schedule.makespan_ticks
    assert not list(violations(better))


def test_windows_side_by_side() -> None:
    """Two workers solve windows that do not overlap: legal, within the budget, ever shorter, and the same again."""
    case = PlainVariant(make_problem(**LOOP, microbatches=12))
    first = searched(case).best
    assert first is not None

    def values() -> list[int]:
        found = []
        for candidate in islice(improve(case, first.schedule, Limits(60, workers=2), Clock()), 3):
            assert candidate.schedule.fits
            assert not list(violations(candidate.schedule))
            found.append(case.value(candidate.schedule))
        return found

    once = values()
    assert len(once) == 3
    assert case.value(first.schedule) > once[0] > once[1] > once[2]
    assert values() == once


def test_orders_of_windows_that_do_not_overlap_go_together() -> None:
    """The first and the last third of a list schedule, each solved beside the old rest, make one schedule."""
    case = PlainVariant(make_problem(**LOOP, microbatches=8))
    first = searched(case).best
    assert first is not None
    schedule = both = case.replay(first.schedule.start_ticks)
    third = schedule.makespan_ticks // 3
    for window in (Neighbourhood(0, third), Neighbourhood(2 * third, schedule.makespan_ticks + 1)):
        model = NeighbourhoodModel(case, schedule, window)
        answer = model.solve(Limits(10, workers=1))
        both = model.schedule(answer.starts, both)
    assert not list(violations(both))
    assert both.fits
    assert both.plan.orders != schedule.plan.orders
    assert [sorted(order) for order in both.plan.orders] == [sorted(order) for order in schedule.plan.orders]


def test_an_order_that_makes_it_worse_is_left_out() -> None:
    """Of two windows that use the same slack, the second may make the schedule longer: then the first alone counts."""
    case = PlainVariant(make_problem(devices=2, microbatches=4, forward=1, backward=2, placement="linear"))
    search = _NeighbourhoodSearch(case, run(case.problem, "1f1b").schedule, 0)
    before = search.current
    model = NeighbourhoodModel(case, before, Neighbourhood(0, before.makespan_ticks + 1))
    one_by_one = [task % 4 for task in model.free]  # the microbatches of a stage follow each other, each to its end
    search.take([model], [SearchAnswer("feasible", one_by_one, None, 0, 0.0)])
    assert case.value(model.schedule(one_by_one, before)) > case.value(before)
    assert search.current is before
    assert search.fruitless == 1


def test_frontier_points() -> None:
    """P4 M8 f=1 B=2 has four steps; each point's schedule uses exactly its budget, values fall, and all are proved."""
    problem = make_problem(devices=4, microbatches=8, forward=1, backward=2, placement="linear")
    points = frontier(problem)
    assert [(point.budget, point.value, point.bound, point.status) for point in points] == [
        (1, 96, 96, "optimal"), (2, 51, 51, "optimal"), (3, 39, 39, "optimal"), (4, 33, 33, "optimal"),
    ]  # fmt: skip
    outcomes = [point.outcome for point in points if point.outcome is not None]
    assert [max(outcome.schedule.peak_memory) for outcome in outcomes] == [1, 2, 3, 4]


def test_a_budget_of_the_problem_is_the_upper_end_of_the_frontier() -> None:
    """With a budget of 2 the frontier has the two points up to it; of uneven budgets each holds on its device."""
    given: dict[str, Any] = {"devices": 4, "microbatches": 8, "forward": 1, "backward": 2, "placement": "linear"}
    points = frontier(make_problem(**given, budget=2))
    assert [(point.budget, point.value, point.status) for point in points] == [(1, 96, "optimal"), (2, 51, "optimal")]
    uneven = frontier(make_problem(**given, budget=[4, 2, 4, 4]))
    assert all(point.value >= 33 for point in uneven)
    peaks = [point.outcome.schedule.peak_memory[1] for point in uneven if point.outcome is not None]
    assert max(peaks) == 2
