"""Reading the traces of a run: which kind they are, whose, and whether each rank is there once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pipesched.analysis.measured import other_tools, primus, torch_profiler
from pipesched.analysis.measured.counted import CountedRank, in_steps, names_of
from pipesched.analysis.measured.ranges import Recorded, TraceSource
from pipesched.analysis.measured.stream import entries, opened
from pipesched.analysis.measured.torch_profiler import ProfilerTrace, charted
from pipesched.checks import joined, require_sequence, shown
from pipesched.errors import ConfigError
from pipesched.pipeline.placement import Placement, explicit_placement, named_placement
from pipesched.pipeline.problem import Problem

PRIMUS = '"fwd_start"'
MARKS = ('"traceEvents"', PRIMUS, '"distributedInfo"', '"resourceSpans"')  # of traces in JSON
HEAD = 65_536  # letters in which a trace shows what it is


class TraceFile(NamedTuple):
    """What a file holds: ranks, those whose microbatches are to be counted, or the content of one of Primus."""

    source: TraceSource
    file: str
    ranks: Sequence[Recorded] = ()
    counted: Sequence[CountedRank] = ()
    content: Mapping[str, Any] = MappingProxyType({})


class RecordedRun(NamedTuple):
    """What the ranks of a run recorded, by rank; the places in this list are the devices."""

    source: TraceSource
    ranks: Sequence[Recorded]


def is_trace(path: str | Path) -> bool:
    """Return whether a file looks like a trace of a run, by its content; a file that cannot be read does not."""
    text = _head(path)
    begins = text.lstrip("\ufeff \t\r\n")[:1] == "{"
    return text.startswith(other_tools.MAGIC) or (begins and any(word in text for word in MARKS))


def is_primus_file(path: str | Path) -> bool:
    """Return whether a file looks like one of Primus, which does not say its stages."""
    return PRIMUS in _head(path)


def _head(path: str | Path) -> str:
    """Return the first letters of a file, nothing of one that cannot be read."""
    try:
        with opened(Path(path)) as file:
            data = file.read(HEAD)
    except (OSError, ValueError, EOFError):
        return ""
    return data.decode("utf-8", "replace")


def read_run(
    files: Sequence[str | Path],
    placement: Placement | Sequence[int] | str | None = None,
    planned: Problem | None = None,
    ranges: Mapping[str, str] | str | None = None,
) -> RecordedRun:
    """Return what the ranks of a run recorded, one file a rank in any order, or one with all ranks.

    `placement` says which stages the chunks of a rank are, for Primus's files, which do not. None means that of the
    plan, `planned`, where it fits, else stage = chunk x P + rank. `ranges` says what ranges with names of their own
    are. Raises ConfigError for files that cannot be read, for those of several kinds, and for a rank that is missing or
    there twice. So it does for a placement of other traces, which know their stages.
    """
    given, names = require_sequence(files, "files"), names_of(ranges)
    traces = [_read(file, names, alone=len(given) == 1) for file in given]
    if not traces:
        raise ConfigError("needs a file of each rank", "files")
    first, source = traces[0], traces[0].source
    for trace in traces:
        if trace.source != source:
            raise ConfigError(f"{first.file} is a trace of {source.name}, but {trace.file} is none")
    if source.one_clock and len(traces) > 1:
        raise ConfigError(f"{first.file} is a {source.name} on all its devices; give that file alone")
    if source is primus.SOURCE:
        if names:
            raise ConfigError("has no effect on Primus's files, which say what their times are of", "ranges")
        found = [(primus.rank_of(trace.file), trace.file) for trace in traces]
        _require_each_once(found, 1 + max(rank for rank, _ in found))
        placed = _placement(traces, placement, None if planned is None else planned.placement)
        ranks = [primus.recorded(trace.content, trace.file, placed) for trace in traces]
    elif placement is not None:
        raise ConfigError(f"has no effect on traces of {source.name}, which name their stages", "placement")
    else:
        ranks = [*chain(*(trace.ranks for trace in traces))]
        counted = [*chain(*(trace.counted for trace in traces))]
        found = [*((one.rank, one.file) for one in ranks), *((rank, file) for rank, file, _ in counted)]
        if not found:
            raise ConfigError(f"{first.file} holds no range with one of the names of `ranges`")
        _require_each_once(found, min((one.ranks for one in ranks), default=0))
        ranks += in_steps(counted, None if planned is None else planned.microbatches) if counted else []
    return RecordedRun(source, sorted(ranks, key=lambda rank: rank.rank))


def _read(file: object, names: Mapping[str, str], *, alone: bool) -> TraceFile:
    """Return what a file holds, which is read piece by piece. Raises ConfigError."""
    if not isinstance(file, (str, Path)):
        raise ConfigError(f"must be names of files, not {shown(file)}", "files")
    name = str(file)
    if _head(file).startswith(other_tools.MAGIC):
        return _of_nsys(name, names, alone=alone)
    trace, has_events = ProfilerTrace(name, names), False
    of_ranks = defaultdict[int, ProfilerTrace](partial(ProfilerTrace, name, names or other_tools.MEGATRON))
    for key, value in entries(Path(file)):
        has_events |= key == "traceEvents"
        if key == "traceEvents":
            trace.see(value)
        elif key == "resourceSpans":
            rank = other_tools.rank_of_spans(value, len(of_ranks))
            for event in other_tools.events_of_spans(value):
                of_ranks[rank].see(event)
        else:
            trace.rest[key] = value
    if has_events:
        return _of_events(trace, names)
    if of_ranks:
        counted = [one.counted(rank) for rank, one in of_ranks.items() if one.events]
        return TraceFile(other_tools.OTLP, name, counted=counted)
    parts = trace.rest.items()  # of Primus iterations by their numbers, with forwards
    if parts and all(key.isdecimal() and isinstance(part, dict) and "fwd_start" in part for key, part in parts):
        return TraceFile(primus.SOURCE, name, content=trace.rest)
    raise ConfigError(
        f"{name} is no trace of a run: neither of torch.profiler (it lacks traceEvents), nor OpenTelemetry's"
        " (resourceSpans), nor Primus's (iterations with fwd_start)"
    )


def _of_events(trace: ProfilerTrace, names: Mapping[str, str]) -> TraceFile:
    if trace.charted:
        if names:
            raise ConfigError(f"has no effect on {trace.file}, the chart of a schedule", "ranges")
        source, ranks = charted(trace.charted, trace.rest.get("otherData"), trace.file)
        return TraceFile(source, trace.file, ranks)
    counted = [trace.counted()] if names else []
    return TraceFile(torch_profiler.SOURCE, trace.file, [] if names else [trace.recorded()], counted)


def _of_nsys(file: str, names: Mapping[str, str], *, alone: bool) -> TraceFile:
    if not names:
        raise ConfigError(f"are needed for {file}: what its ranges are, forward_step=F", "ranges")
    processes = defaultdict[int, ProfilerTrace](partial(ProfilerTrace, file, names))
    for process, event in other_tools.events_of_nsys(file):
        processes[process].see(event)
    ran = [processes[process] for process in sorted(processes) if processes[process].events]
    ranks = range(len(ran)) if alone else [other_tools.rank_of_nsys(file, len(ran))] * len(ran)
    return TraceFile(other_tools.NSYS, file, counted=[one.counted(rank) for rank, one in zip(ranks, ran, strict=True)])


def _require_each_once(found: Sequence[tuple[int, str]], ranks: int) -> None:
    """Raise ConfigError for a rank of several files, and for one of so many `ranks` without a file."""
    by_rank: dict[int, str] = {}
    for rank, file in found:
        if rank in by_rank:
            raise ConfigError(f"rank {rank} is there twice: {by_rank[rank]} and {file}")
        by_rank[rank] = file
    missing = [rank for rank in range(ranks) if rank not in by_rank]
    if missing:
        said = f"rank {missing[0]} is" if len(missing) == 1 else f"ranks {joined([*map(str, missing)])} are"
        raise ConfigError(
            f"{said} missing: give the trace of every rank; there are {joined([*map(str, sorted(by_rank))])}"
        )


def _placement(
    traces: Sequence[TraceFile], given: Placement | Sequence[int] | str | None, planned: Placement | None
) -> Placement:
    """Return where the chunks of Primus's files are: as given, else as planned, else chunk x P + rank.

    Raises ConfigError.
    """
    devices = len(traces)
    parts = chain.from_iterable(trace.content.values() for trace in traces)
    chunks = (chunk for part in parts for chunk in part.get("fwd_chunk") or [0] if isinstance(chunk, int))
    stages = devices * (1 + max(chunks, default=0))
    if given is None:
        loop = named_placement("loop", devices, stages)
        fits = planned is not None and len(planned.ways) == 1 and len(planned.devices) == stages
        return planned if planned is not None and fits and planned.last == devices - 1 else loop
    placed = given if isinstance(given, Placement) else None
    if isinstance(given, str):
        placed = named_placement(given, devices, stages)
    elif placed is None:
        placed = explicit_placement(tuple(require_sequence(given, "placement")), devices)
    if len(placed.ways) > 1:
        raise ConfigError("of both directions cannot be told from Primus's chunks", "placement")
    if placed.last != devices - 1 or len(placed.devices) != stages:
        raise ConfigError(
            f"has {len(placed.devices)} stages on {placed.last + 1} devices; the files have {stages} on {devices}",
            "placement",
        )
    return placed
