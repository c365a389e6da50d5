"""The workers of a Dask cluster as an executor, `DaskExecutor`; `_connected` reaches the scheduler of the cluster."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait as wait_for
from functools import partial
from threading import Event, RLock, Thread
from time import monotonic, sleep
from typing import Any

from pipesched.errors import ConfigError, WorkerDied

SECONDS = 10.0  # for a scheduler to answer
AGAIN_AFTER = 0.2  # seconds between attempts: a scheduler may just be starting
LOOK_EVERY = 1.0  # seconds between looks at how many workers there are
LENGTH, LONGEST_GREETING = 8, 2**20  # bytes
SAME = "scheduler and workers need the same pipesched, Dask and Python as this process"
EXTRA = "pip install 'pipesched[dask]'"


class DaskExecutor(Executor):
    """Runs calls on the workers of the Dask cluster whose scheduler stands at `address`, "dask://HOST:PORT".

    Dask runs what was on a worker that died on another one, a few times. Raises ConfigError where no scheduler answers.
    """

    cores_each = 1  # that a call may use

    def __init__(self, address: str) -> None:
        self.address = address
        self._client = _connected(address)
        self._futures: set[Future[Any]] = set()
        self._workers, self._looked = 1, -LOOK_EVERY
        self._lock, self._closed = RLock(), Event()
        Thread(target=self._watch, name="pipesched-dask", daemon=True).start()

    @property
    def workers(self) -> int:
        """The number of calls that run at a time, at least 1: a cluster that grows by need may begin with none."""
        if monotonic() - self._looked > LOOK_EVERY and self._is_connected:
            self._workers, self._looked = max(sum(self._client.nthreads().values()), 1), monotonic()
        return self._workers

    @property
    def _is_connected(self) -> bool:
        return bool(self._client.status == "running")

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = Future[Any]()
        with self._lock:
            if self._closed.is_set():
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._futures.add(future)
        inner = self._client.submit(partial(fn, *args, **kwargs), pure=False)
        future.add_done_callback(lambda done: self._forget(done, inner))
        inner.add_done_callback(lambda done: self._settle(future, done))
        return future

    def _settle(self, future: Future[Any], inner: Any) -> None:
        settle: Callable[[Any], None] = future.set_result
        try:
            answer = inner.result()
        except Exception as raised:
            settle = future.set_exception
            answer = _named(raised, self.address) if inner.status == "error" else _lost(self.address)
        with self._lock:
            if not future.done():
                settle(answer)

    def _forget(self, future: Future[Any], inner: Any) -> None:
        self._futures.discard(future)
        if future.cancelled():
            future.set_running_or_notify_cancel()
            inner.cancel()

    def _watch(self) -> None:
        """End all futures once the scheduler is gone: Dask leaves some waiting for ever."""
        while not self._closed.wait(LOOK_EVERY):
            if not self._is_connected:
                with self._lock:
                    for future in [*self._futures]:
                        future.set_exception(_lost(self.address))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster, after what was submitted; with `cancel_futures` or without `wait` nothing more begins."""
        if cancel_futures or not wait:
            for future in [*self._futures]:
                future.cancel()
        else:
            wait_for([*self._futures])
        with self._lock:
            self._closed.set()
        if not self._is_connected:  # what Dask has to say of that is said
            for part in ("client", "utils"):
                logging.getLogger(f"distributed.{part}").setLevel(logging.CRITICAL)
        self._client.close()

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.shutdown(cancel_futures=kind is not None)


def _lost(address: str) -> WorkerDied:
    return WorkerDied(f"the connection to {address} is lost")


def _named(error: Exception, address: str) -> Exception:
    """Return an exception that says what is wrong with a worker in place of one of Dask; any other as it is."""
    if type(error).__name__ == "KilledWorker":
        return WorkerDied(f"the workers of {address} that ran it died, again and again")
    if isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] == "pipesched":
        return ConfigError(f"the workers of {address} have no pipesched; {SAME}", "executor")
    if isinstance(error, RuntimeError) and "deserialization" in str(error):
        return ConfigError(f"the scheduler {address} cannot read what it is sent; {SAME}", "executor")
    return error


def _connected(address: str) -> Any:
    """Return a client of the scheduler at an address. Raises ConfigError, after SECONDS at most."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ConfigError(f"{address} needs Dask ({EXTRA}): {error}", "executor") from None
    host, _, port = address.removeprefix("dask://").rpartition(":")
    end = monotonic() + SECONDS
    try:
        _reach(host.strip("[]"), int(port), end)
        return Client(f"tcp://{host}:{port}", timeout=max(end - monotonic(), 1), set_as_default=False)
    except Exception as error:  # no scheduler, or something else that listens there
        why = f"{error}".rstrip(".") or type(error).__name__
        raise ConfigError(f"no Dask scheduler answers at {address} within {SECONDS:g} s ({why})", "executor") from None


def _reach(host: str, port: int, end: float) -> None:
    """Wait until a scheduler greets: Dask's client never gives up. Raises OSError at `end`, ValueError for others."""
    while True:
        try:
            seconds = max(end - monotonic(), AGAIN_AFTER)
            with socket.create_connection((host, port), timeout=seconds) as connection:
                connection.settimeout(seconds)
                greeting = connection.recv(LENGTH, socket.MSG_WAITALL)  # its length, which comes first, unasked
            break
        except OSError:
            if monotonic() + AGAIN_AFTER > end:
                raise
            sleep(AGAIN_AFTER)
    if len(greeting) < LENGTH or int.from_bytes(greeting, "little") > LONGEST_GREETING:
        raise ValueError("what listens there is something else")
