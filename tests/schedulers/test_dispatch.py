"""Dispatching: devices run what is ready, earliest in the block first."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pipesched.pipeline.arguments import make_problem
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.block import Block, in_chunks
from pipesched.schedulers.dispatch import Dispatcher, Policy
from tests.oracle.alike import replay
from tests.strategies import blocks, texts_of

PATIENCE = st.sampled_from([0, 1, 4, 20])


@given(blocks(), PATIENCE, st.booleans(), st.sampled_from([0, 1_000_000]), st.integers(0, 2))
def test_never_wedges(drawn: tuple[Problem, Block], patience: int, weight_first: bool, ahead: int, more: int) -> None:
    """In the room of the block or more, with forwards in its order or with room kept for all that are overtaken: every
    operation runs once, after its inputs, within that room."""
    problem, chunk = in_chunks(drawn[0])
    block = drawn[1]
    index = OpIndex("".join(block.offsets), problem.stages, problem.microbatches)
    capacity = (block.peak(problem) + more) * chunk
    orders = Dispatcher(lower(problem, index), index, block).orders(
        [capacity] * problem.devices, Policy(patience, weight_first, ahead)
    )
    assert orders is not None
    assert sorted(number for order in orders for number in order) == list(range(index.size))
    assert max(replay(problem, texts_of(Plan(index, orders))).peak) <= capacity


@given(blocks(), st.integers(1, 3))
def test_overtaking_runs_or_says_no(drawn: tuple[Problem, Block], ahead: int) -> None:
    """With room kept for a few only, it may wedge; else it runs within its room."""
    problem, chunk = in_chunks(drawn[0])
    block = drawn[1]
    index = OpIndex("".join(block.offsets), problem.stages, problem.microbatches)
    capacity = block.peak(problem) * chunk
    orders = Dispatcher(lower(problem, index), index, block).orders([capacity] * problem.devices, Policy(ahead=ahead))
    if orders is not None:
        assert max(replay(problem, texts_of(Plan(index, orders))).peak) <= capacity


def test_weights_make_room() -> None:
    """Where memory keeps a forward waiting, W runs and frees it."""
    problem = make_problem(
        devices=1, microbatches=2, placement="linear", backward_input=1, backward_weight=1, activation=1
    )
    index, block = OpIndex("FIW", 1, 2), Block({"F": [0], "I": [1], "W": [2]}, 3)
    orders = Dispatcher(lower(problem, index), index, block).orders([1], Policy())
    assert orders is not None
    assert texts_of(Plan(index, orders)) == [["0F0", "0I0", "0W0", "0F1", "0I1", "0W1"]]


@pytest.mark.parametrize(("patience", "expected"), [(0, "1F0 1I0 1F1 1I1 1W0 1W1"), (1, "1F0 1I0 1W0 1F1 1I1 1W1")])
def test_patience(patience: int, expected: str) -> None:
    """A W that would end after the next input arrives runs only if that input may wait as long: on the last of two
    devices the second forward comes 1 after I, and W takes 3."""
    problem = make_problem(
        devices=2,
        microbatches=2,
        placement="linear",
        forward=[3, 1],
        backward_input=[9, 1],
        backward_weight=3,
        activation=1,
    )
    index = OpIndex("FIW", 2, 2)
    block = Block({"F": [0, 3], "I": [5, 4], "W": [14, 5]}, 16)
    orders = Dispatcher(lower(problem, index), index, block).orders([2, 2], Policy(4 * patience))
    assert orders is not None
    assert texts_of(Plan(index, orders))[1] == expected.split()
