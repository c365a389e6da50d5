"""Problems whose step has more than passes, for tests: gathers, reductions, optimizers, shards and side work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pipesched
from pipesched.pipeline.step import Shard, SideItem

OF_COSTS, OF_MEMORY = ("gather", "reduce", "optimizer"), ("weights", "gradients", "states")
REDUCED = {"devices": 4, "microbatches": 8, "forward": 10, "gather": 15, "reduce": 30, "optimizer": 5}
SHARDED = {
    "devices": 2, "stages": 8, "microbatches": 4, "forward": 5, "backward": 10, "activation": 1, "gather": 4,
    "reduce": 4, "weights": 2, "gradients": 4, "states": 12, "shard": Shard("weights"),
}  # fmt: skip


def stepped(**given: Any) -> pipesched.Problem:
    """The problem of these parameters of make_problem, costs and memory of a step among them: one number each."""
    own = {key: given.pop(key) for key in (*OF_COSTS, *OF_MEMORY, "tied", "shard", "clip", "side") if key in given}
    problem = pipesched.make_problem(**given)
    columns = {key: (own[key],) * problem.stages for key in (*OF_COSTS, *OF_MEMORY) if key in own}
    costs: Any = {key: columns[key] for key in OF_COSTS if key in columns}
    memory: Any = {key: columns[key] for key in OF_MEMORY if key in columns}
    return replace(
        problem,
        costs=replace(problem.costs, **costs, tied=own.get("tied")),
        memory=replace(problem.memory, **memory),
        shard=own.get("shard"),
        clip=own.get("clip"),
        side=own.get("side", ()),
    )


def side(devices: int, **more: Any) -> tuple[SideItem, ...]:
    """One item of side work that all devices may do: forward 2, backward 4."""
    return (SideItem(**{"forward": (2,), "backward": (4,), "devices": (*range(devices),), **more}),)
