"""Plans that are no plans: operations that stand twice, nowhere, elsewhere; pairs, lanes and waits of anything."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings, strategies as st

from pipesched import make_problem
from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.pipeline.check import violations
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import LanePair, Plan
from pipesched.pipeline.schedule import Schedule, schedule_plan


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


@settings(max_examples=200)
@given(st.integers(0, 2**32))
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
