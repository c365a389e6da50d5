"""Training of the package's small model by a plan, as a job for the processes of a pool."""

from __future__ import annotations

import os
import signal
from threading import Event
from typing import Any

from pipesched.runtime import run
from pipesched.runtime.team import LostRank, Team
from pipesched.runtime.unpipelined import RankComparison, compare_rank
from tests.runtime_ranks import DEVICE


def train(rank: int, group: Any, source: Any, steps: int, sizes: Any = None) -> RankComparison:
    """Steps of this rank's stages by a document, in float64 and with dropout, against the model in one piece."""
    return compare_rank(rank, source, DEVICE, "float64", group, steps, sizes)


def stand_apart(rank: int) -> None:
    """Let NCCL and the runtime take this rank for one with a machine and a GPU of its own, though all share one.

    NCCL then sends through sockets.
    """
    os.environ.update(NCCL_HOSTID=f"machine {rank}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")
    vars(run)["name_of_gpu"] = lambda _: f"gpu {rank}"


def train_apart(rank: int, group: Any, source: Any, steps: int, sizes: Any = None) -> RankComparison:
    """Train as `train` does, with messages by NCCL."""
    stand_apart(rank)
    return train(rank, group, source, steps, sizes)


class Waiting:
    """What waits until it is told to give up, for at most some seconds."""

    def __init__(self) -> None:
        self._told = Event()

    def give_up(self) -> None:
        self._told.set()

    def wait(self, seconds: float) -> bool:
        """Return whether it was told."""
        return self._told.wait(seconds)


def notices(rank: int, group: Any, how: str) -> tuple[bool, bool]:
    """Return whether a rank gives up when rank 1 ends and all others after they have, and whether it knows why."""
    team, waiting = Team(group), Waiting()
    team.agree("a plan", None)
    team.watch(waiting.give_up)
    team.meet()
    if rank == 1:
        if how == "by its end":
            os.kill(os.getpid(), signal.SIGKILL)
        team.close()
        return waiting.wait(10), True
    told = waiting.wait(20)
    try:
        team.require_all()
    except LostRank:
        team.close()
        return told, True
    return told, False


def shares_gpus(rank: int, group: Any, names: list[str | None]) -> bool:
    """Return whether ranks know that some share a GPU, by the names of these."""
    team = Team(group)
    team.agree("a plan", None, names[rank])
    team.meet()  # else one closes a connection that the other still makes
    team.close()
    return team.shares_gpus
