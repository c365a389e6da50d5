"""Plans from texts of operations, transfers and wait edges, and plans that are none."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

import pipesched
from pipesched import ConfigError, InvalidSchedule, Op, Plan, Problem, Schedule, make_problem, schedule_plan
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.plan.plan import LanePair, plan_from_slots
from pipesched.pipeline.problem.ops import OpIndex, parse_slot
from tests.examples import examples
from tests.oracle.alike import device_of, parts
from tests.strategies import SETTLED, plan_of, problems, random_plan, random_saving_plan, saving_plan_of, texts_of


@given(problems(SETTLED), st.randoms(use_true_random=False), st.booleans())
def test_slots_come_back(problem: Problem, random: Random, mixed: bool) -> None:
    """A plan gives back the slots that it was made of, and its length counts a pair twice."""
    texts = random_plan(problem, random, split=0.5 * mixed, pair=0.5)
    plan = plan_of(problem, texts)
    assert texts_of(plan) == texts
    assert len(plan) == sum(len(parts(slot)) for row in texts for slot in row)


def test_kinds_are_those_of_the_slots() -> None:
    """A plan of full backwards knows F and B, one of split backwards F, I and W, a mixed one all four."""
    kinds = {
        tuple(row): plan_from_slots([list(map(parse_slot, row))], 1, 2).index.letters
        for row in (["0F0", "0B0"], ["0F0", "0I0", "0W0"], ["0F0", "0F1", "0I0", "0W0", "0B1"])
    }
    assert list(kinds.values()) == ["FB", "FIW", "FBIW"]


def no_plan(random: Random, index: OpIndex, devices: int) -> Plan:
    """Numbers of operations, some left out or doubled, in any order on any devices."""
    numbers = [*random.choices(range(index.size), k=random.randint(0, 2)), *range(index.size)]
    random.shuffle(numbers)
    numbers = numbers[: random.randint(0, len(numbers))] if random.random() < 0.5 else numbers
    orders: list[list[int]] = [[] for _ in range(devices)]
    for number in numbers:
        orders[random.randrange(devices)].append(number)
    any_of = [random.randrange(index.size) for _ in range(6)]
    pairs = {any_of[0]: any_of[1]} if random.random() < 0.3 else {}
    lanes = [LanePair(any_of[2:3], any_of[3:4])] * devices if random.random() < 0.3 else ()
    return Plan(index, orders, pairs, lanes=lanes, waits=[(any_of[4], any_of[5])] * random.randint(0, 1))


@examples(200)
@given(st.integers(0, 2**32))
@example(78744)  # F and B on lanes of transfers
def test_no_plan_is_refused_and_never_a_crash(seed: int) -> None:
    """Each has an error, or is timed and the check says what is wrong; the check also says so of times of anything."""
    random = Random(seed)
    devices, microbatches = random.randint(1, 4), random.randint(1, 4)
    letters = random.choice(["FB", "FIW", "FBIW", "FBR", "FBOL", "F"])
    problem = make_problem(
        devices=devices, microbatches=microbatches, forward=random.randint(0, 3), backward=random.randint(0, 4),
        p2p=random.randint(0, 2), placement="linear", offload=1, reload=1, budget=random.choice([None, 3]),
    )  # fmt: skip
    index = OpIndex(letters, devices, microbatches)
    plan = no_plan(random, index, devices)
    starts = [random.randint(-1, 20) for _ in range(index.size)]
    given = Schedule(problem, plan, starts, [start + random.randint(-1, 5) for start in starts])
    told = [*violations(given)]
    is_whole = sorted([number for order in plan.orders for number in order]) == [*range(index.size)]
    assert told or is_whole
    try:
        timed = schedule_plan(problem, plan)
    except (ConfigError, InvalidSchedule):
        return
    assert [*violations(timed)] or is_whole
    assert timed.makespan >= 0


# Plans as people type them: texts of operations, transfers and wait edges.

TWO = pipesched.make_problem(devices=2, microbatches=2, offload=1, placement="linear")
ROWS = ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"]


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        tuple(ROWS),
        [row.split() for row in ROWS],
        [tuple(ROWS[0].split()), "  1F0\t1B0\n1F1 1B1 "],
        [", ".join(ROWS[0].split()), "1F0,1B0 1F1,1B1,"],
        [[Op(0, "F", 0), "0F1", Op(0, "B", 0), "0B1"], ROWS[1]],
    ],
)
def test_ways_to_write_an_order(rows: Any) -> None:
    """A text with blanks or commas, a list of texts, and operations themselves all say the same."""
    plan = pipesched.plan(TWO, rows)
    assert texts_of(plan) == [row.split() for row in ROWS]
    assert (repr(plan), len(plan)) == ("Plan(2 devices, 8 operations of F/B)", 8)
    assert pipesched.schedule_plan(TWO, plan).makespan == 9


@given(
    problems(SETTLED, overlap=True, saving=True),
    st.randoms(use_true_random=False),
    st.sampled_from([0, 0.5]),
    st.booleans(),
)
def test_any_plan_can_be_typed(problem: Problem, random: Random, save: float, as_text: bool) -> None:
    """The texts of any plan, its transfers and its waits give that plan: the same times."""
    texts = random_saving_plan(problem, random, split=0.3, pair=0.2, recompute=save, offload=save, wait=0.2)
    moves = moves_of_devices(problem, texts.lanes)
    waits = [(later, earlier) for earlier, later in texts.waits]
    rows: list[Any] = [" ".join(row) for row in texts.devices] if as_text else texts.devices
    plan = pipesched.plan(problem, rows, transfers=moves, waits=waits)
    again = saving_plan_of(problem, texts)
    assert (plan.index, plan.orders, plan.pairs) == (again.index, again.orders, again.pairs)
    assert sorted(plan.waits) == sorted(again.waits)
    assert [tuple(map(list, lane)) for lane in plan.lanes] == [tuple(map(list, lane)) for lane in again.lanes]
    assert pipesched.schedule_plan(problem, plan).start_ticks == pipesched.schedule_plan(problem, again).start_ticks


def moves_of_devices(problem: Problem, lanes: list[list[str]]) -> list[list[str]]:
    """The transfers of each device: those of its lanes out, then back."""
    moves: list[list[str]] = [[] for _ in range(problem.devices if lanes else 0)]
    for text in (text for lane in lanes for text in lane):
        [op] = parts(text)
        moves[device_of(problem, op.stage, op.microbatch)].append(text)
    return moves


def test_side_work_counts_among_the_operations() -> None:
    """Three encoders of the only microbatch are eight operations of one device, more than a pass has kinds."""
    side = [{"forward": 1, "into": 0, "backward": 1}] * 3
    problem = pipesched.make_problem(devices=1, microbatches=1, side=side)
    schedule = pipesched.run(problem, "1f1b").schedule
    rows = [[str(slot) for slot in schedule.plan.slots(0)]]
    assert len(rows[0]) == 8
    assert pipesched.schedule_plan(problem, pipesched.plan(problem, rows)).start_ticks == schedule.start_ticks


def test_waits_that_make_a_circle() -> None:
    """A wait edge against the order of a device is a deadlock, which names both."""
    plan = pipesched.plan(TWO, ROWS, waits=[("0F0", "0B1")])
    with pytest.raises(pipesched.Deadlock, match="0F0 on device 0 waits for 0B1"):
        pipesched.schedule_plan(TWO, plan)
