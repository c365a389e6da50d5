"""What a step has beside its passes, in the runtime: called for where the schedule issues it, or left out and said."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import pipesched
from pipesched import ConfigError, PipeschedWarning, Schedule
from pipesched.runtime.program import CALL, RECEIVE, RUN, SEND, ProgramStep, checked_schedule, programs, warn_left_out
from tests.runtime.test_program import hangs
from tests.torch_ranks import needs_torch

LEFT_OUT = "left out, as there is no `collective` of a Runtime to run them"


def made(algorithm: str = "1f1b", devices: int = 2, stages: int = 2, microbatches: int = 2, **step: Any) -> Schedule:
    """A schedule of a family with a step."""
    problem = pipesched.make_problem(
        devices=devices, stages=stages, microbatches=microbatches, forward=5, backward=10, **step
    )
    return pipesched.run(problem, algorithm).schedule


STEP: dict[str, Any] = {"gather": 4, "reduce": 4, "optimizer": 2, "tied": 3}


def lists(schedule: Schedule) -> list[list[str]]:
    """What each rank runs and calls for, in order."""
    return [[str(step.op) for step in row if step.action in (RUN, CALL)] for row in programs(schedule)]


def test_sharded_weights() -> None:
    """Each stands behind the slot that its program names, in that order; what two ranks reduce, before it is used."""
    assert lists(made("interleaved", stages=4, shard={"level": "weights", "ahead": 1}, **STEP))[0] == [
        "0UNSHARD0", "0F0", "0F1", "0RESHARD0", "2UNSHARD0", "2F0", "2F1", "2B0", "2B1", "2REDUCE_GRAD", "2RESHARD0",
        "0UNSHARD1", "0B0", "0B1", "0REDUCE_GRAD", "0RESHARD1", "2OPTIMIZER", "0REDUCE_TIED", "0OPTIMIZER",
    ]  # fmt: skip


def test_below_level_weights() -> None:
    """Gathers come first, reductions behind the last backward, optimizers last."""
    assert lists(made(**STEP)) == [
        ["0UNSHARD0", "0F0", "0F1", "0B0", "0B1", "0REDUCE_GRAD", "0REDUCE_TIED", "0OPTIMIZER"],
        ["1UNSHARD0", "1F0", "1B0", "1F1", "1B1", "1REDUCE_GRAD", "1REDUCE_TIED", "1OPTIMIZER"],
    ]


@pytest.mark.parametrize("algorithm", ["1f1b", "interleaved", "looped-bfs", "interleaved-zb", "zb-v", "dualpipe-v"])
@pytest.mark.parametrize("step", [STEP, {"tied": 3}, {"tied": 3, "reduce": 2}, {"shard": "weights"}])
def test_no_rank_hangs(algorithm: str, step: dict[str, Any]) -> None:
    """Two ranks come to their tied gradients together, even where one has other stages still to run."""
    schedule = made(algorithm, 4, 8, 8, **step)
    there = schedule.problem.settled_placement.devices
    ends, tied = (there[0], there[-1]), pipesched.Op(0, "REDUCE_TIED", None)
    rows: list[list[ProgramStep]] = []
    for rank, row in enumerate(programs(schedule)):
        meeting = ProgramStep(SEND, tied, ends[1]) if rank == ends[0] else ProgramStep(RECEIVE, tied, ends[0])
        steps = [meeting if one.op.kind == "REDUCE_TIED" else one for one in row]
        rows.append([one for one in steps if one.action != CALL])
    assert hangs(rows) == []
    assert sum(one.op == tied for row in rows for one in row) == 2 * ("tied" in step and ends[0] != ends[1])


def test_what_nobody_runs_is_said_once() -> None:
    """The warning names the kinds; a schedule without a step has none."""
    kinds = "UNSHARD, REDUCE_GRAD, REDUCE_TIED, OPTIMIZER"
    with pytest.warns(PipeschedWarning, match=f"^{kinds} of the schedule: {LEFT_OUT}"):
        warn_left_out(made(**STEP))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_left_out(made())


def test_side_work() -> None:
    """There are no modules for it."""
    with pytest.raises(ConfigError, match=r"source: has side work \(`side`\), for which training has no modules"):
        checked_schedule(made(side=[{"forward": 2}]))


@needs_torch
@pytest.mark.torch
def test_the_runtime_calls() -> None:
    """A rank's function hears of every operation at its place; the passes run as without it."""
    import torch

    from pipesched.runtime import Runtime

    schedule = made(devices=1, stages=1, gather=1, reduce=1, optimizer=1)
    heard: list[str] = []
    module, data = torch.nn.Linear(2, 2), [torch.ones(1, 2)] * 2
    run = Runtime(schedule, {0: module}, torch.nn.functional.mse_loss, collective=heard.append, on_op=heard.append)
    run.step(data, data)
    run.close()
    assert heard == ["0UNSHARD0", "0F0", "0B0", "0F1", "0B1", "0REDUCE_GRAD", "0OPTIMIZER"]
    assert module.weight.grad is not None
    with pytest.warns(PipeschedWarning, match=LEFT_OUT):
        Runtime(schedule, {0: module}, torch.nn.functional.mse_loss).close()
