"""When a GPU ran an operation: from the first to the last of what was launched inside its range on the CPU.

Launches of all threads count, because a backward launches from a thread of autograd, which the profiler's own ranges of
the GPU leave out. Messages do not count: NCCL's kernels wait for other ranks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from pipesched.analysis.measured.ranges import ticks_of

LAUNCHES, RAN = ("cuda_runtime", "cuda_driver"), ("kernel", "gpu_memcpy", "gpu_memset")
MESSAGE = "nccl"


class Span(NamedTuple):
    """A time on the clock of a trace, in ticks."""

    start: int
    end: int


class GpuSpans:
    """What a trace says that the GPU ran, by when the CPU launched it."""

    def __init__(self, entries: Iterable[Any], file: str) -> None:
        ran, launched = dict[Any, Span](), list[tuple[int, Any]]()
        for entry in entries:
            number = _correlation(entry)
            if number is None:
                continue
            start = ticks_of(entry.get("ts"), "ts of a launch", file)
            if entry["cat"] in LAUNCHES:
                launched.append((start, number))
            elif MESSAGE not in str(entry.get("name")).lower():
                end = start + ticks_of(entry.get("dur", 0), "dur of a kernel", file)
                before = ran.get(number, Span(start, end))  # one launch of a graph runs many kernels
                ran[number] = Span(min(before.start, start), max(before.end, end))
        launched.sort(key=itemgetter(0))
        known = [(start, ran[number]) for start, number in launched if number in ran]
        self._starts, self._spans = [start for start, _ in known], [span for _, span in known]

    def of(self, start: int, end: int) -> Span | None:
        """Return when the GPU ran what was launched in a time of the CPU; None where that was nothing."""
        inside = self._spans[bisect_left(self._starts, start) : bisect_right(self._starts, end)]
        return Span(min(span.start for span in inside), max(span.end for span in inside)) if inside else None


def _correlation(entry: Any) -> Any:
    """Return the number that a launch and what it ran have in common; None for other entries."""
    if not isinstance(entry, Mapping) or entry.get("ph") != "X" or entry.get("cat") not in (*LAUNCHES, *RAN):
        return None
    given = entry.get("args")
    return given.get("correlation") if isinstance(given, Mapping) else None
