"""The option `side_rule`: what side work costs by each rule, beside known optima, budgets and orders."""

from __future__ import annotations

from typing import Any

import pytest

from pipesched import ConfigError, Problem, algorithms, compare, make_problem, run, sweep
from tests.examples import at_night_but

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


def problem_of(family: str, **more: Any) -> Problem:
    """A problem that a family runs, with side work that differs among microbatches, lanes and optimizers."""
    items = [VISION | {"activation": 0.5, "output": 0.1}, {"forward": [*range(8)], "into": 3, "devices": [0, 2]}]
    stages = 4 * next(one for one in algorithms() if one.name == family).chunks
    halves: dict[str, Any] = {"backward_input": 5, "backward_weight": 5}
    step: dict[str, Any] = {"gather": 3, "reduce": 4, "optimizer": 2, "clip": True}
    return make_problem(devices=4, stages=stages, microbatches=8, forward=5, side=items, **halves, **step, **more)


FAMILIES = [one.name for one in algorithms() if not one.required and one.placement != "bidirectional"]
SOME = {"naive", "1f1b", "zb-h1", "list", "v-half"}


@pytest.mark.parametrize("family", at_night_but(SOME, FAMILIES))
@pytest.mark.parametrize("budget", [None, 6])
def test_every_family(family: str, budget: int | None) -> None:
    """Bubbles are never longer than the plain rule, within the budget where that is, and keep the slots in order."""
    problem = problem_of(family, budget=budget)
    first, bubbles = (run(problem, family, side_rule=rule).schedule for rule in ("first", "bubbles"))
    assert bubbles.makespan <= first.makespan
    assert bubbles.fits or not first.fits
    if budget is None:
        orders = [
            [[one for one in order if one < schedule.plan.index.passes] for order in schedule.plan.orders]
            for schedule in (first, bubbles)
        ]
        assert orders[0] == orders[1]


@pytest.mark.parametrize("family", ["list", "zb-auto"])
def test_budget(family: str) -> None:
    """A family that obeys a budget leaves room for what side work holds, at the price of time."""
    problem = problem_of(family, budget=4)
    free = run(problem_of(family), family).schedule
    tight = run(problem, family).schedule
    assert max(free.memory) > 4 >= max(tight.memory)
    assert tight.makespan > free.makespan


@pytest.mark.slow
def test_sharded_weights() -> None:
    """Where weights come and go, `auto` takes the number of stages ahead with which side work costs least."""
    side = [VISION]
    config: dict[str, Any] = {
        "devices": 2, "stages": 8, "microbatches": 4, "forward": 5, "backward": 10, "gather": 4, "reduce": 4,
    }  # fmt: skip
    made = {
        ahead: run(make_problem(**config, side=side, shard={"level": "weights", "ahead": ahead}), "interleaved")
        for ahead in (1, 2, 3, 4, "auto")
    }
    lengths: dict[Any, float] = {ahead: outcome.schedule.makespan for ahead, outcome in made.items()}
    assert lengths["auto"] == min(lengths.values())
    assert lengths[made["auto"].problem.sharding.ahead] == lengths["auto"]


def test_order() -> None:
    """The side work of a microbatch is fed with it: the best order is no longer than the others."""
    times = [9, 1, 1, 1]
    problem = make_problem(devices=2, microbatches=4, forward=5, backward=10, side=[{"forward": times, "backward": 2}])
    made = {order: run(problem, "1f1b", order=order) for order in ("given", "verl", "best")}
    lengths = {order: outcome.schedule.makespan for order, outcome in made.items()}
    assert lengths["best"] == min(lengths.values()) < lengths["given"]
    assert made["best"].order[0] != 0  # the others start sooner


def test_comparisons() -> None:
    """Each rule in a sweep, and as an option of one algorithm."""
    text = "devices: 4\nmicrobatches: 8\ncosts: {forward: 5, backward: 10}\nside: [{forward: 2, backward: 4}]"
    table = sweep(text, "side_rule", ["first", "bubbles"], ["1f1b"])
    found = [point.comparison[0].outcome for point in table.points]
    assert [outcome and outcome.schedule.makespan for outcome in found] == [177, 171]
    compared = compare(make_problem(**FOUR, side=[VISION]), ["1f1b", "naive"], each={"naive": {"side_rule": "first"}})
    assert [entry.label for entry in compared] == ["1f1b", "naive, side_rule first"]


def test_nothing_to_place() -> None:
    """A rule without side work, and an unknown one."""
    with pytest.raises(ConfigError) as error:
        run(make_problem(**FOUR), "1f1b", side_rule="first")
    assert (error.value.key, error.value.message) == ("side_rule", "has no effect without side work (`side`)")
    with pytest.raises(ConfigError, match="did you mean 'bubbles'"):
        run(make_problem(**FOUR, side=[VISION]), "1f1b", side_rule="bubble")
