"""Whole steps: their arguments, programs of network lanes, bounds and metrics."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched import ConfigError, Problem, make_problem, run
from pipesched.pipeline.bounds.bounds import problem_bounds, work_bounds
from pipesched.pipeline.layers.recut import fuse
from pipesched.pipeline.plan.step import Shard, SideItem
from pipesched.pipeline.problem.costs import STATIC_PARTS, STEP_TIMES
from pipesched.pipeline.problem.placement import named_placement
from pipesched.pipeline.problem.problem import differs, equals, in_order, typical
from pipesched.pipeline.problem.quantities import to_fraction
from pipesched.pipeline.problem.readers import with_budget
from pipesched.solver.advice import with_microbatches
from tests.oracle.alike import parts, replay
from tests.stepped import REDUCED
from tests.strategies import problems, random_plan

TWO: dict[str, Any] = {"devices": 2, "microbatches": 3, "forward": 5, "backward": 10}


def test_bounds_of_the_span() -> None:
    """A device and a network lane take at least what they have to do."""
    problem = make_problem(**TWO, gather=25, reduce=40, placement="linear")
    assert max(bound.ticks for bound in work_bounds(problem, "FB", paired=False)) == 65


def test_bounds_by_side_work() -> None:
    """Two devices work as long as their passes and the side work that they share: 3 x (15 + 15 + 42) in 108."""
    problem = make_problem(**TWO, side=[{"forward": 2, "backward": 40}], placement="linear")
    shared = [bound.ticks for bound in problem_bounds(problem, "FB", paired=False) if "side work" in bound.reason]
    assert shared == [108, 108]


def test_text() -> None:
    """A step says of itself what it costs beside the pipeline, and what is exposed."""
    schedule = run(make_problem(**REDUCED), "1f1b").schedule
    assert repr(schedule.step) == "StepTimes(pipeline 330, network 45, exposed 0UNSHARD0, 0REDUCE_GRAD)"


# A step beside its passes, as make_problem reads it: costs, memory, shards and side work, fused and cut too.

VISION: dict[str, Any] = {"name": "vision", "forward": 3, "backward": 6}
SIDE = [{"forward": [1, 2, 3, 4], "backward": 2}, {"forward": 5, "backward": [4, 3, 2, 1]}]


def test_every_number() -> None:
    """Times and sizes of a step, one for all stages or one each, exactly, in the units of the problem or their own."""
    problem = make_problem(
        devices=2, stages=4, gather="250us", reduce=[1, "2", Decimal("0.1"), 0], optimizer=Fraction(1, 2), tied="2ms",
        weights="500MB", gradients=[1, 2, 3, 4], states=[0, "1/3", 1, 1], time_unit="ms", unit="GB",
        shard={"level": "weights", "ranks": "8", "ahead": (2, 1), "reduce": "each"}, clip=True,
        side=[{**VISION, "backward": None, "into": 3, "devices": [1, 0], "p2p": "10us", "output": "1MB", "static": 2}],
    )  # fmt: skip
    costs, memory = problem.costs, problem.memory
    assert (costs.gather, costs.reduce, costs.optimizer, costs.tied) == ((0.25,) * 4, (1, 2, 0.1, 0), (0.5,) * 4, 2)
    assert (memory.weights, memory.gradients, memory.states) == ((0.5,) * 4, (1, 2, 3, 4), (0, Fraction(1, 3), 1, 1))
    assert (problem.shard, problem.clip) == (Shard("weights", 8, (2, 1), "each"), True)
    item = SideItem((3,), None, (1, 0), 3, Fraction(1, 100), 0, Fraction(1, 1000), 2, "vision")
    assert problem.side == (item,)


def test_defaults() -> None:
    """With one part of a step the others are filled in; without any there is none, and memory that stays counts."""
    plain = make_problem(devices=2, weights=1, gradients=2, states=3, static=4)
    assert (plain.has_step, plain.shard, plain.clip, plain.side) == (False, None, None, ())
    assert plain.grains.static == (10, 10)
    for one, level in (({"reduce": 1}, "none"), ({"gather": 0}, "optimizer"), ({"side": [VISION]}, "none")):
        problem = make_problem(devices=2, **one)
        assert (problem.has_step, problem.shard, problem.clip) == (True, Shard(level), False)
    assert problem.side[0].devices == (0, 1)
    assert make_problem(devices=2, shard="none") == make_problem(devices=2, shard=Shard())


def test_lists_of_side_work_count_microbatches() -> None:
    """As other lists of one a microbatch do; a list of equal numbers is one number."""
    problem = make_problem(devices=2, side=[{"forward": [1, 2, 3], "backward": [2, 2, 2]}])
    assert (problem.microbatches, problem.side[0].forward, problem.side[0].backward) == (3, (1, 2, 3), (2,))


def test_forwards_alone_keep_what_they_have() -> None:
    """Weights are gathered and divided, and side work runs forwards; gradients and states are none."""
    kept: dict[str, Any] = {"gather": 2, "weights": 8, "shard": {"level": "weights", "ranks": 4}}
    side = [{"forward": 3}]
    problem = make_problem(devices=2, mode="forward", gradients=5, states=6, side=side, **kept)
    assert problem == make_problem(devices=2, mode="forward", side=side, **kept)
    assert (problem.costs.gather, problem.memory.gradients, problem.grains.static) == ((2, 2), (0, 0), (2, 2))


def test_fused_stages() -> None:
    """Costs and memory of a group add up, and side work goes into its group; what is of the whole step stays."""
    problem = make_problem(
        devices=2, stages=6, gather=[1, 2, 3, 4, 5, 6], reduce=1, optimizer=[0, 0, 1, 1, 0.5, 2], tied=7, clip=True,
        weights=[1, 2, 3, 4, 5, 6], gradients=2, states=["1/3"] * 6, shard="gradients",
        side=[{**VISION, "into": 0}, {"forward": 1, "into": 3}, {"forward": 1, "into": 5}],
    )  # fmt: skip
    fused = fuse(problem, 2)
    assert (fused.costs.gather, fused.costs.reduce, fused.costs.optimizer) == ((6, 15), (3, 3), (1, 3.5))
    assert (fused.memory.weights, fused.memory.gradients, fused.memory.states) == ((6, 15), (6, 6), (1, 1))
    assert (fused.costs.tied, fused.shard, fused.clip) == (7, Shard("gradients"), True)
    assert [item.into for item in fused.side] == [0, 1, 1]
    assert [item.into for item in fuse(problem, 3).side] == [0, 1, 2]


LAYERS: dict[str, Any] = {
    "devices": 2,
    "layers": 4,
    "layer": {"forward": 1, "gather": 0.5, "reduce": [1, 2, 3, 4], "weights": [1, 1, 2, 2], "states": "1/3"},
    "first": {"optimizer": 3, "weights": 5},
    "last": {"gather": 2, "gradients": 1},
    "tied": 4,
}


def test_layers() -> None:
    """A stage adds up what its layers have, and what stands beside them, also where only that has it."""
    problem = make_problem(**LAYERS, layout=[3, 1])
    costs, memory = problem.costs, problem.memory
    assert (costs.gather, costs.reduce, costs.optimizer, costs.tied) == ((1.5, 2.5), (6, 4), (3, 0), 4)
    assert (memory.weights, memory.gradients, memory.states) == ((9, 2), (0, 1), (1, Fraction(1, 3)))
    plain = {key: LAYERS[key] for key in ("devices", "layers")}
    assert make_problem(**plain, layer={"forward": 1}, tied=4).costs.gather is None


def test_stages_that_count_as_layers() -> None:
    """Measured blocks give the six lists by block, and side work goes into a stage of those that are made."""
    lists: dict[str, Any] = {key: [1, 2, 3, 4] for key in (*STEP_TIMES, *STATIC_PARTS)}
    blocks: dict[str, Any] = {"devices": 2, "stages": 4, "layout": [1, 3], "tied": 1, "shard": "weights"}
    problem = make_problem(**blocks, **lists, side=[{**VISION, "into": 1}])
    assert {
        (getattr(problem.costs, key), getattr(problem.memory, kept)) for key in STEP_TIMES for kept in STATIC_PARTS
    } == {((1, 9), (1, 9))}
    assert (problem.costs.tied, problem.shard, problem.side[0].into) == (1, Shard("weights"), 1)
    with pytest.raises(ConfigError, match=r"side\[0\].into: stage 2 is out of range; stages are 0 to 1"):
        make_problem(**blocks, side=[{**VISION, "into": 2}])


@pytest.mark.parametrize(
    ("level", "layout"), [("none", (2, 6)), ("optimizer", (3, 5)), ("gradients", (4, 4)), ("weights", (4, 4))]
)
def test_cuts_count_what_stays(level: str, layout: tuple[int, ...]) -> None:
    """Under a budget device 0 gets as many layers as it has memory for, of which each level leaves it more."""
    layer: dict[str, Any] = {"forward": 1, "activation": 1, "weights": 2, "gradients": 2, "states": 4}
    problem = make_problem(devices=2, layers=8, layer=layer, shard={"level": level, "ranks": 4}, budget=[22, 1000])
    assert problem.layers is not None
    assert problem.layers.layout == layout
    assert with_budget(problem, 1000).layers.layout == (4, 4)  # type: ignore[union-attr]


def test_side_work_follows_the_order() -> None:
    """Microbatches in another order take their side work along; the mean one has the mean; a level and rule stay."""
    problem = make_problem(devices=2, side=SIDE, reduce=2, shard="gradients")
    turned = in_order(problem, [3, 0, 2, 1])
    assert [(item.forward, item.backward) for item in turned.side] == [((4, 1, 3, 2), (2,)), ((5,), (1, 4, 2, 3))]
    assert turned == make_problem(
        devices=2, reduce=2, shard="gradients",
        side=[{"forward": [4, 1, 3, 2], "backward": 2}, {"forward": 5, "backward": [1, 4, 2, 3]}],
    )  # fmt: skip
    mean = typical(problem)
    assert [(item.forward, item.backward) for item in mean.side] == [((2.5,), (2,)), ((5,), (2.5,))]
    assert (mean.costs.reduce, mean.shard, differs(problem), differs(mean)) == ((2, 2), Shard("gradients"), True, False)
    assert (equals(problem), equals(mean)) == ([0, 1, 2, 3], [0, 0, 0, 0])


def test_twice_the_microbatches() -> None:
    """Half as large microbatches take half the passes and half the side work; the step's own costs stay."""
    given: dict[str, Any] = {"devices": 2, "layers": 2, "layer": {"forward": 2, "gather": 3, "weights": 5}, "tied": 3}
    side = [{"forward": 4, "backward": 6, "p2p": 2, "activation": 1, "static": 7}]
    changed = with_microbatches(make_problem(**given, side=side, microbatches=4), 8)
    half = [{"forward": 2, "backward": 3, "p2p": 2, "activation": 0.5, "static": 7}]
    layer = {"forward": 1, "gather": 3, "weights": 5, "activation": 0.5}
    assert changed == make_problem(**{**given, "layer": layer}, side=half, microbatches=8)


# Fused stages: the same model in fewer, larger ones.


def test_fractions_are_weighted_by_the_activation() -> None:
    """1 of 1 and half of 3 is 2.5 of 4 retained; none of 1 and a tenth of 3 is 0.3 of 4 kept."""
    problem = make_problem(
        devices=1, stages=2, activation=[1, 3], retain=[1, Decimal("0.5")], checkpoint=[0, Decimal("0.1")]
    )
    fused = fuse(problem, 1)
    assert fused.memory.retain == (0.625,)
    assert fused.memory.checkpoint == (0.075,)
    assert Fraction(fused.grains.largest["retained"][0], fused.grains.per_unit) == Fraction(5, 2)
    assert Fraction(fused.grains.largest["checkpointed"][0], fused.grains.per_unit) == Fraction(3, 10)


def test_absent_costs_stay_absent() -> None:
    """Overlap, offload and a budget that nobody gave are not made up; an overlap of 0 stays one."""
    fused = fuse(make_problem(devices=2, stages=4), 2)
    assert (fused.costs.overlap, fused.costs.offload, fused.costs.reload, fused.memory.budget) == (None,) * 4
    assert fuse(make_problem(devices=2, stages=4, overlap=0), 2).costs.overlap == (0, 0)


@given(problems(("linear",), least=1, split=False), st.randoms(use_true_random=False))
def test_the_same_model(problem: Problem, random: Random) -> None:
    """Any plan of the fused stages takes as long, and holds as much, as the same plan with its stages one by one."""
    linear = named_placement("linear", problem.devices, problem.devices)
    fused = replace(fuse(problem, problem.devices), placement=linear)
    size = problem.stages // problem.devices
    plan = random_plan(fused, random)
    unfused = [[text for slot in row for text in _one_by_one(slot, size)] for row in plan]
    whole, apart = replay(fused, plan), replay(problem, unfused)
    assert (whole.makespan, whole.span, whole.busy) == (apart.makespan, apart.span, apart.busy)
    held, due = (
        [peak / one.grains.per_unit for peak in peaks] for one, peaks in ((fused, whole.peak), (problem, apart.peak))
    )
    assert held == due


def _one_by_one(slot: str, size: int) -> list[str]:
    """The operations of the stages that were fused into one: forwards up, backwards down."""
    [(stage, kind, mb, _)] = parts(slot)
    stages = list(range(stage * size, (stage + 1) * size))
    return [f"{one}{kind}{mb}" for one in (stages if kind == "F" else stages[::-1])]


@given(problems())
def test_no_step_is_as_before(problem: Problem) -> None:
    """Nothing of a step is in a problem that was given none, and nothing stays but static memory."""
    assert not problem.has_step
    assert not any(any(getattr(problem.memory, key)) for key in STATIC_PARTS)
    scale = problem.grains.per_unit
    assert [Fraction(size, scale) for size in problem.grains.static] == [*map(to_fraction, problem.memory.static)]
