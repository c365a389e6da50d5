"""The command line as a process of its own: pipes, terminals, encodings and exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Process = Callable[..., subprocess.CompletedProcess[str]]

PIPESCHED = [sys.executable, "-m", "pipesched"]
COLOUR = "\x1b[38;"


@pytest.mark.slow
def test_pipe_between_two(process: Process) -> None:
    """`run --json | show -` draws, and `| check -` agrees."""
    made = process("run", "--json", "--stages", "4")
    assert (made.returncode, made.stderr) == (0, "")
    shown = process("show", "-", stdin=made.stdout)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == process("run", "--stages", "4").stdout
    checked = process("check", "-", stdin=made.stdout)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_config_from_a_pipe(process: Process) -> None:
    """`init | run -c -` works."""
    starter = process("init").stdout
    result = process("run", "-c", "-", "--json", stdin=starter)
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["problem"]["name"] == "my-model"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["run", "--json"], 0),
        (["run", "--algo", "list", "--mem-budget", "0.1"], 1),
        (["run", "--algo", "zb-auto", "--mem-budget", "0.1"], 1),
        (["run", "--algo", "nosuch"], 2),
        (["run", "--nosuch"], 2),
        (["nosuch"], 2),
    ],
    ids=str,
)
def test_exit_code(process: Process, args: list[str], code: int) -> None:
    """The exit code of the process is that of the manual, and there is never a traceback."""
    result = process(*args)
    assert result.returncode == code
    assert "Traceback" not in result.stderr
    assert bool(result.stdout) is (code == 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "args",
    [
        ["run", "--microbatches", "300", "--json"],
        ["run", "--devices", "64", "--width", "2000"],
        ["compare"],
        ["compare", "--json"],
        ["compare", "--sweep", "microbatches=4,8"],
        ["list"],
        ["list", "--json"],
        ["init"],
        ["init", "--schema"],
    ],
    ids=" ".join,
)
def test_closed_pipe(environment: dict[str, str], args: list[str]) -> None:
    """A reader that goes away (`| head -1`) ends the command quietly, and that is no failure."""
    with subprocess.Popen(
        [*PIPESCHED, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        errors = running.stderr.read()
    assert (errors, running.returncode) == (b"", 0)


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
def test_head(environment: dict[str, str]) -> None:
    """`pipesched run | head -1` prints one line and nothing else."""
    command = f"'{sys.executable}' -m pipesched run --quiet --devices 64 --width 2000 | head -1"
    result = subprocess.run(
        command, shell=True, env=environment, capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("args", [["run"], ["run", "--json"], ["compare"], ["list"], ["init"]], ids=" ".join)
def test_full_disk(environment: dict[str, str], args: list[str]) -> None:
    """Output that cannot be written is said in one line, and the exit code is not 0."""
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [*PIPESCHED, *args], stdout=full, stderr=subprocess.PIPE, env=environment, encoding="utf-8", check=False
        )
    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    assert "No space left" in result.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
@pytest.mark.parametrize("redirected", ["run >&-", "run --json >&-", "init >&-", "run -c - <&-", "show - <&-"])
def test_closed_stream(environment: dict[str, str], redirected: str) -> None:
    """A standard stream that is closed from the start is no reason for a traceback."""
    result = subprocess.run(
        f"'{sys.executable}' -m pipesched {redirected}",
        shell=True,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("args", [["run", "--mem-budget", "3"], ["compare"], ["list"]], ids=" ".join)
def test_encoding_without_box_drawing(process: Process, args: list[str], encoding: str) -> None:
    """A terminal that cannot show every letter gets a chart all the same."""
    result = process(*args, "--quiet", env={"PYTHONIOENCODING": encoding})
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.isascii()


def test_label_that_the_encoding_lacks(process: Process) -> None:
    """A label that the terminal's encoding lacks is no reason for a traceback."""
    config = "devices: 2\nname: '\\u6a21 caf\\u00e9'\n".replace("'", '"')
    result = process("run", "-c", "-", stdin=config, env={"PYTHONIOENCODING": "ascii"})
    assert (result.returncode, result.stderr) == (0, "")
    assert "caf" in result.stdout


@pytest.mark.parametrize("columns", ["40", "60", "133"])
def test_columns(process: Process, columns: str) -> None:
    """COLUMNS sets the width of the chart, which uses it and stays within it."""
    lines = process("run", "--microbatches", "40", "--no-fold", env={"COLUMNS": columns}).stdout.splitlines()
    assert int(columns) - 12 <= max(map(len, lines)) <= int(columns)


def test_width_goes_before_columns(process: Process) -> None:
    """--width says more than COLUMNS."""
    wide = process("run", "--width", "90", env={"COLUMNS": "40"})
    assert wide.stdout == process("run", env={"COLUMNS": "90"}).stdout


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["", "0", "abc", "-3", "1", "9", "99999999999999"])
def test_strange_columns(process: Process, columns: str) -> None:
    """COLUMNS that is no sensible width breaks nothing."""
    result = process("run", "--quiet", env={"COLUMNS": columns})  # however slow the machine is
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout


def in_terminal(env: dict[str, str], *args: str) -> str:
    """What the command writes to a terminal."""
    import pty

    reader, terminal = pty.openpty()
    try:
        running = subprocess.Popen([*PIPESCHED, *args], stdout=terminal, stderr=terminal, env=env)
    finally:
        os.close(terminal)
    parts = []
    try:
        while part := os.read(reader, 65536):
            parts.append(part)
    except OSError:  # Linux: the terminal has no writer any more
        pass
    finally:
        os.close(reader)
    assert running.wait(60) == 0
    return b"".join(parts).decode()


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    ("args", "extra", "coloured"),
    [
        ([], {}, True),
        ([], {"NO_COLOR": "1"}, False),
        (["--no-color"], {}, False),
        (["--ascii"], {}, False),
        (["--json"], {}, False),
    ],
    ids=str,
)
def test_colour(environment: dict[str, str], args: list[str], extra: dict[str, str], coloured: bool) -> None:
    """A terminal gets colours, unless NO_COLOR, --no-color or --ascii say otherwise; JSON never has any."""
    env = {**environment, "TERM": "xterm-256color", "COLUMNS": "100", **extra}
    for command in (["run"], ["compare"]):
        text = in_terminal(env, *command, *args)
        assert (COLOUR in text or "\x1b[48;" in text) is coloured
        assert coloured or not re.search(r"\x1b\[[0-9;]*m", text)  # nor bold, nor dim
        assert "330" in text


def test_pipe_has_no_colour(process: Process) -> None:
    """What goes to a pipe has no escape codes."""
    for command in ("run", "compare", "list"):
        result = process(command, env={"TERM": "xterm-256color"})
        assert result.returncode == 0
        assert "\x1b" not in result.stdout


def test_messages_go_to_stderr(tmp_path: Path, process: Process) -> None:
    """With --json and a file to write, stdout still holds one document and nothing else."""
    result = process("run", "--json", "-o", "out.json")
    assert json.loads(result.stdout) == json.loads((tmp_path / "out.json").read_text())
