"""`export --for`: the text on standard output, refusals on standard error alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

Cli = Callable[..., "CompletedProcess[str]"]
SMALL = ["--devices", "4", "--stages", "4", "--microbatches", "8"]


def test_text(cli: Cli) -> None:
    """Flags to paste, with a remark; layers as the layout."""
    result = cli("export", "-a", "1f1b", *SMALL, "--for", "megatron", "--layers", "5,6,6,3")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[0] == (
        "--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'Et*5|t*6|t*6|t*3L'"
    )
    assert all(line.startswith("# ") for line in result.stdout.splitlines()[1:])


def test_a_file(cli: Cli, tmp_path: Path) -> None:
    """A schedule of a file is handed over too, and the text can be written."""
    assert cli("run", "1f1b", *SMALL, "-o", "mine.json").returncode == 0
    assert cli("export", "mine.json", "--for", "primus", "-o", "primus.yaml").returncode == 0
    assert (tmp_path / "primus.yaml").read_text().startswith("pp_algorithm: 1f1b\n")


def test_a_refusal(cli: Cli) -> None:
    """Exit code 1, nothing on standard output: why, and the nearest that the framework has."""
    result = cli("export", "-a", "zb-h1", *SMALL, "--for", "megatron")
    assert (result.returncode, result.stdout) == (1, "")
    assert "zb-h1 takes code; the nearest that it has is 1f1b" in result.stderr


LAYERED = "devices: 4\nlayers: 10\nmicrobatches: 8\nlayer: {forward: 1, backward: 2}\nlast: {forward: 2}\n"


def test_layers_are_the_cut(cli: Cli, tmp_path: Path) -> None:
    """An order without a cut is cut as --layers says, and no other cut is spoken of; other sums are refused."""
    config, order = tmp_path / "l.yaml", tmp_path / "o.csv"
    config.write_text(LAYERED)
    assert cli("run", "1f1b", "-c", str(config), "-o", str(order)).returncode == 0
    said = cli("export", str(order), str(config), "--layers", "1,2,3,4", "--for", "megatron")
    assert "'Et|tt|t*3|t*4L'" in said.stdout
    assert "balanced" not in said.stderr
    refused = cli("export", str(order), str(config), "--layers", "1,2,3,5", "--for", "megatron")
    assert refused.stderr == "pipesched: --layers: lists 11 layers; the model has 10\n"


def test_only_megatron_takes_groups_that_it_runs(cli: Cli) -> None:
    """Of a group size that was found the trainer's best is taken, and said; one that was given is left out."""
    nine = ["--devices", "4", "--stages", "8", "--microbatches", "9", "--charts", "none"]
    kept = cli("compare", "interleaved", "1f1b", *nine, "--only", "primus")
    assert "interleaved: groups of 4: primus refuses those of 5" in kept.stderr
    assert "interleaved" in kept.stdout
    assert "interleaved" in cli("compare", "interleaved", *nine, "--only", "megatron").stdout
    left = cli("compare", "interleaved", "1f1b", *nine, "--only", "megatron", "--group-size", "6")
    assert "--only megatron leaves out interleaved" in left.stderr
