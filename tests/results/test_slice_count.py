"""The number of slices with the shortest schedule of an algorithm."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from rich.console import Console

from pipesched import Problem, compare, make_problem, run
from pipesched.render.summary import summary


def forwards(devices: int, **slices: Any) -> Problem:
    """One microbatch of forward passes alone: 100 a device, and 1 more for each slice."""
    cut = {"count": "auto", "overhead": 1, **slices}
    return make_problem(devices=devices, microbatches=1, mode="forward", forward=100, slices=cut)


@pytest.mark.parametrize(("devices", "count", "makespan"), [(4, 17, 137.647), (8, 26, 159.923)])
def test_one_unit_of_work_a_stage(devices: int, count: int, makespan: float) -> None:
    """n slices take W + nc + (P-1)(W/n + c), and all numbers up to 64 were tried."""
    outcome = run(forwards(devices), "naive")
    tried = {n: 100 + n + (devices - 1) * (100 / n + 1) for n in range(1, 65)}
    assert outcome.problem.slices.count == count
    assert int(outcome.schedule.makespan * 1000) / 1000 == makespan
    assert dict(outcome.problem.slices.tried) == pytest.approx(tried)


def test_summary_says_what_others_take() -> None:
    """The best number beside its neighbours and one slice; a neighbour that was not tried is left out."""
    console = Console(width=140)
    for most, said in ((64, "17 slices: 137.65; 16: 137.75, 18: 137.67, 1: 404"), (2, "2 slices: 255; 1: 404")):
        with console.capture() as shown:
            console.print(summary(run(forwards(4, most=most), "naive")))
        assert said in shown.get()


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 3), st.sampled_from([0, 0.25, 1]), st.integers(1, 6))
def test_the_shortest_of_all(devices: int, microbatches: int, overhead: int, attention: float, most: int) -> None:
    """In training too no other number is shorter, and of equals it is the smallest."""
    cut = {"overhead": overhead, "attention": attention}
    sizes: Any = {"devices": devices, "microbatches": microbatches, "forward": 3}
    found = run(make_problem(**sizes, slices={"count": "auto", "most": most, **cut}), "seq-1f1b")
    each = [run(make_problem(**sizes, slices={"count": n, **cut}), "seq-1f1b") for n in range(1, most + 1)]
    best = min(each, key=lambda outcome: outcome.schedule.makespan)
    assert found.problem.slices.count == best.problem.slices.count
    assert found.schedule.makespan == best.schedule.makespan
    assert [makespan for _, makespan in found.problem.slices.tried] == [one.schedule.makespan for one in each]


def test_numbers_that_do_not_run_are_left_out() -> None:
    """Groups of one deadlock where microbatches are whole or halves, so that these are no numbers to choose."""
    problem = make_problem(devices=4, stages=8, microbatches=4, slices={"count": "auto", "most": 5})
    outcome = run(problem, "interleaved", group_size=1)
    assert [count for count, _ in outcome.problem.slices.tried] == [3, 4, 5]


def test_each_algorithm_has_its_own_number() -> None:
    """A comparison finds one for each."""
    problem = make_problem(devices=4, microbatches=4, forward=5, slices={"count": "auto", "most": 9, "overhead": 1})
    outcomes = {entry.algorithm: entry.outcome for entry in compare(problem, "all") if entry.outcome}
    counts = {name: outcome.problem.slices.count for name, outcome in outcomes.items()}
    assert counts == {"sequential": 5, "naive": 2, "seq-1f1b": 2, "interleaved": 2, "zb-h1": 1, "zb-h2": 2, "list": 2}
