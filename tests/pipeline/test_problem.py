"""Problems: the defaults of the config's reference, and exact scaling."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from pipesched.errors import ConfigError
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.problem import Problem
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


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"backward": 2, "backward_input": 1}, "backward_input"),
        ({"backward_input": 1}, "backward_input"),
        ({"backward_weight": 1}, "backward_weight"),
        ({"forward": -1}, "forward"),
        ({"forward": [1, 2, 3]}, "forward"),
        ({"forward": 1e-10}, "forward"),
        ({"forward": 10**13}, "forward"),
        ({"forward": float("nan")}, "forward"),
        ({"forward": True}, "forward"),
        ({"p2p": [1, 1]}, "p2p"),
        ({"retain": -0.5}, "retain"),
        ({"checkpoint": -0.5}, "checkpoint"),
        ({"budget": 0}, "budget"),
        ({"budget": [1, -1]}, "budget"),
        ({"devices": 0}, "devices"),
        ({"devices": 1.5}, "devices"),
        ({"microbatches": 0}, "microbatches"),
        ({"stages": 1}, "stages"),
        ({"unit": 5}, "unit"),
        ({"unit": "a\nb"}, "unit"),
        ({"name": None}, "name"),
        ({"time_unit": ["ms"]}, "time_unit"),
        ({"lanes": "both"}, "lanes"),
        ({"lanes": None}, "lanes"),
        ({"placement": 5}, "placement"),
        ({"reload": 1}, "reload"),
        ({"forward": "1/3"}, "forward"),
        ({"offload": [1, "1/3"]}, "offload"),
        ({"microbatches": 10_000_000}, "microbatches"),
    ],
)
def test_bad_values_name_their_key(given: dict[str, Any], key: str) -> None:
    """A value that cannot be is a ConfigError that carries the key of the value at fault."""
    with pytest.raises(ConfigError) as caught:
        make_problem(**{"devices": 2, **given})
    assert caught.value.key == key


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


NO_NUMBERS = [None, True, "x", "", "1/0", "nan", "0x10", "1_000", "１", [], {}, {"a": 1}, b"1", 1j, object(), np.nan,
              float("inf"), "1e400", 1e300, 10**13, 1e-10, "0.0000000001"]  # fmt: skip


@pytest.mark.parametrize("value", NO_NUMBERS, ids=[str(number) for number in range(len(NO_NUMBERS))])
@pytest.mark.parametrize("key", ["forward", "p2p", "activation", "retain", "devices", "microbatches"])
def test_what_is_no_number(key: str, value: Any) -> None:
    """Everything else is a ConfigError about its parameter; None is the default where there is one."""
    if value is None and key in ("activation", "forward", "microbatches"):
        defaults: dict[str, Any] = {key: None}
        assert make_problem(devices=2, **defaults) == make_problem(devices=2)
        return
    with pytest.raises(ConfigError) as caught:
        make_problem(**{"devices": 2, key: value})
    assert caught.value.key == key
    assert str(caught.value).isprintable()


def test_the_entry_of_a_list_at_fault_is_named() -> None:
    """Of a list the message says which entry is wrong."""
    with pytest.raises(ConfigError, match=r"forward\[2\]: must be at least 0, not -1") as caught:
        make_problem(devices=3, forward=[1, 2, -1])
    assert (caught.value.key, caught.value.entry) == ("forward", 2)
    with pytest.raises(ConfigError, match=r"budget\[1\]: must be more than 0, not 0"):
        make_problem(devices=2, budget=[1, 0])
    with pytest.raises(ConfigError, match=r"checkpoint\[0\]: must be between 0 and 1, not 1.5"):
        make_problem(devices=2, checkpoint=[1.5, 1])


def test_lanes_by_device_and_by_pair() -> None:
    """Each device has a pair of lanes, or neighbours share one; the last of an odd number is alone with its own."""
    own, shared = (make_problem(devices=3, lanes=lanes) for lanes in ("device", "pair"))
    assert [own.lane_pair(device) for device in range(3)] == [0, 1, 2]
    assert [shared.lane_pair(device) for device in range(3)] == [0, 0, 1]
    assert (own.lane_pairs, shared.lane_pairs) == (3, 2)
    assert [list(own.devices_of_lanes(pair)) for pair in range(3)] == [[0], [1], [2]]
    assert [list(shared.devices_of_lanes(pair)) for pair in range(2)] == [[0, 1], [2]]


def test_what_the_budget_leaves_for_activations() -> None:
    """Static memory of the stages on a device counts first; twice, where a bidirectional device holds two copies."""
    problem = make_problem(devices=2, static=[1, 2], budget=[4, 4.5], placement="linear")
    per_unit = problem.grains.per_unit
    assert [problem.static_grains(device) / per_unit for device in range(2)] == [1, 2]
    assert problem.capacity_grains == (3 * per_unit, int(2.5 * per_unit))
    both = make_problem(devices=2, static=[1, 2], budget=4, placement="bidirectional")
    assert both.capacity_grains == (1, 1)
    assert make_problem(devices=2, placement="linear").capacity_grains == (None, None)
