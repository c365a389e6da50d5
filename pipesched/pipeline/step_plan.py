"""What a plan has of the step beside its passes: the programs of network lanes, and the numbers of their operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pipesched.pipeline.kinds import NETWORK_KINDS, STEP_SLOTS
from pipesched.pipeline.ops import NO_NUMBER, Op, OpIndex, ScopedRows

NOTHING_BEFORE = -1


class NetworkEntry(NamedTuple):
    """An operation of a network lane, by its number, and the slot of the device behind whose end it is issued.

    That is the number of the slot, of a pair that of its forward; NOTHING_BEFORE: it is issued at once.
    """

    number: int
    after: int = NOTHING_BEFORE


Program = Sequence[NetworkEntry]


def with_scoped(index: OpIndex, ops: Iterable[Op], sides: int) -> OpIndex:
    """Return the index with rows that are long enough for these operations of the step, of so many side items.

    Those that devices run are numbered first: they keep their numbers when what lanes move is added.
    """
    counts: dict[str, list[int]] = {}
    numbered: dict[str, bool] = {}
    for op in ops:
        places = sides if op.kind in SIDE_KINDS else index.stages
        row = counts.setdefault(op.kind, [0] * places)
        row[op.stage] = max(row[op.stage], max(op.microbatch, 0) + 1)
        numbered[op.kind] = op.microbatch != NO_NUMBER
    kinds = [kind for kind in (*STEP_SLOTS, *NETWORK_KINDS) if kind in counts]
    return index._replace(scoped=tuple(ScopedRows(kind, tuple(counts[kind]), numbered[kind]) for kind in kinds))


SIDE_KINDS = ("E", "G")


def lane_of(program: Program, index: OpIndex) -> list[int]:
    """Return what the lane itself moves: all of a program but RESHARD, which occupies nothing."""
    free = index.of_kind("RESHARD") if any(rows.kind == "RESHARD" for rows in index.scoped) else range(0)
    return [entry.number for entry in program if entry.number not in free]


def stages_along(slots: Iterable[int], pairs: Mapping[int, int], index: OpIndex, count: int) -> dict[int, int]:
    """Return the first of some slots of each of `count` stages, in this order."""
    found: dict[int, int] = {}
    first = index.passes
    for slot in slots:
        if len(found) == count:
            break
        for number in (slot, pairs.get(slot, slot)):
            if number < first:
                found.setdefault(index.stage_of(number), slot)
    return found


def ends_of_stages(order: Sequence[int], pairs: Mapping[int, int], index: OpIndex, count: int) -> dict[int, int]:
    """Return the place in a device's order of the last B or W of each of its `count` stages, found from the end."""
    weights = [index.of_kind(kind) for kind in "BW" if kind in index.letters]
    found: dict[int, int] = {}
    for place in range(len(order) - 1, -1, -1):
        number = pairs.get(order[place], order[place])
        if any(number in row for row in weights):
            found.setdefault(index.stage_of(number), place)
            if len(found) == count:
                break
    return found
