"""The rules that PyTorch's loader does not check: one broken file each, and the sentence it gets."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given, strategies as st

from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.file_formats.pytorch_csv import parse
from pipesched.pipeline.arguments import make_problem
from pipesched.pipeline.check import violations
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import schedule_plan
from tests.oracle.alike import Stuck, replay
from tests.pytorch_files import disturb, transfers, with_transfers, with_waits
from tests.strategies import problems, random_plan


def mistakes(text: str) -> list[str]:
    """What is wrong with a file."""
    try:
        parse(text, "x.csv")
    except InvalidSchedule as error:
        return list(error.violations)
    return []


BROKEN = {
    "twice": ("0F0,0B0,0F0\n1F0,1B0\n", ["row 1, column 3: 0F0 stands twice, first in row 1, column 1"]),
    "twice, once in a pair": (
        "0F0,0F1,(0F1;0B0)OVERLAP_F_B,0B1\n",
        ["row 1, column 3: 0F1 stands twice, first in row 1, column 2"],
    ),
    "microbatch out of range": (
        "0F0,0B0,0B7\n1F0,1B0\n2F0,2B0\n",
        ["row 1, column 3: 0B7 is out of range: most stages run microbatches 0 to 0"],
    ),
    "stage out of range": (
        "0F0,0B0\n5F0,5B0\n",
        ["row 2, column 1: 5F0 is out of range: the stages that compute should be 0 to 1", "stage 1 is missing"],
    ),
    "two ranks": (
        "0F0,0F1,0B0\n1F0,1B0,1F1,1B1,0B1\n",
        ["row 2, column 5: 0B1 on rank 1, but stage 0 lives on rank 0"],
    ),
    "forward missing": ("0F0,0F1,0B0,0B1\n1F0,1B0,1B1\n2F0,2F1,2B0,2B1\n", ["row 2: 1F1 is missing"]),
    "backward missing": ("0F0,0F1,0B0\n1F0,1F1,1B0,1B1\n", ["row 1: 0B1 is missing"]),
    "W missing": ("0F0,0I0\n1F0,1B0\n", ["row 1: 0W0 is missing"]),
    "I missing": ("0F0,0W0\n1F0,1B0\n", ["row 1: 0I0 is missing"]),
    "B and I": (
        "0F0,0B0,0I0,0W0\n1F0,1B0\n",
        ["row 1, column 2: 0B0 and 0I0 (row 1, column 3) are both there; a backward is either B, or I and W"],
    ),
    "B and W": (
        "0F0,0B0,0W0\n1F0,1B0\n",
        ["row 1, column 2: 0B0 and 0W0 (row 1, column 3) are both there; a backward is either B, or I and W"],
    ),
    "blank last line": ("0F0,0B0\n\n", ["row 2 is empty: each row is a rank, and each rank runs at least one stage"]),
    "pair of an input gradient": (
        "0F0,(0F1;0I0)OVERLAP_F_B,0W0,0B1\n",
        ["row 1, column 2: (0F1;0I0)OVERLAP_F_B: an overlapped pair is a forward F, then a full backward B"],
    ),
    "last stage": (
        "0F0,0F1,0B1,0B0\n1F1,1B1,1F0,1B0\n",
        [
            "row 2, column 1: 1F1, but forward 0 of the last stage must be 1F0: PyTorch takes its losses for those of"
            " microbatches 0, 1, 2, ...; number the microbatches in this order"
        ],
    ),
    "SEND missing": (
        "0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
        ["row 1: 0SEND_F0 is missing, for which 1RECV_F0 (row 2, column 1) waits forever"],
    ),
    "RECV missing": (
        "0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
        ["row 1: 0RECV_B0 is missing, which should receive 1SEND_B0 (row 2, column 4)"],
    ),
    "SEND and RECV missing": (
        "0F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n",
        ["row 1: 0SEND_F0 is missing, and 1RECV_F0 in row 2"],
    ),
    "SEND twice": (
        "0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
        ["row 1, column 3: 0SEND_F0 stands twice, first in row 1, column 2"],
    ),
    "SEND too early": (
        "0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
        ["row 1, column 1: 0SEND_F0 stands before 0F0 (row 1, column 2), whose result it sends"],
    ),
    "beyond the last stage": (
        "0RECV_F0,0F0,0B0,0SEND_F0\n",
        ["row 1, column 1: 0RECV_F0, but there is no stage -1", "row 1, column 4: 0SEND_F0, but there is no stage 1"],
    ),
    "stages on one rank": (
        "0F0,0SEND_F0,1RECV_F0,1F0,1B0,0B0\n",
        [
            "row 1, column 2: 0SEND_F0, but stage 1 lives on the same rank",
            "row 1, column 3: 1RECV_F0, but stage 0 lives on the same rank",
        ],
    ),
    "idle in a file with communication": (
        "0F0,0SEND_F0,,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
        ["row 1, column 3 is empty, which a file with SEND and RECV may not have"],
    ),
    "sharding of a stranger": (
        "0UNSHARD,1UNSHARD,0F0,0B0,7RESHARD\n1F0,1B0\n",
        [
            "row 1, column 2: 1UNSHARD on rank 0, but stage 1 lives on rank 1",
            "row 1, column 5: 7RESHARD, but stage 7 computes nowhere",
        ],
    ),
    "gradients reduced twice": (
        "0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD\n",
        ["row 1, column 4: 0REDUCE_GRAD stands twice, first in row 1, column 3"],
    ),
    "gradients reduced too early": (
        "0F0,0F1,0B0,0REDUCE_GRAD,0I1,0W1\n",
        ["row 1, column 4: 0REDUCE_GRAD stands before 0W1 (row 1, column 6), which adds to those gradients"],
    ),
    "not waited for": (
        "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1WAIT_SEND_B0\n",
        [
            f"row {place}, but no {wait} stands behind it, as in a file with waits it should"
            for place, wait in (
                ("1, column 2: 0SEND_F0", "0WAIT_SEND_F0"),
                ("2, column 5: 1REDUCE_GRAD", "1WAIT_REDUCE_GRAD"),
            )
        ],
    ),
    "waits for nothing": (
        "0WAIT_SEND_F0,0F0,0B0,0WAIT_REDUCE_GRAD\n",
        [
            "row 1, column 1: 0WAIT_SEND_F0, but there is nothing before it to wait for",
            "row 1, column 4: 0WAIT_REDUCE_GRAD, but there is nothing before it to wait for",
        ],
    ),
    "waited for twice": (
        "0F0,0B0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0WAIT_REDUCE_GRAD\n",
        ["row 1, column 5: 0WAIT_REDUCE_GRAD stands twice, first in row 1, column 4"],
    ),
    "wait on another rank": (
        "0F0,0B0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,1WAIT_REDUCE_GRAD\n1F0,1B0\n",
        [
            "row 1, column 5: 1WAIT_REDUCE_GRAD on rank 0, but stage 1 lives on rank 1",
            "row 1, column 5: 1WAIT_REDUCE_GRAD, but there is nothing before it to wait for",
        ],
    ),
    "two reductions at a time": (
        "0F0,1F0,1B0,1REDUCE_GRAD,0B0,0REDUCE_GRAD,1WAIT_REDUCE_GRAD,0WAIT_REDUCE_GRAD\n",
        ["row 1, column 6: 0REDUCE_GRAD stands before the wait for 1REDUCE_GRAD (row 1, column 4)"],
    ),
    "deadlock": (
        "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n",
        [
            "deadlock: 0B0 on rank 0 (row 1, column 2) waits for 1B0 on rank 1 (row 2, column 3),"
            " which comes after 1F1 on rank 1 (row 2, column 2), which waits for 0F1 on rank 0 (row 1, column 3),"
            " which comes after 0B0"
        ],
    ),
    "backward before its forward": (
        "0B0,0F0\n",
        ["deadlock: 0B0 on rank 0 (row 1, column 1) waits for 0F0 on rank 0 (row 1, column 2), which comes after 0B0"],
    ),
    "RECV before SEND on both sides": (
        "0F0,0RECV_B0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
        [
            "deadlock: 0RECV_B0 on rank 0 (row 1, column 2) waits for 1SEND_B0 on rank 1 (row 2,"
            " column 4), which comes after 1RECV_F0 on rank 1 (row 2, column 1), which waits for 0SEND_F0 on rank 0"
            " (row 1, column 3), which comes after 0RECV_B0"
        ],
    ),
    "received in another order": (
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F1,1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n",
        [
            "deadlock: 0SEND_F0 on rank 0 (row 1, column 2) waits for 1RECV_F0 on rank 1 (row 2,"
            " column 2), which comes after 1RECV_F1 on rank 1 (row 2, column 1), which waits for 0SEND_F1 on rank 0"
            " (row 1, column 4), which comes after 0SEND_F0"
        ],
    ),
}


@pytest.mark.parametrize(("text", "sentences"), BROKEN.values(), ids=BROKEN)
def test_broken_rule(text: str, sentences: list[str]) -> None:
    """One rule is broken, and exactly that is said, with the row and the column of the cell."""
    assert mistakes(text) == sentences


def test_receive_behind_its_use() -> None:
    """A RECV behind what needs it is said, and the wait that follows from it as well."""
    found = mistakes("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0\n")
    assert found[0] == "row 2, column 2: 1RECV_F0 stands behind 1F0 (row 2, column 1), which needs it"
    assert all("deadlock" in sentence for sentence in found[1:])


def test_all_mistakes_are_listed() -> None:
    """Several mistakes in one file are all said."""
    found = mistakes("0F0,0F0,0B0,0F1\n1F1,1B1,1F0,1I0\n\n")
    fragments = ["row 3 is empty", "0F0 stands twice", "0B1 is missing", "1W0 is missing", "must be 1F0", "deadlock"]
    assert len(found) == len(fragments)
    for fragment in fragments:
        assert any(fragment in sentence for sentence in found)


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


def test_a_plan_of_no_communication_has_none() -> None:
    """Dropping the communication of a file leaves the plan."""
    text = "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n"
    plan = parse(text, "x.csv").plan
    assert [list(map(str, plan.slots(device))) for device in (0, 1)] == [["0F0", "0B0"], ["1F0", "1B0"]]


def test_gradients_that_are_not_reduced() -> None:
    """A file with communication says by REDUCE_GRAD when gradients are scaled; where it does not, that is noted."""
    text = "0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0\n"
    assert "stages [1] have no REDUCE_GRAD" in parse(text, "x.csv").plan.note
    assert parse("0F0,0B0\n1F0,1B0\n", "x.csv").plan.note == ""
