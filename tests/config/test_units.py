"""Configs of microbatches that differ: what files, overrides and both together mean, and what a bad value is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipesched.config.load import load as load_problem, load_config
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.problem import Problem

Load = Callable[..., Problem]

SIZES = "devices: 2\nsizes:\n  work: [1, 2, 3]\n  activation: [3, 2, 1]\n"
SLICES = "devices: 2\nslices:\n  count: 4\n  attention: 0.5\n  overhead: 1\n"
OPEN = "devices: 2\nslices: {count: auto, most: 8, tokens: work, attention: 0.5}\n"


@pytest.mark.parametrize(
    ("text", "overrides", "meant"),
    [  # a file, what is laid over it, the same for make_problem
        (SIZES, {}, {"sizes": {"work": [1, 2, 3], "activation": [3, 2, 1]}}),
        (SIZES, {"sizes": {"work": [4, 5, 6]}}, {"sizes": {"work": [4, 5, 6], "activation": [3, 2, 1]}}),
        (SIZES, {"sizes": {"work": None}}, {"sizes": {"activation": [3, 2, 1]}}),
        (SIZES, {"sizes": None}, {}),
        (SIZES, {"microbatches": 3}, {"sizes": {"work": [1, 2, 3], "activation": [3, 2, 1]}}),
        (SLICES, {}, {"slices": {"count": 4, "attention": 0.5, "overhead": 1}}),
        (SLICES, {"slices": 2}, {"slices": {"count": 2, "attention": 0.5, "overhead": 1}}),
        (SLICES, {"slices": {"overhead": 0}}, {"slices": {"count": 4, "attention": 0.5}}),
        (SLICES, {"slices": {"count": 2, "work": [0.5, 0.5]}},
         {"slices": {"count": 2, "work": [0.5, 0.5], "overhead": 1}}),
        (SLICES, {"slices": None}, {}),
        (OPEN, {"slices": 2}, {"slices": {"count": 2, "tokens": "work", "attention": 0.5}}),
        (OPEN, {"slices": "auto"}, {"slices": {"count": "auto", "most": 8, "tokens": "work", "attention": 0.5}}),
        ("devices: 2\nslices: 4", {"slices": {"overhead": 1}}, {"slices": {"count": 4, "overhead": 1}}),
        ("devices: 2\nslices: 4", {"slices": 3}, {"slices": 3}),
        ("devices: 2\nmode: forward", {"mode": "train"}, {}),
        ("devices: 2\nmode: forward\nrounds: 2", {"rounds": 3}, {"mode": "forward", "rounds": 3}),
        ("devices: 2\nmode: forward\nslices: 2\ncosts: {backward: 3, recompute: 1, overlap: 3, offload: 2}", {},
         {"mode": "forward", "slices": 2}),
        ("devices: 2\nmemory: {kv: 0.5}", {"kv": 0.25}, {"kv": 0.25}),
        ("devices: 2\nsizes:", {}, {}),
        ("devices: 2\ncosts: {forward: [[1, 2, 3], 4]}", {}, {"forward": [[1, 2, 3], 4]}),
        ("devices: 2\ncosts: {forward: [[1, 2, 3], 4]}", {"forward": 2}, {"forward": 2}),
        ("devices: 2\ntime_unit: ms\ncosts: {p2p: [[1, 250us, 3]]}", {}, {"p2p": [[1, 0.25, 3]], "time_unit": "ms"}),
    ],
)  # fmt: skip
def test_meaning(load: Load, text: str, overrides: dict[str, Any], meant: dict[str, Any]) -> None:
    """Factors and how slices are cut go entry by entry on top of a file; a number of slices replaces their number."""
    assert load(text, **overrides) == make_problem(devices=2, **meant)


@pytest.mark.parametrize("overrides", [{"sizes": {"work": [1, 2, 3]}}, {"forward": [[1, 2, 3], *[4] * 7]}])
def test_lists_replace_the_microbatches_of_the_built_in_default(overrides: dict[str, Any]) -> None:
    """Without a config there are as many microbatches as the lists have."""
    assert load_problem(None, **overrides).microbatches == 3


def test_digits_that_count(load: Load) -> None:
    """A share of sixteen digits is the third that it spells; a factor of ten digits is rounded, and that is noted."""
    thirds = ", ".join(["0.3333333333333333"] * 3)
    problem = load(f"devices: 2\nslices: {{count: 3, tokens: [{thirds}], work: [{thirds}]}}")
    assert problem.slices == make_problem(devices=2, slices=3).slices
    text = "devices: 2\nsizes: {work: [1, 1.2345678912]}\nslices: {count: 2, overhead: 0.12345678912}\n"
    config = load_config(text, {})
    assert config.problem.sizes is not None
    assert config.problem.sizes.work[1] == 1.23456789
    assert config.rounded == (
        "<text>:2: sizes.work[1]: more than 9 digits, rounded to 1.23456789; 1 more number is rounded"
    )
