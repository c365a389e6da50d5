"""`pipesched export`: every way in, every format out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., subprocess.CompletedProcess[str]]
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
@pytest.mark.parametrize("command", [["export", "-a", "1f1b", *TINY], ["run", *TINY]], ids=["export", "run"])
def test_suffix_says_the_format(cli: Cli, command: list[str], name: str, start: bytes) -> None:
    """`export` and `run` write what the suffix of -o says, and no other file."""
    result = cli(*command, "-o", name)
    assert (result.returncode, result.stderr) == (0, "")
    assert Path(name).read_bytes().startswith(start)
    assert [path.name for path in Path.cwd().iterdir()] == [name]


def test_text_goes_to_stdout(cli: Cli) -> None:
    """A CSV on standard output, alone: 1F1B on 2 devices."""
    for output in ([], ["-o", "-"]):
        result = cli("export", "-a", "1f1b", *TINY, "--to", "pytorch-csv", *output)
        assert (result.returncode, result.stdout, result.stderr) == (0, CSV, "")
    assert not list(Path.cwd().iterdir())


def test_json_is_that_of_run(cli: Cli) -> None:
    """Exported as JSON, a schedule is the document of `run --json`; also from a file of it, and from a pipe."""
    printed = cli("run", "-a", "interleaved", "--json").stdout
    assert cli("export", "-a", "interleaved", "--to", "json").stdout == printed
    Path("a.json").write_text(printed)
    assert cli("export", "a.json", "--to", "json").stdout == printed
    assert cli("export", "-", "--to", "json", stdin=printed).stdout == printed


@pytest.mark.parametrize("to", ["pytorch-csv", "chrome-trace", "svg"])
def test_the_same_from_a_file(cli: Cli, to: str) -> None:
    """It makes no difference whether a schedule comes from its algorithm or from a file."""
    cli("run", "-a", "interleaved", "-o", "a.json")
    direct, read = cli("export", "-a", "interleaved", "--to", to), cli("export", "a.json", "--to", to)
    assert direct.returncode == 0
    assert direct.stdout == read.stdout


def test_csv_with_the_costs_of_a_config(cli: Cli) -> None:
    """A CSV has no costs; a config and its options give them, and then it is the schedule that it was."""
    Path("costs.yaml").write_text("devices: 2\nmicrobatches: 2\ncosts: {forward: 3, backward: 4}\n")
    Path("a.csv").write_text(CSV)
    made = json.loads(cli("export", "-a", "1f1b", *TINY, "--forward", "3", "--backward", "5", "--to", "json").stdout)
    for source, stdin in (("a.csv", ""), ("-", CSV)):
        options = ["-c", "costs.yaml", "--backward", "5"]
        content = json.loads(cli("export", source, *options, "--to", "json", stdin=stdin).stdout)
        assert content["devices"] == made["devices"]
        assert content["metrics"] == made["metrics"]


def test_content_counts_not_the_name(cli: Cli) -> None:
    """A CSV in a file that is named .json, and a document in one named .txt, are what they are."""
    Path("a.json").write_text(CSV)
    assert cli("export", "a.json", "--to", "pytorch-csv").stdout == CSV
    Path("a.txt").write_text(cli("export", "a.json", "--to", "json").stdout)
    assert cli("export", "a.txt", "--to", "pytorch-csv").stdout == CSV


def test_words_are_those_of_train(cli: Cli) -> None:
    """An algorithm and a config are words: a config names its algorithm, a second word another one."""
    Path("mine.yaml").write_text("devices: 2\nmicrobatches: 2\nalgorithm: naive\n")
    naive = cli("export", "-a", "naive", *TINY, "--to", "pytorch-csv").stdout
    for words in (["mine.yaml"], ["-c", "mine.yaml"], ["naive", *TINY]):
        assert cli("export", *words, "--to", "pytorch-csv").stdout == naive
    assert cli("export", "1f1b", "mine.yaml", "--to", "pytorch-csv").stdout == CSV != naive


def test_format_goes_before_suffix(cli: Cli) -> None:
    """--to counts, whatever the file is named."""
    assert cli("export", "-a", "1f1b", "--to", "chrome-trace", "-o", "a.json").returncode == 0
    assert "traceEvents" in json.loads(Path("a.json").read_text())


@pytest.mark.parametrize(
    ("short", "name"), [("csv", "pytorch-csv"), (".CSV", "pytorch-csv"), ("trace.json", "chrome-trace")]
)
def test_a_suffix_is_a_name_too(cli: Cli, short: str, name: str) -> None:
    """--to takes the suffix of a format for its name."""
    assert cli("export", "-a", "1f1b", "--to", short).stdout == cli("export", "-a", "1f1b", "--to", name).stdout != ""


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


@pytest.mark.parametrize(
    "command", [["export", "-a", "1f1b"], ["run"], ["compare", "1f1b"]], ids=["export", "run", "compare"]
)
def test_existing_file_needs_force(cli: Cli, command: list[str]) -> None:
    """A figure replaces an existing file only by force."""
    Path("a.svg").write_text("precious")
    refused(cli(*command, *TINY, "-o", "a.svg"), "a.svg exists; --force overwrites it")
    assert Path("a.svg").read_text() == "precious"
    assert cli(*command, *TINY, "-o", "a.svg", "--force").returncode == 0
    assert Path("a.svg").read_text().startswith("<?xml")


def test_a_schedule_that_breaks_rules_is_not_exported(cli: Cli) -> None:
    """A document with an operation too early is no schedule: exit 1, nothing written."""
    printed = cli("run", "--json").stdout
    early = printed.replace('"op": "1F0", "start": 10, "end": 20', '"op": "1F0", "start": 9, "end": 19')
    assert early != printed
    result = cli("export", "-", "-o", "a.svg", stdin=early)
    assert (result.returncode, result.stdout) == (1, "")
    assert "1F0" in result.stderr
    assert not list(Path.cwd().iterdir())


@pytest.mark.parametrize("name", ["a.svg", "a.png", "a.pdf", "a.json"])
def test_compare_writes_figures(cli: Cli, name: str) -> None:
    """`compare -o` writes the comparison as a figure, or its rows as JSON, and prints as ever."""
    command = ["compare", "naive", "1f1b", *TINY]
    alone, result = cli(*command), cli(*command, "-o", name)
    assert (result.returncode, result.stderr, result.stdout) == (0, "", alone.stdout)
    assert Path(name).read_bytes().startswith(BEGINS.get(f"out{Path(name).suffix}", b"")[:4])


def test_window_of_a_figure(cli: Cli) -> None:
    """`run -o` draws the window that it prints."""
    assert cli("run", "--from", "100", "--to", "130", "-o", "a.svg", "--label", "op").returncode == 0
    svg = Path("a.svg").read_text()
    assert ">0B0<" in svg
    assert ">0F0<" not in svg


def test_run_loads_none_of_this(process: Callable[..., subprocess.CompletedProcess[str]]) -> None:
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
