"""Schedules that are no step of whole microbatches without side work, which is all that most trainers run."""

from __future__ import annotations

from pipesched.pipeline.problem import Problem
from pipesched.pipeline.units import FORWARD_ONLY


def no_whole_step(problem: Problem, trainer: str, *, takes_slices: bool = False) -> str | None:
    """Return why a trainer of whole microbatches, with their backwards, runs no schedule of a problem; None if it may.

    `trainer` is its name in the text; one that `takes_slices` runs microbatches in parts too.
    """
    if problem.mode == FORWARD_ONLY:
        return f"{trainer} trains, and this schedule has forward passes alone"
    if problem.slices.count > 1 and not takes_slices:
        return f"{trainer} runs whole microbatches, and this schedule cuts each into {problem.slices.count} slices"
    if problem.side:
        return f"{trainer} has no side work in its schedules, and this one has (operations E and G)"
    return None
