"""Traces of other tools as events of torch.profiler: OpenTelemetry spans (OTLP JSON), SQLite of Nsight Systems.

A resource of spans is a rank: its `dl.rank`, or the number in `service.instance.id`; else each is another one. So is a
process of Nsight Systems: the last number in the name of its file, or of one file in the order of process numbers.
(opentelemetry.io/docs/specs/otlp, JSON encoding; NVIDIA/Megatron-LM of August 2026, its observability guide;
docs.nvidia.com/nsight-systems, "SQLite schema": nanoseconds; bits 24.. of a globalTid and a globalPid.)
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

from pipesched.analysis.measured.ranges import TraceSource
from pipesched.checks import shown
from pipesched.errors import ConfigError

OTLP, NSYS = TraceSource("OpenTelemetry", "us"), TraceSource("Nsight Systems", "us")
MEGATRON = {"megatron.microbatch.forward": "F", "megatron.microbatch.backward": "B"}
RANKS = ("dl.pipeline_parallel.rank", "dl.rank", "service.instance.id")
MICROBATCHES = ("megatron.microbatch_id", "dl.microbatch_id")
NUMBER = re.compile(r"(?:.*rank)?(\d{1,9})", re.DOTALL)
MAGIC, ACTIVITY = "SQLite format 3\0", "CUPTI_ACTIVITY_KIND_"
TEXT = "(SELECT value FROM StringIds WHERE id = {})"
TABLES = {  # each with the categories of torch.profiler, a name, what joins launches and kernels, and the process
    "NVTX_EVENTS": (("user_annotation", "gpu_user_annotation"), f"COALESCE(text, {TEXT.format('textId')})", "0", "Tid"),
    f"{ACTIVITY}RUNTIME": (("cuda_runtime",), "''", "correlationId", "Tid"),
    f"{ACTIVITY}KERNEL": (("kernel",), TEXT.format("shortName"), "correlationId", "Pid"),
    f"{ACTIVITY}MEMCPY": (("gpu_memcpy",), "''", "correlationId", "Pid"),
    f"{ACTIVITY}MEMSET": (("gpu_memset",), "''", "correlationId", "Pid"),
}


def rank_of_spans(resource: Any, others: int) -> int:
    """Return the rank of a resource; where it says none, that behind so many others."""
    said = _number(resource.get("resource") if isinstance(resource, dict) else None, *RANKS)
    return others if said is None else said


def events_of_spans(resource: Any) -> Iterator[dict[str, Any]]:
    """Yield the spans of a resource; times that are none are no numbers."""
    for span in _inside(resource, "scopeSpans", "spans"):
        ends = [str(span.get(f"{key}TimeUnixNano")) for key in ("start", "end")]
        is_time = all(re.fullmatch(r"\d{1,20}", end) for end in ends)
        first, last = (Decimal(end if is_time else "nan") for end in ends)
        yield _event(span.get("name"), "user_annotation", first, last, microbatch=_number(span, *MICROBATCHES))


def _event(name: Any, category: str, start: Decimal, end: Decimal, **args: Any) -> dict[str, Any]:
    times = {"ts": start.scaleb(-3), "dur": (end - start).scaleb(-3)}
    return {"ph": "X", "cat": category, "name": name, **times, "args": args}


def _inside(part: Any, key: str, *keys: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in a list of this key, or in lists of the keys behind it in these."""
    given = part.get(key) if isinstance(part, dict) else None
    for one in given if isinstance(given, list) else ():
        yield from _inside(one, *keys) if keys else [one] * isinstance(one, dict)


def _number(part: Any, *names: str) -> int | None:
    """Return the number in the first of these attributes that has one."""
    values = {one.get("key"): one.get("value") for one in _inside(part, "attributes")}
    texts = [str(next(iter(value.values()), "")) for value in map(values.get, names) if isinstance(value, dict)]
    return next((int(match[1]) for match in map(NUMBER.fullmatch, texts) if match), None)


def events_of_nsys(file: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the processes of ranges, launches and kernels, each with its event. Raises ConfigError."""
    try:
        with closing(sqlite3.connect(f"{Path(file).absolute().as_uri()}?mode=ro", uri=True)) as base:
            known = {name for (name,) in base.execute("SELECT name FROM sqlite_master")}
            for table, (categories, name, number, process) in TABLES.items():
                columns = f"{name}, start, end, {number}, global{process} >> 24"
                rows = base.execute(f"SELECT {columns} FROM {table} WHERE end IS NOT NULL") if table in known else ()
                for text, start, end, join, whose in rows:
                    for category in categories:  # the GPU has a range where it ran what was launched inside
                        yield whose, _event(text, category, Decimal(start), Decimal(end), correlation=join)
    except sqlite3.Error as error:
        raise ConfigError(f"{shown(file, 300)} is no export of Nsight Systems: {error}") from None


def rank_of_nsys(file: str, processes: int) -> int:
    """Return the rank that a file's name says. Raises ConfigError where it says none, or several ran."""
    numbers = re.findall(r"\d{1,9}", Path(file).stem)
    if processes > 1 or not numbers:
        why = f"{processes} processes have such ranges" if processes > 1 else "its name has no number"
        raise ConfigError(f"{file} does not say whose it is: {why}; give a file of each rank, run_0.sqlite, ..")
    return int(numbers[-1])
