"""Charts and summaries of schedules that recompute and offload."""

from __future__ import annotations

import re
from typing import Any

from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.render.gantt import Gantt
from pipesched.render.summary import summary
from pipesched.results.outcome import Outcome
from tests.render.conftest import draw
from tests.strategies import Texts, saving_plan_of

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def scheduled(**values: Any) -> Schedule:
    """1F1B on two devices; device 0 recomputes microbatch 1 and offloads 0 and 2, device 1 offloads 1."""
    given: dict[str, Any] = {
        "devices": 2,
        "microbatches": 3,
        "forward": 4,
        "backward": 8,
        "recompute": 4,
        "offload": 4,
        "budget": 2,
    }
    problem = make_problem(**{**given, "placement": "linear", **values})
    devices = [["0F0", "0F1", "0B0", "0F2", "0R1", "0B1", "0B2"], ["1F0", "1B0", "1F1", "1B1", "1F2", "1B2"]]
    own = [["0O0", "0O2"], ["0L0", "0L2"], ["1O1"], ["1L1"]]
    texts = Texts(devices, own, [("0R1", "0L2")])
    return schedule_plan(problem, saving_plan_of(problem, texts))


def test_summary_counts() -> None:
    """The summary says how many activations are recomputed and offloaded, of how many."""
    text = draw(summary(Outcome("by hand", scheduled())), 160)
    assert re.search(r"recomputed +1 of 6 ", text)
    assert re.search(r"offloaded +3 of 6 ", text)
    assert "without recompute" in text


def test_nothing_is_said_where_nothing_is_saved() -> None:
    """Lanes that stay empty have no row, and their letters no legend."""
    problem = make_problem(devices=1, microbatches=1, offload=1, placement="linear")
    schedule = schedule_plan(problem, saving_plan_of(problem, Texts([["0F0", "0B0"]], [[], []], [])))
    chart = draw(Gantt(schedule), 80)
    assert "D2H" not in chart
    assert "offload" not in chart
    assert "offloaded" in draw(summary(Outcome("x", schedule)), 100)
