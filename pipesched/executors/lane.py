"""Tasks in a pool of processes, at most as many at a time as it has processes.

So when a worker dies, which breaks its pool, the tasks that were handed over are those that may have killed it; all
others are still here. A lane is used by one thread, and tells what happens by putting calls for that thread into a
queue.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.context import SpawnContext, SpawnProcess
from queue import SimpleQueue
from time import monotonic, sleep
from typing import Any

TERMINATED = -15  # the exit code of workers that a broken pool ends by itself
SOON = 0.5  # seconds: the thread of a broken pool asks for exit codes too, and one of the two gets them later
Events = SimpleQueue[Callable[[], None]]


class PooledCall:
    """A call, and the future of its result."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.call = partial(function, *args, **kwargs)
        self.future: Future[Any] = Future()

    def begin(self) -> bool:
        """Return whether the task is still wanted, and from now on cannot be cancelled."""
        return self.future.running() or self.future.set_running_or_notify_cancel()


class Lane:
    """Tasks that wait for `workers` processes, and those that run there; `died` gets what ran when a worker died."""

    def __init__(self, workers: int, events: Events, died: Callable[[PooledCall, int], None]) -> None:
        self.workers, self.died, self._events = workers, died, events
        self.waiting: deque[PooledCall] = deque()
        self.running: list[PooledCall] = []
        self._pool: _Pool | None = None

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing left to do."""
        return not self.waiting and not self.running

    def add(self, task: PooledCall) -> None:
        """Run a task as soon as a process is free."""
        self.waiting.append(task)
        self._go_on()

    def _go_on(self) -> None:
        while self.waiting and len(self.running) < self.workers:
            task = self.waiting.popleft()
            if task.begin():
                self._hand_over(task)

    def _hand_over(self, task: PooledCall) -> None:
        while True:
            pool = self._pool = self._pool or _Pool(self.workers)
            try:
                future = pool.submit(task.call)
                break
            except BrokenProcessPool:  # a worker died that had nothing to do
                self._pool = None
        self.running.append(task)
        future.add_done_callback(lambda done: self._events.put(partial(self._settle, task, pool, done)))

    def _settle(self, task: PooledCall, pool: _Pool, done: Future[Any]) -> None:
        """Hand on what became of a task."""
        self.running.remove(task)
        error = done.exception()
        if isinstance(error, BrokenProcessPool):
            self._pool = None if self._pool is pool else self._pool
            self.died(task, pool.exit_code)
        elif error is not None:
            task.future.set_exception(error)
        else:
            task.future.set_result(done.result())
        self._go_on()

    def close(self) -> None:
        """Drop what waits, and end the processes, with what runs in them."""
        for task in self.waiting:
            task.future.cancel()
            task.future.set_running_or_notify_cancel()
        for task in self.running:
            task.future.set_exception(CancelledError())
        self.waiting.clear()
        self.running.clear()
        if self._pool is not None:
            self._pool.end()
        self._pool = None


class _Pool(ProcessPoolExecutor):
    """A pool that knows its processes, which start with the first calls."""

    def __init__(self, workers: int) -> None:
        self.context = _NotingContext()
        super().__init__(workers, self.context, _leave_interrupts_to_the_parent)

    @property
    def exit_code(self) -> int:
        """The exit code of the worker whose death broke the pool; 0 where it is not known, soon."""
        end = monotonic() + SOON
        while monotonic() < end:
            codes = [process.exitcode or 0 for process in self.context.started]
            if code := next((code for code in codes if code not in (0, TERMINATED)), 0):
                return code
            sleep(SOON / 50)
        return 0

    def end(self) -> None:
        """End all processes, and wait until nothing is left of them: their locks are files."""
        for process in self.context.started:
            process.terminate()
        self.shutdown(cancel_futures=True)


class _NotingContext(SpawnContext):
    """A way to start processes afresh, without a copy of this one's threads and locks, that notes them."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[SpawnProcess] = []

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802
        process = SpawnProcess(*args, **kwargs)
        self.started.append(process)
        return process


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
