"""Training of the package's small model by a plan, as a job for the processes of a pool."""

from __future__ import annotations

import os
import signal
from time import monotonic, sleep
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


def notices(rank: int, group: Any, how: str) -> bool:
    """Return whether a rank is told within two seconds that rank 1 is gone, which never comes back."""
    team = Team(group)
    team.agree("a plan", None)
    team.watch()
    team.meet()
    if rank == 1:
        if how == "by its end":
            os.kill(os.getpid(), signal.SIGKILL)
        team.tell("why") if how == "by a reason" else team.close()
        return False
    until = monotonic() + 2
    while monotonic() < until:
        try:
            team.require_all()
        except LostRank:
            sleep(2)  # so that no other rank sees this one end
            team.close()
            return True
        sleep(0.05)
    team.close()
    return False


def shares_gpus(rank: int, group: Any, names: list[str | None]) -> bool:
    """Return whether ranks know that some share a GPU, by the names of these."""
    team = Team(group)
    team.agree("a plan", None, names[rank])
    team.meet()  # else one closes a connection that the other still makes
    team.close()
    return team.shares_gpus
