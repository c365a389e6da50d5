"""A key of a config is declared once: everything that offers, reads, writes or explains it follows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pipesched

PACKAGE = Path(pipesched.__file__).parent
COST = '    flush: tuple[Exact, ...] | None = declare(TIMES, "time to flush a stage", None, example="1.5")\n'
TRAINING = (
    '    rounding: str = declare(OneOf("nearest", "chance"), "how weights are rounded", "nearest", example="nearest")\n'
)
SEASON = '    season: str = declare(OneOf("dry", "wet"), "what it is like outside", "dry", example="wet")\n'
SETUP = "\n".join((
    "model: llama-3-8b", "hardware: h100-sxm", "parallel: {gpus: 8, pipeline: 4}",
    "batch: {sequence: 4096, global: 16}", "training: {rounding: chance}",
))  # fmt: skip


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with a cost and a word of problems, and one of a training run, each declared in a line."""
    folder = tmp_path_factory.mktemp("scratch")
    shutil.copytree(PACKAGE, folder / "pipesched", ignore=shutil.ignore_patterns("__pycache__"))
    for file, before, line in (
        ("pipeline/problem/costs.py", "    tied: Exact | None = declare(", COST),
        ("pipeline/problem/problem.py", "    lanes: str = declare(", SEASON),
        ("estimation/setup.py", "    full_layers: int | None = None\n", TRAINING),
    ):
        path = folder / "pipesched" / file
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1
        path.write_text(text.replace(before, f"{line}{before}"), encoding="utf-8")
    return folder


def said(scratch: Path, *arguments: str, code: int = 0, start: str = "-m pipesched") -> str:
    """What a command of the copy prints, or says of a mistake."""
    command = [sys.executable, *start.split(), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(scratch), "COLUMNS": "200", "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=scratch, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


@pytest.mark.slow
def test_a_cost_follows_from_its_declaration(scratch: Path) -> None:
    """Starter, JSON Schema, list of keys, option with help, value and refusal, sweep and document have a new cost."""
    assert "# flush: 1.5                 # time to flush a stage" in said(scratch, "init")
    costs = json.loads(said(scratch, "init", "--schema"))["properties"]["costs"]["properties"]
    assert costs["flush"] == {**costs["gather"], "description": "time to flush a stage"}
    assert "costs.flush" in said(scratch, "list", "--keys")
    assert "time to flush a stage" in said(scratch, "run", "--help")
    document = json.loads(said(scratch, "run", "1f1b", "--flush", "1,2,3,4", "--stages", "4", "--json"))
    assert document["problem"]["costs"]["flush"] == [1, 2, 3, 4]
    refused = said(scratch, "run", "1f1b", "--stages", "4", "--flush", "1,2", code=2)
    assert "--flush: a list here needs 4 numbers (one a stage); this one has 2" in refused
    assert "flush" in said(scratch, "compare", "1f1b", "--sweep", "flush=1,2", "--quiet")
    (scratch / "layers.yaml").write_text("devices: 2\nlayer: {forward: 1, flush: [1, 2, 4]}\nlayout: [1, 2]\n")
    layered = json.loads(said(scratch, "run", "1f1b", "-c", "layers.yaml", "--json"))["problem"]
    assert (layered["layer"]["flush"], layered["costs"]["flush"]) == ([1, 2, 4], [1, 6])
    said(scratch, "run", "1f1b", "-c", "layers.yaml", "-o", "kept.json", "--quiet")
    assert "1f1b" in said(scratch, "check", "kept.json")
    (scratch / "wrong.yaml").write_text("devices: 2\ncosts:\n  flush: '5'\n")
    assert "wrong.yaml:3: costs.flush: must be a number, not '5'" in said(scratch, "run", "-c", "wrong.yaml", code=2)
    python = "import inspect; from pipesched import load, make_problem; print(inspect.signature(make_problem))"
    python += "; print(make_problem(devices=2, flush=3) == load('devices: 2', flush=3),"
    python += " 'flush: Time' in make_problem.__doc__)"
    printed = said(scratch, python, start="-c")
    assert "flush=None" in printed
    assert printed.endswith("True True\n")


@pytest.mark.slow
def test_a_word_of_a_problem_follows(scratch: Path) -> None:
    """Starter, JSON Schema, option, refusal with the nearest, document and its reader have a new word."""
    assert "# season: wet" in said(scratch, "init")
    top = json.loads(said(scratch, "init", "--schema"))["properties"]
    assert top["season"] == {
        "description": "what it is like outside",
        "anyOf": [{"enum": ["dry", "wet"]}, {"type": "null"}],
    }
    assert "did you mean 'wet'?" in said(scratch, "run", "1f1b", "--season", "we", code=2)
    assert json.loads(said(scratch, "run", "1f1b", "--season", "wet", "--json"))["problem"]["season"] == "wet"
    said(scratch, "run", "1f1b", "--season", "wet", "-o", "wet.json", "--quiet")
    assert json.loads(said(scratch, "show", "wet.json", "--json"))["problem"]["season"] == "wet"


@pytest.mark.slow
def test_a_word_of_a_training_run_follows(scratch: Path) -> None:
    """Reader, refusal, options, JSON Schema, starter and list of keys have a new key of `training`."""
    (scratch / "setup.yaml").write_text(SETUP)
    assert "tokens/s" in said(scratch, "estimate", "-c", "setup.yaml")
    assert "unknown" in said(scratch, "estimate", "-c", "setup.yaml", "--rounding", "chanc", code=2)
    training = json.loads(said(scratch, "init", "--schema"))["properties"]["training"]["anyOf"][0]["properties"]
    assert training["rounding"]["description"] == "how weights are rounded"
    assert "# rounding: nearest" in said(scratch, "init", "--from-model", "llama-3-8b")
    assert "training.rounding" in said(scratch, "list", "--keys")
