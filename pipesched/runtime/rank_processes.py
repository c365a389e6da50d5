"""Processes of this machine, one a rank (`rank_processes`): they join one process group, and run job after job.

They leave Ctrl-C to the process that started them, and end with it, however it ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import connection, get_context, parent_process, reduction, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from operator import methodcaller
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread, current_thread, main_thread
from time import monotonic
from typing import Any, NamedTuple

from pipesched.checks import cut, joined
from pipesched.errors import ModelFailed, PipeschedWarning, RankFailed

STDERR = 2  # its descriptor
LONGEST = 400  # letters of what a process says that does not start
GRACE = 10.0  # seconds for a rank to end, or to say what it knows, when another one has failed


class _Failure(NamedTuple):
    """What a rank raised; the least `place` says most: its own error, its end, what it heard of another's."""

    place: int
    text: str
    hint: str = ""
    trace: str = ""


@contextmanager
def rank_processes(count: int, kind: str) -> Iterator[Callable[..., list[Any]]]:
    """Yield a function that calls `job(rank, *args)` on so many ranks, and returns what they return.

    The ranks use this kind of device. After `seconds` without an answer, or when a rank fails or dies, the function
    raises RankFailed; then no more jobs can run. With a `listener` a job gets a function more, which calls it here.
    """
    context = get_context("spawn")
    pipes, processes = [context.Pipe() for _ in range(count)], list[SpawnProcess]()
    with TemporaryDirectory() as folder:
        try:
            with _interrupts_wait():
                for rank, (_, theirs) in enumerate(pipes):
                    with _errors_in(Path(folder, f"errors{rank}")) as errors:
                        args = (rank, count, kind, Path(folder, "meeting"), theirs, errors)
                        process = context.Process(target=_serve, args=args)
                        process.start()
                    processes.append(process)
                    theirs.close()  # so that a dead process is seen as the end of its pipe
            yield partial(_run, processes, [ours for ours, _ in pipes], folder)
            for ours, _ in pipes:
                ours.close()
            for process in processes:
                process.join(GRACE)
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                process.join()


def _run(
    processes: Sequence[SpawnProcess],
    pipes: Sequence[Connection],
    folder: str,
    job: Callable[..., Any],
    *args: Any,
    seconds: float = float("inf"),
    listener: Callable[..., None] | None = None,
) -> list[Any]:
    """Send a job to all ranks, and return their answers; after a failure the others get GRACE to say what they know."""
    waiting: dict[Any, int] = {pipe: rank for rank, pipe in enumerate(pipes)}
    answers: dict[int, Any] = {}
    for pipe in pipes:
        with suppress(BrokenPipeError):  # then it has ended, which shows below
            pipe.send((job, args, listener is not None))
    end = monotonic() + seconds
    while waiting and (ready := connection.wait(waiting, None if end == float("inf") else max(end - monotonic(), 0))):
        for answered in ready:
            rank, is_last = waiting[answered], True
            try:
                is_last, answer = pipes[rank].recv()
            except (EOFError, OSError):
                answer = _end_of(rank, processes[rank], Path(folder, f"errors{rank}"))
            if is_last:
                answers[waiting.pop(answered)] = answer
            elif listener is not None:
                listener(*answer)
            if isinstance(answer, _Failure):
                end = min(end, monotonic() + GRACE)
    failures = [answer for answer in answers.values() if isinstance(answer, _Failure)]
    if not waiting and not failures:
        return [answers[rank] for rank in range(len(pipes))]
    for process in processes:
        process.kill()
    silent = f"no answer of rank {joined([*map(str, waiting.values())])} within {seconds:g} s"
    _, text, hint, trace = min(failures, default=_Failure(0, silent))
    raise RankFailed(text, hint=hint, trace=trace)


def _end_of(rank: int, process: SpawnProcess, early: Path) -> _Failure:
    """Return how a process ended, and what it said last before it served: on standard error, which `early` has."""
    process.join(GRACE)
    code = process.exitcode or 0
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    trace = early.read_text(errors="replace") if code > 0 and early.exists() else ""
    lines = trace.splitlines()
    begins = [number for number, line in enumerate(lines) if line[:1].strip()]  # the last: of the exception
    said = f": {cut(' '.join(' '.join(lines[begins[-1] :]).split()), LONGEST)}" if begins else ""
    return _Failure(1, f"rank {rank} ended: process {rank} terminated with {how}{said}", trace=trace)


@contextmanager
def _errors_in(file: Path) -> Iterator[Any]:
    """Let a process that starts in the block write errors to a file; yield what it gets as a standard error."""
    if not hasattr(reduction, "DupFd"):
        yield None
        return
    sys.stderr.flush()
    kept = os.dup(STDERR)
    with file.open("wb") as errors:
        os.dup2(errors.fileno(), STDERR)
    try:
        yield _StandardError(kept)
    finally:
        os.dup2(kept, STDERR)
        os.close(kept)


class _StandardError:
    """A standard error: the process that gets it has its descriptor in its place."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __reduce__(self) -> tuple[Any, ...]:
        return methodcaller("detach"), (reduction.DupFd(self._descriptor),)


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Keep Ctrl-C from processes that start, until they ignore it, and with SIGTERM from this one in the block."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # else the first process starts it, which lets Ctrl-C through
    held, numbers = list[int](), [signal.SIGINT, signal.SIGTERM]
    is_main = current_thread() is main_thread()  # which runs the handlers of signals that other threads get
    handlers = {number: signal.signal(number, lambda given, _: held.append(given)) for number in numbers * is_main}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for given in held:
            signal.raise_signal(given)


def _serve(rank: int, count: int, kind: str, meeting: Path, pipe: Connection, errors: int | None) -> None:
    """Join the others, then run jobs until the pipe ends. This module loads without PyTorch, so that comes second."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if errors is not None:
        os.dup2(errors, STDERR)
        os.close(errors)
    if sys.platform == "linux":  # PR_SET_PDEATHSIG: also while C code holds Python's lock
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    parent: Any = parent_process()
    Thread(target=lambda: parent.join() or os._exit(1), daemon=True).start()
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    from torch import distributed as dist

    from pipesched.runtime.devices import backend_of, take_device
    from pipesched.runtime.model_source import failure_of
    from pipesched.runtime.team import is_lost

    warnings.simplefilter("ignore", PipeschedWarning)  # the process that started this one gives them
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    take_device(rank, kind)
    dist.init_process_group(backend_of(kind, count), init_method=f"file://{meeting}", rank=rank, world_size=count)
    while True:
        try:
            job, args, tells = pipe.recv()
        except EOFError:
            break
        try:
            answer = job(rank, *args, *[lambda *content: pipe.send((False, content))] * tells)
        except ModelFailed as error:
            answer = _Failure(0, error.text, error.hint, error.trace)
        except RankFailed as error:
            answer = _Failure(2, str(error))
        except Exception as error:
            failure = failure_of(error)
            answer = _Failure(2 if is_lost(error) else 0, failure.text, trace=failure.trace)
        pipe.send((True, answer))
    dist.destroy_process_group()
