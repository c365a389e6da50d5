"""Squeezing: every operation of the repeated block as early as time and memory allow."""

from __future__ import annotations

import pytest
from hypothesis import given

from pipesched.pipeline.arguments import make_problem
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.block import Block, in_chunks, squeeze
from pipesched.schedulers.v_schedules import unit_block
from tests.oracle.alike import Replayed, replay
from tests.strategies import blocks, texts_of


def replayed(problem: Problem, index: OpIndex, orders: list[list[int]]) -> Replayed:
    """The naive replay of these orders."""
    return replay(problem, texts_of(Plan(index, orders)))


@given(blocks())
@pytest.mark.slow
def test_never_later_than_the_block(drawn: tuple[Problem, Block]) -> None:
    """In the room of the block by residence, all operations run, once each, within that room, and none starts
    later than when each device runs the order of the block itself."""
    given_problem, block = drawn
    problem, chunk = in_chunks(given_problem)
    index = OpIndex("".join(block.offsets), problem.stages, problem.microbatches)
    capacity = block.peak(problem) * chunk
    orders = squeeze(lower(problem, index), index, block, [capacity] * problem.devices)
    assert orders is not None
    assert sorted(number for order in orders for number in order) == list(range(index.size))
    squeezed = replayed(problem, index, orders)
    assert max(squeezed.peak) <= capacity
    kept: list[list[int]] = [[] for _ in orders]
    for number in block.order(index).tolist():
        kept[problem.settled_placement.devices[index.op(number).stage]].append(number)
    plain = replayed(problem, index, kept)
    assert all(start <= plain.start[text] for text, start in squeezed.start.items())


@pytest.mark.parametrize(("devices", "microbatches", "makespan", "peak"), [(4, 8, 63, 6), (8, 24, 177, 12)])
def test_1f1b_v(devices: int, microbatches: int, makespan: int, peak: int) -> None:
    """The published makespans of 1F1B-V at f = 1, B = 2, at its peak."""
    problem = make_problem(devices=devices, stages=2 * devices, microbatches=microbatches, placement="v", activation=1)
    index = OpIndex("FB", problem.stages, microbatches)
    orders = squeeze(lower(problem, index), index, unit_block(problem), [peak] * devices)
    assert orders is not None
    found = replayed(problem, index, orders)
    assert (found.makespan, int(max(found.peak))) == (makespan, peak)


def test_too_little_room() -> None:
    """Where the block holds more than the room, some forward never fits."""
    problem = make_problem(devices=2, microbatches=4, placement="linear", activation=1)
    block, index = Block({"F": [0, 1], "B": [4, 2]}, 3), OpIndex("FB", 2, 4)
    assert block.peak(problem) == 2
    assert squeeze(lower(problem, index), index, block, [2, 2]) is not None
    assert squeeze(lower(problem, index), index, block, [1, 2]) is None


def test_memory_holds_a_forward_back() -> None:
    """The second forward moves up into the wait before I where there is memory for it, else behind W."""
    problem = make_problem(
        devices=2, microbatches=2, placement="linear", backward_input=1, backward_weight=1, activation=1
    )
    index, block = OpIndex("FIW", 2, 2), Block({"F": [0, 1], "I": [3, 2], "W": [4, 3]}, 6)
    orders = [squeeze(lower(problem, index), index, block, [capacity, capacity]) for capacity in (1, 2)]
    first = [texts_of(Plan(index, order or []))[0] for order in orders]
    assert first == [["0F0", "0I0", "0W0", "0F1", "0I1", "0W1"], ["0F0", "0F1", "0I0", "0W0", "0I1", "0W1"]]
