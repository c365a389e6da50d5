"""A search over precisions: its rows, its config, and which precisions it takes."""

from __future__ import annotations

from typing import Any

import pytest

import pipesched
from pipesched.config.estimate import MIXED
from pipesched.documents.tuning import tuning_document
from pipesched.tuning.space import read_space
from tests.tuning.spaces import LLAMA, Config, held

SPACE: Config = {
    "model": {**LLAMA, "num_hidden_layers": 4},
    "hardware": "h100-sxm",
    "parallel": {"gpus": 8, "tensor": 1, "pipeline": [1, 2], "chunks": 1, "context": 1},
    "batch": {"sequence": 1024, "global": 16},
    "training": {"precision": ["bf16", "fp8"]},
}


def with_precision(value: Any, **more: Any) -> Config:
    """The space with other precisions."""
    return {**SPACE, "training": {"precision": value}, **more}


def test_rows_have_a_precision() -> None:
    """Each as its estimate says; the config of the best has its own, and without several there is no such key."""
    tuning = pipesched.tune(None, ["1f1b"], top=100, beyond=True, **SPACE)
    assert tuning.space == 4 == tuning.simulated + sum(tuning.pruned.values())
    assert tuning.best is not None
    assert tuning.best.step is not None
    again = pipesched.estimate(tuning.config)
    assert again.setup.training.precision == tuning.best.point.layout.precision
    assert again.step.time == pytest.approx(tuning.best.step.time, rel=1e-9)
    assert held(again) == pytest.approx(tuning.best.memory, rel=1e-9)
    assert {row["precision"] for row in tuning_document(tuning)["rows"]} <= {"bf16", "fp8"}
    assert ", fp8" in str(tuning.best.point.layout) or "bf16" in str(tuning.best.point.layout)
    alone = pipesched.tune(None, ["1f1b"], beyond=True, **with_precision("fp8"))
    assert "precision" not in tuning_document(alone)["rows"][0]


def test_precisions_are_judged_as_estimates_are_compared() -> None:
    """What is expected of rows in 8 and in 16 bits stands in the ratio of both estimates, and a note says by what."""
    tuning = pipesched.tune(None, ["1f1b"], top=100, beyond=True, **SPACE)
    rates = {}
    for row in tuning.rows:
        assert row.trust is not None
        rates[row.point.layout.precision, row.point.layout.pipeline] = row.trust.tokens_per_second_per_gpu.expected
    one, other = (
        pipesched.estimate(None, **{**SPACE, "parallel": {"gpus": 8, "tensor": 1}, "training": {"precision": name}})
        for name in ("fp8", "bf16")
    )
    assert one.against(other).expected == pytest.approx(rates["bf16", 1] / rates["fp8", 1])
    assert tuning.notes == (MIXED,)
    assert pipesched.tune(None, ["1f1b"], beyond=True, **with_precision("fp8")).notes == ()


def test_auto_is_what_the_gpu_has() -> None:
    """bf16 and all precisions of few bits; of an A100 bf16 alone."""
    found = read_space(None, with_precision("auto", hardware="gb200")).candidates["training.precision"]
    assert found == ("bf16", "fp8", "fp8-blockwise", "mxfp8", "nvfp4")
    old = read_space(None, with_precision("auto", hardware="a100-80gb-sxm")).candidates["training.precision"]
    assert old == ("bf16",)
    assert "training.precision" not in read_space(None, with_precision("bf16")).candidates
