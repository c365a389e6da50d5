"""Seq1F1B: its order and its published figures."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched import Outcome, make_problem, run
from tests.strategies import texts_of


def outcome_of(devices: int, microbatches: int, slices: Any, **given: Any) -> Outcome:
    """Of f 4, B 8 a device."""
    costs = {"forward": 4, "backward": 8, **given}
    return run(make_problem(devices=devices, microbatches=microbatches, slices=slices, **costs), "seq-1f1b")


def test_peaks() -> None:
    """What devices hold: in slices, in microbatches with the gradients of keys and values, and of equal work."""
    assert [held * 4 for held in outcome_of(4, 8, 4).schedule.peak_memory] == [7, 6, 5, 4]
    assert [held * 4 for held in outcome_of(8, 8, 4).schedule.peak_memory] == [11, 10, 9, 8, 7, 6, 5, 4]
    assert outcome_of(4, 8, 4, kv=0.25).schedule.peak_memory == [1.9375, 1.6875, 1.4375, 1.1875]
    cut = outcome_of(4, 8, {"count": 4, "tokens": "work", "attention": 0.5}).schedule
    assert [*map(float, cut.problem.slices.tokens)] == [0.366025, 0.252009, 0.204842, 0.177124]
    assert cut.makespan == 105
    assert cut.peak_memory == [1.984059, 1.73205, 1.44091, 1.236068]


@pytest.mark.parametrize(
    ("devices", "attention", "makespan"),
    [(4, 0.25, 122.4375), (4, 0.5, 139.875), (8, 0.25, 136.6875), (8, 0.5, 156.375)],
)
def test_slices_by_attention(devices: int, attention: float, makespan: float) -> None:
    """M8 n4 of equal tokens: later slices attend to more, and last longer."""
    assert outcome_of(devices, 8, {"count": 4, "attention": attention}).schedule.makespan == makespan


@given(st.integers(1, 8), st.integers(1, 12), st.integers(1, 9))
def test_figures(devices: int, microbatches: int, slices: int) -> None:
    """Equal shares: makespan (M + (P-1)/n)(f+B), bubble (P-1)/(nM+P-1), peak min(P-1-d+n, Mn)/n, nothing is faster."""
    outcome = outcome_of(devices, microbatches, slices)
    schedule, units = outcome.schedule, microbatches * slices
    assert schedule.makespan == pytest.approx((microbatches + (devices - 1) / slices) * 12)
    assert schedule.bubble == pytest.approx((devices - 1) / (units + devices - 1))
    held = [min(devices - 1 - d + slices, units) / slices for d in range(devices)]
    assert schedule.peak_memory == pytest.approx(held)
    assert outcome.status == "optimal"


@given(st.integers(1, 6), st.integers(1, 9), st.integers(1, 2))
def test_one_slice_is_1f1b(devices: int, microbatches: int, chunks: int) -> None:
    """Without slices, when named, it is 1F1B, on fused stages too."""
    problem = make_problem(devices=devices, stages=devices * chunks, microbatches=microbatches)
    assert texts_of(run(problem, "seq-1f1b").schedule.plan) == texts_of(run(problem, "1f1b").schedule.plan)
