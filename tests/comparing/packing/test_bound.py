"""The bound of a packing: published numbers, and below the best of all packings, orders and algorithms."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import pipesched
from pipesched.comparing.packing.bound import Share, amounts_of, geometric_gap, packing_bound, rates_of
from pipesched.errors import NotApplicable
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import to_fraction
from pipesched.results.document_costs import FactorCosts
from pipesched.schedulers.registry import FAMILIES, family
from tests.packings import Way, every_value

FAST = [name for name in FAMILIES if family(name).settled_order] + ["list", "hanayo"]


def bound_of(problem: Problem, letters: str, lengths: list[int], way: Way, *, geometric: bool) -> Fraction:
    """Return the bound of documents from long to short, on a placement."""
    costs = FactorCosts(way.attention, way.reference)
    amounts = amounts_of(lengths, costs, rounded=problem.speed is not None)
    share = Share(way.ranks, way.microbatches)
    rates = rates_of(problem, costs, letters)
    return packing_bound(amounts, rates, problem.settled_placement, share, geometric=geometric)


def test_published_bounds() -> None:
    """66 of whole numbers exactly; 4.020833 of numbers that are rounded, less what that may take."""
    problem = pipesched.make_problem(devices=2, placement="linear", forward=1, backward=2)
    lengths = [9, 7, 6, 5, 4, 4, 3, 2]
    assert bound_of(problem, "FB", lengths, Way(2, 2, 12, Fraction(0), 1), geometric=False) == 66
    rounded = bound_of(problem, "FB", lengths, Way(2, 2, 12, Fraction(1, 2), 12), geometric=False)
    assert 0 < Fraction(4020833, 10**6) - rounded < Fraction(1, 10**5)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=40)
def test_below_the_best_of_all(data: st.DataObject) -> None:
    """No packing of documents, in any order and by any algorithm, is shorter than the bound for its placement."""
    algorithm = data.draw(st.sampled_from(FAST))
    costs: dict[str, Any] = {"forward": data.draw(st.lists(st.integers(1, 4), min_size=4, max_size=4))}
    halves = st.lists(st.integers(0, 4), min_size=4, max_size=4)
    if data.draw(st.booleans()):
        costs |= {"backward_input": data.draw(halves), "backward_weight": data.draw(halves)}
    more: dict[str, Any] = data.draw(st.sampled_from([{}, {"p2p": 1}, {"speed": [1, 0.7]}]))
    problem = pipesched.make_problem(devices=2, stages=4, **costs, **more)
    lengths = sorted(data.draw(st.lists(st.integers(1, 20), min_size=4, max_size=4)), reverse=True)
    way = Way(1, data.draw(st.sampled_from([2, 4])), 100, data.draw(st.sampled_from([Fraction(0), Fraction(1, 3)])), 20)
    if data.draw(st.booleans()):
        way = way._replace(ranks=2, microbatches=2)
    try:
        fitted = pipesched.run(problem, algorithm)
    except NotApplicable:
        return
    values = every_value(lengths, way, problem, algorithm)
    bound = bound_of(fitted.problem, fitted.schedule.plan.index.letters, lengths, way, geometric=True)
    assert bound <= min((to_fraction(makespan) for _, makespan, _ in values), default=bound)


def test_geometric_gap() -> None:
    """Of many microbatches it is nothing, of one head and tail; equal works are above it, and more of them lower it."""
    even = [geometric_gap(1, count, 7 / 3, 14 / 3, 1 / 3, 2 / 3) for count in (1, 2, 4, 8, 16, 32, 64)]
    assert even[0] == pytest.approx(7)
    assert all(more < less for less, more in pairwise(even))
    assert all(gap < 7 / count for gap, count in zip(even[1:], (2, 4, 8, 16, 32, 64), strict=True))
    assert even[4] == pytest.approx(0.23203, abs=1e-4)  # of 1F1B the least is 0.3156, by a linear program
    assert geometric_gap(1, 8, 0, 0, 1, 1) == 0
    assert geometric_gap(1, 10**6, 7 / 3, 14 / 3, 1 / 3, 2 / 3) == pytest.approx(0, abs=1e-9)
    assert geometric_gap(3, 4, 0, 2, inf, 1) == pytest.approx(3 * 2 / 4)


@given(st.integers(1, 12), *[st.floats(0, 5)] * 2, *[st.floats(0, 2)] * 2)
def test_no_works_do_with_less(count: int, head: float, tail: float, forward: float, backward: float) -> None:
    """Idle times that add up to less than the gap hold less work, however they are shared."""
    gap = geometric_gap(1, count, head, tail, forward, backward)
    for share in range(11):
        before, behind, total = 0.999 * gap * share / 10, 0.999 * gap * (10 - share) / 10, 0.0
        for _ in range(count):
            sides = [(before, 1 - forward, head), (behind, 1 - backward, tail)]
            most = min(((idle + max(grows, 0) * total) / slope for idle, grows, slope in sides if slope), default=inf)
            total += most
        assert gap == 0 or total < 1
