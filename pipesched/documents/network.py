"""The programs of network lanes in the JSON document of a schedule: writing them, and reading them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipesched.documents.entries import WrittenSlot, written_entries
from pipesched.errors import ConfigError
from pipesched.pipeline.op_texts import parse_network
from pipesched.pipeline.ops import Op, Pair
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule

NETWORK = "network"


def network_document(schedule: Schedule) -> list[list[dict[str, Any]]]:
    """Return what each network lane moves, in the order of its program; `after` is the text of a slot, or null."""
    return [
        [
            {"op": str(op), "start": start, "end": end, "after": None if after is None else str(after)}
            for op, start, end, after in program
        ]
        for program in schedule.network
    ]


def read_network(problem: Problem, content: dict[str, Any]) -> list[list[WrittenSlot]]:
    """Return what a document says of each network lane; nothing where the problem has no step. Raises ConfigError."""
    if problem.has_step:
        return written_entries(problem, content, NETWORK, parse_network)
    if NETWORK in content:
        raise ConfigError(f"{NETWORK!r} is for a problem with a step: costs of gather or reduce, shard, side, ..")
    return []


def programs_of(network: Sequence[Sequence[WrittenSlot]]) -> list[list[tuple[Op, Op | None]]]:
    """Return the operations of each lane, each with the slot behind which it is issued, of a pair its forward."""
    return [
        [
            (entry.slot, entry.after.forward if isinstance(entry.after, Pair) else entry.after)
            for entry in row
            if isinstance(entry.slot, Op)
        ]
        for row in network
    ]
