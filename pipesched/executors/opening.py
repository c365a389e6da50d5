"""`open_executor` by a text ("local", "local:4", "dask://HOST:PORT"), and `lent`, one for a piece of work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from pipesched.checks import MOST_WORKERS, shown
from pipesched.errors import ConfigError
from pipesched.executors import cores

if TYPE_CHECKING:
    from concurrent.futures import Executor

PORT, MOST_PORT = 8786, 65_535  # where a Dask scheduler listens, by default
ALLOWED = "local, local:N or dask://HOST:PORT"


class Spec(NamedTuple):
    """What a text asks for: `workers` processes of this machine, or where `address` is given its Dask cluster."""

    workers: int
    address: str = ""


def read_spec(text: object) -> Spec:
    """Return what a text asks for. Raises ConfigError, with the nearest valid text where there is one."""
    if not isinstance(text, str):
        raise ConfigError(f"must be {ALLOWED}, not {shown(text)}", "executor")
    text = text.strip()
    kind, colon, rest = text.partition(":")
    if kind == "local" and (not colon or _number(rest, MOST_WORKERS)):
        return Spec(int(rest) if colon else cores())
    if re.fullmatch(r"dask://[^\s/:]+:\d+|dask://\[[0-9a-fA-F:]+\]:\d+", text) and _number(text.rpartition(":")[2]):
        return Spec(1, text)
    hint = f"did you mean {near}? " if (near := _nearest(text)) else ""
    raise ConfigError(f"unknown executor {shown(text)}; {hint}allowed are {ALLOWED}", "executor")


def spec_of_jobs(jobs: int, executor: str | None) -> str:
    """Return the executor for `jobs` processes (0: one a core) and one that is named, where they do not contradict.

    Raises ConfigError.
    """
    if executor is None:
        return f"local:{jobs}" if jobs else "local"
    spec = read_spec(executor)
    if not jobs:
        return executor
    if spec.address:
        raise ConfigError(f"is the number of processes of this machine, and `executor` is {executor}", "jobs")
    if ":" in executor and spec.workers != jobs:
        raise ConfigError(f"is {jobs}, and `executor` is {executor}; give one of them", "jobs")
    return f"local:{jobs}"


def _number(text: str, most: int = MOST_PORT) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 6 and 1 <= int(text) <= most


def _nearest(text: str) -> str:
    """Return the valid text that is most like one that is not; "" where none is."""
    lowered = text.lower()
    if near := get_close_matches(lowered.partition(":")[0], ["local"], n=1):
        lowered = near[0] + "".join(lowered.partition(":")[1:])
    if _number(text, MOST_WORKERS):
        return f"local:{text}"
    if match := re.fullmatch(r"local\W*(\d{1,5})?", lowered):
        return f"local:{min(max(int(match[1]), 1), MOST_WORKERS)}" if match[1] else "local"
    if match := re.fullmatch(r"(?:(?:dask|tcp|tls|http|https)(?::/*|$))?([\w.-]+)?(?::(\d{1,5}))?/*", lowered):
        is_named = lowered.startswith(("dask", "tcp", "tls", "http")) or match[2]
        port = match[2] if match[2] and _number(match[2]) else PORT
        return f"dask://{match[1] or 'HOST'}:{port}" if is_named else ""
    return ""


FEWEST_OPERATIONS = 1_000_000  # operations to schedule, from which starting processes pays


def open_executor(spec: str = "local") -> Executor:
    """Open what runs independent calls: a `concurrent.futures.Executor`.

    Use it in a `with` block, and give it to `compare`, `sweep`, `frontier` or `robustness`. Answers do not depend on
    it. A call whose worker dies runs again. Leaving the block by an exception, Ctrl-C for one, cancels what is left.

    Args:
        spec: "local": a process for each core of this machine, or "local:N": N of them; they start with the first call,
            and `local:1` is this process. "dask://HOST:PORT": the workers of the Dask cluster whose scheduler stands
            there; all need this pipesched.

    Raises:
        ConfigError: For another text, without the extra `dask`, and where no scheduler answers within 10 seconds.
    """
    wanted = read_spec(spec)
    if wanted.address:
        from pipesched.executors.dask_cluster import DaskExecutor

        return DaskExecutor(wanted.address)
    from pipesched.executors.local import InThisProcess, LocalExecutor

    return InThisProcess() if wanted.workers == 1 else LocalExecutor(wanted.workers)


def chosen(executor: Executor | str | None, jobs: int = 1) -> Executor | str | None:
    """Return the executor that a function was given, or the one for its `jobs`: 1 is this process, 0 one a core.

    Raises ConfigError for another value, and for two that contradict.
    """
    if executor is None:
        return None if jobs == 1 else spec_of_jobs(jobs, None)
    if isinstance(executor, str):
        return executor if jobs == 1 and read_spec(executor) else spec_of_jobs(jobs, executor)
    from concurrent.futures import Executor

    if not isinstance(executor, Executor):
        raise ConfigError(f"must be {ALLOWED}, or an Executor, not {shown(executor)}", "executor")
    if jobs != 1:
        raise ConfigError(f"is {jobs}, and there is an `executor`; give one of them", "jobs")
    return executor


@contextmanager
def lent(executor: Executor | str | None, work: int) -> Iterator[Executor | None]:
    """Yield an executor for `work`, the number of operations in all calls; None where they are best done here.

    That is where there is none, where processes of this machine would have to be started for little, and where there is
    but one. What a text names is opened, and closed with what is still running.
    """
    if executor is None:
        yield None
    elif isinstance(executor, str):
        wanted = read_spec(executor)
        if not wanted.address and (wanted.workers == 1 or work < FEWEST_OPERATIONS):
            yield None
            return
        opened = open_executor(executor)
        try:
            yield opened
        finally:
            opened.shutdown(cancel_futures=True)
    else:
        starts = not getattr(executor, "is_started", True)
        is_here = getattr(executor, "runs_at_once", False) or (starts and work < FEWEST_OPERATIONS)
        yield None if is_here else executor


def workers_of(executor: Executor | None) -> int:
    """Return how many calls an executor runs at a time; 1 for this process, and where it does not say one a core."""
    return 1 if executor is None else int(getattr(executor, "workers", cores()))


def others_at_a_time(executor: Executor) -> int:
    """Return how many calls an executor may run at a time beside a piece of work in this process.

    Processes that share the cores of this machine are one less than the executor has.
    """
    return max(workers_of(executor) - bool(getattr(executor, "shares_cores", False)), 1)
