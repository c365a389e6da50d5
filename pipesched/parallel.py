"""Running independent calls in several processes, with the results in the order of the calls."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

C = TypeVar("C")
R = TypeVar("R")
FEWEST_OPERATIONS = 400_000  # operations in all calls, from which starting processes pays


def in_processes(function: Callable[[C], R], calls: Sequence[C], jobs: int, work: int) -> Iterator[R]:
    """Yield `function(call)` for each of `calls`, in their order, from `jobs` processes (0: one a core).

    `work` is the number of operations of one call. Where all calls together are too short for starting processes to
    pay, they run in this one. `function`, calls and results must be picklable. What a call raises is raised here.
    """
    workers = min(jobs or os.cpu_count() or 1, len(calls))
    if workers <= 1 or work * len(calls) < FEWEST_OPERATIONS:
        yield from map(function, calls)
    else:
        yield from _from_pool(function, calls, workers)


def _from_pool(function: Callable[[C], R], calls: Sequence[C], workers: int) -> Iterator[R]:
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import active_children, get_context

    others, done = set(active_children()), 0
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _leave_interrupts_to_the_parent)
    try:
        for future in [pool.submit(function, call) for call in calls]:
            result = future.result()
            done += 1
            yield result
    except BrokenProcessPool:  # a worker died: what is left is done here
        yield from map(function, calls[done:])
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(active_children()) - others:
            process.terminate()


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
