"""Naive fill and drain: its order and its published figures."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pipesched import make_problem, run
from tests.strategies import texts_of


@pytest.mark.parametrize(("lifo", "backwards"), [(False, [0, 1, 2]), (True, [2, 1, 0])])
def test_order_by_hand(lifo: bool, backwards: list[int]) -> None:
    """All F, then all B in microbatch order, or reversed with lifo."""
    plan = run(make_problem(devices=2, microbatches=3), "naive", lifo=lifo).schedule.plan
    for device, row in enumerate(texts_of(plan)):
        forwards = [f"{device}F{mb}" for mb in range(3)]
        assert row == forwards + [f"{device}B{mb}" for mb in backwards]


@given(st.integers(1, 8), st.integers(1, 16), st.booleans())
def test_figures(devices: int, microbatches: int, lifo: bool) -> None:
    """Equal stages: bubble (P-1)/(M+P-1), as 1F1B; M activations everywhere."""
    schedule = run(make_problem(devices=devices, microbatches=microbatches), "naive", lifo=lifo).schedule
    assert schedule.bubble == pytest.approx((devices - 1) / (microbatches + devices - 1))
    assert schedule.peak_grains == [microbatches] * devices


def test_slices() -> None:
    """Forwards slice by slice; backwards from the last slice of each microbatch, or with lifo of all."""
    problem = make_problem(devices=1, microbatches=2, slices=2)
    forwards = ["0F0.0", "0F0.1", "0F1.0", "0F1.1"]
    plans = [run(problem, "naive", lifo=lifo).schedule.plan for lifo in (False, True)]
    assert texts_of(plans[0]) == [[*forwards, "0B0.1", "0B0.0", "0B1.1", "0B1.0"]]
    assert texts_of(plans[1]) == [[*forwards, "0B1.1", "0B1.0", "0B0.1", "0B0.0"]]


@given(st.permutations([1, 2, 3, 4, 5, 6, 7, 8]), st.integers(1, 6))
def test_forward_passes_alone_of_any_order(times: list[int], devices: int) -> None:
    """With equal stages units of times t take sum t + (P-1) max t in every order: 60 at P4 for 1 to 8."""
    schedule = run(make_problem(devices=devices, forward=[times] * devices, mode="forward"), "naive").schedule
    assert schedule.makespan == 36 + (devices - 1) * 8
    assert schedule.peak_memory == [1] * devices


def test_keys_and_values_of_forward_passes() -> None:
    """P4 M2, f 8 in four slices: 22, and each device holds a slice beside a quarter of the three before it."""
    problem = make_problem(devices=4, microbatches=2, slices=4, forward=8, kv=0.25, mode="forward")
    schedule = run(problem, "naive").schedule
    assert (schedule.makespan, schedule.peak_memory) == (22, [0.4375] * 4)
    assert run(make_problem(devices=4, microbatches=8, forward=4, mode="forward"), "naive").schedule.makespan == 44
