"""The independent check: every rule of what a schedule means, broken on purpose."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from random import Random

import pytest
from hypothesis import assume, given, strategies as st

from pipesched import (
    ConfigError,
    InvalidSchedule,
    Plan,
    Problem,
    Schedule,
    check,
    make_problem,
    plan,
    run,
    schedule_plan,
)
from pipesched.pipeline.check.check import MOST_VIOLATIONS, checked, excesses, replayed_peaks, violations
from pipesched.pipeline.problem.ops import parse_op
from pipesched.pipeline.problem.quantities import canonical, plain, to_fraction
from tests.oracle.alike import device_of, name, parts
from tests.oracle.drawn import Config, configs, random_rows
from tests.oracle.setup import read_setup
from tests.strategies import SETTLED, plan_of, problems, random_plan, random_saving_plan, saving_plan_of, whole_steps

randoms = st.randoms(use_true_random=False)


def scheduled(problem: Problem, texts: Sequence[Sequence[str]]) -> Schedule:
    """The schedule of a plan written as texts."""
    return schedule_plan(problem, plan_of(problem, texts))


def names(sentence: str) -> set[str]:
    """The operations that a sentence names."""
    return set(re.findall(r"\b\d+[FBIW]\d+\b", sentence))


def named(schedule: Schedule) -> set[str]:
    """The operations that the check's sentences name."""
    return set().union(*map(names, violations(schedule)))


def moved(schedule: Schedule, slot: str, start: int = 0, end: int = 0) -> Schedule:
    """The schedule with `slot` (all of it) starting and ending that many ticks later."""
    return moved_by(schedule, [schedule.plan.index.number(parse_op(name(op))) for op in parts(slot)], start, end)


def one_f_one_b() -> Schedule:
    """1F1B on two devices with two microbatches and p2p 1: legal."""
    problem = make_problem(devices=2, microbatches=2, forward=1, backward=2, p2p=1, placement="linear")
    return scheduled(problem, [["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]])


@pytest.mark.parametrize("microbatches", [1, 3])
def test_a_plan_of_another_number_of_microbatches(microbatches: int) -> None:
    """A plan made for fewer or more microbatches than the problem has is refused: no schedule can be made of it."""
    texts = [[f"0F{mb}" for mb in range(microbatches)] + [f"0B{mb}" for mb in range(microbatches)]]
    other = make_problem(devices=1, microbatches=microbatches, placement="linear")
    problem = make_problem(devices=1, microbatches=2, placement="linear")
    plan = plan_of(other, texts)
    with pytest.raises(ConfigError, match=f"for 1 devices, 1 stages and {microbatches} microbatches") as caught:
        schedule_plan(problem, plan)
    assert caught.value.key == "plan"
    with pytest.raises(ConfigError, match=f"for 1 devices, 1 stages and {microbatches} microbatches"):
        Schedule(problem, plan, [0] * plan.index.size, [0] * plan.index.size)


@pytest.mark.parametrize("overlap", [None, 3])
def test_a_pair_that_lasts_as_long_as_its_parts_alone(overlap: int | None) -> None:
    """Where F and B cost the same, a pair that lasts only that long got one of them for nothing."""
    problem = make_problem(devices=1, microbatches=2, forward=2, backward=2, overlap=overlap, placement="linear")
    schedule = scheduled(problem, [["0F0", "(0F1;0B0)OVERLAP_F_B", "0B1"]])
    assert schedule.busy_ticks == [4 + (overlap or 4)]
    short = moved(schedule, "(0F1;0B0)OVERLAP_F_B", end=2 - (overlap or 4))
    assert {"0F1", "0B0"} & named(short)
    assert "0B0" in named(moved(schedule, "0B0", end=2**70))  # the starts have 64 bits
    given, b0, b1 = schedule.plan, *schedule.plan.index.row("B", 0)
    assert [*violations(schedule_plan(problem, replace(given, orders=[[0, 1, b0]], pairs={b0: b1})))] == [
        "0B0 and 0B1 are no pair: a forward and a full backward are"
    ]


@pytest.mark.parametrize("half", ["0F1", "0B0"])
def test_halves_of_a_pair_apart(half: str) -> None:
    """A pair starts and ends together: one half later than the other breaks a rule."""
    problem = make_problem(devices=2, microbatches=2, forward=1, backward=2, overlap=2, placement="linear")
    schedule = scheduled(problem, [["0F0", "(0F1;0B0)OVERLAP_F_B", "0B1"], ["1F0", "1B0", "1F1", "1B1"]])
    assert list(violations(schedule)) == []
    later = half == "0B0"  # 0B0 ends what it starts; 0F1 must not come after 1F1 has started, so it goes earlier
    shift = 1 if later else -1
    assert half in named(moved(schedule, half, start=shift, end=shift))


def test_a_pair_on_two_devices() -> None:
    """A pair of stages that live on different devices breaks a rule, though its backward stands in no order."""
    problem = make_problem(devices=2, microbatches=2, placement="linear")
    schedule = scheduled(problem, [["0F0", "(0F1;1B0)OVERLAP_F_B", "0B0", "0B1"], ["1F0", "1F1", "1B1"]])
    assert [*violations(schedule)] == ["0F1 and 1B0 run together, but their stages live on different devices"]


def test_backwards_beside_forwards_alone() -> None:
    """A problem of forward passes has no other."""
    problem = make_problem(devices=1, microbatches=1, mode="forward")
    schedule = scheduled(problem, [["0F0", "0B0"]])
    assert [*violations(schedule)] == ["0B0 is no forward; the problem has forwards alone"]


def test_a_wait_that_is_not_kept() -> None:
    """An operation starts no earlier than the end of one for which the plan makes it wait, on any device."""
    problem = make_problem(devices=2, microbatches=2)
    given = plan(problem, ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"], waits=[("0F1", "1F0")])
    early = moved(schedule_plan(problem, given), "0F1", -1, -1)
    assert [*violations(early)] == ["0F1 starts before the end of 1F0, for which the plan makes it wait"]


def test_an_instant_inside_another() -> None:
    """An operation of no length may not run inside another one either."""
    problem = make_problem(devices=1, stages=2, microbatches=1, forward=[4, 0], backward=[2, 0], placement="linear")
    schedule = scheduled(problem, [["0F0", "1F0", "1B0", "0B0"]])
    assert list(violations(schedule)) == []
    assert "1F0" in named(moved(schedule, "1F0", start=-2, end=-2))


@pytest.mark.parametrize("extra", [["0I0", "0W0"], ["0I0"], ["0W0"]])
def test_both_kinds_of_backward(extra: list[str]) -> None:
    """A full backward together with a split one, or a part of one, is refused by stage and microbatch."""
    problem = make_problem(devices=1, microbatches=1, placement="linear")
    [sentence] = violations(scheduled(problem, [["0F0", "0B0", *extra]]))
    assert "stage 0, microbatch 0" in sentence


def test_runs_twice() -> None:
    """An operation that stands in the plan twice is named with how often."""
    schedule = one_f_one_b()
    first, second = schedule.plan.orders
    twice = Plan(schedule.plan.index, [[*first, first[0]], second])
    found = list(violations(Schedule(schedule.problem, twice, schedule.start_ticks, schedule.end_ticks)))
    assert found == ["0F0 runs 2 times"]


def test_checked_raises_with_sentences() -> None:
    """`checked` raises InvalidSchedule with the sentences, at most MOST_VIOLATIONS of them."""
    problem = make_problem(devices=1, microbatches=3 * MOST_VIOLATIONS, placement="linear")
    count = range(problem.microbatches)
    schedule = scheduled(problem, [[*(f"0F{mb}" for mb in count), *(f"0B{mb}" for mb in count)]])
    long = Schedule(
        problem, schedule.plan, [3 * start for start in schedule.start_ticks], [3 * e for e in schedule.end_ticks]
    )
    with pytest.raises(InvalidSchedule, match="0F0 lasts 3, not 1") as caught:
        checked(long)
    assert len(caught.value.violations) == MOST_VIOLATIONS


def test_the_budget_is_no_rule_of_what_is_drawn() -> None:
    """A schedule over its budget is drawn all the same, and refused by nothing; only `check` says by how much."""
    problem = make_problem(devices=1, microbatches=2, budget=1.25, static=0.5, placement="linear")
    schedule = scheduled(problem, [["0F0", "0F1", "0B0", "0B1"]])
    assert not schedule.fits
    assert list(violations(schedule)) == []
    assert checked(schedule) is schedule
    assert check(schedule) == ["device 0 holds 2.5 of 1.25 microbatch: over the budget by 1.25"]


def test_a_broken_rule_comes_before_the_budget() -> None:
    """Of a schedule that breaks a rule the check says that alone: what it holds is not known."""
    problem = make_problem(devices=1, microbatches=2, budget=1, placement="linear")
    schedule = moved(scheduled(problem, [["0F0", "0F1", "0B0", "0B1"]]), "0B1", end=1)
    assert check(schedule) == ["0B1 lasts 3, not 2"]


@given(problems(SETTLED, overlap=True, saving=True), randoms, st.integers(1, 8))
def test_what_exceeds_the_budget(problem: Problem, random: Random, parts_of_peak: int) -> None:
    """The devices, what they hold and their budgets are those of the metrics, static memory of both copies included."""
    plan = plan_of(problem, random_plan(problem, random))
    memory = schedule_plan(problem, plan).memory
    static = replace(problem.memory, static=(1,) * problem.stages)
    budget = tuple(max(to_fraction(most) * parts_of_peak / 4, Fraction(1)) for most in memory)
    limited = replace(problem, memory=replace(static, budget=tuple(map(canonical, budget))))
    schedule = schedule_plan(limited, plan)
    limits = [*map(plain, limited.memory.budget or ())]
    over = [{"device": at, "memory": schedule.memory[at], "budget": limits[at]} for at in schedule.over_budget]
    assert excesses(schedule) == over
    assert len(check(schedule)) == len(over)


@given(problems(SETTLED, overlap=True), randoms, st.sampled_from([0, 0.5, 1]))
def test_any_missing_slot(problem: Problem, random: Random, split: float) -> None:
    """Any slot taken out of a plan is missed: each of its operations is named, or its stage and microbatch."""
    texts = random_plan(problem, random, split=split, pair=0.5)
    row = random.choice([row for row in texts if len(row) > 1] or texts)
    assume(row)
    gone = row.pop(random.randrange(len(row)))
    found = list(violations(scheduled(problem, texts)))
    for op in parts(gone):
        assert any(name(op) in names(sentence) and "missing" in sentence for sentence in found)


@given(problems(SETTLED, overlap=True), randoms, st.sampled_from([0, 0.5, 1]))
def test_any_wrong_device(problem: Problem, random: Random, split: float) -> None:
    """Any slot on any other device is named, whatever its times."""
    assume(problem.devices > 1)
    texts = random_plan(problem, random, split=split, pair=0.5)
    schedule = scheduled(problem, texts)
    device = random.choice([device for device, row in enumerate(texts) if row])
    slot = texts[device].pop(random.randrange(len(texts[device])))
    texts[random.choice([other for other in range(problem.devices) if other != device])].append(slot)
    plan = plan_of(problem, texts)
    wrong = named(Schedule(problem, plan, schedule.start_ticks, schedule.end_ticks))
    first = parts(slot)[0]
    assert device_of(problem, first.stage, first.microbatch) == device
    assert name(first) in wrong


# The check of slots that move: all run as early as they can, so that none may start a tick earlier.

MOST_SLOTS = 60  # of a schedule
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


def moved_by(schedule: Schedule, numbers: Sequence[int], start: int, end: int) -> Schedule:
    """The schedule with some operations starting and ending so much later."""
    starts, ends = [*schedule.start_ticks], [*schedule.end_ticks]
    for number in numbers:
        starts[number], ends[number] = starts[number] + start, ends[number] + end
    return Schedule(schedule.problem, schedule.plan, starts, ends)


def require_none_is_free(schedule: Schedule) -> None:
    """Each slot starts at 0, or as what it waits for ends: a tick earlier, or longer, it breaks a rule and is named."""
    assert [*violations(schedule)] == []
    frees = schedule.plan.index.of_kind("RESHARD")
    slots = [*slots_of(schedule)]
    for place, numbers in enumerate(slots[:: 1 + len(slots) // MOST_SLOTS]):
        ops = [str(schedule.plan.index.op(number)) for number in numbers]
        said = " ".join(violations(moved_by(schedule, numbers, -1, -1)))
        assert any(op in said or ("UNSHARD" in op and "the gather for" in said) for op in ops)  # by its pass
        if place % 4 == 0:  # any of them, and quick
            longer = moved_by(schedule, numbers, int(numbers[0] in frees), 1)
            assert any(op in sentence for op in ops for sentence in violations(longer))


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

    def at(number: int, tick: int) -> list[str]:
        return [*violations(moved_by(schedule, [number], tick, tick))]

    end = 2**63 - 1
    assert at(last, end - schedule.end_ticks[last]) == []
    for number in range(index.size):
        assert bool(at(number, end - schedule.start_ticks[number])) == (number != last)
        assert at(number, -(2**63)) == [f"{index.op(number)} starts before time 0"]


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
