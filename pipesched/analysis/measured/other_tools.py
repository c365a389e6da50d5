"""Traces of other tools: OpenTelemetry spans (OTLP JSON), SQLite of Nsight Systems, and Primus's `pp_rank_R.json`.

The first two become events of torch.profiler (`events_of_spans`, `events_of_nsys`), the last one `recorded_by_primus`
reads. A resource of spans is a rank: its `dl.rank`, or the number in `service.instance.id`; else each is another one.
So is a process of Nsight Systems: the last number in the name of its file, or of one file in their order.
(opentelemetry.io/docs/specs/otlp, JSON encoding; NVIDIA/Megatron-LM of August 2026, its observability guide;
docs.nvidia.com/nsight-systems, "SQLite schema": nanoseconds; bits 24.. of a globalTid and a globalPid.)

Primus (its option `dump_pp_data`) has the times of each iteration of a rank:

    {"1": {"fwd_start": [..], "fwd_end": [..], "fwd_minibatch": [..], "fwd_chunk": [..], "bwd_..", "wgrad_.."}}

They are milliseconds since the rank began the iteration, so each iteration has clocks of its own. A bwd beside a
wgrad of the same microbatch and chunk is the gradient of the input alone, I; else it is the whole backward. A fwd and
a bwd of one interval ran together, as a pair. (github.com/AMD-AGI/Primus, megatron/core/pipeline_parallel, `pp_vis`.)
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any

from pipesched.analysis.measured.ranges import Range, Recorded, TraceSource, idle_as_waits, ticks_of
from pipesched.checks import shown
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.ops import Op, Pair
from pipesched.pipeline.problem.placement import Placement

OTLP, NSYS = TraceSource("OpenTelemetry", "us"), TraceSource("Nsight Systems", "us")
PRIMUS = TraceSource("Primus", "ms", clock_a_step=True)
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


def events_of_spans(resource: Any) -> Iterator[dict[str, Any]]:
    """Yield the spans of a resource; times that are none are no numbers."""
    for span in _inside(resource, "scopeSpans", "spans"):
        ends = [str(span.get(f"{key}TimeUnixNano")) for key in ("start", "end")]
        is_time = all(re.fullmatch(r"\d{1,20}", end) for end in ends)
        first, last = (Decimal(end if is_time else "nan") for end in ends)
        yield _event(span.get("name"), "user_annotation", first, last, microbatch=number_of(span, *MICROBATCHES))


def _event(name: Any, category: str, start: Decimal, end: Decimal, **args: Any) -> dict[str, Any]:
    times = {"ts": start.scaleb(-3), "dur": (end - start).scaleb(-3)}
    return {"ph": "X", "cat": category, "name": name, **times, "args": args}


def _inside(part: Any, key: str, *keys: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in a list of this key, or in lists of the keys behind it in these."""
    given = part.get(key) if isinstance(part, dict) else None
    for one in given if isinstance(given, list) else ():
        yield from _inside(one, *keys) if keys else [one] * isinstance(one, dict)


def number_of(part: Any, *names: str) -> int | None:
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


MOST = 10**6  # microbatches, or chunks, of Primus
_FILE = re.compile(r"pp_rank_(\d{1,6})\.json(?:\.gz)?")


def rank_of_primus(file: str) -> int:
    """Return the rank that a file's name says. Raises ConfigError."""
    match = _FILE.fullmatch(PurePath(file.replace("\\", "/")).name)
    if match is None:
        names = "Primus's files are named pp_rank_0.json, pp_rank_1.json, .."
        raise ConfigError(f"{file} does not say whose it is: {names}")
    return int(match[1])


def recorded_by_primus(content: Mapping[str, Any], file: str, placement: Placement) -> Recorded:
    """Return what a rank recorded, its chunks being the stages that `placement` has on it. Raises ConfigError."""
    rank = rank_of_primus(file)
    stages = placement.stages_on(rank)
    steps = {}
    for name in sorted(content, key=int):
        ranges = sorted(_ranges(content[name], stages, f"{file}: iteration {name}"), key=lambda one: one[1:3])
        if not ranges:
            raise ConfigError(f"{file}: iteration {name} holds no operation")
        steps[name] = idle_as_waits(ranges, 0)
    return Recorded(rank, file, steps, apart=True)


def _ranges(part: Mapping[str, Any], stages: Sequence[int], where: str) -> Iterator[Range]:
    """Yield the ranges of an iteration: a fwd and a bwd at one time are a pair, a bwd beside its wgrad is I."""
    forwards, backwards, weights = ([*_timed(part, key, where)] for key in ("fwd", "bwd", "wgrad"))
    split = {owner for owner, _ in weights}
    whole = {span: owner for owner, span in backwards if owner not in split and span[1] > span[0]}
    paired = {span for _, span in forwards if span in whole}

    def op(owner: tuple[int, int], letter: str) -> Op:
        microbatch, chunk = owner
        if chunk >= len(stages):
            raise ConfigError(f"{where} has chunk {chunk}, but the placement has {len(stages)} stages on this rank")
        return Op._make((stages[chunk], letter, microbatch, 0))

    for owner, span in forwards:
        alone = op(owner, "F")
        yield Range(Pair._make((alone, op(whole[span], "B"))) if span in paired else alone, *span)
    for owner, span in backwards:
        if span not in paired or owner in split:
            yield Range(op(owner, "I" if owner in split else "B"), *span)
    for owner, span in weights:
        yield Range(op(owner, "W"), *span)


def _timed(part: Mapping[str, Any], key: str, where: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield the microbatch and chunk of each entry of a kind, and its times in ticks.

    Without microbatches they are 0, 1, 2, ..; without chunks all are chunk 0.
    """
    starts, ends = (_list(part, f"{key}_{what}", where) for what in ("start", "end"))
    microbatches = _list(part, f"{key}_minibatch", where) or [*range(len(starts))]
    chunks = _list(part, f"{key}_chunk", where) or [0] * len(starts)
    if not len(starts) == len(ends) == len(microbatches) == len(chunks):
        lengths = f"{len(starts)} starts, {len(ends)} ends, {len(microbatches)} microbatches and {len(chunks)} chunks"
        raise ConfigError(f"{where} has {lengths} of {key}")
    for start, end, microbatch, chunk in zip(starts, ends, microbatches, chunks, strict=True):
        for value, what in ((microbatch, "minibatch"), (chunk, "chunk")):
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MOST:
                raise ConfigError(f"{where}: {key}_{what} must be a whole number of at least 0, not {shown(value)}")
        times = ticks_of(start, f"{key}_start", where), ticks_of(end, f"{key}_end", where)
        if times[1] < times[0]:
            raise ConfigError(f"{where}: {key} of microbatch {microbatch} ends before it starts")
        yield (microbatch, chunk), times


def _list(part: Mapping[str, Any], key: str, where: str) -> list[Any]:
    found = part.get(key, [])
    if not isinstance(found, list):
        raise ConfigError(f"{where}: {key} must be a list, not {shown(found)}")
    return found
