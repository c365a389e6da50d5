"""The check of slots that move: all run as early as they can, so that none may start a tick earlier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given, strategies as st

from pipesched import ConfigError, make_problem, plan, run, schedule_plan
from pipesched.pipeline.check.check import check, replayed_peaks, violations
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.problem import Problem
from tests.oracle.drawn import Config, configs, random_rows
from tests.oracle.setup import read_setup
from tests.pipeline.steps import whole_steps
from tests.strategies import SETTLED, plan_of, problems, random_plan, random_saving_plan, saving_plan_of

randoms = st.randoms(use_true_random=False)
UNLIKE = st.one_of(
    configs(("linear", "v", "bidirectional", "list"), slices=True),
    configs(("linear", "loop", "bidirectional"), pairs=True),
    configs(("linear", "loop"), slices=True, forward_only=True),
)


def slots_of(schedule: Schedule) -> Iterator[list[int]]:
    """What runs at once, by its numbers: a slot, both parts of a pair, both ends of tied gradients."""
    pairs, tied = schedule.plan.pairs, schedule.plan.index.of_kind("REDUCE_TIED")
    frees = [entry.number for program in schedule.plan.network for entry in program
             if entry.number in schedule.plan.index.of_kind("RESHARD")]  # fmt: skip
    for number in [*(one for machine in schedule.plan.machines for one in machine), *frees]:
        yield [number, pairs[number]] if number in pairs else [*tied] if number in tied else [number]


def moved(schedule: Schedule, numbers: list[int], by: int) -> Schedule:
    """The schedule with some operations so much later."""
    starts, ends = [*schedule.start_ticks], [*schedule.end_ticks]
    for number in numbers:
        starts[number], ends[number] = starts[number] + by, ends[number] + by
    return Schedule(schedule.problem, schedule.plan, starts, ends)


def require_none_is_free(schedule: Schedule) -> None:
    """Each slot starts at 0, or as what it waits for ends: a tick earlier it breaks a rule, and is named."""
    assert [*violations(schedule)] == []
    for numbers in slots_of(schedule):
        said = " ".join(violations(moved(schedule, numbers, -1)))
        ops = [str(schedule.plan.index.op(number)) for number in numbers]
        assert any(op in said or ("UNSHARD" in op and "the gather for" in said) for op in ops)  # by its pass


@given(problems(SETTLED, overlap=True, saving=True, unlike=True), randoms, st.sampled_from([0, 0.5, 1]))
def test_passes(problem: Problem, random: Random, split: float) -> None:
    """Slots and transfers of plans with pairs, halves, recompute, offload and waits."""
    texts = random_saving_plan(problem, random, split=split, pair=0.3, recompute=0.3, offload=0.3, wait=0.1)
    require_none_is_free(schedule_plan(problem, saving_plan_of(problem, texts)))


@given(UNLIKE, randoms, st.sampled_from([0, 0.5, 1]))
def test_units(config: Config, random: Random, split: float) -> None:
    """Slots of microbatches that differ, of slices, of forwards alone, and of two copies of the weights."""
    rows = random_rows(read_setup(config), random, split=split, pair=0.3 if "overlap" in config else 0)
    problem = make_problem(**config)
    require_none_is_free(schedule_plan(problem, plan(problem, rows)))


@given(whole_steps(), randoms)
def test_steps(problem: Problem, random: Random) -> None:
    """Slots, gathers, reductions, optimizers, side work, and the moments at which weights are freed."""
    rows = random_plan(problem, random, split=0.5, pair=0.2)
    require_none_is_free(schedule_plan(problem, plan_of(problem, rows)))


def test_far_times() -> None:
    """Times and sizes beyond 64 bits are compared exactly."""
    far, near = 10**11, Decimal("0.000000001")
    problem = make_problem(
        devices=2, microbatches=3, forward=[far, near], backward=[near, far], p2p=far, activation=[far, near],
        budget=9 * far, placement="linear",
    )  # fmt: skip
    schedule = run(problem, "1f1b").schedule
    assert schedule.makespan_ticks > 2**63
    assert schedule.peak_grains == replayed_peaks(schedule)
    require_none_is_free(schedule)
    number = schedule.plan.index.row("F", 1)[0]
    assert schedule.start_ticks[number] == 2 * far * problem.ticks.per_unit
    late = [*schedule.end_ticks]
    late[number] += 1
    found = [*violations(Schedule(problem, schedule.plan, schedule.start_ticks, late))]
    assert [sentence for sentence in found if sentence.startswith("1F0 lasts ")]


def test_times_at_the_end_of_64_bits() -> None:
    """Times of a short problem that are near the largest number of 64 bits are compared exactly too."""
    problem = make_problem(devices=2, microbatches=1, p2p=2)
    schedule = schedule_plan(problem, plan(problem, ["0F0 0B0", "1F0 1B0"]))
    index = schedule.plan.index
    last = index.row("B", 0)[0]
    assert [*violations(moved(schedule, [last], 2**63 - 1 - schedule.end_ticks[last]))] == []
    for number in range(index.size):
        later = [*violations(moved(schedule, [number], 2**63 - 1 - schedule.start_ticks[number]))]
        assert bool(later) == (number != last)
        found = [*violations(moved(schedule, [number], -(2**63)))]
        assert found == [f"{index.op(number)} starts before time 0"]


@pytest.mark.parametrize(
    ("forward", "backward", "sentence"),
    [("F", "W", "0F0 and 0W0"), ("I", "B", "0I0 and 0B1"), ("F", "F", "0F0 and 1F0"), ("F", "I", "0F0 and 0I0")],
)
def test_wrong_pairs(forward: str, backward: str, sentence: str) -> None:
    """A pair is of a forward and a full backward: any other is named, and crashes nothing."""
    problem = make_problem(devices=1, stages=2, microbatches=2, placement="linear")
    schedule = schedule_plan(problem, plan(problem, ["0F0 0F1 1F0 1F1 1B1 1I0 1W0 0B1 0I0 0W0"]))
    first, second = (schedule.plan.index.row(kind, 0)[0] for kind in (forward, backward))
    second = {"B": second + 1, "F": schedule.plan.index.row("F", 1)[0]}.get(backward, second)
    orders = [[number for number in schedule.plan.orders[0] if number != second]]
    wrong = replace(schedule, plan=replace(schedule.plan, orders=orders, pairs={first: second}))
    assert f"{sentence} are no pair: a forward and a full backward are" in [*violations(wrong)]


@pytest.mark.parametrize("ends", [[1, 3], [1, 3, 4.5], [1, 3, None], [1, True, 3, 4], "1234"])
def test_wrong_times(ends: list[int]) -> None:
    """Times of another number or type are refused with a sentence before any rule reads them."""
    schedule = schedule_plan(problem := make_problem(devices=1, microbatches=2), plan(problem, ["0F0 0F1 0B0 0B1"]))
    with pytest.raises(ConfigError, match="end_ticks"):
        Schedule(problem, schedule.plan, schedule.start_ticks, ends)
    assert check(schedule) == []
