"""A schedule as a Chrome trace, ours or of PyTorch's `_dump_chrometrace`: all ranks in one file, on one clock.

Complete events are named like operations, `2F0`; a thread with slots is a rank, in the order of their numbers. What a
step has beside its passes, and communication, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from pipesched.analysis.measured.ranges import PER_UNIT, Range, Recorded, TraceSource, ops_of, ticks_of
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


def charted(entries: list[dict[str, Any]], said: Any, file: str) -> tuple[TraceSource, list[Recorded]]:
    """Return what each rank runs, in the unit of the schedule, which our file has `said` behind its events.

    Raises ConfigError for times that are none.
    """
    about: Mapping[str, Any] = said if isinstance(said, dict) and isinstance(said.get("time_unit"), str) else {}
    scale = ticks_of(about.get("microseconds_per_time_unit", 1), "microseconds_per_time_unit", file)
    rows, homes, moves = dict[Any, list[Range]](), dict[Op, Any](), list[Range]()
    for entry in entries:
        slot = slot_of(entry["name"])
        if slot is None:
            continue
        start, length = (ticks_of(entry.get(key), f"{key} of {slot}", file, PER_UNIT) for key in ("ts", "dur"))
        first, last = (round(Fraction(end, max(scale, 1))) for end in (start, start + length))
        one, thread = Range(slot, first, last), (entry.get("pid"), entry.get("tid"))
        if not isinstance(slot, Pair) and KINDS[slot.kind].is_transfer:
            moves.append(one)
        else:
            homes |= dict.fromkeys(ops_of(slot), thread)
            rows.setdefault(thread, []).append(one)
    for one in moves:  # of the rank that ran their forward
        rows.get(homes.get(ops_of(one.slot)[0]._replace(kind="F")), []).append(one)
    threads = sorted(rows, key=lambda thread: [(len(str(part)), str(part)) for part in thread])
    ranks = [
        Recorded(rank, file, {"0": sorted(rows[thread], key=lambda one: one[1:3])}, apart=True)
        for rank, thread in enumerate(threads)
    ]
    return TraceSource("chart of a schedule", about.get("time_unit", "us"), one_clock=True), ranks
