"""PyTorch's CSV: what is written, letter by letter, and what is read back."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched.errors import NotApplicable
from pipesched.file_formats.pytorch_csv import Imported, dump, parse
from pipesched.pipeline.problem.problem import Problem
from tests.oracle.alike import replay
from tests.strategies import Texts, plan_of, problems, random_plan, saving_plan_of, texts_of

PLACEMENTS = ("linear", "loop", "v", "wave", "explicit")


def written(problem: Problem, rows: Sequence[Sequence[str]]) -> str:
    """The file of a plan that is spelled out."""
    return dump(pipesched.schedule_plan(problem, plan_of(problem, rows)))


def rows_of(read: Imported) -> list[list[str]]:
    """What was read, as texts."""
    return texts_of(read.plan)


def test_1f1b_is_written_row_by_row() -> None:
    """One line a rank, no header, no blank last line, no byte order mark."""
    problem = pipesched.make_problem(devices=2, microbatches=3)
    assert dump(pipesched.run(problem, "1f1b").schedule) == "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n"


def test_pairs_and_split_backwards() -> None:
    """An overlapped pair is written the way PyTorch does, B and I with W stand in one file."""
    problem = pipesched.make_problem(devices=1, microbatches=2, placement="linear")
    rows = [["0F0", "(0F1;0B0)OVERLAP_F_B", "0I1", "0W1"]]
    text = written(problem, rows)
    assert text == "0F0,(0F1;0B0)OVERLAP_F_B,0I1,0W1\n"
    assert rows_of(parse(text, "x.csv")) == rows


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
    read = parse(text, "x.csv")
    assert [",".join(row) for row in rows_of(read)] == text.splitlines()
    assert read.placement.devices == problem.settled_placement.devices
    assert replay(problem, rows_of(read)).makespan == replay(problem, texts).makespan
    assert dump(pipesched.schedule_plan(problem, read.plan)) == text


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
    assert rows_of(parse(text, "x.csv")) == [row.split(",") for row in SAME.split()]


def test_stages_find_their_ranks() -> None:
    """The placement is what the rows say, whatever it is."""
    text = "1F0,2F0,2B0,1B0\n0F0,3F0,3B0,0B0\n"
    assert parse(text, "x.csv").placement.devices == (1, 0, 0, 1)
