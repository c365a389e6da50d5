"""Problems: ways to write them, what they refuse, and devices and links that differ."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from pipesched import Problem, make_problem, run
from pipesched.pipeline.problem.costs import at_speed
from pipesched.pipeline.problem.quantities import to_fraction
from tests.strategies import ALL_PLACEMENTS, problems


def test_defaults() -> None:
    """S = P, M = 2P, forward 1, backward twice that in two halves, p2p 0, activation P/S, all of it kept for W."""
    problem = make_problem(devices=3)
    costs, memory = problem.costs, problem.memory
    assert (problem.devices, problem.stages, problem.microbatches) == (3, 3, 6)
    assert (problem.ticks.per_unit, costs.forward, costs.backward, costs.p2p) == (1, (1,) * 3, (2,) * 3, (0, 0))
    assert (costs.backward_input, costs.backward_weight, costs.split) == ((1,) * 3, (1,) * 3, False)
    assert (costs.recompute, costs.overlap, costs.offload) == (costs.forward, None, None)
    assert (problem.grains.per_unit, memory.activation, memory.budget) == (1, (1,) * 3, None)
    assert (set(memory.retain), set(memory.checkpoint), set(memory.static)) == ({1}, {0}, {0})


def test_one_microbatch_on_one_device_is_one() -> None:
    """The default activation P/S is exact, a third too."""
    for stages in (3, 6, 7, 9):
        problem = make_problem(devices=3, stages=stages)
        assert {Fraction(size, problem.grains.per_unit) for size in problem.grains.largest["activation"]} == {
            Fraction(3, stages)
        }
        assert set(map(to_fraction, problem.memory.activation)) == {Fraction(3, stages)}


@pytest.mark.parametrize(
    ("backward", "scale", "half", "whole"), [(10, 1, 5, 10), (5, 10, 25, 50), (Decimal("0.1"), 100, 5, 10)]
)
def test_halves_of_a_backward(backward: Any, scale: int, half: int, whole: int) -> None:
    """Given only the backward, each half is half of it, and no user meant it to be split."""
    problem = make_problem(devices=1, backward=backward)
    ticks = problem.ticks
    assert (ticks.per_unit, ticks.mean["backward_input"], ticks.mean["backward_weight"]) == (scale, (half,), (half,))
    assert (ticks.mean["backward"], problem.costs.split) == ((whole,), False)
    assert problem.costs.backward == (float(backward),)


def test_given_halves() -> None:
    """Both halves given: B is their sum, and the backward may be split."""
    costs = make_problem(devices=2, backward_input=[3, 4], backward_weight=1).costs
    assert (costs.backward, costs.split) == ((4, 5), True)


def test_none_is_the_default() -> None:
    """None is what leaving out the argument is, where that has a default."""
    assert make_problem(devices=2, forward=None, activation=None, microbatches=None) == make_problem(devices=2)


def test_time_scale_is_the_smallest_power_of_ten() -> None:
    """Ticks are as coarse as the user's values allow."""
    assert make_problem(devices=1, forward=3, backward=4).ticks.per_unit == 1
    assert make_problem(devices=1, forward=2.5, backward=4).ticks.per_unit == 10
    assert make_problem(devices=2, forward=2.5, backward=4, p2p=0.001).ticks.per_unit == 1000


@given(problems(ALL_PLACEMENTS, overlap=True))
def test_retained_is_exact(problem: Problem) -> None:
    """`retain` and `checkpoint` are applied before scaling, so every part of an activation is whole in grains."""
    memory, grains = problem.memory, problem.grains
    for size, retain, checkpoint, retained, checkpointed in zip(
        grains.largest["activation"],
        memory.retain,
        memory.checkpoint,
        grains.largest["retained"],
        grains.largest["checkpointed"],
        strict=True,
    ):
        assert retained == size * to_fraction(retain)
        assert checkpointed == size * to_fraction(checkpoint)


SPELLINGS = [0.25, "0.25", "1/4", "25e-2", ".25", Decimal("0.25"), Fraction(1, 4), np.float64(0.25), np.float32(0.25)]


@pytest.mark.parametrize("value", SPELLINGS)
def test_ways_to_write_a_number(value: Any) -> None:
    """A quarter in any spelling is a quarter, as a time and as a size, for all stages or for one."""
    problem = make_problem(devices=2, forward=value, backward=[value, 1], activation=value, budget=value)
    assert problem.costs.forward == problem.memory.activation == problem.memory.budget == (0.25, 0.25)
    assert problem.costs.backward == (0.25, 1)


@pytest.mark.parametrize("values", [[1, 2], (1, 2), ["1", 2.0], np.array([1, 2]), np.array([1.0, 2.0])])
def test_ways_to_write_a_list(values: Any) -> None:
    """Lists, tuples and arrays hold one number a stage."""
    costs = make_problem(devices=2, forward=values).costs
    assert costs.forward == (1, 2)
    assert [type(value) for value in costs.forward] == [int, int]


@pytest.mark.parametrize("value", [4, 4.0, "4", Decimal(4), Fraction(4), np.int64(4), np.float64(4)])
def test_ways_to_write_a_count(value: Any) -> None:
    """So are devices, stages and microbatches, which come out as ints."""
    problem = make_problem(devices=value, stages=value, microbatches=value)
    assert (problem.devices, problem.stages, problem.microbatches) == (4, 4, 4)
    assert type(problem.devices) is type(problem.stages) is type(problem.microbatches) is int


def test_what_the_budget_leaves_for_activations() -> None:
    """Static memory of the stages on a device counts first; twice, where a bidirectional device holds two copies."""
    problem = make_problem(devices=2, static=[1, 2], budget=[4, 4.5], placement="linear")
    per_unit = problem.grains.per_unit
    assert [problem.static_grains[device] / per_unit for device in range(2)] == [1, 2]
    assert problem.capacity_grains == (3 * per_unit, int(2.5 * per_unit))
    both = make_problem(devices=2, static=[1, 2], budget=4, placement="bidirectional")
    assert both.capacity_grains == (1, 1)
    assert make_problem(devices=2, placement="linear").capacity_grains == (None, None)


# Devices of other speeds and links between them: what operations last, what edges cost, and what is refused.


def of_four(**given: Any) -> Problem:
    """Four devices, and what is given."""
    return make_problem(devices=4, **given)


@pytest.mark.parametrize(
    ("cost", "speed", "lasts"),
    [
        ("5", "0.8", "6.25"),
        ("1", "0.7", "1.42857143"),
        ("1", "3", "0.333333333"),
        ("2", "3", "0.666666667"),
        ("0.000001", "7", "0.000000142857143"),
        ("100000000.5", "1", "100000000.5"),
        ("200000001", "2", "100000001"),  # half up
        ("0", "0.5", "0"),
    ],
)
def test_a_cost_at_a_speed(cost: str, speed: str, lasts: str) -> None:
    """A cost is divided by the speed and rounded half up to nine digits; at speed 1 it is as it was."""
    assert at_speed(Fraction(cost), Fraction(speed)) == Fraction(lasts)


FORMS = [
    {"links": {"size": 2, "inside": 1, "between": 3}},
    {"links": {"groups": [[1, 0], [2, 3]], "inside": 1, "between": 3}},
    {"links": [[0, 1, 3, 3], [1, 0, 3, 3], [3, 3, 0, 1], [3, 3, 1, 0]]},
    {"links": {"size": 2, "inside": "1000us", "between": "3ms"}, "time_unit": "ms"},
]


@pytest.mark.parametrize("given", FORMS)
def test_forms_of_links(given: dict[str, Any]) -> None:
    """Groups of a size, groups that are listed, a matrix, and latencies with units are the same links."""
    assert of_four(**given).links == ((0, 1, 3, 3), (1, 0, 3, 3), (3, 3, 0, 1), (3, 3, 1, 0))


def test_a_last_group_may_be_smaller() -> None:
    """Three devices in groups of two: the last is alone."""
    assert make_problem(devices=3, links={"size": 2, "inside": 1, "between": 3}).links == (
        (0, 1, 3),
        (1, 0, 3),
        (3, 3, 0),
    )


@pytest.mark.parametrize("speed", [[1, 1, Decimal("0.8"), 1], {2: 0.8}, {"2": "0.8"}, (1, 1, "0.8", 1)])
def test_forms_of_speed(speed: Any) -> None:
    """A list, or numbers by device, the others 1."""
    assert of_four(speed=speed).speed == (1, 1, 0.8, 1)


def test_ticks_are_the_same_for_fused_stages() -> None:
    """Times of a problem, of its stages fused and on every placement may be compared, whatever is rounded."""
    problem = of_four(stages=8, forward=["1", "0.3", "7", "0.01", "2", "5", "6", "1.7"], speed=[1, "0.7", 3, "0.9"])
    units = {
        run(problem, name).problem.ticks.per_unit for name in ("1f1b", "interleaved", "hanayo", "dualpipe", "zb-v")
    }
    assert units == {problem.ticks.per_unit}
