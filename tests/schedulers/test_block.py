"""Building blocks: what they hold, where W goes, and the order of the repeated block."""

from __future__ import annotations

import pytest
from hypothesis import given

from pipesched.pipeline.arguments import make_problem
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.best_block import Waits, published_peak
from pipesched.schedulers.block import Block, busiest, with_weights
from pipesched.schedulers.v_schedules import unit_block
from tests.oracle.alike import Op, setup_of
from tests.oracle.replay import needs
from tests.strategies import blocks, stages_of


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
