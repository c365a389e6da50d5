"""How a training ends: losses as they come, Ctrl-C, SIGTERM, a rank that dies; and no process outlives the command."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep
from typing import IO

import pytest

import pipesched
from tests.examples import at_night_but
from tests.torch_ranks import needs_torch

pytestmark = [
    needs_torch,
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs the processes of Linux"),
]
Training = subprocess.Popen[str]
EVER = "100000"  # steps


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    """Let SIGHUP end what a test starts, also where the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the schedule of two ranks."""
    problem = pipesched.make_problem(devices=2, stages=2, microbatches=2, forward=1, backward=2)
    pipesched.write(pipesched.run(problem, "1f1b"), tmp_path / "schedule.json")
    return tmp_path


@contextmanager
def training(folder: Path, *words: str, cores: int | None = None) -> Iterator[Training]:
    """Start `pipesched train` in a session of its own; behind the block wait until nobody is left in that."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "pipesched", "train", "schedule.json", "--quiet", *words]
    if cores is not None:
        limit = f"import os, sys; os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:{cores}])"
        command = [sys.executable, "-c", f"{limit}; os.execv(sys.executable, sys.argv[1:])", *command]
    running = subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    try:
        yield running
        running.wait()
        while members(running.pid):
            sleep(0.02)
    finally:
        for process in members(running.pid):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        running.communicate()


def members(session: int) -> list[int]:
    """The processes of a session that run."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdecimal():
                state, _, _, theirs = (process / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(theirs) == session and state != "Z":
                    found.append(int(process.name))
    return found


def ranks(running: Training) -> list[int]:
    """The processes of ranks that have been started."""
    found = []
    for process in members(running.pid):
        with suppress(OSError):
            if "spawn_main" in Path(f"/proc/{process}/cmdline").read_text():
                found.append(process)
    return found


def has_begun(running: Training) -> None:
    """Wait for what the command is asked to do: from here on it hears signals."""
    while "libtorch" not in maps(running.pid):
        sleep(0.005)


def maps(process: int) -> str:
    """The files that a process has in its memory."""
    with suppress(OSError):
        return Path(f"/proc/{process}/maps").read_text()
    return ""


def has_ranks(running: Training) -> None:
    """Wait for both ranks: they run our first lines, and have yet to import PyTorch."""
    while sum("_ctypes" in maps(process) for process in ranks(running)) < 2:
        sleep(0.005)


def has_lost(number: int) -> Callable[[Training], None]:
    """Return what waits for the loss of a step."""

    def wait(running: Training) -> None:
        assert running.stdout is not None
        for step in range(number + 1):
            assert re.fullmatch(rf"step {step}: loss 0\.\d{{6}}\n", running.stdout.readline())

    return wait


def read(stream: IO[str] | None) -> str:
    """What is left in a stream of a process."""
    assert stream is not None
    return stream.read()


MOMENTS = {"import": has_begun, "start of ranks": has_ranks, "first step": has_lost(0), "later": has_lost(12)}


EACH_DAY = [("SIGTERM", "start of ranks"), ("SIGKILL", "first step")]
ENDS = [
    *EACH_DAY,
    *[("SIGINT to all", moment) for moment in MOMENTS],
    ("SIGTERM to all", "start of ranks"),
    ("SIGHUP to all", "first step"),
]


@pytest.mark.parametrize("end", at_night_but(EACH_DAY, ENDS))
def test_nobody_is_left(folder: Path, end: tuple[str, str]) -> None:
    """The exit code, the last line, nothing else on stderr, and no process, at any moment; Ctrl-C keeps the losses."""
    ended, moment = end
    with training(folder, "--steps", EVER) as running:
        MOMENTS[moment](running)
        name, _, all_of_them = ended.partition(" ")
        (os.killpg if all_of_them else os.kill)(running.pid, signal.Signals[name])
        code, left = running.wait(), read(running.stdout)
        said = read(running.stderr)
    has_losses = moment in ("first step", "later")
    interrupted = "pipesched: interrupted before the end of the first step\n"
    if name == "SIGINT" and has_losses:
        assert (code, said) == (0, "")
        assert re.search(r"^interrupted after step \d+\n\Z", left, re.MULTILINE)
    elif name == "SIGINT":
        assert (code, left, said) == (130, "", interrupted)
    else:
        assert (code, said) == ({"SIGTERM": 143, "SIGKILL": -9, "SIGHUP": -1}[name], "")
        assert "interrupted" not in left


def is_tracing(running: Training) -> None:
    """Wait until a rank writes its trace, or has written it."""
    while not [*Path(f"/proc/{running.pid}/cwd/measured").glob("*.json")]:
        sleep(0.001)


TEN: dict[str, Callable[[Training], None]] = {
    "import": has_begun,
    "start of ranks": has_ranks,
    **{f"step {number}": has_lost(number) for number in (0, 1, 2, 5, 12, 30)},
    "traced step": has_lost(3),
    "trace": is_tracing,
}


@pytest.mark.nightly
@pytest.mark.parametrize("moment", TEN)
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_ten_moments(folder: Path, name: str, moment: str) -> None:
    """Three seconds after a signal nothing of the command lives, the losses stand there, and no traceback."""
    traced = {"traced step": ["--trace", "measured"], "trace": ["--trace", "measured", "--steps", "40"]}
    with training(folder, "--steps", EVER, *traced.get(moment, [])) as running:
        TEN[moment](running)
        os.kill(running.pid, signal.Signals[name])
        code = running.wait()
        sleep(3)
        assert members(running.pid) == []
        left, said = read(running.stdout), read(running.stderr)
    steps = [int(number) for number in re.findall(r"^step (\d+): loss", left, re.MULTILINE)]
    assert steps == [*range(min(steps, default=0), max(steps, default=-1) + 1)]
    assert "Traceback" not in said
    if name == "SIGINT" and moment == "trace":
        assert (code, steps) == (0, [*range(40)])
    if name == "SIGINT" and moment.startswith("step"):
        assert re.search(rf"^interrupted after step {max([*steps, int(moment.split()[1])])}\n\Z", left, re.MULTILINE)


def test_interrupted_document(folder: Path) -> None:
    """With --json the losses go to stderr as they come, and the document has all of them."""
    with training(folder, "--steps", EVER, "--json") as running:
        assert running.stderr is not None
        lines = [running.stderr.readline() for _ in range(3)]
        running.send_signal(signal.SIGINT)
        document, code = json.loads(read(running.stdout)), running.wait()
        *more, last = read(running.stderr).splitlines(keepends=True)
    assert code == 0
    assert lines + more == [f"step {step}: loss {loss:.6f}\n" for step, loss in enumerate(document["losses"])]
    reason = f"interrupted after step {len(document['losses']) - 1}"
    assert last == f"{reason}\n"
    assert {**document, "losses": []} == {
        "format": "pipesched.training", "version": 1, "losses": [], "ranks": [], "stopped_by": "interrupt",
        "reason": reason,
    }  # fmt: skip


@pytest.mark.parametrize("as_json", at_night_but((False,), (False, True)))
def test_a_rank_that_is_killed(folder: Path, as_json: bool) -> None:
    """The losses so far, exit code 1, and one line that names the rank."""
    with training(folder, "--steps", EVER, *["--json"] * as_json) as running:
        stream = running.stderr if as_json else running.stdout
        assert stream is not None
        lines = [stream.readline() for _ in range(3)]
        os.kill(ranks(running)[0], signal.SIGKILL)
        answer, code = read(running.stdout), running.wait()
        said = read(running.stderr).splitlines()
    assert code == 1
    assert [line.partition(":")[0] for line in lines] == ["step 0", "step 1", "step 2"]
    assert re.fullmatch(r"pipesched: rank (\d) ended: process \1 terminated with signal SIGKILL", said[-1])
    if as_json:
        document = json.loads(answer)
        assert len(document["losses"]) == len(lines) + len(said) - 1
        assert (document["stopped_by"], document["ranks"]) == ("rank", [])
        assert said[-1] == f"pipesched: {document['reason']}"
    else:
        assert len(said) == 1


@pytest.mark.nightly
def test_a_rank_that_is_killed_while_it_starts(folder: Path) -> None:
    """There are no losses then; the line is the same."""
    with training(folder) as running:
        has_ranks(running)
        os.kill(ranks(running)[1], signal.SIGKILL)
        code, answer, said = running.wait(), read(running.stdout), read(running.stderr)
    assert (code, answer) == (1, "")
    assert re.fullmatch(r"pipesched: rank (\d) ended: process \1 terminated with signal SIGKILL\n", said)


@pytest.mark.parametrize("ended", [None, signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.nightly
def test_traces(folder: Path, ended: signal.Signals | None) -> None:
    """Each trace says how many ranks share how many cores, as a note does; one that is not whole is not there."""
    with training(folder, "--steps", "100", "--trace", "trace", cores=1) as running:
        has_lost(99)(running)
        if ended is not None:
            running.send_signal(ended)
        left, code = read(running.stdout), running.wait()
        said = read(running.stderr)
    assert "pipesched: note: 2 ranks share 1 core: each operation takes longer than on a core of its own\n" in said
    traces = [*(folder / "trace").glob("rank*.json")]
    assert ended is not None or len(traces) == 2
    for trace in traces:
        assert json.loads(trace.read_text())["pipesched"] == {"ranks": 2, "cores": 1}
    assert "Traceback" not in said
    assert code in (0, {None: 0, signal.SIGINT: 0, signal.SIGTERM: 143, signal.SIGKILL: -9}[ended])
    assert ended is None or "rank 0:" in left or left in ("", "interrupted after step 99\n")


def test_listener() -> None:
    """In Python what hears the losses must be a function."""
    from pipesched.runtime import train

    with pytest.raises(pipesched.ConfigError, match="listener: must be a function, not 3"):
        train("schedule.json", listener=3)  # type: ignore[arg-type]
