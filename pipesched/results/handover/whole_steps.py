"""Schedules that are no step of whole microbatches, which is all that most trainers run."""

from __future__ import annotations

from pipesched.pipeline.problem import Problem
from pipesched.pipeline.units import FORWARD_ONLY


def no_whole_step(problem: Problem, trainer: str) -> str | None:
    """Return why a trainer of whole microbatches, with their backwards, runs no schedule of a problem; None if it may.

    `trainer` is its name in the text.
    """
    if problem.mode == FORWARD_ONLY:
        return f"{trainer} trains, and this schedule has forward passes alone"
    if problem.slices.count > 1:
        return f"{trainer} runs whole microbatches, and this schedule cuts each into {problem.slices.count} slices"
    return None
