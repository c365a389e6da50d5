"""Building blocks: what they hold, where W goes, and the repeated block in order, squeezed and dispatched."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pipesched.pipeline.plan.lowering import lower
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import Problem
from pipesched.schedulers.block import (
    Block,
    Dispatcher,
    Policy,
    Waits,
    busiest,
    in_chunks,
    published_peak,
    squeeze,
    with_weights,
)
from pipesched.schedulers.zero_bubble import unit_block
from tests.oracle.alike import Op, Replayed, replay, setup_of
from tests.oracle.replay import needs
from tests.strategies import blocks, stages_of, texts_of


def unit(devices: int) -> Problem:
    """Two stages a device on a V, f = b = w = 1."""
    return make_problem(devices=devices, stages=2 * devices, placement="v")


def on_a_v(problem: Problem, down: list[int], up: list[int], back_down: list[int], back_up: list[int]) -> Block:
    """The block with period 6 of the offsets of F0, F1, I1, I0 on each device."""
    return with_weights(problem, [*down, *up[::-1]], [*back_up, *back_down[::-1]], 6)


def v_min(problem: Problem) -> Block:
    """The published offsets."""
    p, devices = problem.devices, range(problem.devices)
    x = 2 if p % 3 == 0 else 0
    up, back_down = [2 * p - 1 - d for d in devices], [2 * p + x + d for d in devices]
    return on_a_v(problem, list(devices), up, back_down, [4 * p + x - d - 1 for d in devices])


def v_half(problem: Problem) -> Block:
    """The published offsets."""
    p, devices = problem.devices, range(problem.devices)
    x = 0 if p % 2 else 3
    down, up = [2 * d for d in devices], [3 * p - d - 2 for d in devices]
    return on_a_v(problem, down, up, [3 * p + x + 2 * d - 1 for d in devices], [6 * p + x - d - 2 for d in devices])


@pytest.mark.parametrize(("devices", "peak"), [(4, 4), (8, 8), (16, 12)])
def test_what_v_min_holds(devices: int, peak: int) -> None:
    """V-Min's published peaks, from its published offsets and from the family's own block."""
    problem = unit(devices)
    assert v_min(problem).peak(problem) == peak
    assert published_peak(problem, Waits(0, 0, 0, 0)) == peak


@pytest.mark.parametrize(("devices", "peak"), [(4, 6), (8, 10), (16, 18)])
def test_what_v_half_holds(devices: int, peak: int) -> None:
    """V-Half's published peaks, from its published offsets and from the family's own block."""
    problem = unit(devices)
    assert v_half(problem).peak(problem) == peak
    assert published_peak(problem, Waits(1, 0, 1, 0, top=3, backward_bottom=1)) == peak


@pytest.mark.parametrize(("devices", "peak"), [(2, 4), (3, 6), (4, 6), (6, 10), (8, 12)])
def test_what_1f1b_v_holds(devices: int, peak: int) -> None:
    """1F1B-V's published peaks."""
    assert unit_block(unit(devices)).peak(unit(devices)) == peak


@given(blocks())
def test_peak_is_the_most_residences_at_once(drawn: tuple[Problem, Block]) -> None:
    """Repeating the block for long, and counting what is there when one in the middle starts an F: the peak."""
    problem, block = drawn
    last = "B" if "B" in block.offsets else "W"
    lengths = [length * block.parts for length in problem.ticks.of(last)]
    longest = max(end + size for end, size in zip(block.offsets[last], lengths, strict=True))
    reach = longest // block.period + 2
    most = 0
    for device in range(problem.devices):
        residences = [
            (block.offsets["F"][s] + k * block.period, block.offsets[last][s] + k * block.period, lengths[s])
            for s in stages_of(problem, device)
            for k in range(2 * reach)
        ]
        for moment in {block.offsets["F"][s] + reach * block.period for s in stages_of(problem, device)}:
            there = [1 for start, final, size in residences if start <= moment < final + size]
            at_once = [1 for start, final, size in residences if start <= moment == final and not size]
            most = max(most, len(there) + len(at_once))
    assert block.peak(problem) == most


@given(blocks())
def test_the_order_keeps_every_dependency(drawn: tuple[Problem, Block]) -> None:
    """In the order of the repeated block nothing stands before what it waits for, and everything stands there once."""
    problem, block = drawn
    index = OpIndex("".join(block.offsets), problem.stages, problem.microbatches)
    order = block.order(index).tolist()
    assert sorted(order) == list(range(index.size))
    done: set[Op] = set()
    ops = [Op(*index.op(number)) for number in order]
    for op in ops:
        assert done.issuperset(needs(setup_of(problem), op, set(ops)))
        done.add(op)


def test_times_of_a_repeated_block() -> None:
    """Each microbatch begins a period after the one before; times are in parts of a tick, here in halves."""
    index = OpIndex("FB", 2, 3)
    whole, half = Block({"F": [0, 1], "B": [3, 2]}, 4), Block({"F": [0, 2], "B": [7, 4]}, 8, 2)
    assert whole.times(index).tolist() == [0, 4, 8, 1, 5, 9, 3, 7, 11, 2, 6, 10]
    assert half.times(index).tolist() == [0, 8, 16, 2, 10, 18, 7, 15, 23, 4, 12, 20]


@pytest.mark.parametrize("devices", [2, 4, 5, 7, 8])
def test_weights_fill_the_free_time(devices: int) -> None:
    """Each W of V-Min's and V-Half's blocks begins after its I, and no two operations of a device meet modulo 6."""
    problem = unit(devices)
    for block in (v_min(problem), v_half(problem)):
        assert all(w > i for i, w in zip(block.offsets["I"], block.offsets["W"], strict=True))
        for device in range(devices):
            slots = [block.offsets[kind][stage] % 6 for kind in "FIW" for stage in stages_of(problem, device)]
            assert sorted(slots) == [0, 1, 2, 3, 4, 5]


def test_weights_without_free_time_come_a_period_later() -> None:
    """Where a period has no room for W it comes a period after its I has ended."""
    problem = make_problem(devices=1, placement="linear", forward=1, backward_input=1, backward_weight=2)
    assert with_weights(problem, [0], [1], 4).offsets["W"] == [2]
    assert with_weights(problem, [0], [1], 3).offsets["W"] == [5]


def test_the_busiest_device() -> None:
    """The work for one microbatch of the device that has most, in ticks."""
    problem = make_problem(devices=2, stages=4, placement="v", forward=[1, 2, 3, 4.5], backward=[1, 1, 1, 1])
    assert busiest(problem) == 75


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
        devices=2, microbatches=2, placement="linear", forward=[3, 1], backward_input=[9, 1], backward_weight=3,
        activation=1,
    )  # fmt: skip
    index = OpIndex("FIW", 2, 2)
    block = Block({"F": [0, 3], "I": [5, 4], "W": [14, 5]}, 16)
    orders = Dispatcher(lower(problem, index), index, block).orders([2, 2], Policy(4 * patience))
    assert orders is not None
    assert texts_of(Plan(index, orders))[1] == expected.split()
