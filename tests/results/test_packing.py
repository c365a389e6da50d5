"""A packing as a result: what it says of its ranks, and the problem and schedule of each."""

from __future__ import annotations

import pickle

import pytest

import pipesched
from tests.packings import GOLDEN

PACKING = pipesched.pack(
    GOLDEN, ranks=2, cap=12, microbatches=2, problem=pipesched.make_problem(devices=2, name="mine"), attention=0.5
)


def test_what_it_says() -> None:
    """Tokens, works, makespans and the slowest rank agree with the assignment."""
    assert repr(PACKING) == "Packing(8 documents, 2 ranks x 2 microbatches, '1f1b', makespan 5.600693)"
    assert PACKING.assignment == [[[0, 7], [3, 5]], [[1, 4], [2, 6]]]
    assert (PACKING.ranks, PACKING.microbatches, PACKING.slowest, PACKING.tokens) == (2, 2, 0, [20, 20])
    assert PACKING.work == [[0.753472, 0.517361], [0.684028, 0.53125]]
    assert PACKING.makespans == (5.600693, 5.392362)
    assert PACKING.gap == pytest.approx(5.600693 / PACKING.bound - 1)


def test_problems_and_schedules() -> None:
    """A rank's problem has its microbatches as they are fed; its schedule is that of `run`, up to the slowest's end."""
    problem = PACKING.problem(1)
    assert problem.sizes is not None
    assert problem.name == "mine"
    assert (problem.sizes.work, problem.sizes.message) == ((0.684028, 0.53125), (0.916667, 0.75))
    assert problem.sizes.activation == problem.sizes.message
    schedule = PACKING.schedule(1)
    assert schedule.makespan == pipesched.run(problem, "1f1b").schedule.makespan == 5.392362
    assert PACKING.idle(1) == pytest.approx(1 - sum(schedule.busy) / (2 * 5.600693))


def test_pickle() -> None:
    """It is equal after pickle."""
    assert pickle.loads(pickle.dumps(PACKING)) == PACKING
