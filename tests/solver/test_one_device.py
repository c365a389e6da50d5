"""Bounds by one device: never above an optimum, and above all others where a device alone is the limit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

import pipesched
from pipesched.core.cpsat import Limits
from pipesched.pipeline.problem.problem import Problem
from pipesched.solver.bounds import DeviceModel, most_promising, suits
from pipesched.solver.saving_portfolio import KeepingCase
from plain_model import plain_model
from tests.examples import examples
from tests.solver.periodic.problems import tight

pytestmark = pytest.mark.slow

SMALL: dict[str, Any] = {
    "devices": 2, "stages": 6, "microbatches": 8, "forward": 4, "backward": 9, "placement": "loop", "budget": 5,
    "activation": 1,
}  # fmt: skip


def least_of(case: KeepingCase, device: int | None) -> int:
    """Return the least makespan of the model of a device, or of the plain model of all."""
    most = sum(case.graph.durations) + sum(case.problem.ticks.mean["p2p"]) * len(case.graph)
    model = plain_model(case, 0, most) if device is None else DeviceModel(case, device, 0, most)
    answer = model.solve(Limits(60, workers=1))
    assert answer.status == "optimal"
    assert answer.objective is not None
    return answer.objective * case.quantum


@given(tight(most_devices=3, most_microbatches=4, most_chunks=2))
@examples(40)
def test_never_above_an_optimum(problem: Problem) -> None:
    """No device alone needs longer than the exact model of all devices, which knows none of the extra precedences."""
    case = KeepingCase(problem)
    optimum = least_of(case, None)
    for device in range(problem.devices):
        assert least_of(case, device) <= optimum


def test_above_the_other_bounds() -> None:
    """Several chunks in little room: work and memory together take longer than each of them, and than their bounds."""
    case = KeepingCase(pipesched.make_problem(**SMALL))
    assert suits(case)
    device = most_promising(case)
    assert case.bound().ticks < least_of(case, device) <= least_of(case, None)


@pytest.mark.nightly
def test_a_solve_proves_by_it() -> None:
    """Within its limits a solve ends with the same optimum as without the bound."""
    report = pipesched.solve(pipesched.make_problem(**SMALL), time_limit=60, workers=1).report
    assert report is not None
    assert report.value_ticks == least_of(KeepingCase(pipesched.make_problem(**SMALL)), None)


def test_where_it_does_not_apply() -> None:
    """For the span, without a budget, on one device and on many operations there is no such bound."""
    values = {**SMALL, "devices": 1, "budget": 6, "placement": "linear"}
    assert not suits(KeepingCase(pipesched.make_problem(**values)))
    assert not suits(KeepingCase(pipesched.make_problem(**SMALL), "span"))
    assert not suits(KeepingCase(pipesched.make_problem(**{**SMALL, "budget": None})))
    assert not suits(KeepingCase(pipesched.make_problem(**{**SMALL, "microbatches": 60})))
