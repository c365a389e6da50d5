"""The rules that PyTorch's loader does not check: one broken file each, and the sentence it gets."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given, strategies as st

from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.file_formats.pytorch_csv import parse
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.plan.schedule import schedule_plan
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.problem import Problem
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
