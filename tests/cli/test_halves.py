"""Halves of a backward that was given whole: said once on stderr, and never where nobody gave costs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., subprocess.CompletedProcess[str]]
WHOLE = "devices: 2\nmicrobatches: 4\ncosts: {forward: 1, backward: 2}\n"
HALVES = "devices: 2\nmicrobatches: 4\ncosts: {forward: 1, backward_input: 1, backward_weight: 1}\n"
SAID = (
    "each half of the backward counts as half of `costs.backward`;"
    " give `costs.backward_input` and `costs.backward_weight` if you have measured them"
)


@pytest.fixture(autouse=True)
def configs(cli: Cli) -> None:
    Path("whole.yaml").write_text(WHOLE)
    Path("halves.yaml").write_text(HALVES)
    Path("sizes.yaml").write_text("devices: 2\nmicrobatches: 4\n")


@pytest.mark.parametrize(
    ("args", "names"),
    [
        (["run", "zb-h1", "whole.yaml"], "zb-h1"),
        (["run", "zb-h1", "whole.yaml", "--json"], "zb-h1"),
        (["export", "--algo", "zb-h1", "--to", "json", "-c", "whole.yaml"], "zb-h1"),
        (["compare", "1f1b", "zb-h1", "zb-h2", "whole.yaml"], "zb-h1, zb-h2"),
        (["compare", "1f1b", "zb-h1", "whole.yaml", "--pareto"], "zb-h1"),
        (["compare", "1f1b", "zb-h1", "whole.yaml", "--sweep", "microbatches=2,4,8"], "zb-h1"),
        (["run", "zb-h1", "sizes.yaml", "--backward", "2"], "zb-h1"),
    ],
)
def test_assumed_halves_are_said_once(cli: Cli, args: list[str], names: str) -> None:
    """One line on stderr, with the algorithms that run halves; stdout has nothing of it."""
    result = cli(*args)
    assert result.returncode == 0
    assert result.stderr == f"pipesched: note: {names}: {SAID}\n"
    assert "counts as half" not in result.stdout


@pytest.mark.parametrize(
    "args",
    [
        ["run", "1f1b", "whole.yaml"],
        ["run", "zb-h1", "halves.yaml"],
        ["run", "zb-h1", "sizes.yaml"],
        ["run", "zb-h1"],
        ["run", "zb-h1", "--forward", "3"],
        ["run", "zb-h1", "whole.yaml", "--backward-input", "1", "--backward-weight", "1"],
        ["compare", "1f1b", "naive", "whole.yaml"],
        ["compare", "1f1b", "zb-h1"],
        ["solve", "whole.yaml", "--split-backward", "--quiet"],
    ],
)
def test_nothing_is_said(cli: Cli, args: list[str]) -> None:
    """Neither where no half runs, nor of measured halves, nor of the built-in default, nor with --quiet."""
    result = cli(*args)
    assert (result.returncode, result.stderr) == (0, "")


def test_of_layers(cli: Cli) -> None:
    """Of a model by layers the keys are those of a layer, since costs of the stages cannot be given."""
    Path("layers.yaml").write_text("devices: 2\nlayers: 8\nlayer: {forward: 1, backward: 2}\n")
    assert cli("run", "zb-h1", "layers.yaml").stderr == f"pipesched: note: zb-h1: {SAID.replace('costs.', 'layer.')}\n"


@pytest.mark.parametrize("frontier", [[], ["--frontier"]])
def test_of_a_solve(cli: Cli, frontier: list[str]) -> None:
    """A solve that splits the backward says it at the end of its progress, on stderr; the document is whole."""
    result = cli("solve", "whole.yaml", "--split-backward", "--json", "--time-limit", "10", *frontier)
    assert result.stderr.splitlines()[-1] == f"pipesched: note: solve: {SAID}"
    assert result.stderr.count("counts as half") == 1
    assert json.loads(result.stdout)["version"] == 1


def test_flags_are_named_where_the_problem_is_of_flags(cli: Cli) -> None:
    said = cli("run", "zb-h1", "--backward", "4").stderr
    assert said == (
        "pipesched: note: zb-h1: each half of the backward counts as half of --backward;"
        " give --backward-input and --backward-weight if you have measured them\n"
    )
