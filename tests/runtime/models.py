"""Training of the package's small model by a plan, as a job for the processes of a pool."""

from __future__ import annotations

import os
from typing import Any

from pipesched.runtime.team import Team
from pipesched.runtime.unpipelined import RankComparison, compare_rank

KIND = os.environ.get("PIPESCHED_TEST_DEVICE", "cpu")  # cuda: the ranks of a pool share GPUs where these are too few


def train(rank: int, group: Any, source: Any, steps: int, sizes: Any = None) -> RankComparison:
    """Steps of this rank's stages by a document, in float64 and with dropout, against the model in one piece."""
    return compare_rank(rank, source, KIND, "float64", group, steps, sizes)


def shares_gpus(rank: int, group: Any, names: list[str | None]) -> bool:
    """Return whether ranks know that some share a GPU, by the names of these."""
    team = Team(group)
    team.agree("a plan", None, names[rank])
    team.meet()  # else one closes a connection that the other still makes
    team.close()
    return team.shares_gpus
