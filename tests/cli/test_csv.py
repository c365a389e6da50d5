"""`show` and `check` of PyTorch's CSV, timed by the costs of a config."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., subprocess.CompletedProcess[str]]

INTERLEAVED = ["--algo", "interleaved"]  # 4 devices, 8 stages, 8 microbatches, forward 5, backward 10


def keep(cli: Cli, *options: str) -> str:
    """The file of a schedule, and its text."""
    assert cli("run", *options, "-o", "kept.csv").returncode == 0
    return Path("kept.csv").read_text()


@pytest.mark.parametrize(
    "options",
    [
        INTERLEAVED,
        ["--algo", "zb-h1", "--stages", "4", "--p2p", "0.5"],
        ["--algo", "dualpipe-v", "--overlap", "12"],
        ["--algo", "list", "--placement", "v", "--mem-budget", "3"],
    ],
    ids=" ".join,
)
def test_same_chart_as_run(cli: Cli, options: list[str]) -> None:
    """A schedule that was kept as a CSV is drawn as it was made, under the same costs; only its name is the file's."""
    keep(cli, *options)
    costs = [text for text in options[2:] if text not in ("--stages", "4", "--placement", "v")]
    shown, drawn = cli("show", "kept.csv", *costs), cli("run", *options)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines()[1:] == drawn.stdout.splitlines()[1:]
    assert shown.stdout.startswith("kept  4 devices")


def test_document_of_a_csv(cli: Cli) -> None:
    """`show --json` times the file and gives the document, its placement found from the rows."""
    keep(cli, *INTERLEAVED)
    document = json.loads(cli("show", "kept.csv", "--json").stdout)
    assert document["metrics"]["makespan"] == 285
    assert document["problem"]["placement"] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert document["algorithm"] == "kept"


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("more", ["", "stages: 4\n", "layers: 8\n"], ids=["alone", "stages", "layers"])
def test_a_file_that_makes_another_model(cli: Cli, size: int, more: str) -> None:
    """A config without stages trains a model of as many as the file has: a note says so, where that is another."""
    keep(cli, "interleaved", "--devices", "4", "--stages", str(size))
    costs = "layer: {forward: 5}\n" if "layers" in more else "costs: {forward: 5}\n"
    Path("model.yaml").write_text(f"devices: 4\nmicrobatches: 8\n{more}{costs}")
    done = cli("show", "kept.csv", "-c", "model.yaml")
    times = f"and {size} of them are a model {size // 4} times that of 4; `layers` keeps the model"
    said = f"pipesched: note: model.yaml gives no stages, so those of kept.csv count: costs are one a stage, {times}\n"
    assert (said == done.stderr) == (not more and size > 4)
    assert ("costs are one a stage" in done.stderr) == (not more and size > 4)


def test_check_says_that_all_is_well(cli: Cli) -> None:
    """A good file from standard input, with a byte order mark: exit 0 and one line."""
    text = keep(cli, *INTERLEAVED)
    result = cli("check", "-", stdin="\ufeff" + text)
    assert (result.returncode, result.stdout, result.stderr) == (0, "<stdin>: every rule is kept\n", "")
    over = cli("check", "kept.csv", "--mem-budget", "1")
    assert (over.returncode, over.stdout.splitlines()[-1]) == (1, "rules broken: 4")
    assert over.stdout.startswith("device 0 holds ")


CONFIG = "devices: 4\nstages: 8\nmicrobatches: 8\ncosts: {forward: [1, 2, 3, 4, 5, 6, 7, 8], p2p: 0.5}\n"


def test_costs_of_a_config(cli: Cli) -> None:
    """A config with costs for each stage times the file, options go on top of it."""
    Path("config.yaml").write_text(CONFIG)
    keep(cli, *INTERLEAVED, "-c", "config.yaml")
    made = json.loads(cli("run", *INTERLEAVED, "-c", "config.yaml", "--json").stdout)
    shown = json.loads(cli("show", "kept.csv", "-c", "config.yaml", "--json").stdout)
    assert shown["metrics"] == made["metrics"]
    made = json.loads(cli("run", *INTERLEAVED, "-c", "config.yaml", "--p2p", "3", "--json").stdout)
    shown = json.loads(cli("show", "kept.csv", "-c", "config.yaml", "--p2p", "3", "--json").stdout)
    assert shown["metrics"] == made["metrics"]


def test_a_config_may_leave_the_sizes_open(cli: Cli) -> None:
    """Stages and microbatches that a config does not give come from the file, not from defaults."""
    keep(cli, *INTERLEAVED, "--microbatches", "12")
    Path("config.yaml").write_text("devices: 4\ncosts: {forward: 2}\n")
    document = json.loads(cli("show", "kept.csv", "-c", "config.yaml", "--json").stdout)
    assert (document["problem"]["stages"], document["problem"]["microbatches"]) == (8, 12)


def test_stages_of_the_config_in_groups(cli: Cli) -> None:
    """1F1B runs 8 stages fused into 4; its file under the same config is timed the same way."""
    Path("config.yaml").write_text(CONFIG)
    assert keep(cli, "--algo", "1f1b", "-c", "config.yaml").startswith("0F0,0F1,0F2,0F3,0B0")
    made = json.loads(cli("run", "--algo", "1f1b", "-c", "config.yaml", "--json").stdout)
    shown = json.loads(cli("show", "kept.csv", "-c", "config.yaml", "--json").stdout)
    assert shown["metrics"] == made["metrics"]
    assert "8 stages fused into 4" in cli("show", "kept.csv", "-c", "config.yaml").stdout
