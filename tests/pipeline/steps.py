"""Problems with a step for tests, of stages that are alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipesched import make_problem
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.step import Shard

ZERO_BUBBLE = {"forward": 10, "backward_input": 10, "backward_weight": 10}
LEVELS_CASE: dict[str, Any] = {
    "devices": 2,
    "stages": 8,
    "microbatches": 4,
    "forward": 5,
    "backward": 10,
    "activation": 1,
}


def with_costs(shard: Shard | None = None, kept: tuple[int, int, int] = (0, 0, 0), **given: Any) -> Problem:
    """Return a problem with the costs `gather`, `reduce`, `optimizer` and `tied`, and weights, gradients and states."""
    costs = {key: given.pop(key) for key in ("gather", "reduce", "optimizer") if key in given}
    tied, clip, side = given.pop("tied", None), given.pop("clip", None), given.pop("side", ())
    problem = make_problem(**given)
    columns: dict[str, Any] = {key: (cost,) * problem.stages for key, cost in costs.items()}
    memory: dict[str, Any] = {
        key: (size,) * problem.stages for key, size in zip(("weights", "gradients", "states"), kept, strict=True)
    }
    return replace(
        problem,
        costs=replace(problem.costs, **columns, tied=tied),
        memory=replace(problem.memory, **memory),
        shard=shard,
        clip=clip,
        side=side,
    )
