"""What data-parallel ranks divide (`shard`), as facts for the tables of frameworks, and who cannot do it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipesched.pipeline.step import GRADIENTS, LEVELS, NOTHING, OPTIMIZER_STATES, WEIGHTS, Shard

PARTS = {OPTIMIZER_STATES: "optimizer states", GRADIENTS: "gradients", WEIGHTS: "weights"}  # that a level adds
ZERO_1 = (NOTHING, OPTIMIZER_STATES)  # the levels of frameworks that divide no more than optimizer states


def facts_of_shard(shard: Shard | None, data: int = 0, context: int = 1) -> dict[str, Any]:
    """Return what `shard` says, by the keys of the tables; `data` x `context` ranks have the same weights, if known.

    `ranks` of them divide these, `replicas` groups do; `shards` is how many these are without ranks that share a
    sequence.
    """
    if shard is None:
        return {"replicated": True}
    total, of_optimizer, is_fsdp = data * context, shard.level == OPTIMIZER_STATES, shard.divides(GRADIENTS)
    return {
        "undivided": shard.level == NOTHING, "distributed_optimizer": of_optimizer, "overlapped": of_optimizer,
        "fsdp": is_fsdp, "replicated": not is_fsdp, "reshard": "always" if shard.divides(WEIGHTS) else "never",
        "ranks": shard.ranks, "same": total, "replicas": total // shard.ranks, "shards": shard.ranks // context,
        "instances": of_optimizer and shard.ranks < total,
    }  # fmt: skip


def lacks_level(shard: Shard | None, levels: tuple[str, ...]) -> str:
    """Return which parts of `shard` a framework with these levels does not divide; "" where it divides them all."""
    if shard is None or shard.level in levels:
        return ""
    above = LEVELS[1 : LEVELS.index(shard.level) + 1]
    return " and ".join(PARTS[level] for level in above if level not in levels)


def is_uneven(facts: Mapping[str, Any], context: int) -> bool:
    """Return whether groups of ranks do not come out even, among all ranks or those that share a sequence."""
    return bool(facts["same"] % facts["ranks"] or facts["ranks"] % context)
