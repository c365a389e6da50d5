"""Solves of whole steps that may recompute or offload activations."""

from __future__ import annotations

from typing import Any

import pytest

from pipesched import make_problem, solve
from pipesched.pipeline.check import violations

TWO: dict[str, Any] = {"devices": 2, "microbatches": 4, "forward": 5, "backward": 10, "checkpoint": 0.1, "offload": 3}


@pytest.mark.parametrize("actions", [{"offload": True}, {"recompute": True}, {"offload": True, "recompute": True}])
def test_savings_beside_a_step(actions: dict[str, Any]) -> None:
    """The step follows the passes, the budget holds, and saving memory makes the step shorter."""
    problem = make_problem(**TWO, gather=3, reduce=4, optimizer=1, budget=1.2)
    kept = solve(problem, time_limit=3, advice=False)
    saved = solve(problem, time_limit=3, advice=False, **actions)
    assert saved.schedule.fits
    assert not [*violations(saved.schedule)]
    assert saved.schedule.makespan < kept.schedule.makespan
    assert saved.schedule.plan.count("OPTIMIZER") == 2


def test_savings_beside_side_work() -> None:
    """Side work counts in the budget of a solve that recomputes."""
    side = [{"forward": 2, "backward": 3, "activation": 0.2}]
    problem = make_problem(**TWO, side=side, budget=2.5)
    schedule = solve(problem, time_limit=3, advice=False, recompute=True).schedule
    assert schedule.fits
    assert schedule.plan.count("G") == 4
