"""Reading the traces of a run: which kind they are, whose, and whether each rank is there once."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipesched.analysis.measured import primus, torch_profiler
from pipesched.analysis.measured.ranges import Recorded, TraceSource
from pipesched.checks import joined, require_sequence, shown
from pipesched.errors import ConfigError
from pipesched.pipeline.placement import Placement, explicit_placement, named_placement
from pipesched.text.yaml_reader import decode

MOST_BYTES = 2_000_000_000  # of a trace: those of long runs are large
GZIP = b"\x1f\x8b"
PRIMUS = '"fwd_start"'
HEAD = 65_536  # letters in which a trace shows what it is


class TraceFile(NamedTuple):
    """The content of a file."""

    content: Mapping[str, Any]
    file: str


class RecordedRun(NamedTuple):
    """What the ranks of a run recorded, by rank; the places in this list are the devices."""

    source: TraceSource
    ranks: Sequence[Recorded]


def is_trace(path: str | Path) -> bool:
    """Return whether a file looks like a trace of a run, by its content; a file that cannot be read does not."""
    text = _head(path)
    begins = text.lstrip("\ufeff \t\r\n")[:1] == "{"
    return begins and any(word in text for word in ('"traceEvents"', PRIMUS, '"distributedInfo"'))


def is_primus_file(path: str | Path) -> bool:
    """Return whether a file looks like one of Primus, which does not say its stages."""
    return PRIMUS in _head(path)


def _head(path: str | Path) -> str:
    """Return the first letters of a file, nothing of one that cannot be read."""
    try:
        with Path(path).open("rb") as file:
            is_packed = file.read(len(GZIP)) == GZIP
            file.seek(0)
            data = gzip.GzipFile(fileobj=file).read(HEAD) if is_packed else file.read(HEAD)
    except (OSError, ValueError, EOFError):
        return ""
    return data.decode("utf-8", "replace")


def read_run(
    files: Sequence[str | Path],
    placement: Placement | Sequence[int] | str | None = None,
    planned: Placement | None = None,
) -> RecordedRun:
    """Return what the ranks of a run recorded, one file a rank in any order.

    `placement` says which stages the chunks of a rank are, for Primus's files, which do not. None means that of the
    plan, `planned`, where it fits, else stage = chunk x P + rank. Raises ConfigError for files that cannot be read, for
    those of several kinds, and for a rank that is missing or there twice. So it does for a placement of other traces,
    which know their stages.
    """
    traces = [_parsed(file) for file in require_sequence(files, "files")]
    if not traces:
        raise ConfigError("needs a file of each rank", "files")
    kinds = [_kind(trace) for trace in traces]
    if len({*kinds}) > 1:
        other = next(trace.file for trace, kind in zip(traces, kinds, strict=True) if kind != kinds[0])
        raise ConfigError(f"{traces[0].file} is a trace of {kinds[0].name}, but {other} is none")
    if kinds[0] is primus.SOURCE:
        found = [(primus.rank_of(trace.file), trace.file) for trace in traces]
        _require_each_once(found, 1 + max(rank for rank, _ in found))
        placed = _placement(traces, placement, planned)
        ranks = [primus.recorded(*trace, placed) for trace in traces]
    elif placement is not None:
        raise ConfigError("has no effect on traces of torch.profiler, which name their stages", "placement")
    else:
        ranks = [torch_profiler.recorded(*trace) for trace in traces]
        _require_each_once([(rank.rank, rank.file) for rank in ranks], min(rank.ranks for rank in ranks))
    return RecordedRun(kinds[0], sorted(ranks, key=lambda rank: rank.rank))


def _parsed(file: object) -> TraceFile:
    """Return the JSON object in a file; decimals stay texts. Raises ConfigError."""
    if not isinstance(file, (str, Path)):
        raise ConfigError(f"must be names of files, not {shown(file)}", "files")
    name = str(file)
    try:
        data = Path(file).read_bytes()
        if data.startswith(GZIP):
            data = gzip.decompress(data)
        content = json.loads(decode(data, name, MOST_BYTES), parse_float=str, strict=False)
    except (OSError, EOFError) as error:
        raise ConfigError(f"cannot read {shown(name, 300)}: {getattr(error, 'strerror', None) or error}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{shown(name, 300)} is no JSON document: {error}") from None
    return TraceFile(content if isinstance(content, dict) else {}, name)


def _kind(trace: TraceFile) -> TraceSource:
    if isinstance(trace.content.get("traceEvents"), list):  # Chrome's format
        return torch_profiler.SOURCE
    if primus.is_primus(trace.content):
        return primus.SOURCE
    raise ConfigError(
        f"{trace.file} is no trace of a run: neither torch.profiler's (it lacks traceEvents) nor Primus's (iterations"
        " with fwd_start)"
    )


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
    stages = devices * max(primus.chunks_of(trace.content) for trace in traces)
    if given is None:
        loop = named_placement("loop", devices, stages)
        fits = planned is not None and not planned.mirrored and len(planned.devices) == stages
        return planned if planned is not None and fits and planned.last == devices - 1 else loop
    placed = given if isinstance(given, Placement) else None
    if isinstance(given, str):
        placed = named_placement(given, devices, stages)
    elif placed is None:
        placed = explicit_placement(tuple(require_sequence(given, "placement")), devices)
    if placed.mirrored:
        raise ConfigError("of both directions cannot be told from Primus's chunks", "placement")
    if placed.last != devices - 1 or len(placed.devices) != stages:
        raise ConfigError(
            f"has {len(placed.devices)} stages on {placed.last + 1} devices; the files have {stages} on {devices}",
            "placement",
        )
    return placed
