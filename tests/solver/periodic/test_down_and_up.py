"""Periods on a V, decided by trying all phases: the same answers as the exact model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched import Problem
from pipesched.core.cpsat import Limits
from pipesched.pipeline.bounds.memory import least_capacity
from pipesched.solver.periodic.beam import BlockOperations, DownAndUp
from pipesched.solver.periodic.search import PeriodicSchedule, PeriodModel
from pipesched.solver.recompute_offload import PlainVariant
from tests.examples import examples
from tests.solver.periodic.test_periods import repeats
from tests.strategies import with_capacities

LATENT: dict[str, Any] = {"stages": 8, "placement": "v", "forward": 5, "backward": 10, "p2p": 1, "microbatches": 32}
FEW = 2_500  # choices of phases of a device


@st.composite
def on_a_v(draw: st.DrawFn) -> Problem:
    """A problem on a V whose stages, sizes and budgets differ."""
    devices = draw(st.integers(2, 4))
    times = st.lists(st.integers(1, 2), min_size=2 * devices, max_size=2 * devices)
    problem = pipesched.make_problem(
        devices=devices, stages=2 * devices, microbatches=8, placement="v", forward=draw(times), backward=draw(times),
        p2p=draw(st.integers(0, 2)), activation=draw(times),
    )  # fmt: skip
    floors = [least_capacity(problem, device) for device in range(devices)]
    return with_capacities(problem, [floor + draw(st.integers(0, floor)) for floor in floors])


@given(on_a_v())
@examples(40)
def test_equal_to_the_model(problem: Problem) -> None:
    """From the least period that is possible down to one, it says what CP-SAT says; phases that it finds repeat."""
    case = PlainVariant(problem)
    block = BlockOperations(case, 1)
    assert DownAndUp.applies(block)
    for period in range(block.least_period, block.least_period + 8):
        if DownAndUp(block).states(period) > FEW:
            return
        phases = DownAndUp(block).phases(period)
        assert PeriodModel(block, period).solve(Limits(60, workers=1)).status == ("optimal" if phases else "infeasible")
        if phases:
            starts = block.starts(np.array([phases]), period)[0].tolist()
            repeats(case, PeriodicSchedule(starts, period, 1), 12)
            return


def test_without_a_budget() -> None:
    """Without limits the work of a device is the least period, however many periods a microbatch takes."""
    values = {**LATENT, "devices": 6, "stages": 12, "p2p": 101, "microbatches": 4}
    block = BlockOperations(PlainVariant(pipesched.make_problem(**values)), 1)
    assert DownAndUp(block).phases(30) is not None


def test_too_short_for_the_work() -> None:
    """Below the work of a device there are no phases at all."""
    block = BlockOperations(PlainVariant(pipesched.make_problem(**LATENT, devices=4, budget=3)), 1)
    assert DownAndUp(block).phases(29) is None
    assert DownAndUp(block).states(29) == 0
    assert DownAndUp(block).states(31) == len(DownAndUp(block)._choices(DownAndUp(block).way[0], 31)) == 744


@pytest.mark.parametrize(
    "change", [{"placement": "loop"}, {"backward_input": 5, "backward_weight": 5, "backward": None}, {"backward": 0}]
)
def test_where_it_does_not_apply(change: dict[str, Any]) -> None:
    """On other placements, with a split backward, and where an operation takes no time, CP-SAT is asked."""
    values = {**LATENT, "devices": 4, "budget": 3, **change}
    problem = pipesched.make_problem(**{name: value for name, value in values.items() if value is not None})
    assert not DownAndUp.applies(BlockOperations(PlainVariant(problem), 1))
