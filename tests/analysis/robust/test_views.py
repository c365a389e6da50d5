"""A robustness as text, as a document and as a figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import pipesched
from pipesched.analysis.robustness import RobustnessRow
from pipesched.errors import ConfigError
from pipesched.render.scatter import Histograms
from pipesched.render.table import display_parts

GOLDEN = Path(__file__).parents[2] / "golden"
PROBLEM = pipesched.make_problem(
    devices=4, stages=8, microbatches=8, forward=5, backward_input=5, backward_weight=5, time_unit="ms"
)
MADE = pipesched.robustness(pipesched.compare(PROBLEM, ["1f1b", "zb-h1", "interleaved", "dualpipe-v"]), samples=300)


def text(result: object, width: int, *, ascii_only: bool = False) -> str:
    """What a terminal without colour gets."""
    with (console := Console(width=width, color_system=None, highlight=False)).capture() as capture:
        for part in display_parts(result, ascii_only=ascii_only):
            console.print(part)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


@pytest.mark.parametrize(("form", "width"), [("plain", 80), ("ascii", 80), ("plain", 50)])
def test_text_is_that_of_the_golden_files(form: str, width: int) -> None:
    """Histograms over one axis and the table: with letters alone, and on narrow screens too."""
    shown = text(MADE, width, ascii_only=form == "ascii")
    assert shown == (GOLDEN / f"robust-{form}-{width}.txt").read_text("utf-8")
    assert form != "ascii" or shown.isascii()


@pytest.mark.parametrize("width", [20, 33, 80, 200])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    """Also of many schedules, of equal samples, and of a single one."""
    many = pipesched.robustness([pipesched.run(PROBLEM, "zb-h1")] * 9, samples=5)
    still = pipesched.robustness(pipesched.run(PROBLEM, "1f1b"), noise=0)
    for made in (MADE, many, still):
        assert max(map(len, text(made, width).splitlines())) <= width


def test_bars_count_samples() -> None:
    """Each sample stands in its column; the tallest column is full, and one sample is never nothing."""
    row = RobustnessRow("x", 0, makespans=(0.0, 0.0, 0.0, 0.0, 2.0, 2.0, 10.0))
    with (console := Console(width=11, color_system=None)).capture() as capture:
        console.print(Histograms([row], "makespan", ascii_only=True))
    lines = capture.get().splitlines()
    assert [line.rstrip() for line in lines[:4]] == ["x", "#", "# :", "# #       #"]


def test_document_and_back(tmp_path: Path) -> None:
    """What is written is read back, without samples; it is the same document again, with just the keys of the page."""
    compared = pipesched.compare(pipesched.make_problem(devices=4, stages=4), ["1f1b", "zb-v"])
    found = pipesched.robustness(compared, samples=20)
    path = pipesched.write(found, tmp_path / "robust.json")
    content = json.loads(path.read_text("utf-8"))
    settings = {"noise": 0.05, "device_noise": 0, "straggler": 1.2, "samples": 20, "seed": 0}
    assert {key: value for key, value in content.items() if key != "rows"} == {
        "format": "pipesched.robustness", "version": 1, **settings}  # fmt: skip
    first, refused = content["rows"]
    figures = ["makespan", "mean", "std", "p50", "p95", "p99", "best_share"]
    assert list(first) == ["algorithm", *figures, "stragglers", "fits", "over"]
    assert (len(first["stragglers"]), first["fits"], first["over"]) == (4, True, [])
    assert refused == {"algorithm": "zb-v", "applicable": False, "reason": found["zb-v"].reason}
    again: Any = pipesched.read(path)
    assert again == found
    assert again[0].makespans == ()
    assert "without noise" not in text(again, 80)
    assert pipesched.write(again, tmp_path / "again.json").read_bytes() == path.read_bytes()
    with pytest.raises(ConfigError, match="nothing to draw: no samples"):
        pipesched.figure(again)


def test_rows_over_budget_and_rows_of_before(tmp_path: Path) -> None:
    """What exceeds its budget is written and read back; a document of before the key has rows that fit."""
    problem = pipesched.make_problem(devices=2, microbatches=4, budget=2)
    found = pipesched.robustness(pipesched.compare(problem, ["1f1b", "naive"]), samples=9)
    path = pipesched.write(found, tmp_path / "robust.json")
    again: Any = pipesched.read(path)
    assert again == found
    assert again["naive"].over[0] == {"device": 0, "memory": 4, "budget": 2}
    assert "naive is over budget: device 0 holds 4 of 2, device 1 holds 4 of 2" in text(again, 100)
    content = json.loads(path.read_text("utf-8"))
    del content["rows"][0]["over"]
    path.write_text(json.dumps(content), "utf-8")
    assert pipesched.read(path) == found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "version 2"),
        ({"noise": "x"}, "noise: must be a number"),
        ({"samples": None}, "samples: must be a whole number"),
        ({"rows": 5}, "'rows' is missing"),
        ({"rows": [5]}, r"rows\[0\]: 'algorithm' is missing"),
        ({"rows": [{"algorithm": "x"}]}, r"rows\[0\]: 'makespan' is missing"),
        ({"rows": [{**dict.fromkeys(("makespan", "mean", "std", "p50", "p95", "p99", "best_share"), 1),
                    "algorithm": "x", "stragglers": ["y"]}]}, r"rows\[0\]: stragglers must be a number"),
        ({"rows": [{**dict.fromkeys(("makespan", "mean", "std", "p50", "p95", "p99"), 1), "best_share": None,
                    "algorithm": "x", "stragglers": [1]}]}, r"rows\[0\]: best_share must be a number"),
        ({"rows": [{**dict.fromkeys(("makespan", "mean", "std", "p50", "p95", "p99", "best_share"), 1),
                    "algorithm": "x", "stragglers": [1], "over": [{"device": 0}]}]}, r"rows\[0\]: 'memory' is missing"),
        ({"rows": [{**dict.fromkeys(("makespan", "mean", "std", "p50", "p95", "p99", "best_share"), 1),
                    "algorithm": "x", "stragglers": [1], "over": [{"device": 0, "memory": "y", "budget": 2}]}]},
         r"rows\[0\]: memory must be a number"),
    ],
)  # fmt: skip
def test_broken_documents(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    """A document that lacks something says what, and where."""
    path = pipesched.write(MADE, tmp_path / "robust.json")
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **change}), "utf-8")
    with pytest.raises(ConfigError, match=said) as caught:
        pipesched.read(path)
    assert "robust.json" in str(caught.value)


def test_the_figure(tmp_path: Path) -> None:
    """A distribution function for each schedule, from 0 to all samples, and a legend that names them."""
    figure = pipesched.figure(MADE, inches=5)
    (axes,) = figure.axes
    assert axes.get_xlabel() == "makespan (ms)"
    names = [row.algorithm for row in MADE if row.applicable]
    assert [one.get_text() for one in figure.legends[0].get_texts()] == [*names, "without noise"]
    for line, row in zip([line for line in axes.lines if np.size(line.get_xdata()) > 1], MADE, strict=True):
        across, up = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        assert across[1:].tolist() == sorted(row.makespans)
        assert (up[0], up[-1]) == (0, 100)
        assert (np.diff(up) >= 0).all()
    for suffix in ("svg", "png", "pdf"):
        assert pipesched.write(MADE, tmp_path / f"robust.{suffix}").stat().st_size > 1000
    with pytest.raises(ConfigError, match="no timeline"):
        pipesched.figure(MADE, zoom=2)
    refused = pipesched.robustness(pipesched.compare(pipesched.make_problem(devices=4, stages=4), ["zb-v"]))
    with pytest.raises(ConfigError, match="none of the schedules applies"):
        pipesched.figure(refused)
