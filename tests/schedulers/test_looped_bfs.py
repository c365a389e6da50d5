"""Looped breadth-first: its order and its published figures."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pipesched import make_problem, run
from tests.strategies import texts_of


def test_order_by_hand() -> None:
    """P2 V2 M3: all through chunk 0, then chunk 1; backward from the last chunk, microbatches reversed."""
    plan = run(make_problem(devices=2, stages=4, microbatches=3), "looped-bfs").schedule.plan
    assert [" ".join(row) for row in texts_of(plan)] == [
        "0F0 0F1 0F2 2F0 2F1 2F2 2B2 2B1 2B0 0B2 0B1 0B0",
        "1F0 1F1 1F2 3F0 3F1 3F2 3B2 3B1 3B0 1B2 1B1 1B0",
    ]


@pytest.mark.parametrize("devices", [1, 2, 4, 8])
@pytest.mark.parametrize("chunks", [1, 2, 3])
@pytest.mark.parametrize("extra", [0, 1, 5])
def test_bubble(devices: int, chunks: int, extra: int) -> None:
    """(P-1)/(VM+P-1), as interleaved, as soon as there are P microbatches; also where P does not divide M."""
    microbatches = devices + extra
    problem = make_problem(devices=devices, stages=chunks * devices, microbatches=microbatches)
    schedule = run(problem, "looped-bfs").schedule
    assert schedule.bubble == pytest.approx((devices - 1) / (chunks * microbatches + devices - 1))


@given(st.integers(1, 5), st.integers(1, 3), st.integers(1, 9))
def test_peaks(devices: int, chunks: int, microbatches: int) -> None:
    """Every device holds all VM chunks: M microbatches."""
    problem = make_problem(devices=devices, stages=chunks * devices, microbatches=microbatches, activation=1)
    assert run(problem, "looped-bfs").schedule.peak_grains == [chunks * microbatches] * devices


def test_one_chunk_is_naive_lifo() -> None:
    """With one chunk a device it is fill and drain with the backwards reversed."""
    problem = make_problem(devices=3, microbatches=5)
    bfs, lifo = run(problem, "looped-bfs").schedule.plan, run(problem, "naive", lifo=True).schedule.plan
    assert texts_of(bfs) == texts_of(lifo)
