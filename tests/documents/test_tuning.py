"""The document of a tuning: what section by section it says, and that it is the same from run to run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import pipesched
from pipesched.documents.tuning import tuning_document
from pipesched.errors import ConfigError
from pipesched.estimation.setup import SIZES
from tests.tuning.made import MADE, NOTHING, OUTSIDE, PRUNED, ROWS, SETUP, layout, trial

KEYS = ["format", "version", "name", "space", "simulated", "pruned", "left", "capacity", "rows", "pareto", "parts",
        "wishes", "doubts", "nearest", "tied", "fits", "beyond", "published", "measure", "notes"]  # fmt: skip
ROW = ["parallel", "micro", "recompute", "algorithm", "layout", "bubble", "step", "memory", "spare", "fits", "runs_in",
       "trust", "behind", "sure"]  # fmt: skip
POINT = ["parallel", "micro", "recompute", "algorithm"]


def test_what_it_says() -> None:
    """Counts, and rows best first, each with its point as a config spells it and its step as in an estimate."""
    content = json.loads(json.dumps(tuning_document(MADE)))
    assert list(content) == KEYS
    assert (content["format"], content["version"], content["space"]) == ("pipesched.tuning", 1, 470_000)
    assert content["pruned"] == PRUNED
    assert content["space"] == content["simulated"] + sum(content["pruned"].values()) + content["left"]
    first = content["rows"][0]
    assert list(first) == ROW
    assert first["parallel"] == {
        "gpus": 8, "tensor": 2, "pipeline": 4, "chunks": 1, "context": 1, "expert": 1, "expert_tensor": 1, "data": 1,
    }  # fmt: skip
    assert (first["micro"], first["recompute"], first["algorithm"]) == (1, "none", "zb-h1")
    assert ROWS[0].step is not None
    assert first["step"] == ROWS[0].step._asdict()
    assert (first["memory"], first["fits"]) == (61.2, True)
    rates = [row["step"]["tokens_per_second_per_gpu"] for row in content["rows"]]
    assert rates == sorted(rates, reverse=True)
    assert content["rows"][3]["recompute"] == {"full": 3}


def test_what_the_answer_rests_on() -> None:
    """Pareto points are rows too; parts, wishes and doubts are what the tables show of them."""
    content = tuning_document(MADE)
    assert content["pareto"][:2] == [content["rows"][0], content["rows"][3]]
    assert content["parts"][0] == {"name": "matrix products", "share": 0.552}
    (wish,) = content["wishes"]
    assert list(wish) == [*POINT, "over", "most"]
    assert (wish["parallel"]["data"], wish["over"], wish["most"]) == (2, 3.21, 10_950)
    first, second = content["doubts"]
    assert (first["share"], first["factor"], first["gain"]) == ("gemm", 0.9, 0.0123)
    assert first["winner"] == {key: content["rows"][1][key] for key in POINT}
    assert second["gain"] == 0


def test_how_sure_it_is() -> None:
    """Each row has its interval, its ratio to the first one, and whether it surely fits; what nobody knows is null."""
    content = json.loads(json.dumps(tuning_document(MADE)))
    first, second, third, _ = content["rows"]
    assert first["trust"]["tokens_per_second_per_gpu"]["low"] < first["trust"]["tokens_per_second_per_gpu"]["high"]
    assert first["trust"]["evidence"]["inside"]
    assert (first["behind"], first["sure"], third["sure"]) == (None, True, False)
    assert list(second["behind"]) == ["ratio", "faster"]
    assert second["behind"]["ratio"]["expected"] == pytest.approx(10_201.5 / 10_412.34)
    assert 0.5 < second["behind"]["faster"] < third["behind"]["faster"] < 0.9
    assert content["tied"] == 3
    assert content["pareto"][2]["trust"] is None
    (one,) = content["beyond"]
    assert list(one) == [*ROW, "measure"]
    assert one["trust"]["evidence"]["outside"] == [OUTSIDE._asdict()]
    assert one["behind"]["ratio"]["expected"] > 1
    assert content["published"][0] == {
        "run": "theirs-0", "source": "theirs", "parallel": {key: first["parallel"][key] for key in SIZES}, "gpus": 8,
        "measured": pytest.approx(9_900), "estimated": pytest.approx(9_900 * 1.031),
    }  # fmt: skip
    assert content["measure"] == {"layouts": [0, 2], "gain": 0.0102}
    empty = tuning_document(NOTHING)
    assert [empty[key] for key in ("tied", "beyond", "published", "measure", "notes")] == [0, [], [], None, []]


def test_nothing_fits() -> None:
    """No rows, but what misses its memory by least, with what would help."""
    content = tuning_document(NOTHING)
    assert (content["rows"], content["pareto"], content["name"]) == ([], [], "mine")
    first, second = content["nearest"]
    assert list(first) == [*POINT, "over", "help"]
    assert (first["over"], first["help"], second["help"]) == (12.34, ["recompute full", "16 GPUs"], [])


def test_files(tmp_path: Path) -> None:
    """A .json holds the document, a .yaml the config of the best; where nothing fits there is none."""
    path = pipesched.write(MADE, tmp_path / "x.json")
    assert json.loads(path.read_text("utf-8")) == json.loads(json.dumps(tuning_document(MADE)))
    assert pipesched.write(MADE, tmp_path / "best.yaml").read_text("utf-8") == SETUP
    with pytest.raises(ConfigError, match="none of its points fits") as caught:
        pipesched.write(NOTHING, tmp_path / "none.yaml")
    assert caught.value.key == "result"
    assert not (tmp_path / "none.yaml").exists()
    assert pipesched.write(NOTHING, tmp_path / "none.json").exists()


def test_a_tuning_is_a_sequence_of_its_rows() -> None:
    """Best first; it prints as the best point, on one line."""
    assert (len(MADE), MADE[0], MADE.best, list(MADE[1:])) == (4, ROWS[0], ROWS[0], [*ROWS[1:]])
    assert repr(MADE) == "Tuning(tensor 2, pipeline 4, zb-h1, 10412.3 tokens/s/GPU)"
    assert repr(NOTHING) == "Tuning(none of 96 points fits)"
    assert (NOTHING.best, MADE.is_complete, replace(MADE, left=1).is_complete) == (None, True, False)
    assert not trial(layout(2, 2), "1f1b", 9.0, 81.0).fits
