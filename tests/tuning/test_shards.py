"""A search over what data-parallel ranks divide, and among how many: its rows, its config, and what was measured."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from rich.console import Console

import pipesched
from pipesched.documents.tuning import tuning_document
from pipesched.render.tuning import tuning_view
from tests.tuning.made import MADE, layout, trial
from tests.tuning.spaces import GPU, LLAMA, Config, held

SPACE: Config = {
    "model": {**LLAMA, "num_hidden_layers": 4},
    "hardware": {**GPU, "memory": 7, "gpus_per_node": 2},
    "parallel": {"gpus": 8, "tensor": 1, "pipeline": 2, "chunks": [1, 2], "context": 1, "shard_ranks": "auto"},
    "batch": {"sequence": 1024, "global": 16},
    "training": {"shard": "auto"},
}


@cache
def tuned() -> pipesched.Tuning:
    """The answer for that space; on this GPU nobody has measured anything."""
    return pipesched.tune(None, ["1f1b", "interleaved"], top=100, **SPACE)


@pytest.mark.slow
def test_rows_say_what_is_divided() -> None:
    """By the level, and the ranks as a number; all that hold the same where nothing is divided."""
    tuning = tuned()
    assert tuning.space == 2 * 4 * 2 * 2 == tuning.simulated + sum(tuning.pruned.values())
    content = json.loads(json.dumps(tuning_document(tuning)))
    found = {(row["shard"], row["shard_ranks"]) for row in content["rows"]}
    assert ("weights", 2) in found or ("weights", 4) in found
    assert {ranks for _, ranks in found} <= {2, 4}
    assert all(ranks == 4 for level, ranks in found if level == "none")
    assert "shard" not in json.dumps(tuning_document(MADE)["rows"])


def test_the_config_of_the_best_has_its_level() -> None:
    """Read again it is the same step, in the same memory."""
    tuning = tuned()
    assert tuning.best is not None
    assert tuning.best.step is not None
    again = pipesched.estimate(tuning.config)
    assert again.step.time == pytest.approx(tuning.best.step.time, rel=1e-9)
    assert held(again) == pytest.approx(tuning.best.memory, rel=1e-9)
    assert again.setup.training.shard == tuning.best.point.layout.shard


def test_where_the_time_goes_adds_up() -> None:
    """Gathers, reductions and optimizers among it."""
    parts = {part.name: part.share for part in tuned().parts}
    assert sum(parts.values()) == pytest.approx(1)
    assert {"gradients and parameters", "optimizer"} <= {*parts}


def test_levels_that_nobody_measured_are_left_out() -> None:
    """Of dense models nobody divided gradients alone; what lies outside is told apart."""
    config: dict[str, Any] = {
        **SPACE,
        "hardware": "h100-sxm",
        "parallel": {"gpus": 8, "tensor": 2, "pipeline": 2, "chunks": 1, "context": 1},
        "batch": {"sequence": 4096, "global": 8, "micro": 2},
    }
    tuning = pipesched.tune(None, ["1f1b"], **config)
    assert tuning.pruned["evidence"] == 1
    assert {row.point.layout.shard for row in tuning} <= {"none", "optimizer", "weights"}
    for one in tuning.beyond:
        assert [field.field for field in one.outside] == ["shard"]
        assert one.measure.startswith(f"a step of this model with shard {one.trial.point.layout.shard}")
    free = pipesched.tune(None, ["1f1b"], beyond=True, **config)
    assert free.space == 4
    assert free.pruned["evidence"] == 0


def test_the_table_has_columns_for_them() -> None:
    """Layouts of other levels are other lines; without a level there is no such column."""
    rows = [
        trial(layout(2, 4, shard="weights", shard_ranks=8), "1f1b", 9_000.0, 40.0),
        trial(layout(2, 4, shard="optimizer"), "1f1b", 8_900.0, 60.0),
        trial(layout(2, 4, shard="none"), "1f1b", 8_800.0, 70.0),
    ]
    shown = []
    for one in (replace(MADE, rows=tuple(rows), published=(), beyond=(), measure=None, tied=1), MADE):
        with (console := Console(width=120, color_system=None)).capture() as capture:
            console.print(tuning_view(one))
        shown.append(capture.get())
    assert all(word in shown[0] for word in (" weights ", " optimizer ", "N shard_ranks", " all "))
    assert "shard" not in shown[1]


def test_a_layout_says_its_level() -> None:
    """With the ranks where they are not all."""
    assert str(layout(2, 4, shard="weights", shard_ranks=8)) == "tensor 2, pipeline 4, shard weights over 8 ranks"
    assert str(layout(2, 4, shard="none")) == "tensor 2, pipeline 4, shard none"
