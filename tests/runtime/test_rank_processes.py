"""Processes of ranks: they answer, they tell what went wrong, and none of them outlives who started it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import sleep

import pytest

from pipesched.errors import RankFailed
from tests.torch_ranks import needs_torch

pytestmark = needs_torch
ROOT = Path(__file__).parents[2]


def is_alive(process: int) -> bool:
    """Whether there is a process of this number that runs."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_jobs_run_one_after_the_other() -> None:
    """Each rank gets its number and the same arguments; its PyTorch has one thread."""
    from pipesched.runtime.rank_processes import rank_processes
    from tests.runtime.broken import number

    with rank_processes(2, "cpu") as call:
        assert call(number, "a", seconds=300) == [(0, "a", 1), (1, "a", 1)]
        assert call(number) == [(0, 1), (1, 1)]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("raises", "ConfigError: it: is wrong"),
        ("dies", "rank 1 ended: process 1 terminated with signal SIGKILL"),
        ("exits", "rank 1 ended: process 1 terminated with exit code 3"),
        ("is silent", "no answer of rank 0, 1 within 1 s"),
    ],
)
def test_what_went_wrong(monkeypatch: pytest.MonkeyPatch, what: str, message: str) -> None:
    """A rank's own error says more than its end, this more than what others heard of it; nobody waits for ever."""
    from pipesched.runtime import rank_processes
    from tests.runtime.broken import fail, own_id

    monkeypatch.setattr(rank_processes, "GRACE", 1.0)
    with rank_processes.rank_processes(2, "cpu") as call:
        ids = call(own_id)
        with pytest.raises(RankFailed) as error:
            call(fail, what, seconds=1 if what == "is silent" else 300)
    assert str(error.value) == message
    assert not any(map(is_alive, ids))


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("ended", ["by Ctrl-C", "killed"])
def test_no_rank_outlives_the_first_process(ended: str) -> None:
    """Ctrl-C on a terminal goes to all processes, other signals to one; all of them end, without a word."""
    words = [sys.executable, "-m", "tests.runtime.broken"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        ids = json.loads(process.stdout.readline())
        assert len(ids) == 2
        if ended == "killed":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGINT)
        assert process.wait() == (-signal.SIGKILL if ended == "killed" else 130)
        while any(map(is_alive, ids)):
            sleep(0.1)
        assert (process.stdout.read(), process.stderr.read()) == ("", "")


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_killed_while_it_starts_a_rank() -> None:
    """A process that is killed before it has told its rank what to run: the rank ends without a traceback."""
    pipe = subprocess.PIPE
    words = [sys.executable, "-m", "tests.runtime.broken", "killed"]
    done = subprocess.run(words, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, check=False)  # until stderr ends
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGKILL, "", "")


@pytest.mark.skipif(os.name != "posix", reason="where ranks say what keeps them from starting")
def test_a_rank_that_cannot_start(tmp_path: Path) -> None:
    """A script that starts ranks at its top level, without a guard, is told so in one line."""
    script = tmp_path / "script.py"
    script.write_text(
        "from pipesched.runtime.rank_processes import rank_processes\n"
        "with rank_processes(1, 'cpu') as call:\n    call(print)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert (
        "rank 0 ended: process 0 terminated with exit code 1: RuntimeError: An attempt has been made to start" in last
    )
