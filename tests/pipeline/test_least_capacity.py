"""The smallest budget at which any order exists."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from pipesched.errors import NoSchedule
from pipesched.pipeline.bounds.memory import least_capacity, require_least_capacity
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.kinds import Allowed
from pipesched.pipeline.problem.problem import Problem
from tests.oracle.alike import optimum
from tests.strategies import SETTLED, problems, with_capacities


def floors(problem: Problem) -> list[int]:
    """The floor of each device."""
    return [least_capacity(problem, device) for device in range(problem.devices)]


def test_slices_need_the_gradients_of_keys_and_values() -> None:
    """Two slices hold 1 each, and the first backward takes the gradients of the first slice, another 1."""
    problem = make_problem(devices=1, microbatches=1, slices=2, activation=2, kv=1, placement="linear")
    assert floors(problem) == [3 * problem.grains.per_unit]


@given(problems(SETTLED, most_devices=2, most_microbatches=2, most_chunks=2, least=1), st.integers(0, 1))
def test_no_order_below_and_one_at_the_floor(problem: Problem, device: int) -> None:
    """Trying every order finds one when each device has its floor, and none when a device has a grain less."""
    assume(problem.stages <= 3 and device < problem.devices)
    assume(problem.microbatches > 1 or not problem.settled_placement.mirrored)
    kinds = "FIW" if problem.costs.split else "FB"
    capacities = floors(problem)
    assert optimum(with_capacities(problem, capacities), kinds) is not None
    if capacities[device]:
        capacities[device] -= 1
        assert optimum(with_capacities(problem, capacities), kinds) is None


def test_a_single_microbatch_uses_one_direction_only() -> None:
    """With M = 1 every stage of a bidirectional pipeline runs on one device, so the other copy needs no room."""
    problem = make_problem(devices=2, microbatches=1, placement="bidirectional", activation=[1, 3])
    capacities = [3, 1]  # microbatch 0 is in the second half: stage 1 on device 0
    assert optimum(with_capacities(problem, capacities), "FB") is not None
    assert floors(problem) == capacities


@given(problems(SETTLED), st.data())
def test_below_the_floor_is_said(problem: Problem, data: st.DataObject) -> None:
    """The first device below its floor is named, with floor and budget in the user's unit, static memory included."""
    capacities = [floor - data.draw(st.integers(-2, 2)) for floor in floors(problem)]
    tight = with_capacities(problem, capacities)
    per_unit = tight.grains.per_unit
    left = [capacity or 0 for capacity in tight.capacity_grains]
    below = [device for device, floor in enumerate(floors(tight)) if left[device] < floor]
    if not below:
        require_least_capacity(tight)
        return
    with pytest.raises(NoSchedule) as caught:
        require_least_capacity(tight)
    device, budget = below[0], tight.memory.budget
    assert budget
    assert caught.value.device == device
    static = tight.static_grains(device)
    assert caught.value.floor == pytest.approx((floors(tight)[device] + static) / per_unit)
    assert caught.value.budget == pytest.approx(float(budget[device]))
    assert f"device {device} needs a budget of at least" in caught.value.reason
    assert caught.value.would_fit


def test_what_would_fit() -> None:
    """The answer to a budget that is too small says which one is enough, and that fewer stages would help."""
    problem = make_problem(devices=4, stages=8, placement="loop", activation=0.5, static=1, budget=[9, 9, 2.5, 9])
    with pytest.raises(NoSchedule) as caught:
        require_least_capacity(problem)
    assert (caught.value.device, caught.value.floor, caught.value.budget) == (2, 3, 2.5)
    assert any("3" in way and "device 2" in way for way in caught.value.would_fit)
    assert "fewer stages a device" in caught.value.would_fit
    with pytest.raises(NoSchedule) as caught:  # 0.25 after the weights is not enough for one stage alone
        require_least_capacity(
            make_problem(devices=4, stages=8, placement="loop", activation=0.5, static=1, budget=2.25)
        )
    assert "fewer stages a device" not in caught.value.would_fit


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        (Allowed(), [4, 4]),
        (Allowed(recompute=True), [3, 3]),  # device 0: a checkpoint of 1 and 2; device 1: 3, or 1.5 and 1
        (Allowed(offload=True), [2, 3]),
        (Allowed(offload=True, recompute=True), [2, 3]),
    ],
)
def test_what_earlier_stages_hold_with_actions(allowed: Allowed, expected: list[int]) -> None:
    """While a stage runs, the earlier ones of its device hold all, a checkpoint, or nothing."""
    problem = make_problem(devices=2, stages=4, placement="loop", activation=[2, 3, 2, 1], checkpoint=0.5)
    grains = [least_capacity(problem, device, allowed) for device in range(2)]
    assert [grain / problem.grains.per_unit for grain in grains] == expected


def test_actions_that_would_fit_are_named() -> None:
    """Below the floor, recompute and offload are offered where they would do; offload only if it has a cost."""
    given: dict[str, Any] = {"devices": 2, "stages": 4, "placement": "loop", "activation": 1, "checkpoint": 0.5}
    for budget, offload, ways in ((1.5, 1, ["recompute", "offload"]), (1.25, 1, ["offload"]), (1.25, None, [])):
        with pytest.raises(NoSchedule) as caught:
            require_least_capacity(make_problem(**given, budget=budget, offload=offload))
        assert [way for way in caught.value.would_fit if "solve" in way] == [f"solve with `{way}`" for way in ways]
