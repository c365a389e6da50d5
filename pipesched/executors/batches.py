"""Many calls through an executor (`map_batches`), in batches that are long enough for what it costs to send one.

A batch brings back how long it took, and the next ones are as large as fits BATCH_SECONDS. Results do not depend on it.
`PendingCall` is a single call, begun now and asked later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence, Sized
from concurrent.futures import CancelledError, Executor, Future, wait
from dataclasses import dataclass
from itertools import islice
from operator import methodcaller
from pickle import dumps, loads
from time import perf_counter
from traceback import format_exc
from typing import Generic, TypeVar

from pipesched.core.clock import Clock, TimeIsUp, deadline
from pipesched.errors import ConfigError, PipeschedError, WorkerDied, WorkerTraceback
from pipesched.executors.opening import workers_of
from pipesched.version import __version__

Call = TypeVar("Call")
Result = TypeVar("Result")
BATCH_SECONDS = 0.1  # what a batch should take: a Dask task costs some 2 ms, one in a process of this machine 0.2 ms
LARGEST = 10_000  # calls of a batch
OFTEN = 0.1  # seconds between two looks at a clock that may be stopped
AHEAD = 2  # batches that each worker has: the one it runs, and the next

FEWEST = 8  # batches under way, at least: a cluster that grows by need begins without workers
PARTS = 8  # batches for each place, at least, into which what is left is cut
GROWTH = 4  # times as many calls as in the batch before, at most: first calls may be the quickest


class CallBatch(Generic[Call, Result]):
    """Calls of one function, which a worker runs one after another. It runs only in the pipesched that made it.

    They are pickled here and now: executors do it later, in a thread, while objects may change.
    """

    def __init__(self, function: Callable[[Call], Result], calls: Sequence[Call]) -> None:
        self.version, self.size = __version__, len(calls)
        self._pickled = dumps((function, calls))

    def __call__(self) -> BatchResult[Result]:
        """Return the results, up to a call that raises something."""
        if self.version != __version__:
            versions = f"a worker has pipesched {__version__}, and this process {self.version}"
            raise ConfigError(f"{versions}; install the same one everywhere", "executor")
        began, results = perf_counter(), []
        function, calls = loads(self._pickled)
        for call in calls:
            try:
                results.append(function(call))
            except Exception as error:
                return BatchResult(results, perf_counter() - began, error, format_exc())
        return BatchResult(results, perf_counter() - began)


@dataclass(frozen=True)
class BatchResult(Generic[Result]):
    """The results of a batch, the seconds that it took, and what the call after the last result raised."""

    results: list[Result]
    seconds: float
    error: Exception | None = None
    traceback: str = ""

    def raise_error(self) -> None:
        """Raise what a call has raised; what was not raised on purpose says where in the worker that was."""
        if isinstance(self.error, PipeschedError):
            raise self.error
        if self.error is not None:
            raise self.error from WorkerTraceback(self.traceback)


def map_batches(
    executor: Executor | None,
    function: Callable[[Call], Result],
    calls: Iterable[Call],
    name: Callable[[Call], str] = str,
    clock: Clock | None = None,
) -> Generator[Result, None, None]:
    """Yield `function(call)` for each call, in their order, as they come; without an executor in this process.

    Calls are read as they are needed: a bounded number of batches is ahead. `function`, calls and results must be
    picklable. What a call raises is raised where its result is due. Closing the iterator cancels what has not begun.
    Raises WorkerDied, with the `name` of the call, for one that ends the processes that it runs in, and TimeIsUp once
    `clock` is over.
    """
    if executor is None:
        for call in calls:
            with deadline(clock or Clock()):
                result = function(call)
            yield result
        return
    left, sent, size = iter(calls), 0, 1
    here = getattr(executor, "runs_at_once", False)  # then one batch is under way, as it runs while it is sent
    total = len(calls) if isinstance(calls, Sized) else None
    flying: deque[tuple[Future[BatchResult[Result]], list[Call]]] = deque()
    try:
        while True:
            while len(flying) < (most := 1 if here else max(workers_of(executor) * AHEAD, FEWEST)):
                few = size if total is None else max(min(size, (total - sent) // (most * PARTS)), 1)
                part = [*islice(left, few)]
                if not part:
                    break
                flying.append((executor.submit(CallBatch(function, part)), part))
                sent += len(part)
            if not flying:
                return
            future, part = flying.popleft()
            answers = _landed(future, part, name, clock)
            each = answers.seconds / max(len(answers.results), 1)  # seconds that a call took
            fitting = int(BATCH_SECONDS / each) if each else LARGEST
            size = max(min(fitting, len(part) * GROWTH, LARGEST), 1)
            yield from answers.results
            answers.raise_error()
    finally:
        for future, _ in flying:
            future.cancel()


def _landed(
    future: Future[BatchResult[Result]], calls: Sequence[Call], name: Callable[[Call], str], clock: Clock | None
) -> BatchResult[Result]:
    """Wait for a batch, and return what it brings.

    Raises WorkerDied, TimeIsUp once a clock is over, and ConfigError for workers of no use.
    """
    while clock is not None and not wait([future], min(clock.left, OFTEN)).done:
        if clock.is_over:
            raise TimeIsUp
    try:
        return future.result()
    except WorkerDied as error:
        names = [name(call) for call in calls]
        which = names[0] if len(names) == 1 else f"one of {names[0]} to {names[-1]}"
        raise WorkerDied(f"{which}: {error}") from None
    except CancelledError:
        raise WorkerDied("the executor was shut down before the work was done") from None


class PendingCall(Generic[Result]):
    """A call that an executor has begun; without one it begins when its result is asked for."""

    def __init__(self, executor: Executor | None, call: Callable[[], Result], name: str, clock: Clock) -> None:
        self._clock, self._here, self._name = clock, call, name
        self._sent: Future[BatchResult[Result]] | None = None
        if executor is not None:
            self._sent = executor.submit(CallBatch(methodcaller("__call__"), [call]))

    def result(self) -> Result:
        """Return the result. Raises as `map_batches` does."""
        if self._sent is None:
            with deadline(self._clock):
                return self._here()
        answers = _landed(self._sent, [self._name], str, self._clock)
        answers.raise_error()
        return answers.results[0]

    @property
    def is_done(self) -> bool:
        """Whether the call has ended, or will not begin."""
        return self._sent is None or self._sent.done()

    def cancel(self) -> bool:
        """Cancel the call, if no worker runs it yet; return whether none does."""
        return self.is_done or (self._sent is not None and self._sent.cancel())
