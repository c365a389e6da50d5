"""What goes wrong with ranks, as jobs for their processes."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import torch

from pipesched import ConfigError, RankFailed
from pipesched.runtime import run
from pipesched.runtime.program import RUN
from pipesched.runtime.rank_processes import rank_processes
from pipesched.runtime.stage import StageRunner
from pipesched.runtime.training import train_rank
from pipesched.runtime.unpipelined import RankComparison, compare_rank


def compare_with_another_dropout(rank: int, *given: Any) -> RankComparison:
    """Compare, with a defect: on rank 1 a forward that runs again draws other random numbers than the first time."""
    right = StageRunner.recompute

    def wrong(self: StageRunner, microbatch: int) -> None:
        self._step += 1000
        right(self, microbatch)
        self._step -= 1000

    if rank == 1:
        StageRunner.recompute = wrong  # type: ignore[method-assign]
    return compare_rank(rank, *given)


def verify_without_a_weight(rank: int, *given: Any) -> Any:
    """Verify, with a program that was corrupted: the last stage leaves the first W out."""
    from pipesched.runtime.program import programs as right

    def corrupted(schedule: Any) -> Any:
        lists = right(schedule)
        lists[-1].remove(next(step for step in lists[-1] if step.action == RUN and step.op.kind == "W"))
        return lists

    vars(run)["programs"] = corrupted
    return train_rank(rank, *given)


def compare_and_die(rank: int, *given: Any) -> RankComparison:
    """Compare, but rank 1 is killed."""
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return compare_rank(rank, *given)


def number(rank: int, *more: Any) -> tuple[Any, ...]:
    """Return the rank, what it was given, and how many threads its PyTorch has."""
    return (rank, *more, torch.get_num_threads())


def fail(rank: int, what: str) -> None:
    """Raise on rank 1, or die, and let rank 0 hear of it; or exit, or stay silent, of which it does not."""
    if rank == 0 and what in ("raises", "dies"):
        raise RankFailed("rank 1 is gone, says rank 0")
    if rank == 1 and what == "raises":
        raise ConfigError("is wrong", "it")
    if rank == 1 and what == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 1 and what == "exits":
        os._exit(3)
    time.sleep(600)


def hang() -> None:
    """Start two ranks that sleep, and say on stdout when they do, and by which ids."""
    with rank_processes(2, "cpu") as call:
        sys.stdout.write(f"{call(own_id)}\n")
        sys.stdout.flush()
        call(fail, "is silent")


def own_id(rank: int) -> int:
    """Return the id of the process."""
    return os.getpid()


def start_and_die() -> None:
    """Start a rank, and be killed in the instant between its begin and what tells it to serve."""
    from multiprocessing import resource_tracker, util

    resource_tracker.ensure_running()
    starts: Any = vars(util)["spawnv_passfds"]

    def killed(*words: Any) -> None:
        starts(*words)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(util, "spawnv_passfds", killed)  # noqa: B010  mypy does not know it
    with rank_processes(2, "cpu"):
        pass


if __name__ == "__main__":
    if sys.argv[1:] == ["killed"]:
        start_and_die()
    try:
        hang()
    except KeyboardInterrupt:
        sys.exit(130)
