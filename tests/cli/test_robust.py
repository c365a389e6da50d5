"""`pipesched robust`: which words it takes, what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pipesched
from pipesched.documents.comparison import robustness_document
from tests.cli.conftest import Cli, answer

MODEL = "devices: 2\nmicrobatches: 4\ntime_unit: ms\ncosts: {forward: 1, backward_input: 1, backward_weight: 1}\n"
BLOCK = "period: 3\nforward: [0, 1]\nbackward_input: [4, 2]\n"


@pytest.fixture(autouse=True)
def files(cli: Cli) -> None:
    Path("model.yaml").write_text(MODEL)
    Path("block.yaml").write_text(BLOCK)
    for algorithm, name in (("1f1b", "mine.json"), ("zb-h1", "theirs.csv")):
        assert cli("run", algorithm, "model.yaml", "-o", name).returncode == 0


def test_words(cli: Cli) -> None:
    """Algorithms, then files with their names, on the problem of the config; a file has its algorithm's figures."""
    rows = answer(cli, "robust", "1f1b,zb-h1", "mine.json", "theirs.csv", "wave=block.yaml", "model.yaml")["rows"]
    assert [row["algorithm"] for row in rows] == ["1f1b", "zb-h1", "mine", "theirs", "wave"]
    for row, other in ((rows[0], rows[2]), (rows[1], rows[3])):
        assert {**row, "algorithm": ""} == {**other, "algorithm": ""}


def test_default_names(cli: Cli) -> None:
    """Without names, those of `compare`, and the config's own."""
    assert [row["algorithm"] for row in answer(cli, "robust")["rows"]] == ["naive", "1f1b", "interleaved"]
    Path("own.yaml").write_text(MODEL + "algorithm: zb-h1\n")
    assert [row["algorithm"] for row in answer(cli, "robust", "own.yaml")["rows"]][-1] == "zb-h1"


def test_options_are_the_parameters(cli: Cli) -> None:
    """What the options say is what the function does, options of the problem and of algorithms included."""
    given = ("--noise", "0.2", "--device-noise", "0.1", "--straggler", "1.5", "--samples", "30", "--seed", "9")
    content = answer(cli, "robust", "interleaved", "1f1b", "--microbatches", "4", "--recompute", "1", *given)
    problem = pipesched.load(None, microbatches=4)
    compared = pipesched.compare(problem, ["interleaved", "1f1b"], recompute=1)
    made = pipesched.robustness(compared, noise=0.2, device_noise=0.1, straggler=1.5, samples=30, seed=9)
    assert content == json.loads(json.dumps(robustness_document(made)))


def test_output(cli: Cli) -> None:
    """A histogram and a row each; -o writes the document or a figure, and `show` reads the document back."""
    result = cli("robust", "1f1b", "zb-h1", "model.yaml", "--samples", "50", "-o", "kept.json", "--width", "80")
    assert (result.returncode, result.stderr) == (0, "")
    assert "makespan (ms)" in result.stdout
    shown = cli("show", "kept.json", "--width", "80")
    assert shown.returncode == 0
    assert shown.stdout.strip() in result.stdout
    assert cli("show", "kept.json", "--json").stdout == Path("kept.json").read_text("utf-8")
    assert cli("robust", "1f1b", "--samples", "9", "-o", "kept.svg").returncode == 0
    assert "steps that take no longer" in Path("kept.svg").read_text("utf-8")


def test_ascii(cli: Cli) -> None:
    result = cli("robust", "--ascii", "--samples", "20")
    assert result.stdout.isascii()


def test_a_document_brings_its_problem(cli: Cli) -> None:
    """Without a config the problem is that of the first document, as in `compare`; nothing that applies is exit 1."""
    alone = cli("robust", "zb-h1", "theirs.csv", "mine.json", "--samples", "20", "--json")
    beside = cli("robust", "zb-h1", "theirs.csv", "mine.json", "model.yaml", "--samples", "20", "--json")
    assert (alone.returncode, alone.stderr) == (0, "pipesched: note: the problem is that of mine.json\n")
    assert alone.stdout == beside.stdout
    refused = cli("robust", "mine.json", "--microbatches", "5", "--json")
    assert (refused.returncode, json.loads(refused.stdout)["rows"][0]["applicable"]) == (1, False)


def test_over_budget(cli: Cli) -> None:
    """What exceeds its budget is marked in the table, with device, amount and budget below, and in JSON."""
    args = ("naive", "1f1b", "model.yaml", "--mem-budget", "2", "--samples", "20")
    rows = answer(cli, "robust", *args)["rows"]
    assert [(row["best_share"], row["fits"]) for row in rows] == [(None, False), (1.0, True)]
    assert rows[0]["over"] == [{"device": at, "memory": 4, "budget": 2} for at in (0, 1)]
    assert rows[1]["over"] == []
    lines = cli("robust", *args, "-o", "kept.json").stdout.splitlines()
    assert "naive is over budget: device 0 holds 4 of 2, device 1 holds 4 of 2" in lines
    assert [line.split()[0] for line in lines if " over budget " in line] == ["naive"]
    assert cli("show", "kept.json").stdout.strip() in "\n".join(lines)


def test_what_does_not_apply_goes_on(cli: Cli) -> None:
    result = cli("robust", "1f1b", "mine.json", "model.yaml", "--microbatches", "5", "--samples", "9")
    assert result.returncode == 0
    assert "mine does not apply: the problem has 5 microbatches, but mine.json has 4" in result.stdout
