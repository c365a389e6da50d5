"""Numbers and words of commands: what is rounded, whom a mistake is blamed on, what is printed before it is written."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from pipesched.cli.app import app

Cli = Callable[..., subprocess.CompletedProcess[str]]
SETUP = """\
model: {num_hidden_layers: 8, hidden_size: 2048, num_attention_heads: 16, intermediate_size: 5632, vocab_size: 32000%s}
hardware: {preset: a100-80gb-sxm, memory: %s}
parallel: {gpus: 8, pipeline: 4, tensor: 2}
batch: {sequence: 2048, global: 16}
"""


@pytest.mark.parametrize(
    "command", ["run 1f1b", "compare 1f1b naive", "explain 1f1b", "solve --quiet --time-limit 5", "robust 1f1b"]
)
def test_an_answer_is_printed_before_its_file_is_written(command: str, tmp_path: Path) -> None:
    """Where the writer fails, what was found is on the screen all the same."""
    with patch("pipesched.file_formats.files.content_of", side_effect=RuntimeError("a defect")):
        result = CliRunner().invoke(app, [*command.split(), "-o", str(tmp_path / "x.json")], env={"COLUMNS": "80"})
    assert isinstance(result.exception, RuntimeError)
    assert "makespan" in result.stdout or "mean" in result.stdout
    assert not list(tmp_path.iterdir())


def test_a_reader_that_leaves_does_not_lose_the_file(cli: Cli, tmp_path: Path) -> None:
    """`solve -o x.json | head -1` writes the file."""
    from pipesched.cli.output import printed_before

    written = []
    for gone in (BrokenPipeError, SystemExit, KeyboardInterrupt):
        with pytest.raises(gone), printed_before(lambda: written.append(1)):
            raise gone
    assert written == [1, 1, 1]


def test_keys_of_a_model(cli: Cli) -> None:
    """What does not count is named in one note, what never counts is silent, another modality is told the way out."""
    Path("c.yaml").write_text(SETUP % (", torch_dtype: bf16, foo: 1, bar: 2", 80))
    result = cli("estimate", "c.yaml")
    assert result.stdout.splitlines()[-1] == "note: foo, bar: not known, not counted"
    Path("c.yaml").write_text(SETUP % (", vision_config: {}", 80))
    refused = cli("estimate", "c.yaml")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("pipesched: c.yaml:1: model.vision_config: is not estimated; ")
    assert "`first: {forward: " in refused.stderr
    Path("c.yaml").write_text(SETUP % (", num_hidden_layer: 2", 80))
    assert "did you mean 'num_hidden_layers'?" in cli("estimate", "c.yaml").stderr


def test_an_estimate_that_does_not_fit_has_no_step(cli: Cli) -> None:
    """What is too much stands in its place, and what would fit; JSON keeps the step."""
    Path("c.yaml").write_text(SETUP % ("", 2))
    text = cli("estimate", "c.yaml").stdout
    assert re.search(r"device \d does not fit: .* of 2\.0 GB, .* GB too much\n(It fits with|no few changes)", text)
    assert not re.search(r"^(step|tokens/s/GPU|MFU) ", text, re.MULTILINE)
    assert '"step": {' in cli("estimate", "c.yaml", "--json").stdout
