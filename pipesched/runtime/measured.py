"""What a rank measures in a step: when its operations ran, how long they waited, and the bytes that were alive.

Times are marks of the device, which is a GPU's own clock where the host only enqueues; see `Transfers.mark`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pipesched.pipeline.kinds import KINDS
from pipesched.pipeline.ops import Op


class OperationRecord(NamedTuple):
    """One operation: marks of when it was its turn, its input was there, and it ended; and bytes.

    `live` are those of all activations of the rank behind it, `moved` those that it moved.
    """

    op: Op
    turn: Any
    start: Any
    end: Any
    live: int
    moved: int


class Measured:
    """The operations of one step."""

    def __init__(self) -> None:
        self.entries: list[OperationRecord] = []
        self._held: dict[tuple[int, int], int] = {}
        self._live = 0

    def note(self, op: Op, turn: Any, start: Any, end: Any, held: int, moved: int) -> None:
        """Note an operation: `held` is what its microbatch now holds on its stage, `moved` what it moved."""
        owner = (op.stage, op.microbatch)
        self._live += held - self._held.get(owner, 0)
        self._held[owner] = held
        self.entries.append(OperationRecord(op, turn, start, end, self._live, moved))


def report_of(rank: int, step: int, measured: Measured, between: Callable[[Any, Any], float]) -> dict[str, Any]:
    """Return the document of a step: milliseconds since its first operation (`between` two marks), and bytes."""
    entries = measured.entries
    first = entries[0].turn if entries else None
    begin = min((between(first, entry.turn) for entry in entries), default=0.0)
    filled: dict[tuple[int, int], int] = {}
    before, freed, held = 0, 0, 0
    for entry in entries:
        owner, change = entry.op[::2], entry.live - before
        kind = KINDS[entry.op.kind]
        if kind.is_transfer and kind.gives:
            freed += entry.moved
            held += filled.get(owner, 0)
        filled[owner] = filled.get(owner, 0) + change
        before = entry.live
    return {
        "rank": rank,
        "step": step,
        "time_unit": "ms",
        "operations": [
            {
                "op": str(entry.op),
                "start": between(first, entry.start) - begin,
                "end": between(first, entry.end) - begin,
                "waited": between(entry.turn, entry.start),
                "live_bytes": entry.live,
            }
            for entry in entries
        ],
        "peak_bytes": max((entry.live for entry in entries), default=0),
        "live_bytes": before,
        "offloaded_bytes": freed,
        "freed_fraction": freed / held if held else None,
    }
