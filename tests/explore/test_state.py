"""Editing without a terminal: moves, undo, gaps, plans anew, kept schedules, files."""

from __future__ import annotations

from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched import ConfigError, Outcome, Problem, Schedule, check, read, schedule_plan
from pipesched.explore.sheet import details, pauses, place_of, title
from pipesched.explore.state import State
from tests.examples import examples
from tests.explore.conftest import board, outcome_of, planner_of, state_at, state_of
from tests.explore.test_places import random_board
from tests.strategies import SETTLED, problems

randoms = st.randoms(use_true_random=False)


def picture(state: State) -> object:
    schedule = board(state).schedule
    return [*map(list, schedule.plan.orders)], [*schedule.start_ticks], schedule.problem, state.selected


@given(problem=problems(SETTLED, most_devices=3, most_microbatches=4, most_chunks=2, overlap=True), random=randoms)
@examples(30)
def test_undo_restores_exactly_and_redo_too(problem: Problem, random: Random) -> None:
    """After random moves, refused ones among them, undo goes through all pictures back, and redo forth again."""
    state = state_at(Outcome("mine", random_board(problem, random).schedule))
    pictures = []
    for _ in range(12):
        order = random.choice([order for order in board(state).plan.orders if order])
        state.select(random.choice(order))
        before = picture(state)
        if state.move_to(random.randrange(-1, len(order) + 1)):
            pictures.append(before)
            assert schedule_plan(problem, board(state).plan).start_ticks == board(state).schedule.start_ticks
            assert state.board.amounts.makespan == max(board(state).schedule.last_end_ticks)
        else:
            assert picture(state) == before
    last = picture(state)
    for before in reversed(pictures):
        assert state.undo()
        assert picture(state) == before
    assert not state.undo()
    assert not state.is_unsaved
    for _ in pictures:
        assert state.redo()
    assert not state.redo()
    assert picture(state)[:3] == last[:3]  # type: ignore[index]


def test_a_move_says_what_it_changes_and_a_file_holds_it(tmp_path: Path) -> None:
    state = state_of()
    state.jump("4F0")
    assert dict(details(state.board, state.selected))["may stand at"].endswith("   > 295 (+10)")
    assert state.move_by(1)
    assert state.message == "4F0 from position 4 to 5: makespan 295 (+10)"
    assert "makespan 295 (+10)" in title(state.sheet.version, unsaved=True)
    assert not state.move_to(place_of(state.board, state.selected).position)  # no edit
    for name, said in (("x.docx", "must end in"), ("nowhere/x.json", "cannot write")):
        assert not state.save(name)
        assert said in state.message
    assert state.is_unsaved
    assert state.save("mine.csv"), state.message
    assert not state.is_unsaved
    back = read(tmp_path / "mine.csv")
    assert isinstance(back, Outcome)
    assert (check(back), back.schedule.makespan) == ([], 295)
    state.undo()
    assert state.is_unsaved


def test_details_of_an_operation() -> None:
    state = state_of("1f1b", stages=4, p2p=1)
    state.jump("2F1")
    lines = dict(details(state.board, state.selected))
    assert lines["2F1"].startswith("device 2 position 1  17-22")
    assert "1F1 at" in lines["waits for"]
    assert "binds" in lines["waits for"]
    assert lines["gap before"] == "none"
    assert lines["cost"].startswith("forward of stage 2: a unit less gains")


def test_gaps_in_turn_and_by_size() -> None:
    state = state_of()
    listed = pauses(state.board.tasks)
    for step, there, said in ((1, listed, "further"), (-1, listed[-2::-1], "earlier")):
        for pause in there:
            state.go_to_gap(step)
            assert state.sheet.pause == pause
        state.go_to_gap(step)
        assert state.message == f"no {said} gap"
    state.select(state.board.find("0F0") or 0)
    sizes = []
    for _ in listed:
        state.go_to_gap(1, by_size=True)
        assert state.sheet.pause is not None
        sizes.append(state.sheet.pause.length)
    assert sizes == sorted((pause.length for pause in listed), reverse=True)


def test_every_operation_is_reached_by_its_text_and_by_arrows() -> None:
    state = state_of("dualpipe", stages=4, overlap=12)
    assert state.jump("0f0")
    pair = next(iter(board(state).plan.pairs.items()))
    index = board(state).plan.index
    forward, backward = index.op(pair[0]), index.op(pair[1])
    for text in (f"{forward}", f"{backward}", f"{forward}&{backward}", f"({forward};{backward})OVERLAP_F_B"):
        assert state.jump(text)
        assert state.selected == pair[0]
    assert not state.jump("9F9")
    assert "9F9 does not run here" in state.message
    state.jump("0F0")
    for _ in range(3):
        state.step(rows=1)
    assert state.board.tasks.machine[state.selected] == 3
    state.step(along_row=10_000)
    assert state.selected == board(state).plan.orders[3][-1]


def test_late_times_stay_until_the_first_edit() -> None:
    outcome = outcome_of("1f1b", stages=4)
    late = [*outcome.schedule.start_ticks], [*outcome.schedule.end_ticks]
    last = outcome.schedule.plan.orders[0][-1]
    late[0][last] += 7
    late[1][last] += 7
    given = Schedule(outcome.problem, outcome.schedule.plan, *late)
    state = state_at(Outcome("1f1b", given))
    assert "late times" in state.message
    assert state.board.amounts.makespan == outcome.schedule.makespan_ticks + 7
    state.jump("0F1")
    assert state.move_by(1)
    assert "the late times of the file are gone" in state.message
    assert not state.board.is_late
    assert state.undo()
    assert state.board.is_late


def test_memory_forbids_nothing_but_is_said() -> None:
    state = state_of("1f1b", stages=4, budget=[4, 4, 4, 4])
    state.jump("0F4")
    assert state.move_by(-1)
    assert "over budget now on device 0" in state.message
    assert any("over" in part for part in title(state.sheet.version, unsaved=True))


@pytest.mark.parametrize(
    ("algorithm", "settings", "said"),
    [
        ("zb-v", {}, "nothing shorter than 255; proved for placement v, split backward"),
        ("interleaved", {}, "nothing shorter than 285; proved for placement loop, whole backward"),
        (
            "dualpipe-v",
            {"devices": 2, "stages": 4, "microbatches": 4, "overlap": 10},
            "nothing shorter than 110; split backward, no overlap, at most 4.8% from the best",
        ),
        (
            "zb-h1",
            {"budget": 2, "stages": 4},
            "nothing shorter than 135; within the budget 205; proved for placement linear, split backward",
        ),
    ],
)
def test_a_solve_never_makes_a_schedule_longer(algorithm: str, settings: dict[str, Any], said: str) -> None:
    """It splits backwards where the open schedule does, and says what it proved; edits and steps stay."""
    state = state_of(algorithm, **settings)
    version = state.sheet.version
    state.take_solved(state.planner.solve(state.board, Event(), lambda _text: None))
    assert state.message == f"solve: {said}"
    assert state.sheet.version is version


def test_messages_that_queue_are_not_edited() -> None:
    with pytest.raises(ConfigError, match="the editor knows no queues"):
        state_of("1f1b", stages=4, messages="rank")


def test_a_solve_of_an_edited_schedule_begins_from_it() -> None:
    """What was moved to a worse place is found again, with recompute where there is some; the step can be undone."""
    problem = pipesched.make_problem(devices=2, microbatches=4, forward=5, backward=10)
    outcome = pipesched.run(problem, "1f1b", recompute="full")
    state = state_at(outcome, planner_of("1f1b"))
    state.jump("0F1")
    assert state.move_by(3), state.message
    longer = state.board.amounts.makespan
    state.take_solved(state.planner.solve(state.board, Event(), lambda _text: None))
    assert state.board.amounts.makespan < longer
    assert state.message.startswith("solve: makespan ")
    assert state.message.endswith("; proved for placement linear, whole backward")
    assert state.undo()
    assert state.board.amounts.makespan == longer


TABLE = [[1, 2, 3, 4], [4, 3, 2, 1]]


@pytest.mark.parametrize(
    ("algorithm", "arguments", "op", "fields"),
    [
        ("1f1b", {"forward": TABLE, "sizes": {"work": [1, 2, 1, 1]}}, "1F2", ["p2p", "backward"]),
        ("seq-1f1b", {"slices": 3, "p2p": 1}, "1F2.1", ["p2p", "forward", "backward"]),
        ("naive", {"slices": {"count": 2, "overhead": 1}, "mode": "forward"}, "1F2.1", ["p2p", "forward"]),
    ],
)
def test_units(tmp_path: Path, algorithm: str, arguments: dict[str, Any], op: str, fields: list[str]) -> None:
    """Microbatches that differ, slices and forwards alone are edited, saved and planned anew as others are."""
    given: dict[str, Any] = {"devices": 2, "stages": 2, "microbatches": 4, "forward": 2, **arguments}
    state = state_of(algorithm, **given)
    assert [field.name for field in state.fields] == ["microbatches", "stages", "budget", *fields]
    assert state.jump(op)
    texts = [text for _, text in details(state.board, state.selected)]
    assert texts[0].startswith("device 1 position ")
    places = range(len(board(state).plan.orders[1]))
    moved = next((to for to in places if state.move_to(to)), None)
    assert moved is not None
    assert state.save(str(tmp_path / "edited.json"))
    assert state.message.endswith("read back and checked, every rule holds")
    assert check(read(tmp_path / "edited.json")) == []
    assert state.plan(parameters={"p2p": "2"})
    assert max(board(state).problem.costs.p2p) == 2
    assert not state.plan("zb-auto") or "slices" not in arguments
    if "slices" in arguments:
        assert "slices" in state.message or "forward" in state.message
