"""A pool of processes, one a rank, that join one gloo group when it is made and then run job after job.

A job is a function of a module of tests: it is called on every rank with the rank, the group of the first so many
ranks, and its arguments. PyTorch is imported by the processes alone.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

import pytest

SECONDS = 60  # for one job: one that hangs is stopped then
TOO_LATE = "no answer in time"
DEVICE = os.environ.get("PIPESCHED_TEST_DEVICE", "cpu")  # cuda: ranks share GPUs where these are too few


class Failed(Exception):
    """A job raised an exception on some rank, or did not end in time."""


class Pool:
    """Processes that wait for jobs. After a failure of a job itself they are replaced."""

    def __init__(self, count: int, folder: Path) -> None:
        self.count, self.folder, self._started = count, folder, 0
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload(["torch.distributed.pipelining", "pipesched.runtime.run"])
        self._start()

    def _start(self) -> None:
        self._started += 1
        meeting = self.folder / f"meeting{self._started}"
        pipes = [self._context.Pipe() for _ in range(self.count)]
        self._pipes = [ours for ours, _ in pipes]
        self.processes = [
            self._context.Process(target=_serve, args=(rank, self.count, meeting, theirs), daemon=True)
            for rank, (_, theirs) in enumerate(pipes)
        ]
        for process in self.processes:
            process.start()
        for _, theirs in pipes:
            theirs.close()  # so that a dead process is seen as the end of its pipe

    def run(self, size: int, job: Callable[..., Any], *args: Any, seconds: float = SECONDS) -> list[Any]:
        """What the job returns on each of the first `size` ranks; None where the process died. Raises Failed."""
        for pipe in self._pipes:
            pipe.send((size, job, args))
        answers: list[Any] = []
        wrong = None
        for pipe in self._pipes:
            try:
                answer = pipe.recv() if pipe.poll(seconds) else TOO_LATE
            except EOFError:
                answer = (None,)
            if isinstance(answer, str):
                wrong = answer
                break
            answers += answer
        if wrong is not None or None in answers[:size]:
            self.stop()
            self._start()
        if wrong is not None:
            raise Failed(wrong)
        return answers[:size]

    def stop(self) -> None:
        """End the processes."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()


def pool_of(count: int) -> Any:
    """A fixture of a module: so many processes."""

    @pytest.fixture(scope="module")
    def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
        made = Pool(count, tmp_path_factory.mktemp("ranks"))
        yield made
        made.stop()

    return pool


def _serve(rank: int, count: int, meeting: Path, pipe: connection.Connection) -> None:
    """One rank: join the others, then answer jobs until the process is killed."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    address, limit = f"file://{meeting}", timedelta(seconds=SECONDS)
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=count, timeout=limit)
    groups = {size: dist.new_group(range(size), timeout=limit) for size in range(1, count + 1)}
    while True:
        size, job, args = pipe.recv()
        try:
            pipe.send((job(rank, groups[size], *args) if rank < size else 0,))
        except Exception:
            pipe.send(traceback.format_exc())
