"""Processes of this machine, one a rank: they join one process group, and run job after job.

They leave Ctrl-C to the process that started them, and end with it, however it ends.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import monotonic
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from pipesched.checks import joined
from pipesched.errors import PipeschedWarning, RankFailed
from pipesched.runtime.devices import CUDA, take_device

GRACE = 10.0  # seconds for a rank to end, or to say what it knows, when another one has failed


class _Failure(NamedTuple):
    """What a rank raised; the least `place` says most: its own error, its end, what it heard of another's."""

    place: int
    text: str


@contextmanager
def rank_processes(count: int, kind: str) -> Iterator[Callable[..., list[Any]]]:
    """Yield a function that calls `job(rank, *args)` on so many ranks, and returns what they return.

    The ranks use this kind of device. After `seconds` without an answer, or when a rank fails or dies, the function
    raises RankFailed; then no more jobs can run.
    """
    context = get_context("spawn")
    pipes, processes = [context.Pipe() for _ in range(count)], list[SpawnProcess]()
    with TemporaryDirectory() as folder:
        try:
            with _interrupts_wait():
                for rank, (_, theirs) in enumerate(pipes):
                    process = context.Process(target=_serve, args=(rank, count, kind, Path(folder, "meeting"), theirs))
                    process.start()
                    processes.append(process)
                    theirs.close()  # so that a dead process is seen as the end of its pipe
            yield partial(_run, processes, [ours for ours, _ in pipes])
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
    job: Callable[..., Any],
    *args: Any,
    seconds: float = float("inf"),
) -> list[Any]:
    waiting: dict[Any, int] = {pipe: rank for rank, pipe in enumerate(pipes)}
    answers: dict[int, Any] = {}
    for pipe in pipes:
        with suppress(BrokenPipeError):  # then it has ended, which shows below
            pipe.send((job, args))
    end = monotonic() + seconds
    while waiting and (ready := connection.wait(waiting, None if end == float("inf") else max(end - monotonic(), 0))):
        for answered in ready:
            rank = waiting.pop(answered)
            try:
                answers[rank] = pipes[rank].recv()
            except (EOFError, ConnectionError):
                answers[rank] = _end_of(rank, processes[rank])
            if isinstance(answers[rank], _Failure):
                end = min(end, monotonic() + GRACE)
    failures = [answer for answer in answers.values() if isinstance(answer, _Failure)]
    if not waiting and not failures:
        return [answers[rank] for rank in range(len(pipes))]
    for process in processes:
        process.kill()
    silent = f"no answer of rank {joined([*map(str, waiting.values())])} within {seconds:g} s"
    raise RankFailed(min(failures).text if failures else silent)


def _end_of(rank: int, process: SpawnProcess) -> _Failure:
    process.join(GRACE)
    code = process.exitcode or 0
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return _Failure(1, f"rank {rank} ended: process {rank} terminated with {how}")


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Keep Ctrl-C from processes that start, while they cannot ignore it, and from this one until the block ends."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(rank: int, count: int, kind: str, meeting: Path, pipe: Connection) -> None:
    """Join the others, then run jobs until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    Thread(target=_end_with_parent, daemon=True).start()
    warnings.simplefilter("ignore", PipeschedWarning)  # the process that started this one gives them
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    take_device(rank, kind)
    backend = "nccl" if kind == CUDA and count <= torch.cuda.device_count() else "gloo"  # NCCL wants a GPU for each
    dist.init_process_group(backend, init_method=f"file://{meeting}", rank=rank, world_size=count)
    while True:
        try:
            job, args = pipe.recv()
        except EOFError:
            break
        try:
            answer = job(rank, *args)
        except RankFailed as error:
            answer = _Failure(2, str(error))
        except Exception as error:
            answer = _Failure(0, f"{type(error).__name__}: {error}")
        pipe.send(answer)
    dist.destroy_process_group()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
