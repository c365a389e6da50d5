"""Models by layers on the command line, as numbers and as lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipesched import load
from pipesched.cli.explore import _of_file
from pipesched.cli.options import ProblemSource
from tests.cli.conftest import Cli
from tests.config.test_setup import LAYERS_FILE


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


BY_LAYER = """\
devices: 3
microbatches: 4
layer:
  forward: [3, 1, 4, 1, 5, 9, 2, 6]
  backward: [5, 8, 5, 9, 7, 17, 3, 14]
  retain: [1, 1, 0.123456789, 0.3, 1, 1, 1, 1]
  activation: [1, 2, 1, 2, 1, 2, 1, 2]
last: {static: 1}
costs: {p2p: [0, 1, 0, 0, 2, 0, 0]}
"""
BLOCKS = """\
devices: 3
stages: 12
microbatches: 4
costs:
  forward: [3, 1, 4, 1, 5, 9, 2, 6, 3, 1, 4, 1]
  p2p: [0, 1, 0, 0, 2, 0, 0, 0, 1, 0, 1]
"""


@pytest.fixture
def by_layer(tmp_path: Path) -> str:
    """A config of layers that differ."""
    path = tmp_path / "layers.yaml"
    path.write_text(BY_LAYER)
    return str(path)


@pytest.fixture
def blocks(tmp_path: Path) -> str:
    """A config of stages that were measured one by one."""
    path = tmp_path / "blocks.yaml"
    path.write_text(BLOCKS)
    return str(path)


def test_the_document_of_lists_reads_back(cli: Cli, by_layer: str, tmp_path: Path) -> None:
    """A document has lists by layer, the cut, and reads back; other families cut the same layers anew."""
    path = tmp_path / "a.json"
    assert cli("run", "zb-v", "-c", by_layer, "-o", str(path)).returncode == 0
    content = json.loads(path.read_text())
    layer = content["problem"]["layer"]
    assert (layer["forward"], layer["static"]) == ([3, 1, 4, 1, 5, 9, 2, 6], 0)
    assert sum(content["problem"]["layout"]) == 8
    assert json.loads(cli("show", str(path), "--json").stdout) == content
    own = json.loads(cli("compare", "1f1b", "zb-v", "-c", by_layer, "--json").stdout)
    again = json.loads(cli("compare", "1f1b", "zb-v", str(path), "--json").stdout)
    makespans = [{row["algorithm"]: row["metrics"]["makespan"] for row in found["rows"]} for found in (own, again)]
    assert makespans[0].items() <= makespans[1].items()


def test_explore_plans_layers_of_a_document_anew(cli: Cli, by_layer: str, tmp_path: Path) -> None:
    """The editor of a document by layers has what plans them, cut anew."""
    path = tmp_path / "a.json"
    assert cli("run", "1f1b", "-c", by_layer, "-o", str(path)).returncode == 0
    outcome, planner = _of_file(str(path), ProblemSource(None, {}))
    assert planner is not None
    assert outcome.problem.layers is not None


def test_measured_blocks_with_options(cli: Cli, blocks: str, tmp_path: Path) -> None:
    """`--layout` and `--chunks` cut the stages of a config, in one run and in a sweep."""
    one = json.loads(cli("run", "interleaved", "-c", blocks, "--layout", "balanced", "--chunks", "2", "--json").stdout)
    assert (one["problem"]["layers"], one["problem"]["stages"], one["problem"]["blocks"]) == (12, 6, True)
    given = json.loads(cli("run", "1f1b", "-c", blocks, "--layout", "5,4,3", "--json").stdout)
    assert given["problem"]["layout"] == [5, 4, 3]
    swept = cli("compare", "interleaved", "-c", blocks, "--layout", "balanced", "--sweep", "chunks=1,2", "--json")
    rows = json.loads(swept.stdout)["rows"]
    assert [row["chunks"] for row in rows] == [1, 2]
    assert rows[1]["metrics"]["makespan"] == one["metrics"]["makespan"]
    path = tmp_path / "b.json"
    assert cli("run", "1f1b", "-c", blocks, "--layout", "balanced", "-o", str(path)).returncode == 0
    assert "were taken for decoder layers" in cli("export", str(path), "--for", "megatron").stdout
