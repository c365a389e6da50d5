"""A real Dask cluster: the results of one process, when workers are killed too, and a word where there is none."""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pipesched import ConfigError, NotApplicable, WorkerDied, open_executor
from pipesched.executors import dask_cluster
from pipesched.executors.batches import map_batches
from tests.executors.conftest import started_cluster
from tests.executors.work import DeadlyOnce, Noting, deadly, failing, slowly, squared, where

pytest.importorskip("distributed")


@pytest.mark.slow
def test_results_in_order(dask: str) -> None:
    with open_executor(dask) as executor:
        assert executor.submit(squared, 7).result() == 49
        assert list(map_batches(executor, squared, range(2000))) == [number * number for number in range(2000)]
        pids = set(map_batches(executor, where, range(6)))
    assert len(pids) == 2
    assert os.getpid() not in pids


def test_an_exception_is_raised_where_its_result_is_due(dask: str) -> None:
    with open_executor(dask) as executor:
        results = map_batches(executor, failing, range(5))
        assert [next(results), next(results)] == [0, 1]
        with pytest.raises(NotApplicable, match="2 is odd"):
            next(results)


def test_killed_workers_lose_nothing(dask: str, tmp_path: Path) -> None:
    """Two calls kill the worker that does them, once each; and one worker more is killed from outside."""
    work = DeadlyOnce(tmp_path, [3, 20])
    with open_executor(dask) as executor:
        victim = executor.submit(os.getpid).result()
        results = map_batches(executor, work, range(40))
        begun = [next(results) for _ in range(2)]
        with suppress(ProcessLookupError):  # a call may have killed it first
            os.kill(victim, signal.SIGKILL)
        assert begun + list(results) == [number * number for number in range(40)]
    assert {int(mark.name) for mark in tmp_path.iterdir()} == {3, 20}


@pytest.mark.nightly
def test_a_call_that_always_kills_its_worker_is_named(dask: str) -> None:
    with open_executor(dask) as executor:
        with pytest.raises(WorkerDied, match=r"^call 3: the workers of dask://127.0.0.1:\d+ that ran it died"):
            list(map_batches(executor, deadly, [3], name=lambda number: f"call {number}"))
        assert list(map_batches(executor, squared, range(4))) == [0, 1, 4, 9]


def test_leaving_by_an_exception_cancels_what_has_not_begun(dask: str, tmp_path: Path) -> None:
    work = Noting(tmp_path / "log", 0.3)
    with suppress(KeyboardInterrupt), open_executor(dask) as executor:
        futures = [executor.submit(work, number) for number in range(30)]
        futures[0].result()
        raise KeyboardInterrupt
    assert all(future.done() for future in futures)
    assert len(work.noted()) < 10


@pytest.mark.nightly
def test_a_scheduler_that_goes_away_is_an_error() -> None:
    """Whatever was under way: nothing waits for ever."""
    cluster = started_cluster()
    try:
        with open_executor(str(cluster.scheduler_address).replace("tcp://", "dask://")) as executor:
            results = map_batches(executor, slowly, range(10**9))
            assert next(results) == 0
            cluster.close()
            with pytest.raises(WorkerDied, match=r"the connection to dask://127\.0\.0\.1:"):
                for _ in results:
                    pass
    finally:
        cluster.close()


def test_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    """One clear message with the address, in time; a scheduler has that long to start. Time is what is slept here."""
    slept: list[float] = []
    with monkeypatch.context() as patched:
        patched.setattr(dask_cluster, "sleep", slept.append)
        patched.setattr(dask_cluster, "monotonic", lambda: sum(slept))
        with pytest.raises(ConfigError, match=r"at dask://127.0.0.1:1 within 10 s \(.*refused"):
            open_executor("dask://127.0.0.1:1")
    assert 9 < sum(slept) <= 10
    monkeypatch.setattr(dask_cluster, "SECONDS", 0.5)
    with pytest.raises(ConfigError, match=r"no Dask scheduler answers at dask://no-such-host.invalid:8786 within"):
        open_executor("dask://no-such-host.invalid:8786")


@pytest.mark.parametrize("says", [b"", b"220 mail.example ESMTP\r\n"])
def test_something_else_that_listens(monkeypatch: pytest.MonkeyPatch, says: bytes) -> None:
    """A server that says nothing, and one that says something else, are no schedulers."""
    monkeypatch.setattr(dask_cluster, "SECONDS", 0.5)

    def serve(server: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = server.accept()
            with connection:
                connection.sendall(says)
                connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=[server], daemon=True).start()
        with pytest.raises(ConfigError, match="no Dask scheduler answers at dask:"):
            open_executor(f"dask://127.0.0.1:{server.getsockname()[1]}")


def test_workers_without_pipesched_are_said_to_be() -> None:
    """What Dask raises then, on workers and on schedulers."""
    missing: Any = ModuleNotFoundError("No module named 'pipesched'", name="pipesched")
    unread = RuntimeError("Error during deserialization of the task graph.")
    for error in (missing, unread):
        found = dask_cluster._named(error, "dask://h:1")
        assert isinstance(found, ConfigError)
        assert "scheduler and workers need the same pipesched, Dask and Python" in str(found)
    other = ModuleNotFoundError("No module named 'torch'", name="torch")
    assert dask_cluster._named(other, "dask://h:1") is other
