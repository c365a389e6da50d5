"""Layers that differ, and measured blocks, on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from pipesched.cli.explore import _of_file
from pipesched.cli.options import ProblemSource

Cli = Callable[..., "CompletedProcess[str]"]
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


def test_the_cut_is_said(cli: Cli, by_layer: str) -> None:
    """The summary has the layers of each stage, the largest work, and that of equal counts."""
    balanced = ["--layout", "balanced", "--width", "150"]
    shown = " ".join(cli("run", "1f1b", "-c", by_layer, *balanced).stdout.split())
    assert "cut 4, 2, 2 layers largest work 38 on device 1, equal counts 48" in shown
    slow = " ".join(cli("run", "1f1b", "-c", by_layer, *balanced, "--speed", "1,0.5,1").stdout.split())
    assert "largest work 51 on device 0, equal counts 96" in slow or "largest work 51 on device 2" in slow


@pytest.mark.parametrize("algorithm", ["1f1b", "zb-v", "dualpipe-v"])
def test_the_document_reads_back(cli: Cli, by_layer: str, tmp_path: Path, algorithm: str) -> None:
    """A document has lists by layer, the cut, and reads back; other families cut the same layers anew."""
    path = tmp_path / "a.json"
    assert cli("run", algorithm, "-c", by_layer, "-o", str(path)).returncode == 0
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


def test_a_csv_says_which_cut_it_gets(cli: Cli, by_layer: str, tmp_path: Path) -> None:
    """An order in a CSV has no cut, so what it gets is named, unless one is given."""
    path = str(tmp_path / "order.csv")
    assert cli("export", "1f1b", "-c", by_layer, "--layout", "3,3,2", "--to", "pytorch-csv", "-o", path).returncode == 0
    assert "the file holds no cut, so this one is taken, 4,2,2; if it" in cli("check", path, "-c", by_layer).stderr
    assert cli("check", path, "-c", by_layer, "--layout", "3,3,2").stderr == ""
