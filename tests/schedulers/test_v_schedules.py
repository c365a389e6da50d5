"""The V schedules (zb-v, v-half, v-min, 1f1b-v): published figures, their memory, and edges."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched import Outcome, Problem, make_problem, run
from tests.examples import examples
from tests.strategies import problems

pytestmark = pytest.mark.slow

SPLIT = ("zb-v", "v-half", "v-min")
NAMES = (*SPLIT, "1f1b-v")
UNIT: dict[str, Any] = {"forward": 1, "backward_input": 1, "backward_weight": 1}
PROFILED: dict[str, Any] = {"forward": 4959, "backward_input": 5217, "backward_weight": 3519, "p2p": 213}
UNEVEN: dict[str, Any] = {
    "forward": [5, 4, 4, 6, 4, 4, 4, 9],
    "backward_input": [5, 4, 5, 6, 4, 4, 5, 8],
    "backward_weight": [3, 3, 3, 4, 3, 3, 3, 6],
    "p2p": [1, 2, 1, 1, 1, 2, 1],
}


def v_schedule(name: str, devices: int, microbatches: int, **values: Any) -> Outcome:
    """A run with one grain of activation a chunk."""
    problem = make_problem(devices=devices, stages=2 * devices, microbatches=microbatches, activation=1, **values)
    return run(problem, name)


def peak(outcome: Outcome) -> int:
    """The chunks of the device that holds most."""
    return max(outcome.schedule.peak_grains) // outcome.schedule.problem.grains.per_unit


@pytest.mark.parametrize(
    ("name", "devices", "microbatches", "makespan", "span", "chunks"),
    [
        ("zb-v", 4, 8, 51, 48, 8), ("v-half", 4, 8, 53, 53, 6), ("v-min", 4, 8, 59, 59, 4), ("1f1b-v", 4, 8, 63, 63, 6),
        ("zb-v", 8, 24, 151, 144, 16), ("v-half", 8, 24, 161, 161, 10), ("v-min", 8, 24, 171, 171, 8),
        ("1f1b-v", 8, 24, 177, 177, 12), ("zb-v", 16, 48, 303, 288, 32),
    ],
)  # fmt: skip
def test_published_figures(name: str, devices: int, microbatches: int, makespan: int, span: int, chunks: int) -> None:
    """At f = b = w: no longer than published, in the published memory. (P16: scripts/reproduce_v_schedules.py.)"""
    outcome = v_schedule(name, devices, microbatches, **UNIT)
    assert outcome.schedule.makespan_ticks <= makespan
    assert outcome.schedule.span_ticks <= span
    assert peak(outcome) == chunks


@pytest.mark.parametrize(("devices", "chunks"), [(2, 4), (3, 6), (4, 6), (6, 10), (8, 12)])
def test_memory_of_1f1b_v(devices: int, chunks: int) -> None:
    """The published peaks of 1F1B-V."""
    assert peak(v_schedule("1f1b-v", devices, 3 * devices, forward=1, backward=2)) == chunks


@pytest.mark.parametrize(("devices", "half", "least"), [(2, 4, 4), (3, 4, 4), (4, 6, 4), (6, 8, 6), (7, 8, 6)])
def test_memory_of_the_split_ones(devices: int, half: int, least: int) -> None:
    """V-Half holds P+2 chunks, P+1 where P is odd; V-Min about 2P/3 + 2."""
    assert peak(v_schedule("v-half", devices, 3 * devices, **UNIT)) == half
    assert peak(v_schedule("v-min", devices, 3 * devices, **UNIT)) == least


@pytest.mark.parametrize(("name", "published"), [("zb-v", 0.0447), ("v-half", 0.1456), ("v-min", 0.2822)])
@pytest.mark.nightly
def test_profiled_times(name: str, published: float) -> None:
    """P8 M24 with the times of a profiled model: the bubble of span is at most the published one, in as much memory."""
    outcome = v_schedule(name, 8, 24, **PROFILED)
    assert outcome.schedule.bubble_span <= published
    assert peak(outcome) == peak(v_schedule(name, 8, 24, **UNIT))


@pytest.mark.parametrize("name", NAMES)
def test_uneven_stages(name: str) -> None:
    """Uneven stages and p2p: the memory of even ones, and no longer than GIS-H, which saves memory without the V."""
    outcome = v_schedule(name, 4, 12, **UNEVEN)
    assert peak(outcome) <= peak(v_schedule(name, 4, 12, **UNIT))
    assert outcome.schedule.makespan_ticks <= v_schedule("gis-h", 4, 12, **UNEVEN).schedule.makespan_ticks


@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_takes_no_time(name: str) -> None:
    """Costs of zero: a schedule all the same, with p2p one of at least its eight hops."""
    assert v_schedule(name, 3, 5, forward=0, backward=0).schedule.makespan_ticks == 0
    assert v_schedule(name, 3, 5, forward=0, backward=0, p2p=2).schedule.makespan_ticks >= 8 * 2


@cache
def chunks_at_unit_costs(name: str, devices: int) -> int:
    """What a device holds at f = b = w in a run long enough for a steady state."""
    return peak(v_schedule(name, devices, 3 * devices, **UNIT))


@examples(10)
@given(problems(("v",), most_devices=3, most_microbatches=6), st.sampled_from(NAMES))
def test_the_memory_is_that_of_the_block(problem: Problem, name: str) -> None:
    """Whatever the costs, and whatever I frees, the order holds no more chunks than at f = b = w."""
    retain = tuple(min(part, 1) for part in problem.memory.retain)  # what I takes beside an activation is no chunk
    counted = replace(problem, memory=replace(problem.memory, activation=(10,) * problem.stages, retain=retain))
    held = max(run(counted, name).schedule.peak_memory)
    assert held <= 10 * chunks_at_unit_costs(name, problem.devices)
