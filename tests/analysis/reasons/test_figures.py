"""What explain says of well-known schedules, checked against figures that were worked out outside the package."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipesched import ConfigError, Problem, Schedule, make_problem, run
from pipesched.analysis.explain import Explanation, explain, why
from pipesched.core.reasons import Idle, legal_places
from pipesched.errors import Deadlock, InvalidSchedule
from pipesched.pipeline.problem.ops import parse_op
from pipesched.render.explanation import move_lines
from pipesched.results.timed_moves import timed_tasks
from tests.oracle.reasons import PlainSchedule
from tests.strategies import plan_of


def classes(found: Explanation) -> dict[str, int | float]:
    """The classes that occur, with all the idle time in them."""
    return {str(idle): time for idle, time in found.totals.items() if time}


def default(**values: Any) -> Problem:
    """Four devices, eight microbatches, eight stages of 5 and 10: 10 and 20 where two are fused."""
    given = {"devices": 4, "stages": 8, "microbatches": 8, "forward": 5, "backward": 10}
    return make_problem(**{**given, **values})


@pytest.mark.parametrize(
    ("budget", "held_back"), [(None, {"order": 120}), (4, {"order": 60, "memory": 60}), ([4, 3, 2, 1], {"memory": 120})]
)
def test_idle_time_of_1f1b(budget: Any, held_back: dict[str, int]) -> None:
    """1F1B of eight fused stages idles 360 of time, 120 of it by its order or, with budgets, for want of memory."""
    found = explain(run(default() if budget is None else default(budget=budget), "1f1b"))
    assert found.idle == 360
    assert classes(found) == {"wait": 60, "warm_up": 60, "drain": 120, **held_back}


def test_what_exceeds_its_budget_waits_for_no_memory() -> None:
    """Of a schedule over its budget that time is its order's: with 3.9 on a device 1F1B idles as without a budget."""
    found = explain(run(default(budget=[3.9, 4, 4, 4]), "1f1b"))
    assert not found.schedule.fits
    assert classes(found) == {"wait": 60, "warm_up": 60, "drain": 120, "order": 120}


def test_idle_time_of_a_list_schedule() -> None:
    """With room for two activations a list schedule waits most of the time."""
    problem = default(stages=4, forward=10, backward=20, budget=2)
    found = explain(run(problem, "list"))
    assert classes(found) == {"memory": 200, "wait": 700, "warm_up": 60, "drain": 120}


def test_sensitivity_of_1f1b() -> None:
    """A faster first forward gains once, a slower one costs five times as much."""
    found = explain(run(default(), "1f1b"))
    [row] = [row for row in found.sensitivity if (row.stage, row.kind) == (0, "F")]
    assert (row.faster, row.slower) == (1, 5)
    assert [tuple(row) for row in found.p2p_sensitivity if row.faster] == []


@pytest.mark.parametrize(
    ("name", "stages", "microbatches", "places", "gaining", "listed"),
    [("1f1b", 4, 4, 88, 3, 2), ("zb-v", 8, 4, 549, 1, 1), ("dualpipe", 4, 8, 216, 0, 0)],
)
def test_moves(name: str, stages: int, microbatches: int, places: int, gaining: int, listed: int) -> None:
    """How many other places the operations of known schedules have, how many of them gain, and how many are listed:
    neighbours that change places make one order."""
    problem = make_problem(devices=4, stages=stages, microbatches=microbatches, p2p=1, forward=5, backward=10)
    found = explain(run(problem, name))
    tasks = timed_tasks(found.schedule)
    chosen = [task for order in tasks.orders for task in order]
    assert sum(place.last - place.first for place in legal_places(tasks, chosen)) == places
    plain = PlainSchedule(found.schedule)
    moves = [makespan for _, start, to, _, makespan in plain.every_move() if start != to and makespan is not None]
    assert len(moves) == places
    assert sum(makespan < plain.makespan for makespan in moves) == gaining
    assert len(found.moves) == listed
    assert found.moves_complete


def test_later_times() -> None:
    """Time that nothing explains is late, and its culprit is what waits; moves and sensitivities do not see it."""
    schedule = run(make_problem(devices=2, microbatches=2, forward=1, backward=2), "1f1b").schedule
    index = schedule.plan.index
    last = index.row("B", 0)[1]
    columns = [[*schedule.start_ticks], [*schedule.end_ticks]]
    for column in columns:
        column[last] += 5
    later = Schedule(schedule.problem, schedule.plan, *columns)
    found, before = explain(later), explain(schedule)
    assert found.totals[Idle.LATE] == 10  # of the device itself, and of the other one, which has ended
    assert [str(gap.culprit) for gap in found.gaps if gap.idle is Idle.LATE] == ["0B1", "0B1"]
    assert (found.moves, found.p2p_sensitivity) == (before.moves, before.p2p_sensitivity)
    assert found.slack["0B1"] == 0
    assert found.slack["0B0"] == before.slack["0B0"] + 5 == 6


def test_only_schedules() -> None:
    """What is neither a schedule nor an outcome is refused by name."""
    with pytest.raises(ConfigError, match=r"^schedule: must be a Schedule or an Outcome, not 5"):
        explain(5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"^schedule: must be a Schedule or an Outcome, not 'plan'"):
        why("plan", "0F0")  # type: ignore[arg-type]


def test_broken_rules() -> None:
    """Times that break a rule, of operations that wait for each other perhaps, are refused."""
    schedule = run(make_problem(devices=1, microbatches=1, forward=1, backward=2), "1f1b").schedule
    [order] = schedule.plan.orders
    for plan, starts, ends in (
        (replace(schedule.plan, orders=[order[::-1]]), [2, 0], [3, 2]),
        (schedule.plan, [0, 0], [1, 2]),
    ):
        broken = Schedule(schedule.problem, plan, starts, ends)
        with pytest.raises(InvalidSchedule, match="breaks the rules"):
            explain(broken)
        with pytest.raises(InvalidSchedule, match="breaks the rules"):
            why(broken, "0F0")


def test_a_circle_of_no_length() -> None:
    """Operations of no length that wait for each other at one time break no rule of times, but cannot run."""
    problem = make_problem(devices=1, stages=2, microbatches=2, forward=[3, 0], backward=0, placement=[0, 0])
    texts = [["0F0", "0F1", "1B0", "1F0", "1F1", "1B1", "0B0", "0B1"]]
    made = plan_of(problem, texts)
    starts = [6] * made.index.size
    ends = [*starts]
    for text, start in (("0F0", 0), ("0F1", 3)):
        number = made.index.number(parse_op(text))
        starts[number], ends[number] = start, start + 3
    schedule = Schedule(problem, made, starts, ends)
    with pytest.raises(Deadlock):
        explain(schedule)
    with pytest.raises(Deadlock):
        why(schedule, "1F0")


def test_too_many_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """With too many operations to time only the first moves are tried, and that is said; a move that gains may lack."""
    problem = make_problem(devices=4, stages=8, microbatches=4, p2p=1, forward=5, backward=10)
    complete = explain(run(problem, "zb-v"))
    monkeypatch.setattr("pipesched.results.timed_moves.MOST_RETIMED", 1)
    found = explain(run(problem, "zb-v"))
    assert complete.moves_complete
    assert not found.moves_complete
    assert len(found.moves) <= 1


def test_moves_in_words() -> None:
    """That no move gains is said only where all were timed."""
    found = explain(run(default(), "1f1b"))
    assert [*map(str, move_lines(found))] == ["no single move of one operation in the order of its device shortens it"]
    assert [*map(str, move_lines(replace(found, moves_complete=False)))] == [
        "none of the single moves that were timed shortens it; not all were timed"
    ]
