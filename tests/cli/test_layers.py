"""Models by layers on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from pipesched.config.load import load
from tests.config.test_setup import LAYERS_FILE

Cli = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A config by layers."""
    path = tmp_path / "c.yaml"
    path.write_text(LAYERS_FILE)
    return str(path)


@pytest.mark.parametrize(
    ("options", "change"),
    [
        (["--chunks", "2", "--layout", "balanced"], {"chunks": 2, "layout": "balanced"}),
        (["--layers", "20", "--layout", "balanced"], {"layers": 20, "layout": "balanced"}),
        (["--layout", "equal"], {"layout": "equal"}),
        (["--layout", "5,4,4,3"], {"layout": [5, 4, 4, 3]}),
    ],
)
def test_options_replace_the_value_of_the_file(
    cli: Cli, model: str, options: list[str], change: dict[str, Any]
) -> None:
    """An option is the override of its name; the document has the layers by the keys of a config."""
    result = cli("run", "interleaved", "-c", model, *options, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    problem = json.loads(result.stdout)["problem"]
    meant = load(LAYERS_FILE, **{"placement": "loop", **change})
    assert meant.layers is not None
    assert problem["layout"] == list(meant.layers.layout)
    assert problem["costs"]["forward"] == [*meant.costs.forward]
    assert (problem["layers"], problem["layer"]["forward"]) == (meant.layers.count, 5)


def test_the_document_reads_back(cli: Cli, model: str, tmp_path: Path) -> None:
    """A document by layers round-trips, and one whose layers do not make its costs is refused."""
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    assert cli("run", "zb-v", "-c", model, "-o", str(first)).returncode == 0
    again = cli("show", str(first), "--json")
    assert json.loads(again.stdout) == json.loads(first.read_text())
    assert cli("check", str(first)).returncode == 0
    content = json.loads(first.read_text())
    content["problem"]["layer"]["forward"] = 6
    second.write_text(json.dumps(content))
    refused = cli("check", str(second))
    assert refused.returncode == 2
    assert "layers: do not make the costs and the memory of the stages" in refused.stderr


def test_what_the_layout_gains_is_said(cli: Cli, model: str) -> None:
    """The summary names the layout, and how much less the device with the most work has than with equal counts."""
    row = "layers 3 to 5 a stage balanced: 5, 4, 4, 3; device 0 works 48 (7.4%) less than the largest with equal counts"
    assert row in " ".join(cli("run", "-c", model, "--layout", "balanced", "--width", "130").stdout.split())
    best = " ".join(cli("run", "-c", model, "--width", "130").stdout.split())
    assert "of 16 layers: the best of all 560" in best
    equal = cli("run", "-c", model, "--layout", "equal", "--width", "130").stdout
    assert "moving one layer elsewhere would save 48 (" in equal


def test_a_list_of_chunks_is_a_sweep(cli: Cli, model: str) -> None:
    """`--chunks 1,2` of compare is `--sweep chunks=1,2`; beside another sweep it is refused."""
    listed = cli("compare", "1f1b", "interleaved", "-c", model, "--chunks", "1,2", "--json")
    swept = cli("compare", "1f1b", "interleaved", "-c", model, "--sweep", "chunks=1,2", "--json")
    assert listed.stdout == swept.stdout
    assert [row["chunks"] for row in json.loads(swept.stdout)["rows"]] == [1, 1, 2, 2]
    both = cli("compare", "-c", model, "--chunks", "1,2", "--sweep", "microbatches=4,8")
    assert both.returncode == 2
    assert "--chunks: a list is a sweep of its own" in both.stderr


def test_a_foreign_plan_is_timed_by_layers(cli: Cli, model: str, tmp_path: Path) -> None:
    """A PyTorch CSV has no costs: the layers are cut for its stages and its placement."""
    csv = tmp_path / "a.csv"
    assert cli("export", "--algo", "interleaved", "-c", model, "--chunks", "2", "-o", str(csv)).returncode == 0
    shown = json.loads(cli("show", str(csv), "-c", model, "--json").stdout)
    own = json.loads(cli("run", "interleaved", "-c", model, "--chunks", "2", "--json").stdout)
    assert shown["metrics"]["makespan"] == own["metrics"]["makespan"]
    assert shown["problem"]["layout"] == own["problem"]["layout"]


def test_solve_cuts_for_each_placement(cli: Cli, model: str) -> None:
    """Each placement that is tried has its own balanced layout, and the answer says which."""
    asked = ["--layout", "balanced", "--chunks", "2", "--placement", "v", "--method", "portfolio"]
    result = cli("solve", "-c", model, *asked, "--json")
    assert result.returncode == 0
    meant = load(LAYERS_FILE, layout="balanced", chunks=2, placement="v").layers
    assert meant is not None
    assert json.loads(result.stdout)["problem"]["layout"] == list(meant.layout)
