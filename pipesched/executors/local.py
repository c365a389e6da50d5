"""Processes of this machine as an executor that outlives the death of its workers."""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

from pipesched.errors import WorkerDied
from pipesched.executors.lane import Events, Lane, PooledCall
from pipesched.executors.spec import cores

LONGEST_END = 5.0  # seconds to wait for processes that were told to end
KILLED = 9  # the signal that nothing survives


class LocalExecutor(Executor):
    """Runs calls in `workers` processes, which start with the first calls.

    When a worker dies, the calls that were running are run again, one at a time in a process of their own. A call whose
    process dies then too has WorkerDied as its exception. Leaving a `with` block by an exception ends what runs.
    """

    shares_cores = True  # with this process

    def __init__(self, workers: int) -> None:
        self.workers, self.cores_each = workers, max(cores() // workers, 1)
        self._events: Events = SimpleQueue()
        self._alone = Lane(1, self._events, _give_up)
        self._together = Lane(workers, self._events, lambda task, _: self._alone.add(task))
        self._thread: Thread | None = None
        self._is_open, self._is_ending = True, False
        self._lock = Lock()

    @property
    def is_started(self) -> bool:
        """Whether there are processes, or were."""
        return self._thread is not None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        task = PooledCall(fn, args, kwargs)
        with self._lock:
            if not self._is_open:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._thread is None:
                self._thread = Thread(target=self._serve, name="pipesched-executor", daemon=True)
                self._thread.start()
            self._events.put(partial(self._together.add, task))
        return task.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes, after what was submitted; with `cancel_futures` at once, with what runs in them."""
        with self._lock:
            self._is_open = False
            self._events.put(self._close if cancel_futures else self._end_when_idle)
        if wait and self._thread is not None:
            self._thread.join(LONGEST_END if cancel_futures else None)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.shutdown(cancel_futures=kind is not None)

    def _serve(self) -> None:
        """Do in this one thread all that happens to tasks and pools: so nothing happens at once."""
        if hasattr(signal, "pthread_sigmask"):  # the processes that this thread starts are born deaf to Ctrl-C
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while not (self._is_ending and self._together.is_idle and self._alone.is_idle):
            self._events.get()()
        self._together.close()
        self._alone.close()

    def _end_when_idle(self) -> None:
        self._is_ending = True

    def _close(self) -> None:
        self._end_when_idle()
        self._together.close()
        self._alone.close()


def _give_up(task: PooledCall, exit_code: int) -> None:
    how = f"was killed by signal {-exit_code}" if exit_code < 0 else "ended"
    often = ", as happens when memory runs out" if exit_code == -KILLED else ""
    task.future.set_exception(WorkerDied(f"its process {how} twice{often}"))
