"""The table of kinds against the rules of the check, which restates them: neither says what the other does not."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, strategies as st

from pipesched import Op, Problem, Schedule, make_problem, schedule_plan
from pipesched.pipeline.check.check import replayed_peaks, violations
from pipesched.pipeline.problem.kinds import ALL_KINDS, KINDS, LETTERS, SLOT_LETTERS, Need, Resource
from tests.strategies import SETTLED, Texts, problems, random_saving_plan, saving_plan_of

Times = dict[Op, tuple[int, int]]
PLANS = ["FB", "FIW", "FBR", "FBOL", "FIWR", "FIWOL"]  # the kinds that an activation can go through
PROBLEM = make_problem(
    devices=2, microbatches=1, placement="linear", forward=[2, 3], backward_input=[5, 7], backward_weight=[11, 13],
    recompute=[17, 19], offload=[23, 29], reload=[31, 37], p2p=4,
)  # fmt: skip


def by_table(letters: str) -> Times:
    """The earliest time of each operation of one microbatch by the needs of the table alone, devices left aside."""
    times: Times = {}
    waiting = [Op(stage, letter, 0) for stage in range(2) for letter in letters]
    while waiting:
        op = next(op for op in waiting if all(need in times for need, _ in needs_of(op, letters)))
        start = max((times[need][1] + lag for need, lag in needs_of(op, letters)), default=0)
        times[op] = start, start + PROBLEM.ticks.of(op.kind)[op.stage]
        waiting.remove(op)
    return times


def needs_of(op: Op, letters: str) -> Iterator[tuple[Op, int]]:
    """What an operation of a whole microbatch waits for, among those of these letters, and the lag."""
    for need in KINDS[op.kind].needs:
        stage = op.stage + need.stage
        if need.letter in letters and stage in (0, 1) and not need.slice:
            yield Op(stage, need.letter, 0), 4 if need.stage else 0


def scheduled(letters: str, times: Times) -> Schedule:
    """The operations in the order of their starts, at these times."""
    rows = [sorted((op for op in times if op.stage == device), key=lambda op: times[op]) for device in range(2)]
    devices = [[str(op) for op in row if op.kind in SLOT_LETTERS] for row in rows]
    lanes = [[str(op) for op in row if op.kind == kind] for row in rows for kind in "OL"] if "O" in letters else []
    plan = saving_plan_of(PROBLEM, Texts(devices, lanes, []))
    starts, ends = [-1] * plan.index.size, [-1] * plan.index.size
    for op, (start, end) in times.items():
        starts[plan.index.number(op)], ends[plan.index.number(op)] = start, end
    return Schedule(PROBLEM, plan, starts, ends)


def early(schedule: Schedule) -> list[str]:
    """What the check says about inputs that are not there yet."""
    return [sentence for sentence in violations(schedule) if "before its input is there" in sentence]


@pytest.mark.parametrize("letters", PLANS)
def test_the_check_asks_for_no_more_than_the_table(letters: str) -> None:
    """What starts as early as the table's needs allow is never too early for the check, nor of a wrong length."""
    schedule = scheduled(letters, by_table(letters))
    assert early(schedule) == []
    assert not [sentence for sentence in violations(schedule) if "lasts" in sentence or "lane" in sentence]


@pytest.mark.parametrize("letters", PLANS)
def test_the_check_asks_for_no_less_than_the_table(letters: str) -> None:
    """Each need by itself: a tick before its end, and its latency, the check says that this input is not there."""
    seen = set[tuple[str, Need]]()
    times = by_table(letters)
    for op in times:
        for need, lag in needs_of(op, letters):
            there = times[need][1] + lag
            length = PROBLEM.ticks.of(op.kind)[op.stage]
            moved = scheduled(letters, {**times, op: (there - 1, there - 1 + length)})
            assert f"{op} starts at {there - 1}, before its input is there at {there}" in early(moved)
            seen.add((op.kind, Need(need.kind, need.stage - op.stage)))
    needs = ((letter, need) for letter in letters for need in KINDS[letter].needs if not need.slice)
    assert seen == {(letter, need) for letter, need in needs if need.letter in letters}


@pytest.mark.parametrize("letters", PLANS)
def test_lengths_are_the_costs_of_the_table(letters: str) -> None:
    """Each operation lasts the cost that its kind names; a tick more is a wrong length."""
    times = by_table(letters)
    for op, (start, end) in times.items():
        cost = PROBLEM.ticks.mean[KINDS[op.kind].cost][op.stage]
        sentence = f"{op} lasts {cost + 1}, not {cost}"
        assert sentence in list(violations(scheduled(letters, {**times, op: (start, end + 1)})))


@pytest.mark.parametrize("letter", LETTERS)
def test_every_kind_is_whole(letter: str) -> None:
    """The names in the table are tables of Ticks and of the model, and letters are what they stand under."""
    kind = KINDS[letter]
    assert kind.letter == letter
    assert kind.cost in PROBLEM.ticks.rows
    for column in (kind.takes, kind.gives, kind.forward_gives):
        assert PROBLEM.model.column(column).shape == (PROBLEM.stages, PROBLEM.microbatches)
    assert {need.letter for need in kind.needs} <= set(ALL_KINDS)
    assert {need.stage for need in kind.needs} <= {-1, 0, 1}
    assert kind.is_transfer == (kind.resource is not Resource.DEVICE)


@given(
    problems(SETTLED, overlap=True, saving=True),
    st.randoms(use_true_random=False),
    st.sampled_from([0, 0.5, 1]),
    st.sampled_from([0, 0.5]),
)
def test_memory_of_the_table_is_that_of_the_check(problem: Problem, random: Random, split: float, save: float) -> None:
    """What each kind takes at its start and gives at its end, summed up over any plan, has the check's peaks."""
    texts = random_saving_plan(problem, random, split=split, pair=0.2, recompute=save, offload=save)
    schedule = schedule_plan(problem, saving_plan_of(problem, texts))
    assert table_peaks(schedule) == replayed_peaks(schedule)


def table_peaks(schedule: Schedule) -> list[int]:
    """The largest sum of what the table says that operations take and give, frees before takes."""
    problem, index, column = schedule.problem, schedule.plan.index, schedule.problem.model.column
    changes: list[list[tuple[int, int]]] = [[] for _ in range(problem.devices)]
    for number in (number for number, start in enumerate(schedule.start_ticks) if start >= 0):
        op, kind = index.op(number), KINDS[index.op(number).kind]
        device = problem.settled_placement.device(op.stage, op.microbatch, problem.microbatches)
        changes[device].append((schedule.start_ticks[number], int(column(kind.takes)[op.stage, op.microbatch])))
        changes[device].append((schedule.end_ticks[number], -int(column(kind.gives)[op.stage, op.microbatch])))
        if kind.forward_gives:
            forward = index.counterpart(number, "F")
            changes[device].append(
                (schedule.end_ticks[forward], -int(column(kind.forward_gives)[op.stage, op.microbatch]))
            )
    peaks = []
    for events in changes:
        level = peak = 0
        for _, change in sorted(events):
            level += change
            peak = max(peak, level)
        peaks.append(peak)
    return peaks
