"""Problems: the defaults of DESIGN section 5, and exact scaling."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given

from pipesched.errors import ConfigError
from pipesched.pipeline.problem import Problem, make_problem
from tests.strategies import ALL_PLACEMENTS, problems


def test_defaults() -> None:
    """S = P, M = 2P, forward 1, backward twice that in two halves, p2p 0, activation P/S, all of it kept for W."""
    problem = make_problem(devices=3)
    costs, memory = problem.costs, problem.memory
    assert (problem.devices, problem.stages, problem.microbatches) == (3, 3, 6)
    assert (costs.scale, costs.forward, costs.backward, costs.p2p) == (1, (1,) * 3, (2,) * 3, (0, 0))
    assert (costs.backward_input, costs.backward_weight, costs.split) == ((1,) * 3, (1,) * 3, False)
    assert (costs.recompute, costs.overlap, costs.offload) == (costs.forward, None, None)
    assert (memory.scale, memory.activation, memory.budget) == (1, (1,) * 3, None)
    assert (set(memory.retain), set(memory.checkpoint), set(memory.static)) == ({Fraction(1)}, {Fraction(0)}, {0})


def test_one_microbatch_on_one_device_is_one() -> None:
    """The default activation P/S is exact, a third too."""
    for stages in (3, 6, 7, 9):
        memory = make_problem(devices=3, stages=stages).memory
        assert {Fraction(size, memory.scale) for size in memory.activation} == {Fraction(3, stages)}


@pytest.mark.parametrize(
    ("backward", "scale", "half", "whole"), [(10, 1, 5, 10), (5, 10, 25, 50), (Decimal("0.1"), 100, 5, 10)]
)
def test_halves_of_a_backward(backward: Any, scale: int, half: int, whole: int) -> None:
    """Given only the backward, each half is half of it, and no user meant it to be split."""
    costs = make_problem(devices=1, backward=backward).costs
    assert (costs.scale, costs.backward_input, costs.backward_weight) == (scale, (half,), (half,))
    assert (costs.backward, costs.split) == ((whole,), False)


def test_given_halves() -> None:
    """Both halves given: B is their sum, and the backward may be split."""
    costs = make_problem(devices=2, backward_input=[3, 4], backward_weight=1).costs
    assert (costs.backward, costs.split) == ((4, 5), True)


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"backward": 2, "backward_input": 1, "backward_weight": 1}, "costs.backward"),
        ({"backward_input": 1}, "costs.backward_input"),
        ({"backward_weight": 1}, "costs.backward_weight"),
        ({"forward": -1}, "costs.forward"),
        ({"forward": [1, 2, 3]}, "costs.forward"),
        ({"forward": 1.0000000001}, "costs.forward"),
        ({"forward": 10**9}, "costs.forward"),
        ({"forward": float("nan")}, "costs.forward"),
        ({"forward": True}, "costs.forward"),
        ({"p2p": [1, 1]}, "costs.p2p"),
        ({"retain": 1.5}, "memory.retain"),
        ({"checkpoint": -0.5}, "memory.checkpoint"),
        ({"budget": 0}, "memory.budget"),
        ({"budget": [1, -1]}, "memory.budget"),
        ({"devices": 0}, "devices"),
        ({"devices": 1.5}, "devices"),
        ({"microbatches": 0}, "microbatches"),
        ({"stages": 1}, "stages"),
    ],
)
def test_bad_values_name_their_key(given: dict[str, Any], key: str) -> None:
    """A value that cannot be is a ConfigError that carries the key of the value at fault."""
    with pytest.raises(ConfigError) as caught:
        make_problem(**{"devices": 2, **given})
    assert (caught.value.key or "").startswith(key)


def test_time_scale_is_the_smallest_power_of_ten() -> None:
    """Ticks are as coarse as the user's values allow."""
    assert make_problem(devices=1, forward=3, backward=4).costs.scale == 1
    assert make_problem(devices=1, forward=2.5, backward=4).costs.scale == 10
    assert make_problem(devices=2, forward=2.5, backward=4, p2p=0.001).costs.scale == 1000


@given(problems(ALL_PLACEMENTS, overlap=True))
def test_retained_is_exact(problem: Problem) -> None:
    """`retain` and `checkpoint` are applied before scaling, so every part of an activation is whole in grains."""
    memory = problem.memory
    for size, retain, checkpoint, retained in zip(
        memory.activation, memory.retain, memory.checkpoint, memory.retained, strict=True
    ):
        assert (size * retain).denominator == (size * checkpoint).denominator == 1
        assert retained == size * retain
