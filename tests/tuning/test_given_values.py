"""Values that a user gives beside a model: each point still means what `estimate` says of it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import pipesched
from pipesched.pipeline.problem.quantities import to_fraction
from tests.tuning.spaces import ALGORITHMS, GPU, SPACE, Config, enumerated, fastest, is_sure

pytestmark = pytest.mark.slow

BUDGET = "3.5"  # GB for states and activations
MEMORY = float(Fraction(BUDGET) * Fraction(104, 100) + Fraction(3, 4))  # of a GPU that leaves so much
PLENTY: Config = {**SPACE, "hardware": {**GPU, "memory": 80}}


def rows(**more: Any) -> list[tuple[Any, ...]]:
    """The best points of the space, with their memory."""
    found = pipesched.tune(None, ALGORITHMS, top=1000, **more)
    return [(row.point.key, row.step, row.memory, row.spare) for row in found.rows]


def test_a_budget_is_obeyed_as_a_smaller_gpu_would_be() -> None:
    """The best points are those of a GPU whose memory leaves that budget, and of them the same ones are simulated."""
    given = pipesched.tune(None, ALGORITHMS, **PLENTY, budget=BUDGET, fits="likely")
    smaller = pipesched.tune(None, ALGORITHMS, **{**SPACE, "hardware": {**GPU, "memory": MEMORY}}, fits="likely")
    assert given.rows[0].step == smaller.rows[0].step
    assert [row.point for row in given.rows] == [row.point for row in smaller.rows]
    assert given.pruned == smaller.pruned
    assert given.pruned["memory"] > 0
    assert given.capacity == MEMORY
    free = pipesched.tune(None, ALGORITHMS, **PLENTY)
    assert free.rows[0].rate > given.rows[0].rate


@pytest.mark.nightly
@pytest.mark.parametrize("value", [[3, 3.5], BUDGET, 3])
def test_rows_under_a_budget_are_those_of_estimate(value: Any) -> None:
    """Every point that fits is a row or is not faster than the best one; the best is the best of all points."""
    config = {**PLENTY, "parallel": {**PLENTY["parallel"], "pipeline": 2}}
    found = pipesched.tune(None, ALGORITHMS, **config, budget=value)
    all_points = [one.estimate for one in enumerated({**config, "budget": value}, ALGORITHMS) if one.estimate]
    fitting = [one for one in all_points if one.fits]
    assert 0 < len(fitting) < len(all_points)
    assert all(one.fits == one.outcome.schedule.fits for one in all_points)
    fast = [one for one in fitting if is_sure(one)]
    assert fastest(found).rate == max(one.step.tokens_per_second_per_gpu for one in fast or fitting)
    confirmed = pipesched.estimate(found.config)
    assert (confirmed.step, confirmed.fits) == (found.rows[0].step, True)


@pytest.mark.nightly
@pytest.mark.parametrize("static", [1, 6])
def test_rows_beside_side_work_are_those_of_estimate(static: int) -> None:
    """What is pruned beside side work is worse or does not fit: the best is the best of all points."""
    parallel = {**SPACE["parallel"], "pipeline": 2}
    side = [{"name": "vision", "forward": 1, "backward": 2, "static": static, "activation": "100MB"}]
    config = {**SPACE, "parallel": parallel, "side": side}
    names = ["1f1b", "interleaved", "zb-h1"]
    found = pipesched.tune(None, names, beyond=True, top=1000, **config)
    fitting = [one.estimate for one in enumerated(config, names) if one.estimate and one.estimate.fits]
    assert bool(fitting) == bool(found.rows) == (static < 6)
    assert (found.pruned["memory"] > 0) == (static == 6)
    if fitting:
        assert fastest(found).rate == max(one.step.tokens_per_second_per_gpu for one in fitting if is_sure(one))
    assert "as it is given" in found.notes[-1]


def test_slices_leave_out_families_without_them() -> None:
    """A family that has no order of slices is no point, also where it would try many orders."""
    found = pipesched.tune(None, ["seq-1f1b", "1f1b-v"], **PLENTY, slices=2)
    assert {row.point.algorithm for row in found.rows} == {"seq-1f1b"}


def test_changes_keep_a_given_budget() -> None:
    """What is suggested where a given budget is too small fits it, and not only the GPU."""
    sizes = {"tensor": 1, "pipeline": 4, "chunks": 1}
    config = {**PLENTY, "parallel": {**PLENTY["parallel"], **sizes}, "batch": {**PLENTY["batch"], "micro": 2},
              "training": {}}  # fmt: skip
    found = pipesched.estimate(None, "1f1b", **config, budget=2.3)
    assert not found.fits
    assert pipesched.estimate(None, "1f1b", **config).fits
    helping = pipesched.config.estimate.changes(found)
    assert helping
    assert all(change.estimate.fits and change.estimate.outcome.schedule.fits for change in helping)
    budgets = [limit for change in helping for limit in change.estimate.problem.memory.budget or ()]
    assert {to_fraction(limit) for limit in budgets} == {Fraction("2.3")}


@pytest.mark.nightly
def test_a_given_placement_is_that_of_every_point() -> None:
    """Algorithms run the stages of that placement or do not apply, as `estimate` says."""
    config = {**PLENTY, "parallel": {**PLENTY["parallel"], "pipeline": 4, "chunks": 2}, "placement": "v"}
    found = pipesched.tune(None, ALGORITHMS, **config, top=1000)
    ones = [one for one in enumerated(config, ALGORITHMS) if one.estimate is not None]
    assert {row.point.algorithm for row in found.rows} <= {one.algorithm for one in ones}
    assert {one.algorithm for one in ones} < set(ALGORITHMS)
    assert fastest(found).rate == max(one.estimate.step.tokens_per_second_per_gpu for one in ones if one.estimate)
    assert pipesched.estimate(found.config).step == found.rows[0].step


def test_messages_queue_in_each_point() -> None:
    """Rows are what `estimate` says of them with the same queues; a single device has none, as its config says."""
    parallel = {"gpus": 4, "tensor": [1, 2], "pipeline": [1, 2], "chunks": 2}
    config = {**PLENTY, "training": {"recompute": "full"}, "parallel": parallel}
    found = pipesched.tune(None, ["interleaved", "1f1b"], **config, beyond=True, top=100, messages="device")
    free = pipesched.tune(None, ["interleaved", "1f1b"], **config, beyond=True, top=100)
    rates = {row.point.key: row.rate for row in free.rows}
    known = [row for row in found.rows if row.point.key in rates]
    assert {row.point.layout.pipeline for row in known} == {1, 2}
    assert all((row.rate < rates[row.point.key]) == (row.point.layout.pipeline == 2) for row in known)
    confirmed = pipesched.estimate(found.config)
    assert confirmed.step == found.rows[0].step
