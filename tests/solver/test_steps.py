"""Solves of whole steps: known optima, savings of memory, and the exact model of level weights beside the rule."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from pipesched import InvalidSchedule, NoSchedule, Op, Outcome, PipeschedError, Schedule, make_problem, run, solve
from pipesched.core.cpsat import Limits
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.problem.kinds import KEEP_ONLY
from pipesched.pipeline.problem.ops import parse_op
from pipesched.schedulers.registry import FAMILIES
from pipesched.solver.feasible import as_variants
from pipesched.solver.policy import DEFAULT
from pipesched.solver.step_variant import StepVariant
from tests.examples import at_night_but

TWO: dict[str, Any] = {"devices": 2, "microbatches": 3, "forward": 5, "backward": 10}


FOUR: dict[str, Any] = {"devices": 4, "microbatches": 8, "forward": 10, "backward": 20}


HALVES: dict[str, Any] = {"devices": 3, "microbatches": 3, "forward": 5, "backward_input": 6, "backward_weight": 4}


SIDE = {"forward": 2, "backward": 4}


STEP: dict[str, Any] = {"gather": 3, "reduce": 4, "optimizer": 2}


WHOLE: dict[str, Any] = TWO | {"stages": 4, "gather": 3, "reduce": 4}


def solved(given: dict[str, Any], **options: Any) -> Outcome:
    """The answer to a solve, after what must hold on every one."""
    outcome = solve(make_problem(**given), time_limit=20, advice=False, **options)
    assert outcome.report is not None
    assert outcome.schedule.fits
    assert not [*violations(outcome.schedule)]
    assert outcome.report.bound.ticks <= outcome.report.value_ticks
    return outcome


@pytest.mark.parametrize(
    ("given", "best"),
    [
        (TWO | {"side": [SIDE]}, 66), (TWO | {"side": [{"forward": 2}]}, 62),  # rule `first`: 72, 64
        (TWO | {"side": [{"forward": 2, "backward": [4, 3, 5], "devices": [1], "p2p": 1}]}, 67),
        (TWO | STEP, 69), (TWO | STEP | {"tied": 5}, 74),
        (FOUR | {"gather": 15, "reduce": 30, "optimizer": 5, "tied": 8}, 388),
        (HALVES | STEP | {"reduce": 14, "tied": 5, "clip": True}, 83),
        (TWO | STEP | {"stages": 4, "reduce": [14, 3, 5, 7], "tied": 5}, 124),
        (WHOLE | {"shard": {"level": "weights", "ahead": 1}}, 122),
        pytest.param(WHOLE | {"optimizer": 1, "shard": {"level": "weights", "ahead": 1, "reduce": "each"}}, 123,
                     marks=pytest.mark.nightly),
        (WHOLE | {"optimizer": 1, "shard": {"level": "weights", "ahead": "auto"}}, 113),
        ({"devices": 1, "stages": 4, "microbatches": 3, "forward": 5, "backward": 10, "gather": 3, "reduce": 4,
          "shard": {"level": "weights", "ahead": 2}}, 187),
        ({"devices": 1, "stages": 3, "microbatches": 2, "forward": [1, 6, 5], "backward": [2, 7, 3], "gather": 9,
          "reduce": 4, "placement": "linear", "shard": {"level": "weights", "ahead": 2}}, 68),
        (TWO | STEP | {"gradients": 2, "weights": 1, "shard": {"level": "gradients"}, "budget": 6.5}, 99),
        (TWO | {"side": [SIDE | {"activation": 0.5, "output": 0.1, "p2p": 1}], "budget": 3}, 67),
        ({"devices": 2, "microbatches": 1, "forward": 2, "side": [{"forward": 1, "into": 1, "output": 1.2}],
          "budget": [1, 1.2]}, 12),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_proved_optima(given: dict[str, Any], best: int) -> None:
    """Slots, side work and lanes are in the best order, which is proved."""
    outcome = solved(given)
    assert outcome.report is not None
    assert (outcome.schedule.makespan, str(outcome.report.status)) == (best, "optimal")


@pytest.mark.slow
@pytest.mark.parametrize("ahead", ["auto", 1, "full"])
def test_no_family_is_shorter(ahead: Any) -> None:
    """No family with whole backwards that fits is shorter, with any number of stages ahead where that is open."""
    given = FOUR | STEP | {"stages": 8, "weights": 1, "gradients": 0.5, "budget": 14}
    best = solved(given | {"shard": {"level": "weights", "ahead": ahead}}, method="portfolio").schedule
    for name in FAMILIES:
        for number in (1, 2) if ahead == "auto" else (ahead,):
            try:
                other = run(make_problem(**given, shard={"level": "weights", "ahead": number}), name).schedule
            except PipeschedError:
                continue
            if other.fits and not other.plan.count("I"):
                assert other.makespan >= best.makespan, (name, number)


@pytest.mark.slow
def test_stages_that_families_fuse() -> None:
    """A fused stage counts once among those ahead: at one ahead 1f1b holds both of a device, and is no shorter."""
    given: dict[str, Any] = {"devices": 2, "stages": 4, "microbatches": 2, **STEP, "gather": 8}
    shard = {"level": "weights", "ahead": 1}
    found, fused = solved(given | {"shard": shard}).schedule, run(make_problem(**given, shard=shard), "1f1b").schedule
    alone = solved(given | {"shard": shard, "placement": "loop"}).schedule
    assert (found.problem.stages, fused.problem.stages, alone.problem.stages) == (2, 2, 4)
    assert found.makespan == fused.makespan < alone.makespan


def test_stages_ahead_of_each_device() -> None:
    """Where the number of stages ahead is left open, the best one that fits is taken."""
    given = WHOLE | {"weights": [1, 1, 3, 1], "budget": [9, 6], "shard": {"level": "weights", "ahead": "auto"}}
    schedule = solved(given, method="portfolio").schedule
    assert schedule.problem.sharding.ahead == 1
    assert max(schedule.peak_of("weights")) == 3


@pytest.mark.parametrize("method", ["portfolio", "cpsat", "improve", "auto"])
def test_every_method(method: str) -> None:
    """Each method gives a schedule with all of the step, no longer than 1F1B's."""
    given = TWO | STEP | {"side": [SIDE]}
    assert solved(given, method=method).schedule.makespan <= run(make_problem(**given), "1f1b").schedule.makespan


def test_the_span_has_a_bound() -> None:
    """The span of a step is what a family has, and its bound is what a stage does from its first operation on."""
    outcome = solved(TWO | STEP, objective="span")
    assert outcome.report is not None
    assert outcome.report.value == outcome.schedule.span
    assert outcome.report.bound.reason == "stage 0 from its first to its last operation"


def test_a_schedule_that_no_heuristic_finds() -> None:
    """Where side work of heuristics holds too much, CP-SAT looks for a first schedule."""
    side = {"forward": 2, "backward": 4, "activation": 1, "output": 1}
    assert solved(TWO | {"side": [side], "budget": 2}, method="cpsat").schedule.fits


def test_a_budget_that_nothing_keeps() -> None:
    """The error says what the budget is for, or the least budget of passes with whole weights and gradients."""
    shard = {"level": "gradients"}
    with pytest.raises(NoSchedule, match="device 0 needs a budget of at least 3 microbatch"):
        solve(make_problem(**TWO, gradients=1, reduce=1, shard=shard, budget=2.5))


def test_a_hint_of_the_same_problem() -> None:
    """A solve begins from a schedule with its own lanes, and from one of the same passes without a step."""
    hint = solved(TWO | STEP)
    assert solved(TWO | STEP, hint=hint).schedule.makespan == 69
    assert solved(TWO | {"reduce": 4}, hint=run(make_problem(**TWO), "1f1b")).schedule.makespan == 64


SAVED: dict[str, Any] = {"devices": 2, "microbatches": 4, "forward": 5, "backward": 10, "checkpoint": 0.1, "offload": 3}


@pytest.mark.parametrize("actions", [{"offload": True}, {"recompute": True}, {"offload": True, "recompute": True}])
def test_savings_beside_a_step(actions: dict[str, Any]) -> None:
    """The step follows the passes, the budget holds, and saving memory makes the step shorter."""
    problem = make_problem(**SAVED, gather=3, reduce=4, optimizer=1, budget=1.2)
    kept = solve(problem, time_limit=3, advice=False)
    saved = solve(problem, time_limit=3, advice=False, **actions)
    assert saved.schedule.fits
    assert not [*violations(saved.schedule)]
    assert saved.schedule.makespan < kept.schedule.makespan
    assert saved.schedule.plan.count("OPTIMIZER") == 2


# The exact model of level weights beside the rule of lanes: with the order of slots given, both have one makespan.

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
    ahead = random.choice([1, 2, 3, "full", "full", "auto"])
    return given | {"shard": {"level": "weights", "ahead": ahead, "reduce": random.choice(["last", "each"])}}


def case_of(given: dict[str, Any]) -> StepVariant:
    """The case of a problem on its placement."""
    case = as_variants([make_problem(**given)], "makespan", KEEP_ONLY, DEFAULT)[0]
    assert isinstance(case, StepVariant)
    return case


def random_slots(case: StepVariant, random: Random) -> list[list[Op]]:
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


def makespan_in_order(case: StepVariant, slots: list[list[Op]]) -> int | None:
    """The least makespan that the model has for slots in this order, in ticks."""
    model, step = case.model(0, 4 * case.longest), case.rules.step
    for device, row in enumerate(slots):
        tasks = [*case.tasks_on[device], *step.on_machine(device)]
        numbers = {
            case.index.op(task) if task < case.index.size else step.tasks[task - case.index.size].op: task
            for task in tasks
        }
        for one in row:
            if numbers[one] in model.presences:
                model.model.add(model.presences[numbers[one]] == 1)
        for one, other in pairwise(row):
            model.model.add(model.end(numbers[one]) <= model.starts[numbers[other]])
    answer = model.solve(Limits(seconds=60, workers=1))
    assert answer.status in ("optimal", "infeasible")
    return None if answer.objective is None else answer.objective * case.quantum


def random_schedule(case: StepVariant, random: Random) -> Schedule:
    """The schedule of random slots."""
    while True:
        with suppress(InvalidSchedule):  # where some wait for ever
            return case.timed(random_slots(case, random))


def slots_of(schedule: Schedule) -> list[list[Op]]:
    """The slots of a schedule without pairs."""
    devices = range(schedule.problem.devices)
    return [[op for op in schedule.plan.slots(device) if isinstance(op, Op)] for device in devices]


def all_known(case: StepVariant) -> bool:
    """Whether the model has all gathers: all stages of each device are whole at once."""
    return all(map(case.rules.is_whole, range(case.problem.devices)))


@pytest.mark.parametrize("seed", at_night_but(range(4), range(60)))
def test_the_model_beside_the_rule(seed: int) -> None:
    """Gathers, reductions and optimizers of a random order never end later than by the rule, or just then."""
    random = Random(seed)
    case = case_of(random_problem(random))
    schedule = random_schedule(case, random)
    found = makespan_in_order(case, slots_of(schedule))
    assert found is not None
    assert found <= schedule.makespan_ticks
    assert found == schedule.makespan_ticks or not all_known(case)


@pytest.mark.slow
@pytest.mark.parametrize("seed", at_night_but(range(4), range(60)))
def test_memory_beside_the_rule(seed: int) -> None:
    """A random order runs in what it holds by the rule, and where all is known in less memory no sooner."""
    random = Random(seed)
    given = random_problem(random) | {key: random.randint(1, 4) for key in ("weights", "gradients", "activation")}
    given["shard"]["ahead"] = random.choice([1, 2, "full", "full"])
    case = case_of(given)
    schedule = random_schedule(case, random)
    slots, grains = slots_of(schedule), schedule.problem.grains.per_unit
    held = [memory // grains for memory in schedule.memory_grains]
    found = makespan_in_order(case_of(given | {"budget": held}), slots)
    assert found is not None
    assert found <= schedule.makespan_ticks
    if all_known(case):
        later = makespan_in_order(case_of(given | {"budget": [memory - 1 for memory in held]}), slots)
        assert later is None or later > schedule.makespan_ticks


def test_many_passes_have_no_gathers_between_them() -> None:
    """Where one stage is whole at a time the model has gathers between few passes, and none between many."""
    given = THREE_ON_ONE | {"gather": 30, "shard": {"level": "weights", "ahead": 1}}
    assert [case_of(given | {"microbatches": count}).rules.gathers_between(0) for count in (2, 20)] == [True, False]
