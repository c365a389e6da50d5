"""Processes of this machine as an executor, `LocalExecutor`, that outlives the death of its workers.

Each process has a thread here that hands it one call at a time. So when one dies, it is known of which call, and no
other call is lost.
"""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import current_process, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pickle import dumps, loads
from threading import Lock, Semaphore, local
from traceback import format_exc
from typing import Any

from pipesched.errors import PipeschedError, WorkerDied, WorkerTraceback
from pipesched.executors import cores

LONGEST_END = 5.0  # seconds to wait for processes that were told to end
KILLED, OUT_OF_MEMORY = 9, ", as happens when memory runs out"  # the signal that nothing survives
UNGUARDED = 78  # the exit code of a process that would start processes while it imports the script of the first one
GUARD = 'each process imports the script anew: call what starts processes under `if __name__ == "__main__":`'


class LocalExecutor(ThreadPoolExecutor):
    """Runs calls in `workers` processes, which start with the first calls.

    A call whose process dies is run again, in a new one and with no other call beside it, because mostly memory ran
    out. If that one dies too, the call has WorkerDied as its exception. Leaving a `with` block by an exception ends
    what runs.
    """

    shares_cores = True  # with this process
    is_started = False  # whether there are processes, or were

    def __init__(self, workers: int) -> None:
        if getattr(current_process(), "_inheriting", False):  # set while the script is imported
            raise SystemExit(UNGUARDED)
        mask = getattr(signal, "pthread_sigmask", None)
        deaf = () if mask is None else (mask, (signal.SIG_BLOCK, {signal.SIGINT}))
        super().__init__(workers, "pipesched-executor", *deaf)  # what these threads start is born deaf to Ctrl-C
        self.workers, self.cores_each = workers, max(cores() // workers, 1)
        self._mine, self._processes = local(), list[SpawnProcess]()
        self._lock, self._is_closed = Lock(), False
        self._places, self._again = Semaphore(workers), Lock()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = super().submit(self._run, partial(fn, *args, **kwargs))
        self.is_started = True
        return future

    def _run(self, call: Callable[[], Any]) -> Any:
        """Return the result of a call, or raise what it raises, in the process of this thread; again in a new one."""
        pickled = dumps(call)
        try:
            with self._places:
                return self._worker().result(pickled)
        except _Died:
            pass
        with self._again:
            for _ in range(self.workers):  # so that no other call runs beside it
                self._places.acquire()
            try:
                return self._worker().result(pickled)
            except _Died as died:
                raise CancelledError if self._is_closed else WorkerDied(str(died)) from None
            finally:
                self._places.release(self.workers)

    def _worker(self) -> _Worker:
        """Return the process of this thread, a new one where there is none, or none any more."""
        with self._lock:
            if self._is_closed:
                raise CancelledError
            found: _Worker | None = getattr(self._mine, "worker", None)
            if found is None or not found.process.is_alive():
                found = self._mine.worker = _Worker()
                self._processes.append(found.process)
        return found

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes, after what was submitted; with `cancel_futures` at once, with what runs in them."""
        super().shutdown(wait and not cancel_futures, cancel_futures=cancel_futures)
        with self._lock:
            self._is_closed |= cancel_futures
        if wait or cancel_futures:
            for process in self._processes:
                process.terminate()
        if wait:
            for process in self._processes:
                process.join(LONGEST_END)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.shutdown(cancel_futures=kind is not None)


class _Died(Exception):
    """The process of a call has died; the text says how."""


class _Worker:
    """A process, started afresh, that runs calls one after another until its connection is closed."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,))
        self.process.start()
        theirs.close()

    def result(self, pickled: bytes) -> Any:
        """Return the result of a pickled call, or raise what it raises. Raises _Died."""
        try:
            self._connection.send_bytes(pickled)
            answer = self._connection.recv_bytes()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode or 0
            if code == UNGUARDED:
                raise _Died(GUARD) from None
            how = f"was killed by signal {-code}" if code < 0 else "ended"
            raise _Died(f"its process {how} twice{OUT_OF_MEMORY if code == -KILLED else ''}") from None
        result, error, traceback = loads(answer)
        if error is not None:
            raise error from WorkerTraceback(traceback)
        return result


def _serve(connection: Connection) -> None:
    """Run the calls that come, in a process of its own, until the other end of the connection is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(100_000)
    with suppress(EOFError, OSError):
        while True:
            connection.send_bytes(_answer(connection.recv_bytes()))


def _answer(call: bytes) -> bytes:
    try:
        return dumps((loads(call)(), None, ""))
    except BaseException as error:
        traceback = format_exc()
        try:
            return dumps((None, error, traceback))
        except Exception as refused:  # by what pickles it
            return dumps((None, PipeschedError(f"{type(error).__name__} cannot be sent: {refused}"), traceback))


class InThisProcess(Executor):
    """Runs each call while it is submitted: its future is done when `submit` returns. Ctrl-C leaves `submit`."""

    workers = 1
    runs_at_once = True

    def __init__(self) -> None:
        self._is_open = True

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if not self._is_open:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._is_open = False
