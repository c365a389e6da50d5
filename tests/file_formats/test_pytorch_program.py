"""Sharding in PyTorch's CSV: the program of a file on a problem that shards weights, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched.errors import InvalidSchedule
from pipesched.file_formats.pytorch_csv import dump_comms
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.problem import Problem

FAMILIES = ["1f1b", "interleaved", "looped-bfs", "zb-v", "interleaved-zb", "dualpipe-v"]


def problem(level: str = "weights", *, ahead: Any = None, **options: Any) -> Problem:
    """A problem of two devices whose weights may be sharded."""
    shard = {"level": level, **({} if ahead is None else {"ahead": ahead})}
    values = {"devices": 2, "stages": 4, "microbatches": 4, "forward": 5, "backward": 10, "gather": 4, "reduce": 3}
    return pipesched.make_problem(**{**values, "weights": 2, "optimizer": 2, "tied": 1, "shard": shard, **options})


def read(folder: Path, text: str, given: Problem) -> Schedule:
    """The schedule of a file with the costs of a problem."""
    path = folder / "schedule.csv"
    path.write_text(text)
    outcome = pipesched.read(path, problem=given)
    assert isinstance(outcome, pipesched.Outcome)
    return outcome.schedule


def programs(schedule: Schedule) -> list[list[tuple[str, str | None]]]:
    """The programs of the network lanes, as texts."""
    op = schedule.plan.index.op
    return [
        [(str(op(one)), str(op(after)) if after >= 0 else None) for one, after in row] for row in schedule.plan.network
    ]


@pytest.mark.parametrize("ahead", [1, 2, 3])
@pytest.mark.parametrize("algorithm", FAMILIES)
def test_round_trip(tmp_path: Path, algorithm: str, ahead: int) -> None:
    """A file has the program that it was written with, whatever the config would take, and lasts as long."""
    written = pipesched.run(problem(ahead=ahead), algorithm).schedule
    text = dump_comms(written)
    again = read(tmp_path, text, problem(ahead="full"))
    assert programs(again) == programs(written)
    assert (again.makespan, again.peak_memory) == (written.makespan, written.peak_memory)
    assert dump_comms(again) == text


BY_HAND = (
    "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RESHARD,0RECV_B0,0UNSHARD,0B0,0RECV_B1,0B1,0RESHARD,0REDUCE_GRAD\n"
    "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1RESHARD\n"
)
SMALL: dict[str, Any] = {"stages": 2, "microbatches": 2, "optimizer": None, "tied": None}


def test_a_program_by_hand(tmp_path: Path) -> None:
    """Turns are counted, a reduction stands where the file has it, and that of a stage without one by the rule."""
    assert programs(read(tmp_path, BY_HAND, problem(**SMALL))) == [
        [
            ("0UNSHARD0", None),
            ("0RESHARD0", "0F1"),
            ("0UNSHARD1", "0F1"),
            ("0RESHARD1", "0B1"),
            ("0REDUCE_GRAD", "0B1"),
        ],
        [("1UNSHARD0", None), ("1REDUCE_GRAD", "1B1"), ("1RESHARD0", "1B1")],
    ]


@pytest.mark.parametrize("level", ["optimizer", "gradients"])
def test_below_level_weights(tmp_path: Path, level: str) -> None:
    """Where weights stay whole the sharding of a file has no effect."""
    schedule = read(tmp_path, BY_HAND, problem(level, **SMALL))
    assert [[op for op, _ in row] for row in programs(schedule)] == [
        [f"{stage}UNSHARD0", f"{stage}REDUCE_GRAD"] for stage in (0, 1)
    ]


def test_without_a_step(tmp_path: Path) -> None:
    """A problem without a step reads the order alone."""
    plain = pipesched.make_problem(devices=2, microbatches=2)
    assert [*read(tmp_path, BY_HAND, plain).plan.network] == []


def test_reductions_of_each_microbatch(tmp_path: Path) -> None:
    """No file has them, so they are by the rule."""
    shard = {"level": "weights", "reduce": "each"}
    found = programs(read(tmp_path, BY_HAND, problem(**SMALL, shard=shard)))
    assert [op for op, _ in found[0] if "REDUCE" in op] == ["0REDUCE_GRAD0", "0REDUCE_GRAD1"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0RECV_B0,0UNSHARD,", "0RECV_B0,", "row 1, column 8: 0B0 on device 0, but stage 0 is sharded there"),
        ("1UNSHARD,", "", "row 2, column 2: 1F0 on device 1, but stage 1 is sharded there"),
        ("0F1,", "0F1,0UNSHARD,", "0UNSHARD on device 0, but stage 0 is unsharded there already"),
        ("0RECV_B0,", "0RECV_B0,0RESHARD,", "0RESHARD on device 0, but stage 0 is sharded there already"),
        ("1SEND_B1,1RESHARD", "1SEND_B1", "row 2: 1RESHARD is missing on device 1 at the end of the step"),
    ],
)
def test_what_is_wrong(tmp_path: Path, old: str, new: str, message: str) -> None:
    """What computes on sharded weights, and what PyTorch refuses, names operation and device; other levels read it."""
    text = BY_HAND.replace(old, new, 1)
    with pytest.raises(InvalidSchedule, match=message):
        read(tmp_path, text, problem(**SMALL))
    read(tmp_path, text, problem("gradients", **SMALL))


def test_files_in_a_comparison(tmp_path: Path) -> None:
    """Beside algorithms a file keeps its program too."""
    path = tmp_path / "mine.csv"
    path.write_text(dump_comms(pipesched.run(problem(ahead=1), "interleaved").schedule))
    rows = pipesched.compare(problem(ahead="full"), ["interleaved"], plans=[path])
    makespans = {row.algorithm: row.outcome.schedule.makespan for row in rows.entries if row.outcome}
    assert makespans["mine"] == pipesched.run(problem(ahead=1), "interleaved").schedule.makespan
