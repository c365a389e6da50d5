"""Files for PyTorch: plans with and without communication, programs, and its runtime."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched import (
    ConfigError,
    Inexpressible,
    InvalidSchedule,
    NotApplicable,
    Problem,
    Schedule,
    make_problem,
    schedule_plan,
)
from pipesched.file_formats.pytorch_csv import dump, dump_comms, parse
from pipesched.pipeline.check.check import violations
from pipesched.schedulers.registry import FAMILIES
from tests.file_formats.pytorch_files import disturb, transfers, with_transfers, with_waits
from tests.oracle.alike import Stuck, replay
from tests.strategies import Texts, plan_of, problems, random_plan, saving_plan_of, texts_of
from tests.torch_ranks import HAS_WAITS, needs_torch

PLACEMENTS = ("linear", "loop", "v", "wave", "explicit")


def written(problem: Problem, rows: Sequence[Sequence[str]]) -> str:
    """The file of a plan that is spelled out."""
    return dump(pipesched.schedule_plan(problem, plan_of(problem, rows)))


def test_pairs_and_split_backwards() -> None:
    """An overlapped pair is written the way PyTorch does, B and I with W stand in one file."""
    problem = pipesched.make_problem(devices=1, microbatches=2, placement="linear")
    rows = [["0F0", "(0F1;0B0)OVERLAP_F_B", "0I1", "0W1"]]
    text = written(problem, rows)
    assert text == "0F0,(0F1;0B0)OVERLAP_F_B,0I1,0W1\n"
    assert texts_of(parse(text, "x.csv")[0]) == rows


def test_microbatches_are_numbered_as_the_last_stage_runs_them() -> None:
    """The last stage runs 2, 0, 1: that becomes 0, 1, 2 everywhere."""
    problem = pipesched.make_problem(devices=2, microbatches=3, placement=[1, 0])
    rows = [["1F2", "1B2", "1F0", "1F1", "1B1", "1B0"], ["0F0", "0F1", "0F2", "0B2", "0B1", "0B0"]]
    assert written(problem, rows) == "1F0,1B0,1F1,1F2,1B2,1B1\n0F1,0F2,0F0,0B0,0B2,0B1\n"


@pytest.mark.parametrize("algorithm", ["dualpipe", "chimera"])
def test_two_copies_of_a_stage_cannot_be_written(algorithm: str) -> None:
    """PyTorch keeps a stage on one rank: a bidirectional schedule is refused, and dualpipe-v named instead."""
    outcome = pipesched.run(pipesched.make_problem(devices=4, microbatches=8), algorithm)
    with pytest.raises(NotApplicable, match=r"each stage on one rank.*dualpipe-v"):
        dump(outcome.schedule)


@pytest.mark.parametrize(
    ("devices", "lanes", "message"),
    [
        (
            [["0F0", "0F1", "0R1", "0B1", "0B0"]],
            [],
            "no operation R .recompute., and 1 stand here; .*torch.utils.checkpoint",
        ),
        (
            [["0F0", "0F1", "0B1", "0B0"]],
            [["0O0"], ["0L0"]],
            "no operation O .offload., and 1 stand here; .*schedule without `offload`",
        ),
    ],
)
def test_operations_that_pytorch_lacks(devices: list[list[str]], lanes: list[list[str]], message: str) -> None:
    """A plan that recomputes or offloads is refused with what to do instead; one that only could is written."""
    problem = pipesched.make_problem(devices=1, microbatches=2, placement="linear", offload=1)
    with pytest.raises(NotApplicable, match=message):
        dump(pipesched.schedule_plan(problem, saving_plan_of(problem, Texts(devices, lanes, []))))
    unused = Texts([["0F0", "0B0", "0F1", "0B1"]], [[], []], [])
    assert dump(pipesched.schedule_plan(problem, saving_plan_of(problem, unused))) == "0F0,0B0,0F1,0B1\n"


@given(problems(PLACEMENTS), st.randoms(use_true_random=False), st.sampled_from([0, 0.5, 1]), st.sampled_from([0, 0.5]))
def test_round_trip(problem: Problem, random: Random, split: float, pair: float) -> None:
    """Any legal plan is read as it was written, on its devices, and lasts as long under the new numbers."""
    texts = random_plan(problem, random, split=split, pair=pair)
    text = written(problem, texts)
    plan, placement = parse(text, "x.csv")
    assert [",".join(row) for row in texts_of(plan)] == text.splitlines()
    assert placement.devices == problem.settled_placement.devices
    assert replay(problem, texts_of(plan)).makespan == replay(problem, texts).makespan
    assert dump(pipesched.schedule_plan(problem, plan)) == text


SAME = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"
SPELLINGS = {
    "byte order mark": "\ufeff" + SAME,
    "line ends of PyTorch": SAME.replace("\n", "\r\n"),
    "no end of the last line": SAME.strip(),
    "blanks": " 0F0 , 0F1,0B0\t,0B1\n1F0,1B0 ,1F1,1B1\n",
    "quotes": '"0F0",0F1,"0B0",0B1\n1F0,1B0,1F1,1B1\n',
    "idle cells, ragged rows": "0F0,0F1,,,0B0,,0B1,,\n,1F0,1B0,1F1,1B1\n",
    "communication": "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
    "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n",
    "communication with waits": "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0WAIT_SEND_F0,0WAIT_SEND_F1,0RECV_B1,0B1\n"
    "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1WAIT_SEND_B0,1WAIT_SEND_B1\n",
    "sharding": "0UNSHARD,0F0,0F1,0B0,0B1,0RESHARD,0REDUCE_GRAD\n1F0,1B0,1F1,1B1,1REDUCE_GRAD\n",
}


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings(text: str) -> None:
    """What PyTorch and spreadsheets may do to a file is read all the same."""
    assert texts_of(parse(text, "x.csv")[0]) == [row.split(",") for row in SAME.split()]


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


def test_operations_that_no_comms_file_has() -> None:
    """Recomputation and two copies of a stage have no actions."""
    problem = pipesched.make_problem(devices=4, microbatches=8)
    for outcome in (pipesched.run(problem, "1f1b", recompute="full"), pipesched.run(problem, "chimera")):
        with pytest.raises(Inexpressible, match="PyTorch"):
            dump_comms(outcome.schedule)


@given(problems(("linear", "loop", "v", "explicit")), st.randoms(use_true_random=False), st.sampled_from([0, 0.5, 1]))
def test_any_plan_keeps_our_rules(problem: Problem, random: Any, split: float) -> None:
    """Of any legal plan the file has no mistake, deadlocks included, and it means that plan."""
    schedule = pipesched.schedule_plan(problem, plan_of(problem, random_plan(problem, random, split=split, pair=0.3)))
    (again, place), (alone, other) = parse(dump_comms(schedule), "comms"), parse(dump(schedule), "alone")
    assert (again.orders, again.pairs, place) == (alone.orders, alone.pairs, other)


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


PROGRAM_FAMILIES = ["1f1b", "interleaved", "looped-bfs", "zb-v", "interleaved-zb", "dualpipe-v"]


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


@pytest.mark.parametrize("ahead", [1, 3])
@pytest.mark.parametrize("algorithm", PROGRAM_FAMILIES)
def test_programs_round_trip(tmp_path: Path, algorithm: str, ahead: int) -> None:
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


def test_programs_without_a_step(tmp_path: Path) -> None:
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


def mistakes(text: str) -> list[str]:
    """What is wrong with a file."""
    try:
        parse(text, "x.csv")
    except InvalidSchedule as error:
        return list(error.violations)
    return []


def test_wait_that_holds_up_its_receiver() -> None:
    """A rank that waits for a SEND before it computes what the receiver needs before its RECV: nobody goes on."""
    text = (
        "0F0,0SEND_F0,3RECV_F0,3F0,0F1,0SEND_F1,3B0,3SEND_B0,3RECV_F1,3F1,3B1,3SEND_B1,0RECV_B0,0B0,0RECV_B1,0B1,"
        "0WAIT_SEND_F0,0WAIT_SEND_F1,3WAIT_SEND_B0,3WAIT_SEND_B1\n"
        "1RECV_F0,1F0,1SEND_F0,1RECV_B0,1B0,1RECV_F1,1SEND_B0,1F1,1SEND_F1,1RECV_B1,1B1,1SEND_B1,"
        "1WAIT_SEND_F0,1WAIT_SEND_F1,1WAIT_SEND_B0,1WAIT_SEND_B1\n"
        "2RECV_F0,2F0,2SEND_F0,2RECV_B0,2B0,2SEND_B0,2RECV_F1,2F1,2SEND_F1,2RECV_B1,2B1,2SEND_B1,"
        "2WAIT_SEND_F0,2WAIT_SEND_F1,2WAIT_SEND_B0,2WAIT_SEND_B1\n"
    )
    assert mistakes(text) == []
    (found,) = mistakes(text.replace(",0WAIT_SEND_F1", "").replace("0SEND_F1,", "0SEND_F1,0WAIT_SEND_F1,"))
    assert found.startswith(
        "deadlock: 0WAIT_SEND_F1 on rank 0 (row 1, column 7) waits for 0SEND_F1 on rank 0 (row 1, column 6), which"
        " waits for 1RECV_F1 on rank 1 (row 2, column 6), which comes after 1B0 on rank 1 (row 2, column 5)"
    )


@given(problems(("linear", "loop", "v", "explicit"), least=1), st.randoms(use_true_random=False), st.booleans())
def test_waits_of_legal_plans(problem: Problem, random: Random, split: bool) -> None:
    """With the waits that PyTorch 2.15 adds a legal plan has no mistake that it had not; one that is gone is named."""
    table = with_transfers(problem, random_plan(problem, random, split=split))
    waiting = with_waits(table)
    texts = ("\n".join(map(",".join, rows)) for rows in (table, waiting))
    said, with_them = ([re.sub(r", column \d+", "", one) for one in mistakes(text)] for text in texts)
    assert said == with_them
    waits = [(row, cell) for row, cells in enumerate(waiting) for cell in cells if "WAIT" in cell]
    if len(waits) > 1:  # else nothing says that it is a file with waits
        row, gone = random.choice(waits)
        waiting[row].remove(gone)
        assert any(f"no {gone} stands behind" in found for found in mistakes("\n".join(map(",".join, waiting))))


@given(problems(("linear", "loop", "v", "explicit")), st.randoms(use_true_random=False), st.booleans())
def test_deadlocks_of_shuffled_orders(problem: Problem, random: Random, split: bool) -> None:
    """Neighbours that change places: the check sees a deadlock exactly if a naive replay gets stuck."""
    rows = random_plan(problem, random, split=split)
    for row in rows:
        place = random.randrange(len(row))
        row[place - 1 : place + 1] = reversed(row[place - 1 : place + 1])
    try:
        replay(problem, rows)
        stuck = False
    except Stuck:
        stuck = True
    found = mistakes("\n".join(map(",".join, rows)))
    assert stuck == any("deadlock" in sentence for sentence in found)
    assert all("deadlock" in sentence or "last stage" in sentence for sentence in found)


@given(problems(("linear", "loop", "v", "explicit"), least=1), st.randoms(use_true_random=False), st.booleans())
def test_missing_transfers(problem: Problem, random: Random, split: bool) -> None:
    """With every SEND and RECV a legal plan has at most wrong numbers on its last stage; one that is gone is named."""
    rows = random_plan(problem, random, split=split)
    table = with_transfers(problem, rows)
    text = "\n".join(map(",".join, table))
    assert all("last stage" in sentence for sentence in mistakes(text))
    if places := list(transfers(table)):
        row, column = random.choice(places)
        gone = table[row].pop(column)
        if len(places) > 2:  # else nothing says that it is a file with communication
            assert any(f"{gone} is missing" in found for found in mistakes("\n".join(map(",".join, table))))


@given(problems(("linear", "v", "explicit"), least=1), st.randoms(use_true_random=False), st.integers(0, 2))
@pytest.mark.slow
def test_small_changes(problem: Problem, random: Random, added: int) -> None:
    """Whatever is done to a file, with transfers and waits or not: a plan that keeps every rule, or a message."""
    rows = random_plan(problem, random, split=0.5)
    table = with_transfers(problem, rows) if added else rows
    table = with_waits(table) if added > 1 else table
    for _ in range(random.randint(1, 3)):
        disturb(table, random)
    try:
        plan, placement = parse("\n".join(map(",".join, table)), "x.csv")
    except (ConfigError, InvalidSchedule):
        return
    timed = make_problem(
        devices=len(plan.orders),
        stages=plan.index.stages,
        microbatches=plan.index.microbatches,
        placement=list(placement.devices),
    )
    assert not list(violations(schedule_plan(timed, plan)))
