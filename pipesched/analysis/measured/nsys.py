"""Exports of Nsight Systems in SQLite (`nsys export --type sqlite`): NVTX ranges by names of their own.

Where the CPU launched kernels inside a range, its times are theirs. Times are nanoseconds. A process is a rank: of a
file for each rank the last number in its name says which one, in one file the order of process numbers.
(docs.nvidia.com/nsight-systems, "SQLite schema": the process is bits 24 to 47 of a globalTid and a globalPid.)
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from pipesched.analysis.measured.counted import Counted, CountedRank, letter_of
from pipesched.analysis.measured.ranges import TraceSource
from pipesched.analysis.measured.torch_profiler import GpuSpans
from pipesched.checks import shown
from pipesched.errors import ConfigError

SOURCE = TraceSource("Nsight Systems", "us")
MAGIC = b"SQLite format 3\0"
TICKS = 1000  # in a nanosecond
RANGES = (
    "SELECT COALESCE(text, (SELECT value FROM StringIds WHERE id = textId)), start, end, globalTid >> 24"
    " FROM NVTX_EVENTS WHERE end IS NOT NULL ORDER BY start"
)
RAN = {
    "KERNEL": "(SELECT value FROM StringIds WHERE id = shortName)",
    "MEMCPY": "''",
    "MEMSET": "''",
}  # tables of what the GPU ran, each with the name


def read(file: str, names: Mapping[str, str], *, alone: bool) -> list[CountedRank]:
    """Return the ranges of the ranks in a file; of one that is not `alone`, its name says the rank.

    Raises ConfigError for a file that cannot be read, that holds none, or that says no rank.
    """
    if not names:
        raise ConfigError(f"{file} has ranges with names of its own: say what they are, forward_step=F", "ranges")
    try:
        base = sqlite3.connect(f"{Path(file).absolute().as_uri()}?mode=ro", uri=True)
        try:
            found = _by_process(base, names, file)
        finally:
            base.close()
    except sqlite3.Error as error:
        raise ConfigError(f"{shown(file, 300)} is no export of Nsight Systems: {error}") from None
    if not found:
        raise ConfigError(f"{file} holds no range with one of the names of `ranges`")
    if alone:
        return [CountedRank(rank, file, found[process]) for rank, process in enumerate(sorted(found))]
    numbers = re.findall(r"\d{1,9}", Path(file).stem)
    if len(found) > 1 or not numbers:
        why = f"{len(found)} processes have such ranges" if len(found) > 1 else "its name has no number"
        raise ConfigError(f"{file} does not say whose it is: {why}; give a file of each rank, run_0.sqlite, ..")
    return [CountedRank(int(numbers[-1]), file, next(iter(found.values())))]


def _by_process(base: sqlite3.Connection, names: Mapping[str, str], file: str) -> dict[int, list[Counted]]:
    tables = {name for (name,) in base.execute("SELECT name FROM sqlite_master")}
    spans: dict[int, GpuSpans] = {}
    if "CUPTI_ACTIVITY_KIND_RUNTIME" in tables:
        query = "SELECT start, correlationId, globalTid >> 24 FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        for start, number, process in base.execute(query):
            spans.setdefault(process, GpuSpans((), file)).launch(start * TICKS, number)
    for kind, name in RAN.items():
        if f"CUPTI_ACTIVITY_KIND_{kind}" in tables:
            query = f"SELECT correlationId, {name}, start, end, globalPid >> 24 FROM CUPTI_ACTIVITY_KIND_{kind}"
            for number, what, start, end, process in base.execute(query):
                if process in spans:
                    spans[process].run(number, str(what), start * TICKS, (end - start) * TICKS)
    found: dict[int, list[Counted]] = {}
    for text, start, end, process in base.execute(RANGES):
        letter = letter_of(str(text), names)
        if letter:
            ran = spans[process].of(start * TICKS, end * TICKS) if process in spans else None
            found.setdefault(process, []).append(Counted(letter, *(ran or (start * TICKS, end * TICKS))))
    return found
