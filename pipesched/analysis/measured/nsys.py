"""Exports of Nsight Systems in SQLite (`nsys export --type sqlite`), read as ranges with names of their own.

A process is a rank: the last number in the name of its file, or of one file in the order of its process numbers.
(docs.nvidia.com/nsight-systems, "SQLite schema": nanoseconds; bits 24.. of a globalTid and a globalPid.)
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

from pipesched.analysis.measured.ranges import TraceSource
from pipesched.checks import shown
from pipesched.errors import ConfigError

SOURCE = TraceSource("Nsight Systems", "us")
MAGIC = "SQLite format 3\0"
ACTIVITY = "CUPTI_ACTIVITY_KIND_"
TEXT = "(SELECT value FROM StringIds WHERE id = {})"
TABLES = {  # each with the categories of torch.profiler, a name, what joins launches and kernels, and the process
    "NVTX_EVENTS": (("user_annotation", "gpu_user_annotation"), f"COALESCE(text, {TEXT.format('textId')})", "0", "Tid"),
    f"{ACTIVITY}RUNTIME": (("cuda_runtime",), "''", "correlationId", "Tid"),
    f"{ACTIVITY}KERNEL": (("kernel",), TEXT.format("shortName"), "correlationId", "Pid"),
    f"{ACTIVITY}MEMCPY": (("gpu_memcpy",), "''", "correlationId", "Pid"),
    f"{ACTIVITY}MEMSET": (("gpu_memset",), "''", "correlationId", "Pid"),
}


def events(file: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the processes of ranges, launches and kernels, each as an event of torch.profiler. Raises ConfigError."""
    try:
        with closing(sqlite3.connect(f"{Path(file).absolute().as_uri()}?mode=ro", uri=True)) as base:
            known = {name for (name,) in base.execute("SELECT name FROM sqlite_master")}
            for table, (categories, name, number, process) in TABLES.items():
                columns = f"{name}, start, end, {number}, global{process} >> 24"
                rows = base.execute(f"SELECT {columns} FROM {table} WHERE end IS NOT NULL") if table in known else ()
                for text, start, end, join, whose in rows:
                    times = {"ts": Decimal(start).scaleb(-3), "dur": Decimal(end - start).scaleb(-3)}
                    for category in categories:  # the GPU has a range where it ran what was launched inside
                        of = {"ph": "X", "cat": category, "name": text, "tid": 0, "args": {"correlation": join}}
                        yield whose, {**of, **times}
    except sqlite3.Error as error:
        raise ConfigError(f"{shown(file, 300)} is no export of Nsight Systems: {error}") from None


def rank_of(file: str, processes: int) -> int:
    """Return the rank that a file's name says. Raises ConfigError where it says none, or several ran."""
    numbers = re.findall(r"\d{1,9}", Path(file).stem)
    if processes > 1 or not numbers:
        why = f"{processes} processes have such ranges" if processes > 1 else "its name has no number"
        raise ConfigError(f"{file} does not say whose it is: {why}; give a file of each rank, run_0.sqlite, ..")
    return int(numbers[-1])
