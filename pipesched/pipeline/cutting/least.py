"""The cut with the least largest cost: exact where stages stand in runs or there are few cuts, else nearly."""

from __future__ import annotations

from functools import lru_cache
from math import comb

from pipesched.pipeline.cutting.every import EverySearch
from pipesched.pipeline.cutting.lanes import LaneSearch, lanes_of
from pipesched.pipeline.cutting.runs import cut_runs, runs_of
from pipesched.pipeline.cutting.task import CutTask, Ends, least_cost

FEW = 200_000  # cuts, of which the best is found
NEARLY = 5  # thousandths above the least cost, where there are more
MOST_LOOKED = 400_000  # stages that are looked at for one cost


@lru_cache(maxsize=256)
def least_cut(task: CutTask) -> Ends | None:
    """Return where the stages of the best cut end; None if none is within memory, or none was found."""
    if task.items < task.stages:
        return None
    runs = runs_of(task)
    if runs is not None:
        return cut_runs(task, runs)
    if comb(task.items - 1, task.stages - 1) <= FEW:
        return least_cost(task, EverySearch(task).any_within)
    lanes = lanes_of(task)
    search = EverySearch(task, MOST_LOOKED) if lanes is None else LaneSearch(task, lanes, MOST_LOOKED)
    return least_cost(task, search.any_within, NEARLY)
