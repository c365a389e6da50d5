"""Solves of whole steps: known optima, savings of memory, and the exact model of level weights beside the rule."""

from __future__ import annotations

from typing import Any

import pytest

from pipesched import NoSchedule, Outcome, PipeschedError, make_problem, run, solve
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.problem.kinds import KEEP_ONLY
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


OPTIMA: list[tuple[dict[str, Any], int]] = [
    (TWO | {"side": [SIDE]}, 66), (TWO | {"side": [{"forward": 2}]}, 62),  # rule `first`: 72, 64
    (TWO | {"side": [{"forward": 2, "backward": [4, 3, 5], "devices": [1], "p2p": 1}]}, 67),
    (TWO | STEP, 69), (TWO | STEP | {"tied": 5}, 74),
    (FOUR | {"gather": 15, "reduce": 30, "optimizer": 5, "tied": 8}, 388),
    (HALVES | STEP | {"reduce": 14, "tied": 5, "clip": True}, 83),
    (TWO | STEP | {"stages": 4, "reduce": [14, 3, 5, 7], "tied": 5}, 124),
    (WHOLE | {"shard": {"level": "weights", "ahead": 1}}, 122),
    (WHOLE | {"optimizer": 1, "shard": {"level": "weights", "ahead": 1, "reduce": "each"}}, 123),
    (WHOLE | {"optimizer": 1, "shard": {"level": "weights", "ahead": "auto"}}, 113),
    ({"devices": 1, "stages": 4, "microbatches": 3, "forward": 5, "backward": 10, "gather": 3, "reduce": 4,
      "shard": {"level": "weights", "ahead": 2}}, 187),
    ({"devices": 1, "stages": 3, "microbatches": 2, "forward": [1, 6, 5], "backward": [2, 7, 3], "gather": 9,
      "reduce": 4, "placement": "linear", "shard": {"level": "weights", "ahead": 2}}, 68),
    (TWO | STEP | {"gradients": 2, "weights": 1, "shard": {"level": "gradients"}, "budget": 6.5}, 99),
    (TWO | {"side": [SIDE | {"activation": 0.5, "output": 0.1, "p2p": 1}], "budget": 3}, 67),
    ({"devices": 2, "microbatches": 1, "forward": 2, "side": [{"forward": 1, "into": 1, "output": 1.2}],
      "budget": [1, 1.2]}, 12),
]  # fmt: skip


@pytest.mark.parametrize(("given", "best"), [
    case if place in (0, 3, 6, 12, 15) else pytest.param(*case, marks=pytest.mark.nightly)
    for place, case in enumerate(OPTIMA)
])  # fmt: skip
@pytest.mark.slow
def test_proved_optima(given: dict[str, Any], best: int) -> None:
    """Slots, side work and lanes are in the best order, which is proved."""
    outcome = solved(given)
    assert outcome.report is not None
    assert (outcome.schedule.makespan, str(outcome.report.status)) == (best, "optimal")


@pytest.mark.slow
@pytest.mark.parametrize("ahead", at_night_but((1,), ("auto", 1, "full")))
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


@pytest.mark.parametrize("method", at_night_but(("cpsat", "auto"), ("portfolio", "cpsat", "improve", "auto")))
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


def case_of(given: dict[str, Any]) -> StepVariant:
    """The case of a problem on its placement."""
    case = as_variants([make_problem(**given)], "makespan", KEEP_ONLY, DEFAULT)[0]
    assert isinstance(case, StepVariant)
    return case


def test_many_passes_have_no_gathers_between_them() -> None:
    """Where one stage is whole at a time the model has gathers between few passes, and none between many."""
    given = THREE_ON_ONE | {"gather": 30, "shard": {"level": "weights", "ahead": 1}}
    assert [case_of(given | {"microbatches": count}).rules.gathers_between(0) for count in (2, 20)] == [True, False]
