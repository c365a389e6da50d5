"""The interval in which an operation may stand is exactly what can be timed, and the reasons are true."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, strategies as st

from pipesched import Deadlock, Outcome, Problem, schedule_plan
from pipesched.core.reasons import legal_places, moved
from pipesched.explore.pipeline_board import PipelineBoard, board_of
from pipesched.explore.sheet import held_back_by, legal, place_of, refusal
from tests.examples import examples
from tests.explore.conftest import outcome_of
from tests.strategies import ALL_PLACEMENTS, SETTLED, plan_of, problems, random_plan, random_saving_plan, saving_plan_of

randoms = st.randoms(use_true_random=False)


def random_board(problem: Problem, random: Random, *, saving: bool = False) -> PipelineBoard:
    if saving:
        plan = saving_plan_of(
            problem, random_saving_plan(problem, random, split=0.3, pair=0.3, recompute=0.4, offload=0.4)
        )
    else:
        plan = plan_of(problem, random_plan(problem, random, split=0.3, pair=0.3))
    return board_of(Outcome("mine", schedule_plan(problem, plan)))


def can_run(board: PipelineBoard, row: int, order: list[int]) -> bool:
    orders = [*board.plan.orders]
    orders[row] = order
    try:
        schedule_plan(board.problem, replace(board.plan, orders=orders))
    except Deadlock:
        return False
    return True


@given(problem=problems(SETTLED, most_devices=3, most_microbatches=3, most_chunks=2, overlap=True), random=randoms)
@examples(15)
@pytest.mark.slow
def test_the_legal_positions_are_those_that_schedule_plan_accepts(problem: Problem, random: Random) -> None:
    board = random_board(problem, random)
    for row, order in enumerate(board.plan.orders):
        for start, task in enumerate(order):
            limits = legal(board, task)
            runs = [to for to in range(len(order)) if can_run(board, row, moved(order, start, to))]
            if all(board.schedule.graph.durations):
                assert runs == [*range(limits.first, limits.last + 1)]
            else:  # operations of no length may wait for each other in a circle and be timed all the same
                assert set(range(limits.first, limits.last + 1)) <= set(runs)
            for to in range(-1, len(order) + 1):
                assert bool(refusal(board, task, to)) == (to not in range(limits.first, limits.last + 1))


@given(problem=problems(ALL_PLACEMENTS[1:], most_devices=4, most_microbatches=5, saving=True), random=randoms)
def test_one_at_a_time_says_the_same_as_all_at_once(problem: Problem, random: Random) -> None:
    """Also with lanes and wait edges; the chains lead from one operation of the device to the other."""
    board = random_board(problem, random, saving=problem.costs.offload is not None)
    tasks = board.tasks
    chosen = [task for order in board.plan.orders for task in order]
    for task, places in zip(chosen, legal_places(tasks, chosen), strict=True):
        limits = legal(board, task)
        assert (limits.first, limits.last) == places
        assert held_back_by(tasks, task) == tasks.tight[task]
        for chain in (limits.behind, limits.before):
            for before, after in pairwise(chain):
                assert before in {arc.before for arc in tasks.arcs(after)}
        if limits.behind:
            assert limits.behind[-1] == task
            assert place_of(board, limits.behind[0]).position == limits.first - 1
        if limits.before:
            assert limits.before[0] == task
            assert place_of(board, limits.before[-1]).position == limits.last + 1


@pytest.mark.parametrize(
    ("algorithm", "devices", "text", "to", "said"),
    [
        ("list", 8, "3B2", 0, "3B2 waits for 3F2 through stages 4-7"),
        ("1f1b", 4, "1B0", 0, "1B0 waits for 1F0 through stages 2-3"),
        ("1f1b", 4, "0B2", 0, "0B2 waits for 0F2 through stages 1-3"),
        ("1f1b", 4, "0F7", 15, "0B7 waits for 0F7 through stages 1-3"),
    ],
)
def test_a_refusal_says_what_waits_for_what(algorithm: str, devices: int, text: str, to: int, said: str) -> None:
    """Through which stages, also where these are on other devices."""
    board = board_of(outcome_of(algorithm, devices=devices, stages=devices))
    task = board.find(text)
    assert task is not None
    assert refusal(board, task, to) == said
