"""Ranks that fail or hang: what is said, and that nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import sleep
from typing import Any

import pytest

import pipesched
from pipesched import RankFailed
from pipesched.documents.schedule import document
from tests.examples import at_night_but
from tests.runtime_ranks import DEVICE, Pool, pool_of
from tests.solved import solved
from tests.torch_ranks import needs_torch

pytestmark = needs_torch
DEVICES, MICROBATCHES = 4, 6


pool = pool_of(DEVICES)


def problem(**more: Any) -> pipesched.Problem:
    return pipesched.make_problem(
        devices=DEVICES, stages=DEVICES, microbatches=MICROBATCHES, forward=1, backward=2, **more
    )


def raised(pool: Pool, source: Any, what: str) -> list[Any]:
    """What each rank raised."""
    from tests.runtime.failures import attempt

    found = pool.run(DEVICES, attempt, source, DEVICES, MICROBATCHES, what)
    assert all(one is None or one.threads <= 0 for one in found)
    return found


STEPS = {
    "raises": ("Planned", "as planned", "1F2"),
    "raises in a backward": ("Planned", "as planned", "1B0"),
    "does not fit": ("RuntimeError", "shapes cannot be multiplied", "1F0"),
    "BatchNorm": ("ConfigError", "BatchNorm1d, which normalizes over a microbatch", "1F0 on rank 1"),
    "changes its output": (
        "RuntimeError",
        "its output is [15, 32] float64; a step before it was [16, 32] float64, and must stay so with inputs of these",
        "send 1F0",
    ),
}


@pytest.mark.parametrize("what", at_night_but(["raises in a backward", "does not fit"], STEPS))
def test_a_rank_that_raises(pool: Pool, what: str) -> None:
    """Its own exception there, and on all others an error that quotes it; a second attempt trains."""
    kind, message, op = STEPS[what]
    schedule = pipesched.run(problem(), "1f1b").schedule
    found = raised(pool, schedule, what)
    assert found[1].kind == kind
    for rank, one in enumerate(found):
        assert message in one.text
        assert op in one.text
        assert "rank 1" in one.text
        assert rank == 1 or one.kind == "RankFailed"
    assert [one.kind for one in raised(pool, schedule, "nothing")] == ["nothing"] * DEVICES


def test_a_rank_that_is_killed(pool: Pool) -> None:
    """The others say where they lost it; none of them stays."""
    found = raised(pool, pipesched.run(problem(), "1f1b").schedule, "is killed")
    assert found[1] is None
    for one in (found[0], found[2], found[3]):
        assert one.kind == "RankFailed"
        assert "a rank is gone" in one.text
        assert any(f"on rank {rank} lost its connection to rank 1" in one.text for rank in (0, 2))
        assert DEVICE == "cuda" or any(op in one.text for op in ("0B", "2F"))  # the host of a GPU is ahead of it


@pytest.mark.parametrize("how", ["by closing", "by its end"])
def test_ranks_notice_one_after_the_other_that_one_is_gone(pool: Pool, how: str) -> None:
    """Whatever they wait for: each is told when the next one ends its connections, and then ends its own."""
    from tests.runtime.models import notices

    noticed = (True, True)
    assert pool.run(DEVICES, notices, how) == [noticed, None if how == "by its end" else noticed, noticed, noticed]


def test_wrong_inputs(pool: Pool) -> None:
    """A list of inputs of another length is an error of its rank, of which all others hear."""
    found = raised(pool, pipesched.run(problem(), "1f1b").schedule, "a microbatch less")
    assert [one.kind for one in found] == ["ConfigError", "RankFailed", "RankFailed", "RankFailed"]
    assert all("inputs: must hold one entry for each of the 6 microbatches" in one.text for one in found)


def test_a_rank_without_the_schedule(pool: Pool) -> None:
    """A file that one rank cannot read is an error of all, of which the others hear at once; they train afterwards."""
    schedule = pipesched.run(problem(), "1f1b").schedule
    found = raised(pool, schedule, "reads another file")
    assert [one.kind for one in found] == ["RankFailed", "ConfigError", "RankFailed", "RankFailed"]
    assert all("cannot read 'no such file'" in one.text for one in found)
    assert all("rank 1 cannot run the schedule" in found[rank].text for rank in (0, 2, 3))
    assert [one.kind for one in raised(pool, schedule, "nothing")] == ["nothing"] * DEVICES


def offloaded() -> dict[str, Any]:
    """The document of a plan with loads."""
    limited = problem(placement="linear", activation=1, offload=1, budget=2)
    outcome = solved("failures-offload", limited, offload=True, time_limit=3)
    content: dict[str, Any] = json.loads(json.dumps(document(outcome)))
    return content


def without_a_load(content: dict[str, Any]) -> str:
    """Leave a load out, with all that waits for it and for which it waits."""
    row = next(row for row in content["transfers"] if row)
    load = next(entry for entry in row if "L" in entry["op"])
    row.remove(load)
    content["waits"] = [pair for pair in content.get("waits", []) if load["op"] not in pair]
    return str(load["op"])


def in_an_order_that_deadlocks(content: dict[str, Any]) -> str:
    """Let the first device run a backward before the forward that it needs."""
    row = content["devices"][0]
    row[0]["op"], row[-1]["op"] = row[-1]["op"], row[0]["op"]
    return str(row[0]["op"])


@pytest.mark.parametrize("spoil", [without_a_load, in_an_order_that_deadlocks])
def test_wrong_plans(pool: Pool, spoil: Any) -> None:
    """A plan that breaks rules is refused on every rank, by the name of an operation, before anything is sent."""
    content = offloaded()
    op = spoil(content)
    for one in raised(pool, content, "nothing"):
        assert one.kind == "InvalidSchedule"
        assert op in one.text


def test_a_deadlock_of_operations_without_length(pool: Pool) -> None:
    """Times do not betray a circle of operations that take no time; the order does, on every rank."""
    free = pipesched.make_problem(devices=4, stages=4, microbatches=6, forward=0, backward=0)
    content = json.loads(json.dumps(document(pipesched.run(free, "1f1b"))))
    row = content["devices"][0]
    row.insert(0, row.pop())
    for one in raised(pool, content, "nothing"):
        assert one.kind == "Deadlock"
        assert row[0]["op"] in one.text


ROOT = Path(__file__).parents[2]


def is_alive(process: int) -> bool:
    """Whether there is a process of this number that runs."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.nightly
def test_jobs_run_one_after_the_other() -> None:
    """Each rank gets its number and the same arguments; its PyTorch has one thread."""
    from pipesched.runtime.rank_processes import rank_processes
    from tests.runtime.broken import number

    with rank_processes(2, "cpu") as call:
        assert call(number, "a", seconds=300) == [(0, "a", 1), (1, "a", 1)]
        assert call(number) == [(0, 1), (1, 1)]


WENT_WRONG = {
    "raises": "ConfigError: it: is wrong",
    "dies": "rank 1 ended: process 1 terminated with signal SIGKILL",
    "exits": "rank 1 ended: process 1 terminated with exit code 3",
    "is silent": "no answer of rank 0, 1 within 1 s",
}


@pytest.mark.parametrize("what", at_night_but(["is silent"], WENT_WRONG))
def test_what_went_wrong(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """A rank's own error says more than its end, this more than what others heard of it; nobody waits for ever."""
    from pipesched.runtime import rank_processes
    from tests.runtime.broken import fail, own_id

    monkeypatch.setattr(rank_processes, "GRACE", 1.0)
    with rank_processes.rank_processes(2, "cpu") as call:
        ids = call(own_id)
        with pytest.raises(RankFailed) as error:
            call(fail, what, seconds=1 if what == "is silent" else 300)
    assert str(error.value) == WENT_WRONG[what]
    assert not any(map(is_alive, ids))


@pytest.mark.nightly
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


@pytest.mark.nightly
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
