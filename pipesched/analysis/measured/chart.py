"""A schedule as a Chrome trace, ours or of PyTorch's `_dump_chrometrace`: all ranks in one file, on one clock.

Complete events are named like operations, `2F0`; a thread with slots is a rank, in the order of their numbers. What a
step has beside its passes, and communication, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pipesched.analysis.measured.ranges import Range, Recorded, TraceSource, ops_of, ticks_of
from pipesched.errors import ConfigError
from pipesched.pipeline.kinds import KINDS, LETTERS
from pipesched.pipeline.ops import Op, Pair, Slot, parse_op, parse_slot

CHARTED = (*LETTERS, "F&B", "computation")  # categories: ours, and PyTorch's
COMMUNICATION = ("SEND_", "RECV_", "UNSHARD", "RESHARD", "REDUCE_GRAD")  # what PyTorch's runtime records besides


def slot_of(text: str) -> Slot | None:
    """Return the slot or transfer of a name; None for communication, and for what is none of ours.

    Raises ConfigError for one of a slice.
    """
    if any(word in text for word in COMMUNICATION):
        return None
    try:
        slot = parse_slot(text) if text.startswith("(") else parse_op(text)
    except ConfigError:
        return None
    if any(op.is_sliced for op in ops_of(slot)):
        raise ConfigError(f"{text} is of a slice; traces of microbatches that are cut into slices are not read")
    return slot if all(op.kind in KINDS for op in ops_of(slot)) else None


class Chart:
    """The operations of a file, as they stand in it."""

    def __init__(self, file: str) -> None:
        self.file, self._slots = file, list[tuple[Slot, Any, Any, Any]]()

    def see(self, entry: Mapping[str, Any]) -> None:
        """Note an event, if it is an operation."""
        slot = slot_of(entry["name"])
        if slot is not None:
            self._slots.append((slot, (entry.get("pid"), entry.get("tid")), entry.get("ts"), entry.get("dur", 0)))

    def __bool__(self) -> bool:
        return bool(self._slots)

    def recorded(self, rest: Mapping[str, Any]) -> tuple[TraceSource, list[Recorded]]:
        """Return what each rank runs, in the unit of the schedule; `rest` is what the file has beside events.

        Raises ConfigError for times that are none.
        """
        said = rest.get("otherData")
        unit, scale = "us", Decimal(1)
        if isinstance(said, dict) and isinstance(said.get("time_unit"), str):
            unit, scale = said["time_unit"], Decimal(str(said.get("microseconds_per_time_unit", 1)))
        ranges, homes = dict[Any, list[Range]](), dict[Op, Any]()
        moves = list[Range]()
        for slot, thread, ts, dur in self._slots:
            for time in (ts, dur):
                ticks_of(time, f"time of {slot}", self.file)
            start, end = (ticks_of(one / scale, f"time of {slot}", self.file) for one in _ends(ts, dur))
            if not isinstance(slot, Pair) and KINDS[slot.kind].is_transfer:
                moves.append(Range(slot, start, end))
                continue
            homes |= dict.fromkeys(ops_of(slot), thread)
            ranges.setdefault(thread, []).append(Range(slot, start, end))
        for one in moves:  # of the rank that ran their forward
            home = homes.get(ops_of(one.slot)[0]._replace(kind="F"))
            if home is not None:
                ranges[home].append(one)
        rows = [sorted(ranges[thread], key=lambda one: one[1:3]) for thread in sorted(ranges)]
        ranks = [Recorded(rank, self.file, {"0": row}, apart=True) for rank, row in enumerate(rows)]
        return TraceSource("chart of a schedule", unit, one_clock=True), ranks


def _ends(ts: Any, dur: Any) -> tuple[Decimal, Decimal]:
    """Return start and end, without what rounding of both would add."""
    return Decimal(ts), Decimal(ts) + Decimal(dur)
