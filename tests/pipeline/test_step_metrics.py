"""Makespan, span and exposed times of whole steps, by figures of an independent program."""

from __future__ import annotations

from typing import Any

import pytest

from pipesched import make_problem, run
from tests.pipeline.steps import ZERO_BUBBLE, with_costs
from tests.stepped import REDUCED

F_AND_B: dict[str, Any] = {"devices": 4, "microbatches": 8, "forward": 10, "backward": 20}
SPLIT = {"devices": 4, "microbatches": 8, **ZERO_BUBBLE}
WHOLE = {"gather": 15, "reduce": 30, "optimizer": 5}
INTERLEAVED = {"devices": 4, "stages": 8, "microbatches": 8, "forward": 5, "backward": 10}
REDUCES = [f"{stage}REDUCE_GRAD" for stage in range(4)]

CASES: list[tuple[str, dict[str, Any], int, int, dict[str, Any]]] = [
    ("1f1b", {**F_AND_B, "reduce": 20}, 350, 350, {"pipeline": 330, "reduce": 20, "exposed": ["0REDUCE_GRAD"]}),
    ("1f1b", {**F_AND_B, **WHOLE}, 380, 380,
     {"gather": 15, "reduce": 30, "optimizer": 5, "network": 45, "exposed": ["0UNSHARD0", "0REDUCE_GRAD"]}),
    ("1f1b", {**F_AND_B, **WHOLE, "tied": 8}, 388, 388,
     {"tied": 8, "network": 53, "exposed": ["0UNSHARD0", "0REDUCE_GRAD", "0REDUCE_TIED", "3REDUCE_TIED"]}),
    ("zb-h2", {**SPLIT, **WHOLE}, 320, 290, {"pipeline": 270, "exposed": ["0UNSHARD0", "3REDUCE_GRAD"]}),
    ("zb-h2", {**SPLIT, **WHOLE, "clip": True}, 320, 320, {}),
    ("zb-h1", {**SPLIT, **WHOLE}, 320, 320, {"exposed": ["0UNSHARD0", *REDUCES]}),
    ("interleaved", {**INTERLEAVED, "gather": 8, "reduce": 15, "optimizer": 2}, 310, 310,
     {"pipeline": 285, "gather": 8, "reduce": 13, "optimizer": 2, "network": 21}),
]  # fmt: skip


@pytest.mark.parametrize(("algorithm", "given", "makespan", "span", "step"), CASES)
def test_published_steps(algorithm: str, given: dict[str, Any], makespan: int, span: int, step: dict[str, Any]) -> None:
    """What the step costs beside the pipeline, what of it shows, and after which time the next one may follow."""
    schedule = run(with_costs(**given), algorithm).schedule
    assert (schedule.makespan, schedule.span) == (makespan, span)
    assert schedule.step is not None
    document = schedule.step.document
    found = {key: one["exposed"] if isinstance(one := document[key], dict) else one for key in step}
    assert found == step


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
