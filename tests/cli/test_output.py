"""What commands write: files, figures, exports, text for other frameworks, and what is printed before them."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from pipesched import ConfigError
from pipesched.cli.app import app
from pipesched.file_formats.files import write_file
from tests.cli.conftest import Cli
from tests.examples import at_night_but


@pytest.mark.parametrize("name", ["OUT.JSON", "-.json", "a b.json"])
def test_output_is_the_json_document(cli: Cli, tmp_path: Path, name: str) -> None:
    """-o writes what --json prints, and nothing else appears in the folder."""
    printed = cli("run", "-a", "interleaved", "--json").stdout
    result = cli("run", "-a", "interleaved", f"--output={name}")
    assert result.returncode == 0
    assert "285" in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert Path(name).read_text() == printed


def test_directory_is_not_replaced(cli: Cli) -> None:
    """A directory of that name stays, also with --force."""
    Path("out.json").mkdir()
    for force in ((), ("--force",)):
        result = cli("run", "-o", "out.json", *force)
        assert (result.returncode, result.stdout) == (2, "")
        assert "out.json" in result.stderr
    assert Path("out.json").is_dir()
    assert [path.name for path in Path.cwd().iterdir()] == ["out.json"]


def test_permissions_are_those_of_any_new_file(cli: Cli) -> None:
    """The file has the permissions that the umask gives, not those of a temporary file."""
    previous = os.umask(0o027)
    try:
        cli("run", "-o", "out.json")
    finally:
        os.umask(previous)
    assert stat.S_IMODE(Path("out.json").stat().st_mode) == 0o640


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError()])
def test_failing_write_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    """A write that stops in the middle leaves the old file, and no other."""
    target = tmp_path / "out.json"
    target.write_text("old")

    def parts() -> Iterator[str]:
        yield "new"
        raise error

    expected = ConfigError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected):
        write_file(target, parts(), force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
    assert target.read_text() == "old"


SETUP = """\
model: {num_hidden_layers: 8, hidden_size: 2048, num_attention_heads: 16, intermediate_size: 5632, vocab_size: 32000%s}
hardware: {preset: a100-80gb-sxm, memory: %s}
parallel: {gpus: 8, pipeline: 4, tensor: 2}
batch: {sequence: 2048, global: 16}
"""


@pytest.mark.parametrize("command", ["run 1f1b", "compare 1f1b naive", "explain 1f1b", "robust 1f1b"])
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
    assert cli("estimate", "c.yaml").stdout.splitlines()[-1] == "note: foo, bar: not known, not counted"
    Path("c.yaml").write_text(SETUP % (", vision_config: {}", 80))
    refused = cli("estimate", "c.yaml")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("pipesched: c.yaml:1: model.vision_config: is not estimated; ")
    assert "`first: {forward: " in refused.stderr
    Path("c.yaml").write_text(SETUP % (", num_hidden_layer: 2", 80))
    assert "did you mean 'num_hidden_layers'?" in cli("estimate", "c.yaml").stderr


SWEEP = ("compare", "1f1b", "zb-h1", "--sweep", "microbatches=4,8,16")
DRAWS = {
    "run": ("run", "1f1b"),
    "compare": ("compare", "1f1b", "naive"),
    "pareto": ("compare", "--pareto", "1f1b", "naive"),
    "sweep": SWEEP,
    "solve": ("solve", "--quiet", "--time-limit", "5", "--devices", "2", "--microbatches", "2"),
    "show": ("show", "given.json"),
    "export": ("export", "1f1b"),
}


PAPER = ["--title", "My step", "--font-size", "8", "--legend", "right"]
OF_CHARTS = ["--first-microbatch", "1", "--device-name", "rank"]


@pytest.mark.parametrize("drawn", at_night_but(["compare", "pareto", "sweep"], DRAWS))
def test_options_of_papers(cli: Cli, drawn: str) -> None:
    """Width, title, size of text and place of the legend are for every figure, names and numbers for charts."""
    command = DRAWS[drawn]
    cli("run", "-o", "given.json")
    of_charts = [] if {"--sweep", "--pareto"} & {*command} else OF_CHARTS
    result = cli(*command, "-o", "picture.svg", "--inches", "5", *PAPER, *of_charts)
    assert (result.returncode, result.stderr) == (0, "")
    svg = Path("picture.svg").read_text("utf-8")
    assert 'width="360pt"' in svg
    assert "My step" in svg
    assert "font-size: 8px" in svg
    assert ("rank 1" in svg) is bool(of_charts)


def test_sweeps_are_drawn(cli: Cli) -> None:
    """-o of a sweep draws the measure that --show names, and so does `show` of its document."""
    assert cli(*SWEEP, "--show", "makespan", "-o", "a.svg").returncode == 0
    texts = re.findall(r">([^<]+)</text>", Path("a.svg").read_text("utf-8"))
    assert {"1f1b", "zb-h1", "makespan", "microbatches", "4", "8", "16"} <= set(texts)
    printed = cli(*SWEEP, "-o", "sweep.json").stdout
    assert "a 1f1b  b zb-h1" in printed
    assert cli("show", "sweep.json", "-o", "b.svg").stdout == printed
    assert "bubble (%)" in Path("b.svg").read_text("utf-8")


def test_fold(cli: Cli) -> None:
    """`run` folds a long schedule by itself, `compare` where it is told to, each by itself, and cuts none then."""
    real = ("--devices", "8", "--stages", "8", "--microbatches", "48", "--width", "80")
    assert "≈ 39 periods of 15 left out: 125..710" in cli("run", "1f1b", *real).stdout
    assert "left out" not in cli("run", "1f1b", *real, "--no-fold").stdout
    whole, folded = (cli("compare", "1f1b", "sequential", *real, *fold).stdout for fold in ((), ("--fold",)))
    assert "cut at 1650" in whole
    assert "left out" not in whole
    assert "cut at" not in folded
    assert re.findall(r"(\d+) periods of (\d+) left out", folded) == [("39", "15"), ("46", "120")]


TINY = ["--devices", "2", "--stages", "2", "--microbatches", "2"]
CSV = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"
BEGINS = {
    "out.json": b'{\n  "format": "pipesched.schedule"',
    "out.csv": b"0F0,",
    "out.trace.json": b'{\n  "traceEvents"',
    "out.svg": b"<?xml",
    "out.png": b"\x89PNG",
    "out.pdf": b"%PDF",
}


def refused(result: subprocess.CompletedProcess[str], *fragments: str) -> None:
    """Bad input: exit 2, one line on stderr with all of the fragments, nothing on stdout."""
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    for fragment in fragments:
        assert fragment in result.stderr


@pytest.mark.parametrize(("name", "start"), BEGINS.items())
def test_suffix_says_the_format(cli: Cli, name: str, start: bytes) -> None:
    """`export`, as `run`, writes what the suffix of -o says, and no other file."""
    result = cli("export", "-a", "1f1b", *TINY, "-o", name)
    assert (result.returncode, result.stderr) == (0, "")
    assert Path(name).read_bytes().startswith(start)
    assert [path.name for path in Path.cwd().iterdir()] == [name]


def test_text_goes_to_stdout(cli: Cli) -> None:
    """A CSV on standard output, alone: 1F1B on 2 devices."""
    for output in ([], ["-o", "-"]):
        result = cli("export", "-a", "1f1b", *TINY, "--to", "pytorch-csv", *output)
        assert (result.returncode, result.stdout, result.stderr) == (0, CSV, "")
    assert not list(Path.cwd().iterdir())


def test_format_goes_before_suffix(cli: Cli) -> None:
    """--to counts, whatever the file is named."""
    assert cli("export", "-a", "1f1b", "--to", "chrome-trace", "-o", "a.json").returncode == 0
    assert "traceEvents" in json.loads(Path("a.json").read_text())


def test_figure_options(cli: Cli) -> None:
    """--inches, --label and --memory reach the figure."""
    svg = cli("export", "-a", "1f1b", "--to", "svg", "--inches", "3.5", "--label", "stage", "--memory").stdout
    assert 'width="252pt"' in svg
    assert "peak 4" in svg
    assert svg.count(">3</text>") == 16


def test_binary_to_a_pipe(environment: dict[str, str]) -> None:
    """With -o - a picture goes into a pipe, byte by byte."""
    command = [sys.executable, "-m", "pipesched", "export", "-a", "1f1b", *TINY, "--to", "png", "-o", "-"]
    result = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=True)
    assert result.stdout.startswith(b"\x89PNG")
    assert result.stdout.endswith(b"IEND\xaeB`\x82")


def test_a_schedule_that_breaks_rules_is_not_exported(cli: Cli) -> None:
    """A document with an operation too early is no schedule: exit 1, nothing written."""
    printed = cli("run", "--json").stdout
    early = printed.replace('"op": "1F0", "start": 10, "end": 20', '"op": "1F0", "start": 9, "end": 19')
    assert early != printed
    result = cli("export", "-", "-o", "a.svg", stdin=early)
    assert (result.returncode, result.stdout) == (1, "")
    assert "1F0" in result.stderr
    assert not list(Path.cwd().iterdir())


def test_window_of_a_figure(cli: Cli) -> None:
    """`run -o` draws the window that it prints."""
    assert cli("run", "--from", "100", "--to", "130", "-o", "a.svg", "--label", "op").returncode == 0
    svg = Path("a.svg").read_text()
    assert ">0B0<" in svg
    assert ">0F0<" not in svg


def test_run_loads_none_of_this(process: Cli) -> None:
    """`run` and its JSON load no writer that is not asked for."""
    for options in ([], ["--json"]):
        loaded = process("run", *options, env={"PYTHONPROFILEIMPORTTIME": "1"}).stderr
        assert "pipesched.results.outcome" in loaded
        for module in (
            "matplotlib",
            "render.figure",
            "file_formats.files",
            "chrome_trace",
            "pytorch_csv",
            "documents.comparison",
            "pipesched.hls",
        ):
            assert module not in loaded
