"""Configs of a model by its layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipesched.comparing.sweep import sweep
from pipesched.config.load import load as load_problem
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.problem import Problem
from pipesched.results.outcome import Outcome, run

Load = Callable[..., Problem]
FILE = """\
devices: 4
microbatches: 8
layers: 16
layer:
  forward: 5
  backward: 10
  activation: 0.1
last: {forward: 7, backward: 14}
memory: {unit: GB}
"""
GIVEN: dict[str, Any] = {
    "devices": 4,
    "microbatches": 8,
    "layers": 16,
    "layer": {"forward": 5, "backward": 10, "activation": "0.1"},
    "last": {"forward": 7, "backward": 14},
    "unit": "GB",
}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"chunks": 2},
        {"stages": 8},
        {"layers": 20},
        {"layout": "equal"},
        {"layout": [4, 4, 4, 4]},
        {"layer": {"forward": 3}},
        {"first": {"static": 1}},
        {"last": None},
        {"placement": "v", "chunks": 2},
    ],
    ids=str,
)
def test_an_override_replaces_the_value_of_the_file(load: Load, change: dict[str, Any]) -> None:
    """A file and overrides are the arguments of make_problem, with the layers cut alike."""
    problem, meant = load(FILE, **change), make_problem(**{**GIVEN, **change})
    assert (problem, problem.layers) == (meant, meant.layers)


def test_chunks_and_stages_replace_each_other(load: Load) -> None:
    """On top of a file that gives one, the other counts."""
    assert load(f"{FILE}chunks: 2\n", stages=12).stages == 12
    assert load(f"{FILE}stages: 12\n", chunks=2).stages == 8
    with pytest.raises(ConfigError, match=r"^chunks: give either"):
        load(FILE, stages=8, chunks=2)


def test_the_built_in_default_by_layers() -> None:
    """Layers on top of the built-in default replace its stages and their costs."""
    assert load_problem(layers=10) == make_problem(devices=4, microbatches=8, layers=10)
    assert load_problem(layers=10, devices=2).stages == 2


def test_a_sweep_of_chunks_trains_the_same_model(load: Load) -> None:
    """At every number of chunks the work of all devices together is that of the layers."""
    found = sweep(FILE, "chunks", [1, 2, 4], ["1f1b", "interleaved"])
    assert [point.value for point in found] == [1, 2, 4]
    for point in found:
        outcome: Outcome | None = point.comparison["interleaved"].outcome
        assert outcome is not None
        assert outcome.problem.stages == 4 * point.value
        assert sum(outcome.schedule.busy) == 8 * (16 * 15 + 21)
        assert point.comparison["1f1b"].metrics == run(load(FILE), "1f1b").metrics
