"""Processes of this machine: what is left when a worker dies, when work is cancelled, and at Ctrl-C."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import CancelledError, wait
from contextlib import suppress
from pathlib import Path

import pytest

from pipesched import WorkerDied, open_executor
from pipesched.errors import PipeschedError
from pipesched.executors.batches import map_batches
from pipesched.executors.local import GUARD
from tests.executors.work import (
    DeadlyOnce,
    DeadlyWithOthers,
    Noting,
    broken,
    deadly,
    hiding,
    interrupting,
    refusing,
    slowly,
    squared,
    workers_left,
)

FOR_EVER = 10**6  # seconds: a test that waits for it hangs


@pytest.mark.parametrize("calls", [[0], [5], [0, 3, 9]], ids=str)
def test_a_worker_that_dies_loses_nothing(tmp_path: Path, calls: list[int]) -> None:
    """What it did is done by another one."""
    with open_executor("local:2") as executor:
        assert list(map_batches(executor, DeadlyOnce(tmp_path, calls), range(10))) == [n * n for n in range(10)]
    assert sorted(int(mark.name) for mark in tmp_path.iterdir()) == calls
    assert not workers_left()


def test_a_call_that_always_kills_its_worker_is_named() -> None:
    """It is tried twice, and what ran beside it is done."""
    with open_executor("local:2") as executor:
        futures = [executor.submit(deadly, number) for number in range(8)]
        wait(futures)
        assert [future.result() for number, future in enumerate(futures) if number != 3] == [0, 1, 2, 4, 5, 6, 7]
        with pytest.raises(WorkerDied, match=r"^its process was killed by signal 9 twice, as happens when memory runs"):
            futures[3].result()
        with pytest.raises(WorkerDied, match=r"^call 3: its process was killed"):
            list(map_batches(executor, deadly, range(8), name=lambda number: f"call {number}"))
    assert not workers_left()


def test_a_script_without_a_guard(tmp_path: Path) -> None:
    """Which would start processes in each process: one line says so, and nothing else is printed."""
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from pipesched import open_executor\n"
        "with open_executor('local:2') as executor:\n"
        "    print(executor.submit(abs, -1).exception())\n"
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{GUARD}\n", "")


def test_a_call_is_repeated_with_nothing_beside_it(tmp_path: Path) -> None:
    """So that all the memory is there for it."""
    with open_executor("local:3") as executor:
        found = list(map_batches(executor, DeadlyWithOthers(tmp_path), range(12)))
    assert found == [0] * 12
    assert (tmp_path / "died").exists()


def test_a_worker_that_dies_idle_is_replaced() -> None:
    with open_executor("local:2") as executor:
        assert executor.submit(squared, 2).result() == 4
        victim = executor.submit(os.getpid).result()
        os.kill(victim, 9)
        time.sleep(0.2)
        assert [executor.submit(squared, number).result() for number in range(4)] == [0, 1, 4, 9]


def test_what_cannot_be_sent_is_an_error_of_its_call() -> None:
    with open_executor("local:2") as executor:
        for submitted in (executor.submit(lambda: 1), executor.submit(hiding, 1)):
            with pytest.raises(Exception, match=r"[Pp]ickle|local object"):
                submitted.result()
        with pytest.raises(PipeschedError, match="Unsendable cannot be sent: no way"):
            executor.submit(refusing, 1).result()
        assert executor.submit(squared, 3).result() == 9


def test_a_defect_says_where_it_was() -> None:
    """The traceback in the worker is the cause."""
    with open_executor("local:2") as executor, pytest.raises(ZeroDivisionError) as caught:
        executor.submit(broken, 0).result()
    assert "return 1 / number" in str(caught.value.__cause__)


def test_workers_leave_interrupts_to_the_parent() -> None:
    """Ctrl-C reaches workers too: they go on, and the parent decides."""
    with open_executor("local:2") as executor:
        assert list(map_batches(executor, interrupting, range(4))) == [0, 1, 2, 3]


def test_leaving_by_an_exception_ends_the_workers(tmp_path: Path) -> None:
    """So does Ctrl-C: what runs is ended, and what waits never begins."""
    work = Noting(tmp_path / "log", FOR_EVER)
    with suppress(KeyboardInterrupt), open_executor("local:2") as executor:
        futures = [executor.submit(work, number) for number in range(6)]
        while len(work.noted()) < 2:
            time.sleep(0.01)
        raise KeyboardInterrupt
    for future in futures:
        with pytest.raises(CancelledError):
            future.result()
    assert sorted(work.noted()) == [0, 1]
    assert not workers_left()


def test_leaving_waits_for_what_was_submitted(tmp_path: Path) -> None:
    work = Noting(tmp_path / "log", 0.01)
    with open_executor("local:2") as executor:
        futures = [executor.submit(work, number) for number in range(6)]
    assert [future.result() for future in futures] == [0, 1, 2, 3, 4, 5]


def test_closing_the_results_cancels_what_has_not_begun(tmp_path: Path) -> None:
    work = Noting(tmp_path / "log", 0.05)
    with open_executor("local:2") as executor:
        results = map_batches(executor, work, range(1000))
        assert next(results) == 0
        results.close()
        assert list(map_batches(executor, slowly, range(3))) == [0, 1, 4]
    assert len(work.noted()) < 20
    assert not workers_left()
