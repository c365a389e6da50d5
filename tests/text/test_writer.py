"""Configs that pipesched writes, to the letter: of starters, estimates, timelines, profiles and the winner of a tuning.

`PIPESCHED_GOLDEN=write` writes the files of tests/golden/configs/ anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import pipesched
from pipesched import MeasuredLatency, Quartiles, Timeline
from pipesched.analysis.measured.timeline import config_text as timeline_text
from pipesched.config.starter import setup_starter
from pipesched.estimation.config_text import config_text as estimate_text
from pipesched.pipeline.problem.costs import in_one
from tests.torch_ranks import needs_torch
from tests.tuning.spaces import SPACE

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "configs"
RUN = ROOT / "docs" / "how-to" / "run"


def estimate(config: str, algorithm: str, **overrides: Any) -> str:
    """The config of an estimate."""
    return estimate_text(pipesched.estimate(ROOT / "configs" / config, algorithm, **overrides))


def measured(plan: str | None) -> Timeline:
    """A run that was measured, with its plan or without."""
    trained = None if plan is None else pipesched.read(RUN / plan)
    assert trained is None or isinstance(trained, pipesched.Outcome)
    return pipesched.read_traces([RUN / "trace0.json", RUN / "trace1.json"], plan=trained)


def uneven_timeline() -> str:
    """The config of a schedule with uneven stages, as if it had been measured, with memory in thirds and a budget."""
    problem = pipesched.make_problem(
        devices=2, stages=4, microbatches=4, placement="v", forward=[1, 2.5, 3, "4.125"], backward=[2, 5, 6, 9],
        activation=[1, 2, 3, 0.7], budget=[40, 50], static=[1, 2, 3, 4], p2p=[0.5, 1, 0.25],
        name='a "run"', offload=1, time_unit="us",
    )  # fmt: skip
    messages = [MeasuredLatency(boundary, 1, None, None, one) for boundary, one in enumerate(in_one(problem.costs.p2p))]
    with patch.object(Timeline, "problem", problem):
        return timeline_text(replace(measured("plan.json"), p2p=messages))


def profile(*, split: bool) -> str:
    """The config of a profile of two stages."""
    from pipesched.runtime.profiling import TIMES, Profile, StageProfile, config_text

    stages = []
    for factor in (1.0, 1000.0):
        medians = dict(zip(TIMES, (2.03456, 5.0, 3.21, 4.0, 2.0, 1.0, 12.34567), strict=True))
        times = {
            key: Quartiles(value * factor - 0.5, value * factor, value * factor + 0.5) for key, value in medians.items()
        }
        stages.append(StageProfile(times, 1000003, 1.25, 0.5, 4000 * int(factor)))
    return config_text(Profile("a test", 2, 4, 5, stages, [Quartiles(0.1, 0.2, 0.3)]), split_backward=split)


def winner() -> str:
    """The config of the best point of a small space."""
    return pipesched.tune(None, ["1f1b", "zb-h1"], **SPACE, forward="900us", name="small: one").config


TEXTS: dict[str, Callable[[], str]] = {
    "starter": pipesched.starter,
    "starter-llama": lambda: setup_starter("llama-3-70b"),
    "starter-mixtral": lambda: setup_starter("mixtral-8x7b", "a100-80gb-sxm", 64),
    "starter-too-large": lambda: setup_starter("llama-3-70b", None, 1),
    "estimate-llama": lambda: estimate("llama-3-70b.yaml", "1f1b"),
    "estimate-interleaved": lambda: estimate("llama-3-70b.yaml", "interleaved"),
    "estimate-zb-v": lambda: estimate("mixtral-8x7b.yaml", "zb-v"),
    "estimate-given": lambda: estimate("qwen3-30b-a3b.yaml", "dualpipe", forward=7, budget=60, offload=3, reload=4),
    "timeline": lambda: timeline_text(measured("plan.json")),
    "timeline-without-plan": lambda: timeline_text(measured(None)),
    "timeline-uneven": uneven_timeline,
    "winner": winner,
}


def compared(name: str, text: str) -> None:
    """Compare a text with the one that is kept, or keep it."""
    file = GOLDEN / f"{name}.yaml"
    if os.environ.get("PIPESCHED_GOLDEN") == "write":
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TEXTS)
def test_written_to_the_letter(name: str) -> None:
    """A config that is written is the one that is kept, and `load` reads it."""
    text = TEXTS[name]()
    compared(name, text)
    assert pipesched.load(text).devices >= 1


@needs_torch
@pytest.mark.parametrize("split", [True, False])
def test_profile_to_the_letter(*, split: bool) -> None:
    """So is the config of a profile."""
    compared(f"profile-{'split' if split else 'whole'}", profile(split=split))
