"""The same answer for the same seed, one worker and one job, by every method, where no time limit ends the search."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

import pipesched
from pipesched.results.status import StoppedBy

pytestmark = pytest.mark.slow

SMALL: dict[str, Any] = {
    "devices": 3, "stages": 6, "microbatches": 6, "forward": [3, 2, 2, 2, 2, 4], "backward": 5, "p2p": 0.5, "budget": 4,
}  # fmt: skip
PRINTED = """
import json, sys, pipesched
values, settings = json.loads(sys.argv[1])
outcome = pipesched.solve(pipesched.make_problem(**values), workers=1, jobs=1, **settings)
print(outcome.report.source, outcome.report.bound, [*map(list, outcome.schedule.plan.orders)])
"""


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "auto"},
        pytest.param({"method": "cpsat", "polish": False}, marks=pytest.mark.nightly),
        pytest.param({"method": "improve"}, marks=pytest.mark.nightly),
        pytest.param({"method": "periodic", "placement": "v"}, marks=pytest.mark.nightly),
        pytest.param({"method": "portfolio"}, marks=pytest.mark.nightly),
        pytest.param({"objective": "span"}, marks=pytest.mark.nightly),
        {"recompute": True, "placement": "linear", "gap": 0.1},
    ],
    ids=str,
)
def test_the_same_seed(settings: dict[str, Any]) -> None:
    """Orders, times, source and bound."""
    seed: dict[str, Any] = {} if settings.get("method") == "portfolio" else {"workers": 1, "seed": 5}
    problem = pipesched.make_problem(**SMALL)
    first, again = (pipesched.solve(problem, jobs=1, time_limit=600, **seed, **settings) for _ in range(2))
    assert first.report is not None
    assert again.report is not None
    assert first.report.stopped_by is again.report.stopped_by
    assert first.report.stopped_by is not StoppedBy.TIME_LIMIT
    assert (first.report.source, first.report.bound) == (again.report.source, again.report.bound)
    assert first.schedule.plan.orders == again.schedule.plan.orders
    assert first.schedule.start_ticks == again.schedule.start_ticks


def test_in_another_process() -> None:
    """Whatever the hashes of texts are there."""
    import json

    values = {**SMALL, "microbatches": 10, "budget": 5}
    given = json.dumps([values, {"method": "periodic", "seed": 2, "time_limit": 600, "placement": "v"}])
    answers = {
        subprocess.run(
            [sys.executable, "-c", PRINTED, given], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True,
            text=True, check=True,
        ).stdout
        for seed in ("1", "77")
    }  # fmt: skip
    assert len(answers) == 1
