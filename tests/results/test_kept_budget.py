"""Families that obey a budget keep it with all that a step holds, or say that they found no order that does."""

from __future__ import annotations

from typing import Any

import pytest

from pipesched import NoSchedule, compare, make_problem, run
from pipesched.schedulers.registry import algorithms

OBEYING = [one.name for one in algorithms() if one.obeys_budget]
WHOLE: dict[str, Any] = {
    "devices": 2, "microbatches": 4, "forward": 2, "backward_input": 2, "backward_weight": 2, "weights": 6,
    "shard": {"level": "weights", "ranks": 3},
}  # fmt: skip


@pytest.mark.parametrize("name", OBEYING)
def test_what_a_stage_must_hold_is_a_floor(name: str) -> None:
    """A budget below the whole weights of a stage, beside one activation and what stays, is refused with its floor."""
    with pytest.raises(NoSchedule, match="device 1 needs a budget of at least 9") as refused:
        run(make_problem(**WHOLE, budget=[10, 8]), name)
    assert (refused.value.device, refused.value.floor, refused.value.budget) == (1, 9, 8)
    assert run(make_problem(**WHOLE, budget=[9, 9]), name).schedule.fits


@pytest.mark.parametrize("name", OBEYING)
@pytest.mark.parametrize("rule", ["first", "bubbles"])
def test_side_work_beyond_the_budget_is_refused(name: str, rule: str) -> None:
    """Where side work alone takes more than is left, the answer names the device and what it would hold."""
    side = [{"name": "vision", "forward": 1, "backward": 2, "devices": [1], "activation": 5}]
    problem = make_problem(devices=2, microbatches=2, backward_input=2, backward_weight=2, side=side, budget=3)
    with pytest.raises(NoSchedule, match=f"{name} found no order .* device 1 holds .* of 3 microbatch") as refused:
        run(problem, name, side_rule=rule)
    assert refused.value.device == 1


def test_other_families_are_drawn_over_their_budget() -> None:
    """A family with an order of its own keeps it, over the budget; beside it one that obeys has a reason."""
    entries = compare(make_problem(**WHOLE, budget=8), ["1f1b", "list"]).entries
    assert entries[0].outcome is not None
    assert not entries[0].outcome.schedule.fits
    assert "needs a budget of at least 9" in entries[1].reason
