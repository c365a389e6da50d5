"""What a command says on stderr while it works."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from subprocess import CompletedProcess
from threading import Event as Flag

import pytest

from pipesched.cli import progress
from pipesched.cli.app import COMMANDS
from pipesched.cli.progress import line
from pipesched.solver.search import Event

Cli = Callable[..., "CompletedProcess[str]"]


class Stream(io.StringIO):
    """A stream that is a terminal, or none, and sets a flag once `awaited` was written."""

    def __init__(self, *, is_terminal: bool, awaited: str) -> None:
        super().__init__()
        self.is_terminal, self.awaited, self.written = is_terminal, awaited, Flag()

    def isatty(self) -> bool:
        """As asked for."""
        return self.is_terminal

    def write(self, text: str) -> int:
        """Note it."""
        count = super().write(text)
        if self.awaited in self.getvalue():
            self.written.set()
        return count


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for before the first line, and a thousandth between two."""
    for name, seconds in (("AFTER", 0.0), ("EVERY", 0.001), ("REFRESH", 0.001)):
        monkeypatch.setattr(progress, name, seconds)
    monkeypatch.setattr(progress, "elapsed", lambda: 0.0)


@pytest.mark.usefixtures("at_once")
def test_lines_where_stderr_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole lines say how long it takes and what is done; the innermost counts, and then the outer again."""
    for awaited in ("scheduling 9 operations", "measuring"):
        stream = Stream(is_terminal=False, awaited=awaited)
        monkeypatch.setattr(sys, "stderr", stream)
        with progress.progress_of("profile", quiet=False):
            with progress.doing("scheduling 9 operations"):
                assert awaited == "measuring" or stream.written.wait(10)
            assert stream.written.wait(10)
        assert all(re.fullmatch(r" *\d+\.\d s  (scheduling 9 operations|measuring)", one)
                   for one in stream.getvalue().splitlines())  # fmt: skip
        assert stream.getvalue().endswith("\n")


@pytest.mark.usefixtures("at_once")
def test_on_a_terminal_the_line_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed stands alone on its line, and nothing of the progress is left at the end."""
    stream, out = (Stream(is_terminal=True, awaited="measuring") for _ in range(2))
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "stdout", out)
    with progress.progress_of("profile", quiet=False):
        assert stream.written.wait(10)
        sys.stdout.write("answer\n")
        assert out.getvalue() == "answer\n"
        assert stream.getvalue().count(progress.CLEAR) >= 2
    shown = re.split(re.escape(progress.CLEAR), stream.getvalue())
    assert shown[-1] == ""
    assert {re.sub(r"[\d.]+ s", "N s", text.strip()) for text in shown} <= {"", "N s  measuring"}
    assert (sys.stdout, sys.stderr) == (out, stream)


@pytest.mark.usefixtures("at_once")
def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """No line, and what asks is told."""
    with progress.progress_of("profile", quiet=True), progress.doing("anything"):
        assert progress.is_quiet()
    with progress.progress_of("profile", quiet=False):
        assert not progress.is_quiet()
    assert progress.is_quiet()
    assert "anything" not in capsys.readouterr().err


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("is_terminal", [True, False])
def test_what_speaks_for_itself(monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> None:
    """A block that says "" is silent from then on, and leaves no line on a terminal."""
    stream = Stream(is_terminal=is_terminal, awaited="the ranks start")
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.progress_of("train", quiet=False), progress.doing("the ranks start") as say:
        assert stream.written.wait(10)
        say("")
        assert not Flag().wait(0.02)
        before = stream.getvalue()
        assert not Flag().wait(0.02)
        assert stream.getvalue() == before
        assert before.endswith(progress.CLEAR if is_terminal else "the ranks start\n")


@pytest.mark.usefixtures("at_once")
def test_an_app_has_the_terminal_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where progress is paused nothing is written."""
    stream = Stream(is_terminal=True, awaited="working")
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.progress_of("explore", quiet=False):
        assert stream.written.wait(10)
        with progress.no_progress():
            before = stream.getvalue()
            assert not Flag().wait(0.02)
            assert stream.getvalue() == before
            assert before.endswith(progress.CLEAR)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_quiet(cli: Cli, command: str) -> None:
    """--quiet is an option of each."""
    assert "--quiet" in cli(command, "--help").stdout


@pytest.mark.slow
@pytest.mark.nightly
def test_long_work_says_what_it_does(process: Cli) -> None:
    """A second or more of scheduling is told once, where stderr is no terminal; quietly it is not."""
    words = ("run", "1f1b", "--devices", "64", "--microbatches", "9000")
    said = process(*words).stderr.splitlines()
    assert len(said) >= 1
    assert all(re.fullmatch(r" *\d+\.\d s  .*(scheduling|printing).*", one) for one in said)
    assert process(*words, "--quiet").stderr == ""


def test_line() -> None:
    """Elapsed, incumbent with its source, bound, gap, stage; in the user's unit of time."""
    event = Event("CP-SAT, loop", 1.25, 33, "justification", 30)
    assert line(event, event.seconds) == "  1.2 s  best 33 (justification)  bound 30  gap 10.00%  CP-SAT, loop"


def test_line_before_anything_is_found() -> None:
    """No incumbent, no bound."""
    assert line(Event("bounds", 0, None, "", 0), 0.04) == "  0.0 s  bounds"
    assert line(Event("bounds", 0, None, "", 285), 0.04) == "  0.0 s  bound 285  bounds"
