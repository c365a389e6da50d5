"""1F1B: its order and its published figures."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pipesched import make_problem, run
from tests.strategies import texts_of


def test_order_by_hand() -> None:
    """P3 M4: two, one and no warm-up forwards; then F, B in turn; then the remaining backwards."""
    plan = run(make_problem(devices=3, microbatches=4), "1f1b").schedule.plan
    assert [" ".join(row) for row in texts_of(plan)] == [
        "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3",
        "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3",
        "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3",
    ]


@given(st.integers(1, 9), st.integers(1, 20), st.integers(1, 5), st.integers(0, 9))
def test_figures(devices: int, microbatches: int, forward: int, backward: int) -> None:
    """Equal stages: makespan (M+P-1)(f+B), bubble (P-1)/(M+P-1), peak min(P-d, M), and nothing is faster."""
    problem = make_problem(devices=devices, microbatches=microbatches, forward=forward, backward=backward)
    outcome = run(problem, "1f1b")
    schedule, half = outcome.schedule, problem.ticks.per_unit
    assert schedule.makespan_ticks == half * (microbatches + devices - 1) * (forward + backward)
    assert schedule.bubble == pytest.approx((devices - 1) / (microbatches + devices - 1))
    assert outcome.status == "optimal"
    if backward:
        assert schedule.peak_grains == [min(devices - d, microbatches) for d in range(devices)]


def test_autopipe() -> None:
    """The built-in default, eight stages fused into four: 330."""
    schedule = run(make_problem(devices=4, stages=8, microbatches=8, forward=5, backward=10), "1f1b").schedule
    assert schedule.makespan_ticks == 330
    assert schedule.problem.stages == 4
    assert schedule.peak_grains == [held * schedule.problem.grains.per_unit for held in (4, 3, 2, 1)]


@pytest.mark.parametrize(("devices", "microbatches", "p2p"), [(2, 2, 1), (4, 8, 2), (8, 3, 1), (3, 1, 4)])
def test_p2p_of_few_microbatches(devices: int, microbatches: int, p2p: int) -> None:
    """The first microbatch crosses P-1 boundaries there and back, so 2(P-1)c is the least that p2p costs."""
    free, slow = (run(make_problem(devices=devices, microbatches=microbatches, p2p=c), "1f1b") for c in (0, p2p))
    assert slow.schedule.makespan_ticks >= free.schedule.makespan_ticks + 2 * (devices - 1) * p2p
    if microbatches == 1:
        assert slow.schedule.makespan_ticks == 3 * devices + 2 * (devices - 1) * p2p
