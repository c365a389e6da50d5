"""Plans built by hand from the texts of their slots, and plans that are none."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given, strategies as st

from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.plan.plan import LanePair, Plan, plan_from_slots
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.ops import Op, OpIndex, parse_slot
from pipesched.pipeline.problem.problem import Problem
from tests.examples import examples
from tests.oracle.alike import parts
from tests.strategies import SETTLED, plan_of, problems, random_plan, texts_of


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


@pytest.mark.parametrize("text", ["2F0", "0F3", "(2F0;0B0)OVERLAP_F_B", "(0F0;0B3)OVERLAP_F_B"])
def test_out_of_range(text: str) -> None:
    """An operation of a stage or microbatch that the problem lacks is refused, alone or in a pair."""
    with pytest.raises(ConfigError, match="out of range: stages are 0 to 1, microbatches 0 to 2"):
        plan_from_slots([[parse_slot(text)], []], stages=2, microbatches=3)


@pytest.mark.parametrize(
    "rows",
    [
        [["0F0", "0F0"], []],
        [["0F0"], ["0F0"]],
        [["0F0", "(0F0;1B1)OVERLAP_F_B"], []],
        [["(0F0;1B1)OVERLAP_F_B"], ["1B1"]],
    ],
)
def test_twice_is_refused(rows: list[list[str]]) -> None:
    """An operation that stands twice, on one device or two, alone or in a pair, is refused by name."""
    with pytest.raises(ConfigError, match=r"(0F0|1B1) stands twice"):
        plan_from_slots([list(map(parse_slot, row)) for row in rows], stages=2, microbatches=2)


def test_a_pair_is_one_entry_of_its_device() -> None:
    """A pair stands in the order once, under its forward, and maps it to its backward."""
    problem = make_problem(devices=1, microbatches=2)
    plan = plan_of(problem, [["0F0", "(0F1;0B0)OVERLAP_F_B", "0B1"]])
    assert [[plan.index.op(number) for number in order] for order in plan.orders] == [
        [Op(0, "F", 0), Op(0, "F", 1), Op(0, "B", 1)]
    ]
    assert {plan.index.op(f): plan.index.op(b) for f, b in plan.pairs.items()} == {Op(0, "F", 1): Op(0, "B", 0)}


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
