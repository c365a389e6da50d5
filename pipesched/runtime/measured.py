"""What a rank measures in a step: when its operations ran, how long they waited, and the bytes that were alive."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any, NamedTuple

from pipesched.pipeline.kinds import KINDS
from pipesched.pipeline.ops import Op


class OperationRecord(NamedTuple):
    """One operation: nanoseconds, and the bytes of all activations of the rank behind it."""

    op: Op
    start: int
    end: int
    waited: int
    live: int
    moved: int


class Measured:
    """The operations of one step."""

    def __init__(self) -> None:
        self.entries: list[OperationRecord] = []
        self._held: dict[tuple[int, int], int] = {}
        self._live = 0

    @staticmethod
    def now() -> int:
        """Return the time, in nanoseconds of a clock that only goes forwards."""
        return perf_counter_ns()

    def note(self, op: Op, start: int, end: int, waited: int, held: int, moved: int) -> None:
        """Note an operation: `held` is what its microbatch now holds on its stage, `moved` what it moved."""
        owner = (op.stage, op.microbatch)
        self._live += held - self._held.get(owner, 0)
        self._held[owner] = held
        self.entries.append(OperationRecord(op, start, end, waited, self._live, moved))


def report_of(rank: int, step: int, measured: Measured) -> dict[str, Any]:
    """Return the document of a step: milliseconds since its first operation, and bytes."""
    entries = measured.entries
    begin = min((entry.start - entry.waited for entry in entries), default=0)
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
                "start": (entry.start - begin) / 1e6,
                "end": (entry.end - begin) / 1e6,
                "waited": entry.waited / 1e6,
                "live_bytes": entry.live,
            }
            for entry in entries
        ],
        "peak_bytes": max((entry.live for entry in entries), default=0),
        "live_bytes": before,
        "offloaded_bytes": freed,
        "freed_fraction": freed / held if held else None,
    }
