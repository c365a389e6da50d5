"""Makespan, span and exposed times of whole steps, by figures of an independent program."""

from __future__ import annotations

from typing import Any

from pipesched import make_problem, run
from tests.pipeline.steps import with_costs
from tests.stepped import REDUCED

F_AND_B: dict[str, Any] = {"devices": 4, "microbatches": 8, "forward": 10, "backward": 20}


def test_an_optimizer_is_work_and_waiting_for_the_network_is_idle() -> None:
    """The bubble of 1f1b grows by the reduction that shows; a device that updates its stage is busy."""
    reduced = run(with_costs(**F_AND_B, reduce=20), "1f1b").schedule
    assert round(reduced.bubble, 7) == 0.3142857
    assert reduced.busy == [240] * 4
    assert run(with_costs(**F_AND_B, optimizer=5), "1f1b").schedule.busy == [245] * 4


def test_text() -> None:
    """A step says of itself what it costs beside the pipeline, and what is exposed."""
    schedule = run(make_problem(**REDUCED), "1f1b").schedule
    assert repr(schedule.step) == "StepTimes(pipeline 330, network 45, exposed 0UNSHARD0, 0REDUCE_GRAD)"
