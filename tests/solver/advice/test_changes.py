"""Changes: the arguments that are named make the changed problem, of stages, of layers and of a model on GPUs.

The same global batch in other microbatches: what changes in proportion, and what does not.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched import Problem
from pipesched.solver.advice import AdvisedChange, changes, typed, with_microbatches
from pipesched.solver.request import SolveRequest

CONFIGS = Path(__file__).parents[3] / "configs"
STAGES: dict[str, Any] = {
    "devices": 2, "stages": 16, "microbatches": 4, "forward": [*range(1, 17)], "backward": 4, "p2p": 0.5, "static": 1,
    "retain": 0.5, "budget": 40, "offload": 1,
}  # fmt: skip
LAYERS: dict[str, Any] = {
    "devices": 2, "stages": 2, "microbatches": 4, "layers": 11, "layer": {"forward": 1, "backward": 2, "activation": 1},
    "last": {"forward": 3}, "budget": 30, "p2p": 1,
}  # fmt: skip
BATCH = pipesched.make_problem(
    devices=2, stages=4, microbatches=6, forward=[1, 2, 3, 4], backward_input=2, backward_weight=[1, 1, 2, 2],
    overlap=3, p2p=[1, 0, 0.5], offload=2, reload=3, activation="1/3", retain=0.5, checkpoint=0.1, static=2, budget=9,
)  # fmt: skip


def changes_of(problem: Problem, **more: Any) -> dict[str, AdvisedChange]:
    return {change.name: change for change in changes(SolveRequest(problem, **more))}


LAYERS_BY_BUDGET: dict[str, Any] = {  # with a budget of 14.5 they are cut otherwise
    "devices": 2, "stages": 6, "microbatches": 4, "placement": "linear", "layers": 14, "last": {"forward": 6},
    "layer": {"forward": 1.25, "backward": 1.25, "activation": 1}, "budget": 10.5,
}  # fmt: skip


@pytest.mark.parametrize(
    "given", [STAGES, LAYERS, {**STAGES, "placement": "loop"}, {**LAYERS, "placement": "loop"}, LAYERS_BY_BUDGET]
)
@pytest.mark.parametrize("halves", [False, True])
def test_the_arguments_make_the_changed_problem(given: dict[str, Any], halves: bool) -> None:
    """Laid over what was given they are the problem that was tried, to the last number."""
    given = dict(given)
    if halves:
        costs = given["layer"] if "layers" in given else given
        halved = {key: value for key, value in costs.items() if key != "backward"}
        halved |= {"backward_input": 1, "backward_weight": 3}
        given = {**given, "layer": halved} if "layers" in given else halved
    found = changes_of(pipesched.make_problem(**given), offload="offload" in given, recompute=True)
    names = {"one activation more", "one activation less", "two chunks a device", "four chunks a device"}
    assert names | {"2 microbatches", "8 microbatches"} <= {*found}
    for change in found.values():
        made = pipesched.make_problem(**{**given, **change.arguments})
        assert (made, made.layers) == (change.problem, change.problem.layers), change.name


def test_what_has_no_effect_is_not_named() -> None:
    """What a recompute or an offload takes is left out where neither is allowed."""
    change = changes_of(pipesched.make_problem(**STAGES))["8 microbatches"]
    assert {*change.arguments} == {"microbatches", "forward", "backward", "activation"}


def test_stages_that_cannot_be_fused_or_cut() -> None:
    """Six stages of two devices are no four or eight; a placement without a name has no other number of stages."""
    assert not [name for name in changes_of(pipesched.make_problem(devices=2, stages=6)) if "chunks" in name]
    listed = pipesched.make_problem(devices=2, stages=8, placement=[0, 0, 1, 0, 1, 1, 0, 1])
    assert not [name for name in changes_of(listed) if "chunks" in name]


def test_a_model_on_gpus_is_cut_anew_and_keeps_its_microbatches() -> None:
    """Chunks are named as its config names them; the same config with them is the same problem."""
    found = changes_of(pipesched.load(CONFIGS / "llama-3-70b.yaml"))
    assert not [name for name in found if "microbatches" in name]
    assert found["one activation more"].arguments == {"budget": 86.601}  # of 80.91346 + 5.68748, the next of six digits
    chunks = {name: change for name, change in found.items() if "chunks" in name}
    assert chunks
    for change in chunks.values():
        loaded = pipesched.load(CONFIGS / "llama-3-70b.yaml", **change.arguments)
        assert loaded.stages == change.problem.stages
        assert loaded.memory == change.problem.memory


def test_without_a_budget_nothing_saves_memory() -> None:
    """Recompute, offload and budgets are of no use."""
    given = {key: value for key, value in STAGES.items() if key != "budget"}
    assert not {"recompute", "offload", "one activation more"} & {*changes_of(pipesched.make_problem(**given))}


@pytest.mark.parametrize(
    ("number", "text"),
    [(3, 3), (2.5, 2.5), (Fraction(1, 3), 0.333333333), (Fraction(2, 3), 0.666666667), (10**9, 10**9)],
)
def test_numbers_as_they_are_typed(number: Any, text: Any) -> None:
    """What has more digits than count is rounded half up."""
    assert typed(number) == text
    assert typed(number).__class__ is text.__class__


def test_twice_as_many_microbatches() -> None:
    """Times and activations are halved; latencies, shares, weights and the budget stay."""
    assert with_microbatches(BATCH, 12) == pipesched.make_problem(
        devices=2, stages=4, microbatches=12, forward=[0.5, 1, 1.5, 2], backward_input=1,
        backward_weight=[0.5, 0.5, 1, 1], overlap=1.5, p2p=[1, 0, 0.5], offload=1, reload=1.5, activation="1/6",
        retain=0.5, checkpoint=0.1, static=2, budget=9, recompute=[0.5, 1, 1.5, 2],
    )  # fmt: skip


def test_the_work_of_a_step_is_the_same_in_other_microbatches() -> None:
    """A device that never waits takes as long for the batch, whatever its microbatches are."""
    for count in (1, 2, 3, 12, 24):
        changed = with_microbatches(BATCH, count)
        work = Fraction(sum(changed.ticks.mean["forward"]), changed.ticks.per_unit) * count
        assert work == sum(BATCH.ticks.mean["forward"]) / Fraction(BATCH.ticks.per_unit) * BATCH.microbatches


def test_other_microbatches_of_layers() -> None:
    """The costs of a layer and of what stands beside the layers change, and those of the stages follow."""
    given: dict[str, Any] = {"devices": 2, "stages": 4, "layers": 9, "p2p": 1, "budget": 30}
    whole = {"forward": 1, "backward": 3, "activation": 1, "static": 0.5}
    half = {"forward": 0.5, "backward": 1.5, "activation": 0.5, "static": 0.5}
    problem = pipesched.make_problem(**given, microbatches=4, layer=whole, last={"forward": 2})
    changed = with_microbatches(problem, 8)
    same = pipesched.make_problem(**given, microbatches=8, layer=half, last={"forward": 1})
    assert (changed, changed.layers) == (same, same.layers)
