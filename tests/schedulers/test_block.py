"""Building blocks: what they hold, where W goes, squeezed and dispatched; a user's own, and the best of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pipesched import Plan, Problem, make_problem, run, schedule_plan
from pipesched.config.load import load_config
from pipesched.core.arrays import lists
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.plan.lowering import lower
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.schedulers.block import (
    Block,
    Dispatcher,
    Policy,
    Waits,
    best_of,
    in_chunks,
    squeeze,
    v_blocks,
    with_weights,
)
from pipesched.schedulers.registry import family
from pipesched.schedulers.trials import shorten_path
from pipesched.schedulers.zero_bubble import Switches, greedy_orders
from tests.examples import examples
from tests.oracle.alike import Op, Replayed, replay, setup_of
from tests.oracle.replay import needs
from tests.strategies import blocks, limited, problems, stages_of, starts, texts_of


def dispatched(
    problem: Problem, index: OpIndex, block: Block, capacities: Sequence[int], policy: Policy
) -> list[list[int]] | None:
    """Return the orders of a dispatcher as lists."""
    orders = Dispatcher(lower(problem, index), index, block).orders(capacities, policy)
    return None if orders is None else [*map(lists, orders)]


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


def test_weights_without_free_time_come_a_period_later() -> None:
    """Where a period has no room for W it comes a period after its I has ended."""
    problem = make_problem(devices=1, placement="linear", forward=1, backward_input=1, backward_weight=2)
    assert with_weights(problem, [0], [1], 4).offsets["W"] == [2]
    assert with_weights(problem, [0], [1], 3).offsets["W"] == [5]


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


PATIENCE = st.sampled_from([0, 1, 4, 20])


@given(blocks(), PATIENCE, st.booleans(), st.sampled_from([0, 1_000_000]), st.integers(0, 2))
def test_never_wedges(drawn: tuple[Problem, Block], patience: int, weight_first: bool, ahead: int, more: int) -> None:
    """In the room of the block or more, with forwards in its order or with room kept for all that are overtaken: every
    operation runs once, after its inputs, within that room."""
    problem, chunk = in_chunks(drawn[0])
    block = drawn[1]
    index = OpIndex("".join(block.offsets), problem.stages, problem.microbatches)
    capacity = (block.peak(problem) + more) * chunk
    orders = dispatched(problem, index, block, [capacity] * problem.devices, Policy(patience, weight_first, ahead))
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
    orders = dispatched(problem, index, block, [capacity] * problem.devices, Policy(ahead=ahead))
    if orders is not None:
        assert max(replay(problem, texts_of(Plan(index, orders))).peak) <= capacity


EXAMPLE = Path(__file__).parents[2] / "configs" / "building-block.yaml"
PLACEMENTS = ("auto", "linear", "loop", "v", "wave", "explicit")


def two(**values: Any) -> Problem:
    """Two devices, F 1 and B 2, four microbatches."""
    return make_problem(**{"devices": 2, "microbatches": 4, "activation": 1, **values})


def peak(problem: Problem, **block: Any) -> int | float:
    """The most chunks on a device, each activation being 1."""
    return max(run(problem, "block", **block).schedule.peak_grains) / problem.grains.per_unit


@given(st.data())
def test_any_block_on_any_placement(data: st.DataObject) -> None:
    """Every block that keeps the order of a microbatch runs, squeezed or not: each operation once, by the rules, and
    within the chunks that the block holds. (What lasts no time may free before another of that moment takes.)"""
    problem = data.draw(problems(PLACEMENTS, most_microbatches=8))
    block = data.draw(starts(problem.stages))
    squeeze = data.draw(st.booleans())
    schedule = run(problem, "block", **block, squeeze=squeeze).schedule
    assert list(violations(schedule)) == []
    naive = replay(schedule.problem, texts_of(schedule.plan))
    assert schedule.makespan_ticks == naive.makespan
    assert schedule.peak_grains == list(map(int, naive.peak))
    assert len(naive.start) == schedule.plan.index.size
    said = re.search(r"holds (\d+) chunks? a device by residence", schedule.plan.note)
    assert said is not None
    held = int(said[1])
    if all(schedule.graph.durations):
        assert all(_most_chunks(row) <= held for row in texts_of(schedule.plan))


def _most_chunks(row: list[str]) -> int:
    """How many forwards of a device are ever without their B or W."""
    level = most = 0
    for text in row:
        level += ("F" in text) - ("B" in text or "W" in text)
        most = max(most, level)
    return most


def test_v_min_in_ten_lines() -> None:
    """The example config is V-Min's block for P = 4: 4 chunks, 59 at M = 8 as published and as the family itself."""
    config = load_config(str(EXAMPLE), {})
    problem, asked = config.problem, config.algorithm
    assert asked is not None
    mine, family = run(problem, asked.name, **asked.options), run(problem, "v-min")
    assert (mine.algorithm, mine.schedule.makespan_ticks, mine.schedule.span_ticks) == ("block", 59, 59)
    assert (family.schedule.makespan_ticks, family.schedule.span_ticks) == (59, 59)
    assert max(mine.schedule.peak_grains) == max(family.schedule.peak_grains) == 4 * problem.grains.per_unit
    assert mine.schedule.plan.note == "the block holds 4 chunks a device by residence"


def test_1f1b_as_a_block() -> None:
    """F going down, B coming back at once, every 3: that is 1F1B, operation by operation; squeezing gains nothing."""
    problem = make_problem(devices=4, microbatches=8)
    known = run(problem, "1f1b").schedule
    block: dict[str, Any] = {"period": 3, "forward": [0, 1, 2, 3], "backward": [10, 8, 6, 4]}
    kept, squeezed = run(problem, "block", **block, squeeze=False).schedule, run(problem, "block", **block).schedule
    assert texts_of(kept.plan) == texts_of(known.plan)
    assert [one.makespan_ticks for one in (kept, squeezed)] == [known.makespan_ticks] * 2 == [33, 33]
    assert squeezed.plan.note == "the block holds 4 chunks a device by residence"


def test_peak_allows_more() -> None:
    """More than what the block holds lets forwards move further up; the note still says what the block holds."""
    block = {"period": 3, "forward": [0, 1], "backward": [4, 2]}
    assert [peak(two(), **block), peak(two(), **block, peak=3)] == [2, 3]
    assert run(two(), "block", **block, peak=3).schedule.plan.note == "the block holds 2 chunks a device by residence"


def test_weights_where_they_are_put() -> None:
    """W is in the first free time after I, or where the user puts it."""
    problem = make_problem(devices=1, microbatches=2, forward=1, backward_input=1, backward_weight=1)
    block: dict[str, Any] = {"period": 3, "forward": [0], "backward_input": [1], "squeeze": False}
    assert texts_of(run(problem, "block", **block).schedule.plan) == [["0F0", "0I0", "0W0", "0F1", "0I1", "0W1"]]
    late = run(problem, "block", **block, backward_weight=[5]).schedule
    assert texts_of(late.plan) == [["0F0", "0I0", "0F1", "0I1", "0W0", "0W1"]]


def test_times_are_exact() -> None:
    """Starts finer than the costs' ticks still have their order: a millionth decides."""
    block: dict[str, Any] = {"period": 3, "forward": [0, 1], "squeeze": False}
    orders = [
        texts_of(run(two(), "block", **block, backward=[Decimal(text), 2]).schedule.plan)[0][:3]
        for text in ("5.999999", "6.000001")
    ]
    assert orders == [["0F0", "0F1", "0B0"], ["0F0", "0F1", "0F2"]]


def test_a_period_that_is_too_short() -> None:
    """Where the devices work longer than the period, only the order of the block counts, and the note says so."""
    note = run(two(forward=2.5, backward=5), "block", period=3, forward=[0, 1], backward=[4, 2]).schedule.plan.note
    assert note.endswith("; its order counts, not its period 3: a device works 7.5 for a microbatch")


def test_a_period_that_is_too_long_is_told() -> None:
    """A device that works 3 on a microbatch idles half of a period of 6; one of 3 is its work."""
    problem = make_problem(devices=4, backward_input=1, backward_weight=1)
    starts = {"forward": [0, 1, 2, 3]}
    note = run(problem, "block", period=6, backward_input=[10, 8, 6, 4], **starts).schedule.plan.note
    told = "block: period 6, device 0 works 3 on a microbatch, so it idles 50% of each period"
    assert note == f"{told}; it holds 2 chunks a device by residence"
    note = run(problem, "block", period=3, backward_input=[7, 6, 5, 4], **starts).schedule.plan.note
    assert note == "the block holds 3 chunks a device by residence"


@settings(deadline=None)
@given(limited(), st.integers(0, 60), st.booleans())
def test_the_local_search_never_loses(problem: Problem, rounds: int, by_span: bool) -> None:
    """From a greedy schedule: it still runs and fits, and what is shortened is not longer."""
    capacities = [capacity if capacity is not None else 0 for capacity in problem.capacity_grains]
    index = OpIndex("FIW", problem.stages, problem.microbatches)
    start = greedy_orders(problem, capacities, Switches([9] * problem.devices, False, 0, 0, 0))
    before = schedule_plan(problem, Plan(index, start))
    offsets = before.first_start_ticks if by_span else [0] * problem.devices
    improved = shorten_path(lower(problem, index), index, capacities, offsets, start, rounds, 50)
    after = schedule_plan(problem, Plan(index, improved))
    assert list(violations(after)) == []
    assert after.fits
    assert (
        (after.span_ticks <= before.span_ticks)
        if by_span
        else (max(after.last_end_ticks) <= max(before.last_end_ticks))
    )


TIGHT, LOOSE = Waits(0, 0, 0, 0), Waits(3, 1, 3, 1)  # V-Min's and ZB-V's


@examples(15)
@given(problems(("v",), most_devices=3, most_microbatches=6, split=True), st.sampled_from(["span", "makespan"]))
def test_no_worse_than_any_design_squeezed(problem: Problem, objective: str) -> None:
    """Whatever the costs: in the room of 2P chunks, no longer than any of the designs squeezed as it stands."""
    designs, peak = v_blocks(problem, LOOSE), 2 * problem.devices
    counted, chunk = in_chunks(problem)
    index = OpIndex("FIW", problem.stages, problem.microbatches)
    chosen = schedule_plan(counted, best_of(problem, designs, peak, objective))
    assert max(chosen.peak_grains) <= peak * chunk
    for design in designs:
        orders = squeeze(
            lower(in_chunks(design.problem)[0], index), index, design.block, [peak * chunk] * problem.devices
        )
        if orders is not None:
            offered = schedule_plan(counted, Plan(index, orders))
            assert getattr(chosen, objective) <= getattr(offered, objective)


@pytest.mark.parametrize("name", ["1f1b-v", "zb-v", "v-half", "v-min"])
def test_a_plan_is_kept_for_all_budgets(name: str) -> None:
    """These families do not look at budgets, so a frontier has their plans made once; other costs are another plan."""
    chosen = family(name)
    given: list[dict[str, Any]] = [{"budget": 4}, {"budget": 9}, {"budget": 4, "forward": 3}]
    small, large, other = (
        make_problem(devices=2, stages=4, microbatches=4, placement="v", backward_input=2, backward_weight=1, **more)
        for more in given
    )
    assert chosen.plan(small) is chosen.plan(large)
    assert chosen.plan(other) is not chosen.plan(large)
