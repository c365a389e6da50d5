"""The empty mode: operations are placed one by one."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, strategies as st

from pipesched import check, plan, schedule_plan
from pipesched.explore.state import Unplaced
from tests.explore.conftest import board, outcome_of, pool_of


def choose(pool: Unplaced, name: str) -> None:
    pool.chosen = next(task for task in pool.waiting if pool.board.name(task) == name)


@given(st.randoms(use_true_random=False))
def test_placing_whatever_is_ready_ends_in_a_legal_schedule(random: Random) -> None:
    """What is lit is exactly what can be placed; the line of code makes the same plan."""
    pool = pool_of(devices=2, stages=4, microbatches=3)
    while pool.waiting:
        ready = [task for task in pool.waiting if pool.is_ready(task)]
        blocked = [task for task in pool.waiting if not pool.is_ready(task)]
        if blocked:
            pool.chosen = random.choice(blocked)
            assert not pool.place()
            assert "not placed yet" in pool.state.message
        pool.chosen = random.choice(ready)
        assert pool.place()
    schedule = board(pool.state).schedule
    assert check(schedule) == []
    made = eval(pool.code(), {"plan": plan, "problem": schedule.problem})
    assert schedule_plan(schedule.problem, made).makespan == schedule.makespan


def test_placing_and_taking_back() -> None:
    """An operation goes to its own device, what something waits for stays, and only a whole schedule is saved."""
    pool = pool_of(devices=2, stages=2, microbatches=2)
    choose(pool, "0F0")
    assert not pool.place(1)
    assert pool.state.message == "0F0 runs on device 0, where its stage is"
    assert pool.place(0)
    assert (pool.board.amounts.makespan, pool.board.missing) == (5, 7)
    assert not pool.state.save("x.json")
    assert pool.state.message == "7 operations are not placed yet; only a whole schedule is saved"
    pool.state.keep()
    assert len(pool.state.sheets) == 1
    assert pool.state.undo()
    assert pool.board.missing == 8
    assert pool.state.redo()
    choose(pool, "1F0")
    assert pool.place()
    assert not pool.take_back(0)
    assert pool.state.message == "1F0 is placed and waits for 0F0"
    assert pool.take_back(1)
    assert pool.take_back(0)
    assert pool.code() == "plan(problem, [[], []])"


def test_presets_are_whole_schedules() -> None:
    pool = pool_of()
    for number, name in enumerate(("naive", "1f1b", "interleaved")):
        assert pool.preset(number)
        assert not pool.waiting
        assert pool.board.amounts.makespan == outcome_of(name).schedule.makespan
    assert pool.state.save("x.json")
    pool.state.undo()
    assert pool.board.amounts.makespan == outcome_of("1f1b").schedule.makespan


def test_other_parameters_and_algorithms_begin_empty_again_until_all_is_placed() -> None:
    pool = pool_of(devices=2, stages=2, microbatches=2)
    choose(pool, "0F0")
    pool.place()
    assert pool.state.plan(parameters={"microbatches": "3"})
    assert pool.state.message == "list: 12 operations to place; your edits are dropped, u brings them back"
    assert (len(pool.waiting), pool.board.amounts.makespan) == (12, 0)
    assert pool.preset(1)
    assert pool.state.plan(parameters={"microbatches": "4"})
    assert not pool.waiting
    for _ in range(3):
        assert pool.state.undo()
    assert pool.code() == 'plan(problem, [["0F0"], []])'


@pytest.mark.parametrize("mode", ["train", "forward"])
def test_placing_slices(mode: str) -> None:
    """Each is an operation of its own; what is chosen next is the next slice, of backwards the one before."""
    pool = pool_of("naive", devices=2, stages=2, microbatches=2, slices=2, mode=mode)
    choose(pool, "0F0.0")
    assert pool.place()
    assert pool.board.name(pool.chosen) == "0F0.1"
    assert not pool.state.jump("0F0")
    for name in ("0F0.1", "1F0.0", "1F0.1"):
        choose(pool, name)
        assert pool.place()
    if mode == "train":
        choose(pool, "1B0.0")
        assert not pool.place()
        assert pool.state.message == "1B0.0 waits for 1B0.1, which is not placed yet"
        choose(pool, "1B0.1")
        assert pool.place()
        assert pool.board.name(pool.chosen) == "1B0.0"
    while pool.waiting:
        pool.chosen = pool.waiting[0]
        assert pool.place()
    assert check(board(pool.state).schedule) == []
    assert "n2" in pool.board.amounts.sizes
