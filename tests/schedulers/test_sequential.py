"""Sequential: one microbatch at a time."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pipesched import make_problem, run
from tests.strategies import texts_of


def test_order_by_hand() -> None:
    """Every device runs F, B of microbatch 0, then of 1, ..."""
    plan = run(make_problem(devices=2, microbatches=3), "sequential").schedule.plan
    assert texts_of(plan) == [["0F0", "0B0", "0F1", "0B1", "0F2", "0B2"], ["1F0", "1B0", "1F1", "1B1", "1F2", "1B2"]]


@given(st.integers(1, 8), st.integers(1, 12), st.integers(0, 3))
def test_figures(devices: int, microbatches: int, p2p: int) -> None:
    """Equal stages: M times one microbatch's path, one activation a device, bubble 1 - 1/P without p2p."""
    problem = make_problem(devices=devices, microbatches=microbatches, p2p=p2p)
    schedule = run(problem, "sequential").schedule
    assert schedule.makespan_ticks == microbatches * (3 * devices + 2 * (devices - 1) * p2p)
    assert schedule.peak_grains == [1] * devices
    if not p2p:
        assert schedule.bubble == pytest.approx(1 - 1 / devices)


def test_proven_optimum_of_one_activation() -> None:
    """With room for one activation nothing is faster: 96 at P4 M8, 54 at P3 M6 (proved by CP-SAT)."""
    assert run(make_problem(devices=4, microbatches=8), "sequential").schedule.makespan_ticks == 96
    assert run(make_problem(devices=3, microbatches=6), "sequential").schedule.makespan_ticks == 54
