"""The command line as a process: pipes, terminals, encodings, Ctrl-C, progress, and time that is left to a search."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Event, Event as Flag
from types import ModuleType
from typing import Any

import pytest

from pipesched import NoSchedule
from pipesched.cli import progress
from pipesched.cli.exits import stop_on_interrupt
from pipesched.cli.progress import LEAST, elapsed, left_for_search, line, most_classified
from pipesched.core.cpsat import Limits
from pipesched.solver import frontier, solve
from pipesched.solver.search import Event as Told
from tests.cli.conftest import Cli
from tests.examples import at_night_but

PIPESCHED = [sys.executable, "-m", "pipesched"]
COLOUR = "\x1b[38;"


@pytest.mark.slow
def test_pipe_between_two(process: Cli) -> None:
    """`run --json | show -` draws, and `| check -` agrees."""
    made = process("run", "--quiet", "--json", "--stages", "4")
    assert (made.returncode, made.stderr) == (0, "")
    shown = process("show", "-", "--quiet", stdin=made.stdout)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == process("run", "--stages", "4").stdout
    checked = process("check", "-", "--quiet", stdin=made.stdout)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(
    ("args", "code"),
    [(["run", "--json"], 0), (["run", "--algo", "zb-auto", "--mem-budget", "0.1"], 1), (["run", "--nosuch"], 2)],
    ids=str,
)
def test_exit_code(process: Cli, args: list[str], code: int) -> None:
    """The exit code of the process is that of the manual, and there is never a traceback."""
    result = process(*args)
    assert result.returncode == code
    assert "Traceback" not in result.stderr
    assert bool(result.stdout) is (code == 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "args",
    at_night_but(
        [["run", "--microbatches", "300", "--json"], ["compare"]],
        [
            ["run", "--microbatches", "300", "--json"],
            ["run", "--devices", "64", "--width", "2000"],
            ["compare"],
            ["list", "--json"],
            ["init"],
        ],
    ),
    ids=" ".join,
)
def test_closed_pipe(environment: dict[str, str], args: list[str]) -> None:
    """A reader that goes away (`| head -1`) ends the command quietly, and that is no failure."""
    with subprocess.Popen(
        [*PIPESCHED, *args, "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        errors = running.stderr.read()
    assert (errors, running.returncode) == (b"", 0)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("args", [["run"], ["list", "--json"]], ids=" ".join)
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
@pytest.mark.parametrize("redirected", ["run --json >&-", "show - <&-"])
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


def test_letters_that_the_encoding_lacks(process: Cli) -> None:
    """A terminal that cannot show every letter, of a label too, gets a chart all the same, and no escape code."""
    config = "devices: 2\nname: '\\u6a21 caf\\u00e9'\nmemory: {budget: 3}\n".replace("'", '"')
    env = {"PYTHONIOENCODING": "ascii", "TERM": "xterm-256color"}
    result = process("run", "-c", "-", "--quiet", stdin=config, env=env)
    assert (result.returncode, result.stderr) == (0, "")
    assert "caf" in result.stdout
    assert result.stdout.isascii()
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("columns", ["40", "133"])
def test_columns(cli: Cli, columns: str) -> None:
    """COLUMNS sets the width of the chart, which uses it and stays within it."""
    lines = cli("run", "--microbatches", "40", "--no-fold", env={"COLUMNS": columns}).stdout.splitlines()
    assert int(columns) - 12 <= max(map(len, lines)) <= int(columns)


@pytest.mark.parametrize("columns", ["abc", "99999999999999"])
def test_strange_columns(cli: Cli, columns: str) -> None:
    """COLUMNS that is no sensible width breaks nothing."""
    result = cli("run", env={"COLUMNS": columns})
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
    [([], {}, True), ([], {"NO_COLOR": "1"}, False), (["--no-color"], {}, False)],
    ids=str,
)
def test_colour(environment: dict[str, str], args: list[str], extra: dict[str, str], coloured: bool) -> None:
    """A terminal gets colours, unless NO_COLOR or --no-color say otherwise."""
    env = {**environment, "TERM": "xterm-256color", "COLUMNS": "100", **extra}
    text = in_terminal(env, "run", *args)
    assert (COLOUR in text or "\x1b[48;" in text) is coloured
    assert coloured or not re.search(r"\x1b\[[0-9;]*m", text)  # nor bold, nor dim
    assert "330" in text


pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_sets_the_event_and_the_second_raises() -> None:
    """Inside the block one Ctrl-C is a request that raises nothing, the next one a KeyboardInterrupt."""
    with stop_on_interrupt() as stop:
        assert not stop.is_set()
        ctrl_c()
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            ctrl_c()


def test_behind_the_block_all_is_as_before() -> None:
    """The handler is put back, also when the block ends by an exception; a new block begins anew."""
    before = signal.getsignal(signal.SIGINT)
    with suppress(ValueError), stop_on_interrupt():
        ctrl_c()
        raise ValueError
    assert signal.getsignal(signal.SIGINT) is before
    with stop_on_interrupt() as stop:
        assert not stop.is_set()
        ctrl_c()
        assert stop.is_set()


@pytest.mark.parametrize(
    ("module", "function", "options"), [(solve, "solve_request", []), (frontier, "frontier", ["--frontier"])]
)
def test_a_search_that_does_not_stop_is_ended_by_the_second(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, module: ModuleType, function: str, options: list[str]
) -> None:
    """A search that looks away goes on after one Ctrl-C; after two there is no output, and exit code 130."""
    seen = []

    def stubborn(asked: Any, *, stop: Event | None = None, **settings: Any) -> None:
        ctrl_c()
        seen.append((stop or asked.stop).is_set())
        ctrl_c()
        seen.append(False)

    monkeypatch.setattr(module, function, stubborn)
    result = cli("solve", *options)
    assert seen == [True]
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "pipesched: interrupted\n")


@pytest.mark.parametrize("interrupted", [True, False])
def test_nothing_found_yet(cli: Cli, monkeypatch: pytest.MonkeyPatch, interrupted: bool) -> None:
    """A search that was asked to end before it had a schedule ends with 130, not with an answer that is no."""

    def fruitless(request: object) -> None:
        if interrupted:
            ctrl_c()
        raise NoSchedule("nothing was found")

    monkeypatch.setattr(solve, "solve_request", fruitless)
    result = cli("solve", "--json")
    if interrupted:
        assert (result.returncode, result.stdout, result.stderr) == (130, "", "pipesched: interrupted\n")
    else:
        assert (result.returncode, result.stderr) == (1, "pipesched: nothing was found\n")


def test_one_ctrl_c_prints_the_best_so_far(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frontier that is interrupted is printed as far as it is known, with exit code 0."""
    whole = frontier.frontier
    told = []

    def interrupted(problem: Any, *, stop: Event, **settings: Any) -> Any:
        told.append(stop.is_set())
        ctrl_c()
        told.append(stop.is_set())
        return whole(problem, stop=None, **settings)

    monkeypatch.setattr(frontier, "frontier", interrupted)
    options = ("--devices", "2", "--stages", "2", "--microbatches", "2", "--placement", "linear", "--quiet")
    result = cli("solve", "--frontier", *options)
    assert told == [False, True]
    assert (result.returncode, result.stderr) == (0, "")
    assert "budget of a device" in result.stdout


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("options", [[], ["--frontier"]], ids=["solve", "frontier"])
def test_ctrl_c_while_cp_sat_runs(cli: Cli, monkeypatch: pytest.MonkeyPatch, options: list[str], times: int) -> None:
    """One Ctrl-C behind the heuristics gives their best, marked; the second one gives nothing but exit code 130."""

    def interrupted(search: object, number: int, seconds: float) -> None:
        for _ in range(times):
            ctrl_c()

    monkeypatch.setattr(solve, "prove", interrupted)
    problem = ("--stages", "4", "--backward-input", "5", "--backward-weight", "4", "--mem-budget", "3")
    result = cli("solve", *problem, *options, "--method", "cpsat", "--quiet", "--json")
    if times == 2:
        assert (result.returncode, result.stdout, result.stderr) == (130, "", "pipesched: interrupted\n")
        return
    content = json.loads(result.stdout)
    assert (result.returncode, result.stderr) == (0, "")
    if options:
        assert [(row["budget"], row["status"]) for row in content["rows"]] == [(3, "feasible")]
    else:
        assert (content["status"], content["solver"]["stopped_by"]) == ("feasible", "interrupt")


GIVEN = ("--devices", "4", "--microbatches", "6", "--placement", "linear", "--mem-budget", "3")


def test_what_comes_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a process that began two seconds ago: the start, what is printed by the number of operations, a moment."""
    monkeypatch.setattr(progress, "_began", [10.0])
    monkeypatch.setattr(progress, "monotonic", lambda: 12.0)
    assert elapsed() == 2.0
    assert 0 < most_classified(1) < most_classified(60)
    nothing = left_for_search(10, 0, documents=0, chart=False, classes=False)
    assert 7 < nothing < 8
    drawn, written = (
        left_for_search(10, 100_000, documents=documents, chart=not documents, classes=False) for documents in (0, 1)
    )
    assert 0 < written < drawn < nothing
    assert left_for_search(1, 100_000, documents=1, chart=True, classes=True) == LEAST
    monkeypatch.setattr(progress, "_began", [])  # where the command line is called as a function
    assert elapsed() == 0.0


@pytest.mark.parametrize("flags", at_night_but([["--json"]], [["--json"], ["--frontier"]]))
@pytest.mark.slow
def test_a_search_has_less_than_the_command(flags: list[str], cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the library is given is less than `--time-limit`, and of the default too."""
    given: list[float] = []

    def noted(**values: Any) -> Any:
        given.append(values["seconds"])
        return Limits(**values)

    monkeypatch.setattr("pipesched.solver.request.Limits", noted)
    assert cli("solve", *GIVEN, "--time-limit", "20", "--quiet", *flags).returncode == 0
    assert cli("solve", *GIVEN, "--quiet", *flags).returncode == 0
    assert max(given[0], given[-1]) > 15
    assert given[0] < 20
    assert max(given) < 60


def test_a_limit_that_is_too_short_for_one_schedule(cli: Cli) -> None:
    """There is an answer, and it says that no other was tried: below the summary, and beside a document on stderr."""
    short = ("--devices", "8", "--microbatches", "500", "--placement", "linear", "--mem-budget", "3", "--time-limit")
    text = cli("solve", *short, "0.000001", "--quiet")
    assert text.returncode == 0
    assert "takes longer than the --time-limit" in " ".join(text.stdout.split())
    document = cli("solve", *short, "0.000001", "--quiet", "--json")
    assert json.loads(document.stdout)["solver"]["stopped_by"] in ("time limit", "proof")
    assert "takes longer than the --time-limit" in document.stderr


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
        with progress.progress_of("profile"):
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
    with progress.progress_of("profile"):
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
    with progress.doing("anything"):
        assert progress.is_quiet()
    with progress.progress_of("profile"):
        assert not progress.is_quiet()
    assert progress.is_quiet()
    assert "anything" not in capsys.readouterr().err


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("is_terminal", [True, False])
def test_what_speaks_for_itself(monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> None:
    """A block that says "" is silent from then on, and leaves no line on a terminal."""
    stream = Stream(is_terminal=is_terminal, awaited="the ranks start")
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.progress_of("train"), progress.doing("the ranks start") as say:
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
    with progress.progress_of("explore"):
        assert stream.written.wait(10)
        with progress.no_progress():
            before = stream.getvalue()
            assert not Flag().wait(0.02)
            assert stream.getvalue() == before
            assert before.endswith(progress.CLEAR)


@pytest.mark.slow
@pytest.mark.nightly
def test_long_work_says_what_it_does(process: Cli) -> None:
    """A second or more of scheduling is told once, where stderr is no terminal; quietly it is not."""
    words = ("run", "1f1b", "--devices", "64", "--microbatches", "20000")
    said = process(*words).stderr.splitlines()
    assert len(said) >= 1
    assert all(re.fullmatch(r" *\d+\.\d s  .*(scheduling|printing).*", one) for one in said)
    assert process(*words, "--quiet").stderr == ""


def test_line() -> None:
    """Elapsed, incumbent with its source, bound, gap, stage; in the user's unit of time."""
    event = Told("CP-SAT, loop", 1.25, 33, "justification", 30)
    assert line(event, event.seconds) == "  1.2 s  best 33 (justification)  bound 30  gap 10.00%  CP-SAT, loop"
    assert line(Told("bounds", 0, None, "", 0), 0.04) == "  0.0 s  bounds"
    assert line(Told("bounds", 0, None, "", 285), 0.04) == "  0.0 s  bound 285  bounds"
