"""A solve of microbatches that differ, of slices and of forward passes alone, beside all orders and all families."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from pipesched import (
    ConfigError,
    Deadlock,
    NoSchedule,
    Plan,
    Problem,
    Schedule,
    frontier,
    make_problem,
    run,
    schedule_plan,
    solve,
)
from pipesched.pipeline.bounds.memory import least_capacity
from pipesched.pipeline.problem.kinds import MemorySavings
from pipesched.schedulers.registry import compared
from pipesched.solver.advice import changes
from pipesched.solver.portfolio import fed_candidates, named_candidates, ruled_candidates
from pipesched.solver.recompute_offload import PlainVariant
from pipesched.solver.request import SolveRequest
from tests.examples import examples, part
from tests.oracle.drawn import Config, small_configs
from tests.oracle.optimum import optimum
from tests.oracle.setup import read_setup
from tests.solver.every_way import least_makespan

GOLDEN: dict[str, Any] = {"devices": 4, "sizes": {"work": [1, 2, 3, 4, 5, 6]}}
counts = st.integers(1, 3)
shapes = st.tuples(st.booleans(), st.booleans())


def without_budget(config: Config) -> Config:
    """The config without a limit."""
    return {key: value for key, value in config.items() if key != "budget"}


def schedules_of_families(problem: Problem) -> Iterator[Schedule]:
    """The schedule of every family that applies and splits no whole backward, in each order of the microbatches."""
    for family in compared(problem):
        if family.splits_backward and not problem.costs.split:
            continue
        for order in permutations(range(problem.microbatches)):
            try:
                yield run(problem, family.name, order=order).schedule
            except (ConfigError, NoSchedule):
                break


def every_schedule(problem: Problem) -> Iterator[Schedule]:
    """Every order of every device that can run."""
    graph = PlainVariant(problem)
    for orders in product(*map(permutations, graph.tasks_on)):
        try:
            yield schedule_plan(problem, Plan(graph.index, [*map(list, orders)]))
        except Deadlock:
            continue


def test_every_order_of_1f1b_and_more() -> None:
    """Of six microbatches with works 1 to 6 on 4 devices no schedule takes less than 96, as 1F1B in its best order."""
    outcome = solve(make_problem(**GOLDEN), time_limit=60, advice=False)
    assert outcome.report is not None
    assert (outcome.status, outcome.schedule.makespan) == ("optimal", 96)
    assert outcome.report.source == "1f1b, order best"
    assert outcome.order == (0, 1, 2, 5, 4, 3)
    assert run(make_problem(**GOLDEN), "1f1b").lower_bound == 72 + 1 + 2 + 3 + 4 + 5


@pytest.mark.parametrize("name", ["naive", "sequential", "list"])
def test_forwards_through_equal_stages_meet_their_bound(name: str) -> None:
    """Every order of units of times t through P equal stages takes sum t + (P - 1) max t, which the bound says."""
    outcome = run(make_problem(devices=4, mode="forward", sizes={"work": [3, 1, 8, 2, 7, 5, 4, 6]}), name)
    assert (outcome.schedule.makespan, outcome.status) == (36 + 3 * 8, "optimal")
    sliced = run(
        make_problem(devices=8, microbatches=1, mode="forward", forward=100, slices={"count": 26, "overhead": 1}), name
    )
    assert sliced.status == "optimal"


@pytest.mark.slow
@part(4)
@given(shapes.flatmap(lambda cut: small_configs(slices=cut[0], forward_only=cut[1])))
def test_no_family_is_shorter_in_any_order(config: Config) -> None:
    """No family's schedule that fits is shorter, whatever the order in which it feeds the microbatches."""
    assume(config["stages"] == config["devices"])  # of more stages a family may run fewer, with less overhead
    config = config | {"placement": config.get("placement") or "linear"}
    problem = make_problem(**config)
    keeps = [schedule for schedule in schedules_of_families(problem) if schedule.fits]
    keeps = [one for one in keeps if one.problem.settled_placement == problem.settled_placement]
    for is_whole in (False, True):
        same = [one for one in keeps if is_whole == (halves_cost_more(problem) and "B" in one.plan.index.letters)]
        if same:
            split = False if is_whole else None
            best = solve(problem, time_limit=60, advice=False, split_backward=split).schedule
            assert best.makespan_ticks <= min(schedule.makespan_ticks for schedule in same)


def halves_cost_more(problem: Problem) -> bool:
    """Whether I and W take longer than a whole B: each counts the overhead of a slice."""
    return problem.costs.split and problem.slices.overhead_of("backward") > 0


@part(4)
@given(shapes.flatmap(lambda cut: small_configs(slices=cut[0], forward_only=cut[1])))
def test_heuristics_are_of_the_case_and_never_below_its_bound(config: Config) -> None:
    """Candidates in every order of microbatches are schedules of the problem with its own numbers."""
    problem = make_problem(**without_budget(config))
    case = PlainVariant(problem if problem.placement else make_problem(**without_budget(config), placement="linear"))
    least = case.bound().ticks
    for candidate in (*named_candidates(case), *ruled_candidates(case), *fed_candidates(case)):
        assert candidate.schedule.problem == case.problem
        assert candidate.schedule.makespan_ticks >= least


@part(2)
@given(
    st.fixed_dictionaries({"devices": st.integers(1, 2), "forward": counts, "backward": counts}),
    st.sampled_from(["differ", "sliced", "forward"]),
    st.integers(1, 4),
)
@pytest.mark.slow
def test_span_beside_every_order(given: Config, shape: str, size: int) -> None:
    """The least span of all orders of a tiny problem, where any of its microbatches may be the first of a device."""
    shapes: dict[str, Config] = {
        "differ": {"sizes": {"work": [1, size]}},
        "sliced": {"microbatches": 1, "slices": {"count": 2, "attention": Fraction(size, 4)}},
        "forward": {"microbatches": 2, "slices": 2, "mode": "forward", "sizes": {"work": [1, size]}},
    }
    problem = make_problem(**given, **shapes[shape], p2p=1, placement="linear")
    outcome = solve(problem, objective="span", time_limit=60)
    assert outcome.report is not None
    assert outcome.report.value_ticks == min(schedule.span_ticks for schedule in every_schedule(problem))
    assert outcome.report.bound.ticks <= outcome.report.value_ticks
    assert outcome.report.status == "optimal", (outcome.report.stopped_by, outcome.report.bound)


def test_a_span_is_proved_whichever_microbatch_comes_first() -> None:
    """The model has a time 0, so that CP-SAT need not refute each schedule at every time: 12 operations."""
    problem = make_problem(
        devices=2, placement=[1, 0], sizes={"work": [1, 3.4, 1.3], "message": [3, 3, 5]}, forward=[1.4, 4],
        backward=[2.2, 5.1], p2p=1.2, activation=[4, 3], budget=7.7,
    )  # fmt: skip
    outcome = solve(problem, objective="span", advice=False)
    assert (outcome.schedule.span, outcome.status) == (98.79, "optimal")


@part(4)
@given(shapes.flatmap(lambda cut: small_configs(slices=cut[0], forward_only=cut[1])), st.data())
def test_floors_of_budgets(config: Config, data: st.DataObject) -> None:
    """A device's floor is the least budget that some order keeps, with gradients of keys and values and of weights."""
    config = without_budget(config) | {"placement": config.get("placement") or "linear"}
    problem = make_problem(**config)
    scale, devices = problem.grains.per_unit, range(problem.devices)
    floors = [least_capacity(problem, device) + problem.static_grains[device] for device in devices]
    assume(all(floors))
    budget = [Fraction(floor, scale) for floor in floors]
    fitting = make_problem(**config, budget=budget)
    outcome = solve(fitting, method="portfolio", time_limit=60)
    assert outcome.schedule.fits
    lower = data.draw(st.sampled_from(devices))
    budget[lower] -= Fraction(1, 2 * scale)
    assume(budget[lower] > 0)
    assert optimum(read_setup(config | {"budget": budget}), problem.letters) is None
    with pytest.raises(NoSchedule, match=f"device {lower} needs a budget of at least"):
        solve(make_problem(**config, budget=budget))


@st.composite
def saving(draw: st.DrawFn) -> tuple[Problem, str]:
    """Two microbatches that differ, or three on one device, with activations that may be recomputed or offloaded."""
    devices = draw(st.integers(1, 2))
    many = 4 - devices
    each: Any = st.lists(counts, min_size=many, max_size=many)
    values: dict[str, Any] = {
        key: draw(counts) for key in ("forward", "backward", "recompute", "offload", "activation")
    }
    values["checkpoint"] = draw(st.sampled_from([0, Fraction(1, 2)]))
    values["sizes"] = {"work": draw(each), "activation": draw(each)}
    allowed = draw(st.sampled_from(["R", "O", "RO"]))
    problem = make_problem(devices=devices, placement="linear", **values)
    floor = max(
        least_capacity(problem, device, MemorySavings("O" in allowed, "R" in allowed)) for device in range(devices)
    )
    more = draw(st.sampled_from([Fraction(1), Fraction(5, 4), Fraction(7, 4)]))
    budget = more * Fraction(max(floor, 1), problem.grains.per_unit)
    return make_problem(devices=devices, placement="linear", **values, budget=budget), allowed


@pytest.mark.slow
@examples(15)
@given(saving())
@pytest.mark.nightly
def test_saving_memory_beside_every_way(given: tuple[Problem, str]) -> None:
    """Recompute and offload of microbatches that differ: the least makespan of all ways, with proof."""
    problem, allowed = given
    outcome = solve(problem, offload="O" in allowed, recompute="R" in allowed, time_limit=60, advice=False)
    assert outcome.schedule.makespan_ticks == least_makespan(problem, allowed)
    assert outcome.status == "optimal"


@pytest.mark.slow
@part(4)
@given(
    st.integers(1, 2),
    st.sampled_from(
        [
            {"sizes": {"work": [1, 3, 2], "activation": [2, 1, 3]}},
            {"microbatches": 2, "slices": 2, "kv": Fraction(1, 4)},
            {"microbatches": 2, "slices": 2, "mode": "forward", "kv": Fraction(1, 4)},
        ]
    ),
    counts,
    counts,
)
def test_frontier_beside_every_order(devices: int, shape: Config, forward: int, backward: int) -> None:
    """Each point is the best at its budget, and just below it only what the point before has is possible."""
    config: Config = {"devices": devices, "forward": forward, "backward": backward, "placement": "linear", **shape}
    letters, before = make_problem(**config).letters, None
    for point in frontier(make_problem(**config), time_limit=60).points:
        budget = Fraction(point.budget).limit_denominator(1000)
        here, below = (
            optimum(read_setup(config | {"budget": [limit] * devices}), letters)
            for limit in (budget, budget - Fraction(1, 1000))
        )
        assert point.status == "optimal"
        assert point.value == here
        assert before == below
        before = here


def names_of_changes(**values: Any) -> list[str]:
    """The changes that advice tries."""
    return [change.name for change in changes(SolveRequest(make_problem(**values)))]


def test_changes_that_are_no_advice() -> None:
    """No other number of microbatches that are given one by one, no backward of forwards, no savings of slices."""
    differ = names_of_changes(**GOLDEN, budget=20, offload=1)
    assert differ == ["split backward", "one activation more", "recompute", "offload", "one activation less"]
    sliced = names_of_changes(devices=2, microbatches=4, slices=2, budget=3)
    assert sliced == [
        "split backward", "one activation more", "2 microbatches", "8 microbatches", "one activation less",
    ]  # fmt: skip
    assert names_of_changes(devices=2, microbatches=4, mode="forward") == ["2 microbatches", "8 microbatches"]


def test_whole_backwards_are_advised_where_halves_pay_an_overhead_each() -> None:
    """2 x 4 slices of 2 devices: halves have 3 overheads of 1 a slice, whole ones 2, and what is advised is reached."""
    problem = make_problem(
        devices=2, microbatches=2, backward_input=2, backward_weight=2, slices={"count": 4, "overhead": 1}
    )
    split = solve(problem, advice=True)
    assert split.report is not None
    assert split.report.advice is not None
    found = {advice.change: advice for advice in split.report.advice}["whole backward"]
    whole = solve(problem, **found.solve)
    assert found.solve == {"split_backward": False}
    assert whole.schedule.makespan <= found.makespan_at_most < split.schedule.makespan
    assert "whole backward" not in names_of_changes(devices=2, microbatches=2, backward_input=2, backward_weight=2)
