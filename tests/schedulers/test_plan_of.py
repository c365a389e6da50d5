"""What is done to a finished order: joined backwards, recompute and offload, side work."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched import (
    ConfigError,
    NoSchedule,
    NotApplicable,
    Op,
    Outcome,
    Pair,
    Plan,
    Problem,
    Schedule,
    algorithms,
    make_problem,
    run,
    schedule_plan,
)
from pipesched.comparing.compare import every_name
from pipesched.pipeline.check.check import violations
from pipesched.schedulers.plan_of import joined, of_passes, plan_of, with_joins
from pipesched.schedulers.registry import family
from tests.examples import at_night_but, part
from tests.oracle.alike import replay, require_replayed
from tests.strategies import placements_of, plan_of as read_plan, problems, random_plan, texts_of

GIVEN: dict[str, Any] = {
    "devices": 4, "microbatches": 8, "forward": 5, "backward_input": 6, "backward_weight": 4,
    "static": 1, "weights": 2, "gradients": 1.5, "states": 0.25, "gather": 3, "reduce": 4,
    "shard": {"level": "weights", "ranks": 8},
}  # fmt: skip


def problem_with(**more: Any) -> Problem:
    return make_problem(**GIVEN, placement="linear", **more)


@pytest.mark.parametrize("budget", [20, 20.3])
def test_passes_keep_what_stays(budget: float) -> None:
    """What stays of weights, gradients and states is the static memory of the passes; scales are the same."""
    problem = problem_with(budget=budget)
    passes = of_passes(problem, [0] * 4)
    assert not passes.has_step
    assert (passes.ticks.per_unit, passes.grains.per_unit) == (problem.ticks.per_unit, problem.grains.per_unit)
    assert passes.capacity_grains == problem.capacity_grains
    assert of_passes(problem, [3] * 4).capacity_grains == tuple(room - 3 for room in problem.capacity_grains if room)


@pytest.mark.parametrize("name", ["1f1b", "zb-h1", "zb-auto", "list"])
def test_families_order_passes(name: str) -> None:
    """The order of a family is that without the step."""
    problem = problem_with()
    bare = make_problem(**{key: GIVEN[key] for key in list(GIVEN)[:5]}, placement="linear")
    plans = plan_of(family(name), problem), family(name).plan(bare)
    assert [*map(list, plans[0].orders)] == [*map(list, plans[1].orders)]


@pytest.mark.parametrize("name", [one.name for one in algorithms() if one.obeys_budget])
@pytest.mark.parametrize("budget", [8.5, 10, 12])
def test_budgets_count_what_comes_over_time(name: str, budget: float) -> None:
    """Families that obey a budget keep it with whole weights and gradients, and use less of it than without."""
    schedule = run(problem_with(budget=budget), name).schedule
    assert schedule.fits
    assert max(schedule.peak_of("weights")) == 2


DEAR_HALVES: dict[str, Any] = {"forward": 1, "backward": 2, "backward_input": 1.5, "backward_weight": 1.5}


def problem_of(**changes: Any) -> Problem:
    """Halves that take 3 where the whole takes 2."""
    return make_problem(**{"devices": 4, "microbatches": 8, **DEAR_HALVES, **changes})


@pytest.mark.parametrize(
    ("algorithm", "makespan", "joins"), [("1f1b", 33, 32), ("zb-h1", 36, 8), ("zb-h2", 35, 0), ("list", 32, 30)]
)
def test_goldens(algorithm: str, makespan: float, joins: int) -> None:
    """Where halves take 3 and the whole 2, families take these times, with so many backwards whole."""
    outcome = run(problem_of(), algorithm)
    assert (outcome.schedule.makespan, outcome.metrics["joined"]) == (makespan, joins)


def test_what_a_join_is() -> None:
    """A W right behind its I becomes one B; one that stands elsewhere does not."""
    problem = problem_of(devices=1, microbatches=2, placement="linear")
    plan = read_plan(problem, [["0F0", "0F1", "0I0", "0W0", "0I1", "0W1"]])
    assert texts_of(joined(problem, plan)) == [["0F0", "0F1", "0B0", "0B1"]]
    plan = read_plan(problem, [["0F0", "0F1", "0I0", "0I1", "0W0", "0W1"]])
    assert joined(problem, plan) is plan


def test_a_join_that_delays_a_gradient_is_undone() -> None:
    """The first stage waits for gradients of the second one, whose I is shorter than its B: some joins are undone."""
    costs = {"backward": 5, "backward_input": [4, 1], "backward_weight": 5}
    problem = problem_of(devices=2, microbatches=1, placement="linear", **costs)
    plan = read_plan(problem, [["0F0", "0I0", "0W0"], ["1F0", "1I0", "1W0"]])
    found = joined(problem, plan)
    assert texts_of(found) == [["0F0", "0B0"], ["1F0", "1I0", "1W0"]]
    assert schedule_plan(problem, found).makespan == 1 + 1 + 1 + 5


@given(
    problems(("linear", "loop", "v", "bidirectional", "two-v"), both=True, unlike=True),
    st.randoms(use_true_random=False),
)
def test_never_longer(problem: Problem, random: Random) -> None:
    """The joined plan keeps every rule, has the same order, and is never longer than the plan as it is."""
    plan = read_plan(problem, random_plan(problem, random, split=1 if random.random() < 1 / 2 else 1 / 2))
    before, after = (schedule_plan(problem, one) for one in (plan, joined(problem, plan)))
    naive = replay(problem, texts_of(after.plan))
    assert (naive.makespan, naive.span, naive.busy) == (after.makespan_ticks, after.span_ticks, after.busy_ticks)
    assert naive.peak == after.peak_grains
    assert not [*violations(after)]
    assert after.makespan_ticks <= before.makespan_ticks
    rows = [[text.replace("B", "I") for text in row if "W" not in text] for row in texts_of(after.plan)]
    assert rows == [[text.replace("B", "I") for text in row if "W" not in text] for row in texts_of(plan)]


@given(
    problems(("linear",), most_devices=2, most_microbatches=2, most_chunks=1, both=True),
    st.randoms(use_true_random=False),
)
def test_no_longer_than_without_one_of_its_joins(problem: Problem, random: Random) -> None:
    """No single join of the answer can be undone to make it shorter."""
    plan = read_plan(problem, random_plan(problem, random, split=1))
    found = joined(problem, plan)
    joins = {one: plan.index.counterpart(one, "W") for one in plan.index.of_kind("I")}
    whole = {text for row in texts_of(found) for text in row if "B" in text}
    kept = {one: weight for one, weight in joins.items() if str(plan.index.op(one)).replace("I", "B") in whole}
    best = schedule_plan(problem, found).makespan_ticks
    for fewer in combinations(kept.items(), max(len(kept) - 1, 0)):
        assert schedule_plan(problem, with_joins(plan, dict(fewer))).makespan_ticks >= best


@given(problems(("linear",), both=True, most_microbatches=5), st.sampled_from([one.name for one in algorithms()]))
def test_families_are_never_longer_than_without_joins(problem: Problem, algorithm: str) -> None:
    """A family takes no longer than where the whole backward is not given, and none that splits nothing joins."""
    apart = replace(problem, placement=None, costs=replace(problem.costs, whole=None))
    both = replace(problem, placement=None)
    try:
        without, with_joins_ = (run(one, algorithm).schedule for one in (apart, both))
    except (ConfigError, NoSchedule):
        return
    kinds = {*without.plan.index.letters}
    if "B" not in kinds:
        ratio = with_joins_.problem.ticks.per_unit, without.problem.ticks.per_unit
        assert with_joins_.makespan_ticks * ratio[1] <= without.makespan_ticks * ratio[0]
    assert not [*violations(with_joins_)]


def test_two_costs_join_nothing() -> None:
    """Where a whole backward is given alone, or its halves, or as their sum, no plan changes."""
    plan: Plan = run(problem_of(backward=None), "zb-h1").schedule.plan
    for changes in ({"backward": None}, {"backward": 3}):
        problem = problem_of(**changes)
        assert not problem.costs.chooses
        assert texts_of(run(problem, "zb-h1").schedule.plan) == texts_of(plan)


SIZES = st.one_of(st.none(), st.just("full"), st.integers(1, 15))


def problems_of(name: str, **values: Any) -> st.SearchStrategy[Problem]:
    """Problems with the stages and the placement that a family asks for."""
    return problems(placements_of(name), most_devices=5, most_microbatches=9, saving=True, **values)


def applied(problem: Problem, name: str, **options: Any) -> Outcome | None:
    """The outcome of a family; None where it does not suit the problem."""
    try:
        return run(problem, name, **options)
    except NotApplicable:
        return None


def asked(stages: int, recompute: Any, offload: Any) -> tuple[set[int], set[int]] | None:
    """The stages that are recomputed, and those that are offloaded; None where the options are refused."""
    again, away = ({None: 0, "full": stages}.get(value, value) for value in (recompute, offload))
    if max(again, away) > stages or again == away:
        return None
    first = set(range(min(again, away)))
    rest = set(range(max(again, away))) - first
    return (first, rest) if again < away else (rest, first)


def slots_of(schedule: Schedule) -> list[list[list[Op]]]:
    """For each device its slots, each as the operations in it."""
    plan = schedule.plan
    rows = [list(plan.slots(device)) for device in range(schedule.problem.devices)]
    return [[[slot.forward, slot.backward] if isinstance(slot, Pair) else [slot] for slot in row] for row in rows]


def require_places(schedule: Schedule, again: set[int], away: set[int]) -> None:
    """Each R stands directly before its backward and starts after the gradient; each L starts one slot ahead."""
    index, offloaded = schedule.plan.index, set[tuple[int, int]]()
    starts = {str(index.op(n)): schedule.start_ticks[n] for n in range(index.size) if schedule.start_ticks[n] >= 0}
    ends = {str(index.op(n)): schedule.end_ticks[n] for n in range(index.size) if schedule.start_ticks[n] >= 0}
    for row in slots_of(schedule):
        place = {op: position for position, ops in enumerate(row) for op in ops}
        for op, position in place.items():
            stage, mb = op.stage, op.microbatch
            if op.kind not in "BI":
                continue
            before = row[position - 1] == [Op(stage, "R", mb)]
            assert before == (stage in again)
            gradients = [f"{stage + 1}{kind}{mb}" for kind in "BI" if f"{stage + 1}{kind}{mb}" in ends]
            assert not before or all(starts[f"{stage}R{mb}"] >= ends[gradient] for gradient in gradients)
            gone = stage in away and position - place[Op(stage, "F", mb)] > 2
            assert gone == (f"{stage}O{mb}" in starts) == (f"{stage}L{mb}" in starts)
            if gone:
                offloaded.add((stage, mb))
                assert starts[f"{stage}L{mb}"] >= max(ends[str(other)] for other in row[position - 2])
    assert schedule.offloaded == len(offloaded)
    assert schedule.recomputed == len(again) * index.microbatches


@pytest.mark.parametrize("name", at_night_but(every_name({})[::4], every_name({})))
@pytest.mark.slow
def test_every_family(name: str) -> None:
    """The plan of every family runs with any savings, not sooner than without, by the rules of time, place and memory;
    more stages than there are, and the same ones twice, are refused."""

    @part(4)
    @given(problems_of(name, overlap=True), SIZES, SIZES)
    def judged(problem: Problem, recompute: Any, offload: Any) -> None:
        plain, saved = applied(problem, name), applied(problem, name, recompute=recompute, offload=offload)
        if plain is None or (recompute is None and offload is None):
            assert (plain is None) == (saved is None)
            return
        stages = asked(plain.problem.stages, recompute, offload)
        assert (saved is None) == (stages is None)
        if saved is None or stages is None:
            return
        schedule = saved.schedule
        require_replayed(schedule)
        require_places(schedule, *stages)
        assert schedule.makespan_ticks >= plain.schedule.makespan_ticks >= plain.bound.ticks
        assert schedule.makespan_ticks >= saved.bound.ticks

    judged()


LAYERS: dict[str, Any] = {
    "devices": 2,
    "microbatches": 3,
    "layers": 4,
    "layer": {"forward": 2, "backward": 4, "activation": 1, "static": 1},
    "last": {"forward": 1, "backward": 2, "activation": 0.5},
}


def test_a_number_is_one_of_layers_where_these_are_known() -> None:
    """Worked out by hand: one layer of two runs again for 2, and half of the activation of the first stage stays."""
    schedule = run(make_problem(**LAYERS), "1f1b", recompute=1).schedule
    assert schedule.problem.layers is not None
    assert schedule.problem.layers.layout == (2, 2)
    assert schedule.problem.costs.recompute == (2, 2)
    assert schedule.problem.memory.checkpoint == (0.5, 0.6)
    assert schedule.peak_memory == [3, 2.5]  # device 0: two activations in flight, the older one whole for its backward
    plain = run(make_problem(**LAYERS), "1f1b").schedule
    assert [sum(pair) for pair in zip(plain.busy, [6, 6], strict=True)] == schedule.busy


def test_all_layers_are_whole_stages() -> None:
    """Without anything beside the layers, as many as the largest stage has are full recompute."""
    problem = make_problem(**{**LAYERS, "last": None, "layers": 5})
    every, full = (run(problem, "1f1b", recompute=number) for number in (3, "full"))
    assert (every.problem, every.metrics) == (full.problem, full.metrics)


VISION: dict[str, Any] = {"name": "vision", "forward": 2, "backward": 4}
FOUR: dict[str, Any] = {"devices": 4, "microbatches": 8, "forward": 5, "backward": 10}
TWO: dict[str, Any] = {"devices": 2, "microbatches": 3, "forward": 5, "backward": 10}


@pytest.mark.parametrize(
    ("config", "first", "bubbles"),
    [
        (FOUR | {"side": [VISION]}, 177, 171),  # 165 without it: one forward before, one backward behind
        (TWO | {"side": [VISION]}, 72, 66),  # no schedule is shorter
        (TWO | {"side": [{"forward": 2}]}, 64, 62),
        (FOUR | {"side": [VISION | {"devices": [0, 1]}]}, 189, 171),
        (FOUR | {"side": [VISION | {"into": 3}]}, 177, 165),  # its bubbles hold all of it
        (FOUR | {"side": [VISION | {"p2p": 3}]}, 177, 171),  # the first and the last run on device 0
    ],
)
def test_known_makespans(config: dict[str, Any], first: int, bubbles: int) -> None:
    """Of 1f1b, by the plain rule and in bubbles, which is the default."""
    problem = make_problem(**config)
    assert run(problem, "1f1b", side_rule="first").schedule.makespan == first
    assert run(problem, "1f1b").schedule.makespan == bubbles
    assert run(problem, "1f1b", side_rule="bubbles").schedule.makespan == bubbles


def side_problem(family: str, **more: Any) -> Problem:
    """A problem that a family runs, with side work that differs among microbatches, lanes and optimizers."""
    items = [VISION | {"activation": 0.5, "output": 0.1}, {"forward": [*range(8)], "into": 3, "devices": [0, 2]}]
    stages = 4 * next(one for one in algorithms() if one.name == family).chunks
    halves: dict[str, Any] = {"backward_input": 5, "backward_weight": 5}
    step: dict[str, Any] = {"gather": 3, "reduce": 4, "optimizer": 2, "clip": True}
    return make_problem(devices=4, stages=stages, microbatches=8, forward=5, side=items, **halves, **step, **more)


FAMILIES = [one.name for one in algorithms() if not one.required and one.placement != "bidirectional"]
SOME = {"1f1b", "list"}


@pytest.mark.parametrize("family", at_night_but(SOME, FAMILIES))
@pytest.mark.parametrize("budget", [None, 6])
def test_side_work_of_every_family(family: str, budget: int | None) -> None:
    """Bubbles are never longer than the plain rule, within the budget where that is, and keep the slots in order."""
    problem = side_problem(family, budget=budget)
    first, bubbles = (run(problem, family, side_rule=rule).schedule for rule in ("first", "bubbles"))
    assert bubbles.makespan <= first.makespan
    assert bubbles.fits or not first.fits
    if budget is None:
        orders = [
            [[one for one in order if one < schedule.plan.index.passes] for order in schedule.plan.orders]
            for schedule in (first, bubbles)
        ]
        assert orders[0] == orders[1]


@pytest.mark.parametrize("family", at_night_but(("list",), ("list", "zb-auto")))
def test_budget(family: str) -> None:
    """A family that obeys a budget leaves room for what side work holds, at the price of time."""
    problem = side_problem(family, budget=4)
    free = run(side_problem(family), family).schedule
    tight = run(problem, family).schedule
    assert max(free.memory) > 4 >= max(tight.memory)
    assert tight.makespan > free.makespan
