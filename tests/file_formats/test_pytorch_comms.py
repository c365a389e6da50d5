"""PyTorch's CSV with communication: letter by letter, as its own loader makes it, and as our rules read it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched.errors import ConfigError, Inexpressible
from pipesched.file_formats.pytorch_csv import dump, dump_comms, parse
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.problem import Problem
from pipesched.schedulers.registry import FAMILIES
from tests.strategies import plan_of, problems, random_plan
from tests.torch_ranks import HAS_WAITS, needs_torch

STEP = {"gather": 4, "reduce": 4, "optimizer": 2, "tied": 3}


def scheduled(algorithm: str, devices: int, stages: int, microbatches: int, **step: Any) -> Schedule:
    """A schedule of a family, with a step."""
    problem = pipesched.make_problem(
        devices=devices, stages=stages, microbatches=microbatches, forward=5, backward=10, **step
    )
    return pipesched.run(problem, algorithm).schedule


def test_without_a_step() -> None:
    """Each SEND stands behind its pass, its RECV where the other rank then is; gradients are reduced all the same."""
    assert dump_comms(scheduled("1f1b", 2, 2, 2)) == (
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD\n"
        "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD\n"
    )


def test_the_program_of_sharded_weights() -> None:
    """UNSHARD and RESHARD stand where the schedule issues them, without turns; one stage ahead, another follows."""
    shard = {"level": "weights", "ahead": 1}
    assert dump_comms(scheduled("interleaved", 2, 4, 2, gather=4, shard=shard)) == (
        "0UNSHARD,0F0,0SEND_F0,2RECV_F0,0F1,0SEND_F1,2RECV_F1,0RESHARD,2UNSHARD,2F0,2SEND_F0,2F1,2SEND_F1,2RECV_B0,"
        "2B0,2SEND_B0,2RECV_B1,2B1,2SEND_B1,2REDUCE_GRAD,2RESHARD,0UNSHARD,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,"
        "0RESHARD\n"
        "1UNSHARD,1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,1RESHARD,3UNSHARD,3RECV_F0,3F0,3RECV_F1,3B0,3SEND_B0,"
        "1RECV_B0,3F1,3B1,3SEND_B1,1RECV_B1,3REDUCE_GRAD,3RESHARD,1UNSHARD,1B0,1SEND_B0,1B1,1SEND_B1,1REDUCE_GRAD,"
        "1RESHARD\n"
    )


def test_what_is_left_out_is_said() -> None:
    """PyTorch has no optimizer and no reduction of tied weights; gathers below level weights are the optimizer's."""
    text = dump_comms(scheduled("1f1b", 2, 2, 2, **STEP))
    assert text.splitlines()[0] == "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD"
    assert text.note == "leaves out OPTIMIZER and REDUCE_TIED, which PyTorch's schedules lack"
    assert dump_comms(scheduled("1f1b", 2, 2, 2, reduce=4)).note == ""


def test_stages_of_one_rank_send_nothing() -> None:
    """The turn of a V hands over within its rank."""
    text = dump_comms(scheduled("zb-v", 2, 4, 4))
    assert "1SEND" not in text.splitlines()[1].replace("1SEND_B", "")
    assert "2RECV_F" not in text


def test_computations_alone_hold_no_step() -> None:
    """The file that PyTorch adds the rest to is that of the passes."""
    assert dump(scheduled("1f1b", 2, 2, 2, **STEP)) == dump(scheduled("1f1b", 2, 2, 2))


SIDE = [{"forward": 2, "devices": "all"}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"side": SIDE}, "PyTorch has no side work"),
        ({"shard": {"level": "weights", "reduce": "each"}, "reduce": 3}, "reduces the gradients of a stage once"),
        ({"mode": "forward", "backward": None}, "forward passes alone"),
        ({"slices": 2}, "cuts each into 2 slices"),
    ],
)
def test_what_cannot_be_written(options: dict[str, Any], message: str) -> None:
    """What PyTorch's runtime lacks is refused in a sentence."""
    values = {"devices": 2, "microbatches": 2, "forward": 5, "backward": 10, **options}
    problem = pipesched.make_problem(**{key: value for key, value in values.items() if value is not None})
    algorithm = "seq-1f1b" if "slices" in options else "naive" if "mode" in options else "1f1b"
    with pytest.raises(Inexpressible, match=message):
        dump_comms(pipesched.run(problem, algorithm).schedule)


def test_side_work_in_the_file_of_computations() -> None:
    """It is refused there too."""
    with pytest.raises(Inexpressible, match="side work"):
        dump(scheduled("1f1b", 2, 2, 2, side=SIDE))


def test_operations_that_pytorch_lacks() -> None:
    """Recomputation and two copies of a stage have no actions."""
    problem = pipesched.make_problem(devices=4, microbatches=8)
    for outcome in (pipesched.run(problem, "1f1b", recompute="full"), pipesched.run(problem, "chimera")):
        with pytest.raises(Inexpressible, match="PyTorch"):
            dump_comms(outcome.schedule)


@given(problems(("linear", "loop", "v", "explicit")), st.randoms(use_true_random=False), st.sampled_from([0, 0.5, 1]))
def test_any_plan_keeps_our_rules(problem: Problem, random: Any, split: float) -> None:
    """Of any legal plan the file has no mistake, deadlocks included, and it means that plan."""
    schedule = pipesched.schedule_plan(problem, plan_of(problem, random_plan(problem, random, split=split, pair=0.3)))
    again, alone = parse(dump_comms(schedule), "comms"), parse(dump(schedule), "alone")
    assert (again.plan.orders, again.plan.pairs, again.placement) == (
        alone.plan.orders, alone.plan.pairs, alone.placement,
    )  # fmt: skip


def as_loaded(text: str, schedule: Schedule, ahead: int) -> list[list[str]]:
    """The rows that PyTorch's loader makes of a file of computations."""
    from torch.distributed.pipelining import schedules

    devices = schedule.problem.settled_placement.devices
    rows = {
        rank: [schedules._Action.from_str(cell) for cell in row.split(",")] for rank, row in enumerate(text.split())
    }
    whole = {rank: schedules._add_unshard_reshard(row, ahead) for rank, row in rows.items()}
    reduced = {rank: schedules._add_reduce_grad(row, schedule.problem.microbatches) for rank, row in whole.items()}
    lowered = schedules._add_send_recv(reduced, lambda stage: devices[stage], len(devices))
    return [[*map(str, lowered[rank])] for rank in sorted(lowered)]


@needs_torch
@pytest.mark.torch
@pytest.mark.skipif(HAS_WAITS, reason="the loader of PyTorch 2.15 also adds waits")
@pytest.mark.parametrize("ahead", [3, 1])
@pytest.mark.parametrize(("devices", "stages", "microbatches"), [(4, 8, 8), (2, 8, 4), (3, 3, 5)])
@pytest.mark.parametrize("algorithm", FAMILIES)
def test_it_is_what_pytorch_makes(algorithm: str, devices: int, stages: int, microbatches: int, ahead: int) -> None:
    """At level weights the file equals, cell by cell, what PyTorch's loader makes of the file of computations."""
    try:
        schedule = scheduled(
            algorithm, devices, stages, microbatches, gather=4, reduce=4, shard={"level": "weights", "ahead": ahead}
        )
    except ConfigError:  # it does not apply
        return
    rows = [row.split(",") for row in dump_comms(schedule).split()]
    assert rows == as_loaded(dump(schedule), schedule, ahead)
