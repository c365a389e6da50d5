"""What a step has beside its passes in the JSON document of a schedule: the problem's part of it."""

from __future__ import annotations

from typing import Any

from pipesched.pipeline.memory import KEPT
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import plain
from pipesched.pipeline.step import Shard
from pipesched.pipeline.step_arguments import item_values


def step_document(problem: Problem) -> dict[str, Any]:
    """Return shard, step and side of a problem that has a step, as a config gives them, every default filled in."""
    if problem.shard is None:
        return {}
    return {
        "shard": _shard(problem.shard),
        "step": {"clip": problem.clip},
        "side": [item_values(item, plain) for item in problem.side],
    }


def _shard(shard: Shard) -> dict[str, Any]:
    ahead = list(shard.ahead) if isinstance(shard.ahead, tuple) else shard.ahead
    return {"level": shard.level, "ranks": shard.ranks, "ahead": ahead, "reduce": shard.reduce}


def kept_said(problem: Problem) -> bool:
    """Return whether a document says weights, gradients and states: where there is a step, or some memory of them."""
    return problem.has_step or any(any(getattr(problem.memory, key)) for key in KEPT)
