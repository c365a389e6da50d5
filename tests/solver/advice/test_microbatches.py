"""The same global batch in other microbatches: what changes in proportion, and what does not."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pipesched
from pipesched.solver.advice.microbatches import with_microbatches

PROBLEM = pipesched.make_problem(
    devices=2, stages=4, microbatches=6, forward=[1, 2, 3, 4], backward_input=2, backward_weight=[1, 1, 2, 2],
    overlap=3, p2p=[1, 0, 0.5], offload=2, reload=3, activation="1/3", retain=0.5, checkpoint=0.1, static=2, budget=9,
)  # fmt: skip


def test_twice_as_many() -> None:
    """Times and activations are halved; latencies, shares, weights and the budget stay."""
    assert with_microbatches(PROBLEM, 12) == pipesched.make_problem(
        devices=2, stages=4, microbatches=12, forward=[0.5, 1, 1.5, 2], backward_input=1,
        backward_weight=[0.5, 0.5, 1, 1], overlap=1.5, p2p=[1, 0, 0.5], offload=1, reload=1.5, activation="1/6",
        retain=0.5, checkpoint=0.1, static=2, budget=9, recompute=[0.5, 1, 1.5, 2],
    )  # fmt: skip


def test_half_as_many() -> None:
    """Latencies grow with the size too, since a part of them may."""
    changed = with_microbatches(PROBLEM, 3)
    assert (changed.costs.forward, changed.costs.p2p) == ((2, 4, 6, 8), (2, 0, 1))
    assert changed.memory.activation == (Fraction(2, 3),) * 4


def test_the_work_of_a_step_is_the_same() -> None:
    """A device that never waits takes as long for the batch, whatever its microbatches are."""
    for count in (1, 2, 3, 12, 24):
        changed = with_microbatches(PROBLEM, count)
        work = Fraction(sum(changed.ticks.forward), changed.ticks.per_unit) * count
        assert work == sum(PROBLEM.ticks.forward) / Fraction(PROBLEM.ticks.per_unit) * PROBLEM.microbatches


def test_layers() -> None:
    """The costs of a layer and of what stands beside the layers change, and those of the stages follow."""
    given: dict[str, Any] = {"devices": 2, "stages": 4, "layers": 9, "p2p": 1, "budget": 30}
    whole = {"forward": 1, "backward": 3, "activation": 1, "static": 0.5}
    half = {"forward": 0.5, "backward": 1.5, "activation": 0.5, "static": 0.5}
    problem = pipesched.make_problem(**given, microbatches=4, layer=whole, last={"forward": 2})
    changed = with_microbatches(problem, 8)
    same = pipesched.make_problem(**given, microbatches=8, layer=half, last={"forward": 1})
    assert (changed, changed.layers) == (same, same.layers)
