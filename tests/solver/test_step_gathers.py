"""The exact model of level weights beside the rule of lanes: with the order of slots given, both have one makespan."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from pipesched import make_problem
from pipesched.core.cpsat import Limits
from pipesched.errors import InvalidSchedule
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.kinds import KEEP_ONLY
from pipesched.pipeline.problem.ops import Op, parse_op
from pipesched.solver.feasible import as_cases
from pipesched.solver.policy import DEFAULT
from pipesched.solver.step_case import StepCase
from tests.examples import at_night_but

THREE_ON_ONE: dict[str, Any] = {"devices": 1, "placement": "linear", "stages": 3, "microbatches": 2}
SHAPES: list[dict[str, Any]] = [
    THREE_ON_ONE,
    {"devices": 1, "stages": 4, "microbatches": 2},
    {"devices": 2, "stages": 6, "microbatches": 2, "placement": "loop"},
    {"devices": 2, "stages": 5, "microbatches": 2, "placement": [0, 1, 0, 1, 0]},
    {"devices": 2, "stages": 4, "microbatches": 3, "placement": "loop"},
]


def random_problem(random: Random) -> dict[str, Any]:
    """A problem at level weights whose operations all last some time."""
    given = {"placement": "linear"} | random.choice(SHAPES)
    halves = ["backward_input", "backward_weight"] if random.random() < 1 / 3 else ["backward"]
    others = ["optimizer"] if random.random() < 1 / 2 else []
    for key in ["forward", *halves, "gather", "reduce", *others]:
        given[key] = [random.randint(1, 9) for _ in range(given["stages"])]
    if random.random() < 1 / 3:
        given["tied"] = random.randint(1, 9)
    if random.random() < 1 / 4:
        given["side"] = [{"forward": random.randint(1, 5)}]
    ahead = random.choice([1, 2, 2, 3, "auto"])
    return given | {"shard": {"level": "weights", "ahead": ahead, "reduce": random.choice(["last", "each"])}}


def case_of(given: dict[str, Any]) -> StepCase:
    """The case of a problem on its placement."""
    case = as_cases([make_problem(**given)], "makespan", KEEP_ONLY, DEFAULT)[0]
    assert isinstance(case, StepCase)
    return case


def random_slots(case: StepCase, random: Random) -> list[list[Op]]:
    """Slots in a random order that runs, the microbatches of each row in order, optimizers anywhere behind."""
    graph, step = case.rules.graph, case.rules.step
    slots: list[list[Op]] = [[] for _ in range(case.problem.devices)]
    left, done = {*range(len(graph))}, set[int]()
    while left:
        ready = [one for one in sorted(left) if all(before in done for before, _ in graph.predecessors[one])]
        task = random.choice(ready)
        left.remove(task)
        done.add(task)
        if task < case.index.size:
            slots[case.graph.resources[task]].append(case.index.op(task))
            continue
        operation = step.tasks[task - case.index.size]
        if operation.op.kind == "OPTIMIZER":
            slots[operation.machines[0]].append(operation.op)
    for number in range(case.index.microbatches if step.side else 0):
        slots[random.randrange(len(slots))].insert(number, parse_op(f"0E{number}"))
    return slots


def makespan_in_order(case: StepCase, slots: list[list[Op]]) -> int | None:
    """The least makespan that the model has for slots in this order, in ticks."""
    model, step = case.model(0, 4 * case.longest), case.rules.step
    for device, row in enumerate(slots):
        tasks = [*case.tasks_on[device], *step.on_machine(device)]
        numbers = {
            case.index.op(task) if task < step.first else step.tasks[task - step.first].op: task for task in tasks
        }
        for one in row:
            if numbers[one] in model.presences:
                model.model.add(model.presences[numbers[one]] == 1)
        for one, other in pairwise(row):
            model.model.add(model.end(numbers[one]) <= model.starts[numbers[other]])
    answer = model.solve(Limits(seconds=60, workers=1))
    assert answer.status in ("optimal", "infeasible")
    return None if answer.objective is None else answer.objective * case.quantum


def random_schedule(case: StepCase, random: Random) -> Schedule:
    """The schedule of random slots."""
    while True:
        with suppress(InvalidSchedule):  # where some wait for ever
            return case.by_rule(random_slots(case, random))


def slots_of(schedule: Schedule) -> list[list[Op]]:
    """The slots of a schedule without pairs."""
    devices = range(schedule.problem.devices)
    return [[op for op in schedule.plan.slots(device) if isinstance(op, Op)] for device in devices]


@pytest.mark.parametrize("seed", at_night_but(range(4), range(60)))
def test_the_model_beside_the_rule(seed: int) -> None:
    """Gathers, reductions and optimizers of a random order end as the rule has them, neither sooner nor later."""
    random = Random(seed)
    case = case_of(random_problem(random))
    schedule = random_schedule(case, random)
    assert makespan_in_order(case, slots_of(schedule)) == schedule.makespan_ticks


@pytest.mark.slow
@pytest.mark.parametrize("seed", at_night_but(range(4), range(60)))
def test_memory_beside_the_rule(seed: int) -> None:
    """A random order runs in what it holds by the rule, as soon as by the rule, and in less memory no sooner."""
    random = Random(seed)
    given = random_problem(random) | {key: random.randint(1, 4) for key in ("weights", "gradients", "activation")}
    given["shard"]["ahead"] = random.choice([1, 2, 3])
    case = case_of(given)
    schedule = random_schedule(case, random)
    slots, grains = slots_of(schedule), schedule.problem.grains.per_unit
    held = [memory // grains for memory in schedule.memory_grains]
    assert makespan_in_order(case_of(given | {"budget": held}), slots) == schedule.makespan_ticks
    later = makespan_in_order(case_of(given | {"budget": [memory - 1 for memory in held]}), slots)
    assert later is None or later > schedule.makespan_ticks


def test_large_models_leave_the_rule_out() -> None:
    """With many passes on a device the model has each stage's first gather alone, and so a bound."""
    given = THREE_ON_ONE | {"gather": 30, "shard": {"level": "weights", "ahead": 2}}
    numbers = []
    for microbatches in (2, 20):
        case = case_of(given | {"microbatches": microbatches})
        numbers.append(len(case.model(0, case.longest).gathers))
    assert numbers == [1, 0]
