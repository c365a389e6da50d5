"""`compare` and `robust` of files beside names: which words are files, and their rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
    Path("config.yaml").write_text(MODEL + "algorithm: {block: {period: 3, forward: [0, 1], backward_input: [4, 2]}}\n")
    for algorithm, name in (("1f1b", "mine.json"), ("zb-h1", "theirs.csv")):
        assert cli("run", algorithm, "model.yaml", "-o", name).returncode == 0


def rows(cli: Cli, *args: str) -> Any:
    return answer(cli, "compare", *args)["rows"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["1f1b", "mine.json", "theirs.csv", "model.yaml"], ["1f1b", "mine", "theirs"]),
        (["1f1b,mine.json", "-c", "model.yaml"], ["1f1b", "mine"]),
        (["wave=block.yaml", "other=config.yaml", "model.yaml"], ["wave", "other"]),
        (["a=mine.json", "b=mine.json", "mine.json", "model.yaml"], ["a", "b", "mine"]),
        (["mine.json", "--all", "model.yaml"], None),
    ],
)
def test_words_that_are_files(cli: Cli, words: list[str], names: list[str] | None) -> None:
    """Algorithms first, then files, with their names; files alone are compared alone."""
    listed = rows(cli, *words)
    if names is None:
        assert len(listed) > 20
        assert [row["algorithm"] for row in listed if "file" in row] == ["mine"]
    else:
        assert [row["algorithm"] for row in listed] == names
        assert all(("file" in row) == (row["algorithm"] not in ("1f1b", "zb-h1")) for row in listed)


def test_rows_are_those_of_the_algorithms(cli: Cli) -> None:
    """The metrics of a file are those of the algorithm that wrote it, on this problem: here with other costs."""
    listed = rows(cli, "1f1b", "zb-h1", "mine.json", "theirs.csv", "model.yaml", "--forward", "1", "--p2p", "0")
    assert listed[0]["metrics"] == listed[2]["metrics"]
    assert listed[1]["metrics"] == listed[3]["metrics"]
    slower = rows(cli, "1f1b", "mine.json", "model.yaml", "--forward", "2", "--p2p", "500us")
    assert slower[0]["metrics"] == slower[1]["metrics"] != listed[0]["metrics"]


def test_charts_plots_and_sweeps(cli: Cli) -> None:
    """Files have charts, points in the plot, and columns in a sweep, which says where they do not fit."""
    args = ("compare", "1f1b", "mine.json", "wave=block.yaml", "model.yaml")
    charts = cli(*args).stdout
    assert charts.count("\nmine  ") == 2  # a heading and a row
    assert "\nwave  2 devices" in charts
    pareto = json.loads(cli(*args, "--pareto", "--json").stdout)["rows"]
    assert {row["algorithm"]: row.get("file") for row in pareto} == {
        "1f1b": None,
        "mine": "mine.json",
        "wave": "block.yaml",
    }
    swept = cli(*args, "--sweep", "microbatches=2,4").stdout
    assert "mine at microbatches 2: the problem has 2 microbatches, but mine.json has 4" in swept
    kept = cli(*args, "--only", "pytorch", "-o", "kept.json").stdout
    assert "mine" in kept
    assert cli("show", "kept.json").returncode == 0


NOTE = "pipesched: note: the problem is that of {}\n"


def test_a_document_brings_its_problem(cli: Cli) -> None:
    """Without a config the problem is that of the first document, for names and CSVs too, and a note says so."""
    asked = ("zb-h1", "theirs.csv", "mine.json", "--json")
    alone, beside = cli("compare", *asked), cli("compare", *asked, "-c", "model.yaml")
    assert (alone.returncode, alone.stderr) == (0, NOTE.format("mine.json"))
    assert beside.stderr == ""
    assert alone.stdout == beside.stdout
    row = json.loads(cli("compare", "mine.json", "--json").stdout)["rows"][0]
    assert row["metrics"] == json.loads(Path("mine.json").read_text("utf-8"))["metrics"]


def test_options_are_laid_over_the_problem_of_a_document(cli: Cli) -> None:
    """What an option gives replaces what the document says; a recompute that was the forward's stays that."""
    given = ("--forward", "2", "--mem-budget", "1", "--recompute", "full", "--json")
    alone = cli("compare", "1f1b", "mine.json", *given)
    beside = cli("compare", "1f1b", "mine.json", "model.yaml", *given)
    assert (alone.returncode, alone.stderr) == (0, NOTE.format("mine.json"))
    assert json.loads(alone.stdout) == json.loads(beside.stdout)
    refused = cli("compare", "mine.json", "--microbatches", "5")
    assert (refused.returncode, refused.stderr) == (1, NOTE.format("mine.json"))
    assert "the problem has 5 microbatches, but mine.json has 4" in refused.stdout


def test_placement_and_cut_of_a_document_are_open(cli: Cli) -> None:
    """Other families place the stages as they need, and cut layers anew, as with the config that the document is of."""
    Path("layers.yaml").write_text("devices: 2\nlayers: 11\nchunks: 2\nlast: {forward: 1}\nmicrobatches: 4\n")
    assert cli("run", "zb-v", "layers.yaml", "-o", "v.json").returncode == 0
    asked = ("1f1b", "interleaved", "zb-v", "v.json", "--json")
    alone, beside = cli("compare", *asked), cli("compare", *asked, "layers.yaml")
    found = json.loads(alone.stdout)["rows"]
    assert found == json.loads(beside.stdout)["rows"]
    assert all(row["applicable"] for row in found)
    assert found[2]["metrics"] == found[3]["metrics"]


def test_a_given_cut_stays(cli: Cli) -> None:
    """A layout that balancing does not find holds for the stages of the document, and its own schedule is as it was."""
    Path("layers.yaml").write_text("devices: 2\nlayers: 8\nlayout: [1, 7]\nmicrobatches: 4\n")
    assert cli("run", "1f1b", "layers.yaml", "-o", "uneven.json").returncode == 0
    row, naive = json.loads(cli("compare", "uneven.json", "naive", "--json").stdout)["rows"][::-1]
    assert row["metrics"] == json.loads(Path("uneven.json").read_text("utf-8"))["metrics"]
    assert naive["metrics"]["bottleneck"] == 1


def test_names_of_robust_by_default(cli: Cli) -> None:
    """Without names, those of `compare`, and the config's own."""
    assert [row["algorithm"] for row in answer(cli, "robust")["rows"]] == ["naive", "1f1b", "interleaved"]
    Path("own.yaml").write_text(MODEL + "algorithm: zb-h1\n")
    assert [row["algorithm"] for row in answer(cli, "robust", "own.yaml")["rows"]][-1] == "zb-h1"


def test_options_of_robust_are_the_parameters(cli: Cli) -> None:
    """What the options say is what the function does, options of the problem and of algorithms included."""
    given = ("--noise", "0.2", "--device-noise", "0.1", "--straggler", "1.5", "--samples", "30", "--seed", "9")
    content = answer(cli, "robust", "interleaved", "1f1b", "--microbatches", "4", "--recompute", "1", *given)
    problem = pipesched.load(None, microbatches=4)
    compared = pipesched.compare(problem, ["interleaved", "1f1b"], recompute=1)
    made = pipesched.robustness(compared, noise=0.2, device_noise=0.1, straggler=1.5, samples=30, seed=9)
    assert content == json.loads(json.dumps(robustness_document(made)))


def test_output_of_robust(cli: Cli) -> None:
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
