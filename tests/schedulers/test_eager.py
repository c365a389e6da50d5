"""Eager 1F1B: its order and its published figures."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pipesched import make_problem, run
from tests.strategies import texts_of


def test_order_by_hand() -> None:
    """P3 M6: five, three and one warm-up forwards (2(P-d-1)+1), then as 1F1B."""
    plan = run(make_problem(devices=3, microbatches=6), "eager-1f1b").schedule.plan
    assert [" ".join(row) for row in texts_of(plan)] == [
        "0F0 0F1 0F2 0F3 0F4 0F5 0B0 0B1 0B2 0B3 0B4 0B5",
        "1F0 1F1 1F2 1F3 1B0 1F4 1B1 1F5 1B2 1B3 1B4 1B5",
        "2F0 2F1 2B0 2F2 2B1 2F3 2B2 2F4 2B3 2F5 2B4 2B5",
    ]


@given(st.integers(1, 8), st.integers(1, 20))
def test_peaks(devices: int, microbatches: int) -> None:
    """min(M, 2(P-d)) activations on device d."""
    schedule = run(make_problem(devices=devices, microbatches=microbatches), "eager-1f1b").schedule
    assert schedule.peak_grains == [min(microbatches, 2 * (devices - d)) for d in range(devices)]


@pytest.mark.parametrize(("devices", "microbatches"), [(4, 8), (8, 16), (8, 32)])
def test_hides_p2p(devices: int, microbatches: int) -> None:
    """With p2p as long as a forward it is faster than 1F1B, at more memory."""
    problem = make_problem(devices=devices, microbatches=microbatches, p2p=1)
    eager, plain = run(problem, "eager-1f1b").schedule, run(problem, "1f1b").schedule
    assert eager.makespan_ticks < plain.makespan_ticks
    assert sum(eager.peak_grains) > sum(plain.peak_grains)


def test_optimum_with_p2p() -> None:
    """P4 M8 f=2 B=4 p2p 1 takes at least 72, whatever the memory (proved by CP-SAT)."""
    schedule = run(make_problem(devices=4, microbatches=8, forward=2, backward=4, p2p=1), "eager-1f1b").schedule
    assert schedule.makespan_ticks >= 72
