"""Many orders at once: exact times are those of each schedule, and slopes those of a longest path."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import pipesched
from pipesched.comparing.packing.timing import MOST_TICKS, RankTimes, positions_of
from pipesched.errors import NotApplicable
from pipesched.results.document_costs import FactorCosts, load_of
from pipesched.schedulers.registry import FAMILIES, family
from tests.strategies import problems

SETTLED = [name for name in FAMILIES if family(name).settled_order]
LOADS = st.lists(st.integers(1, 100), min_size=1, max_size=3).map(load_of)


@given(st.data(), problems(("auto",), most_devices=3, unlike=True))
@settings(max_examples=60)
def test_times_of_ranks_are_those_of_run(data: st.DataObject, problem: Any) -> None:
    """Ranks that are timed together take what `run` says of each, on devices of any speed and with messages."""
    algorithm = data.draw(st.sampled_from([*SETTLED, "list"]))
    costs = FactorCosts(Fraction(3, 10), 100)
    counts = st.integers(2, 5)
    ranks = data.draw(st.lists(counts.flatmap(lambda n: st.tuples(*[LOADS] * n)), min_size=1, max_size=4))
    for rank, timed in zip(ranks, RankTimes(problem, algorithm, costs).of(ranks), strict=True):
        try:
            schedule = pipesched.run(costs.problem(problem, rank), algorithm).schedule
        except NotApplicable:
            assert timed is None
        else:
            assert timed is not None
            assert timed.makespan == Fraction(schedule.makespan_ticks, schedule.problem.ticks.per_unit)


@given(st.data(), problems(("auto",), most_devices=3, least=1))
@settings(max_examples=60)
def test_slopes(data: st.DataObject, problem: Any) -> None:
    """Without messages, works times slopes are the makespan: the slopes are the ticks of one longest path."""
    try:
        positions = positions_of(problem, data.draw(st.sampled_from(SETTLED)))
    except NotApplicable:
        return
    numbers = st.lists(st.integers(0, 1000), min_size=positions.microbatches, max_size=positions.microbatches)
    work = np.array(data.draw(st.lists(numbers, min_size=1, max_size=3))).T
    makespans, slopes = positions.slopes(work)
    assert (positions.makespans(work) == makespans).all()
    assert ((work * slopes).sum(axis=0) == makespans).all()


def test_ticks_are_rounded_where_they_are_many() -> None:
    """Works of 2^32 times ticks of nine digits stay within 64 bits, and are right in six digits."""
    problem = pipesched.make_problem(devices=4, microbatches=8, forward="1.23456789", backward="2.98765432")
    positions = positions_of(problem, "1f1b")
    work = np.full((8, 1), 1 << 29)
    expected = pipesched.run(problem, "1f1b").schedule.makespan
    scale = MOST_TICKS / (4 * (1.23456789 + 2.98765432))
    assert positions.makespans(work)[0] / (1 << 29) / scale == pytest.approx(expected, rel=1e-2)
    shorter = positions.makespans(work // 2)[0]
    assert 2 * shorter == positions.makespans(work)[0] > 0
