"""Reading the traces of a run: which kind they are, whose, and the steps that all ranks recorded.

`read_run` reads files, `steps_of` finds the steps that count, `placement_of` where stages ran. Large JSON files are
read entry by entry (`entries`). A new kind of trace: `_read`, and its reader in `other_tools.py`.
"""

from __future__ import annotations

import gzip
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple, cast

from pipesched.analysis.measured import other_tools, torch_profiler
from pipesched.analysis.measured.ranges import CountedRank, Range, Recorded, TraceSource, in_steps, names_of, ops_of
from pipesched.analysis.measured.torch_profiler import ProfilerTrace, charted
from pipesched.checks import joined, require_sequence, shown
from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.pipeline.problem.ops import Op
from pipesched.pipeline.problem.placement import Placement, explicit_placement, named_placement
from pipesched.pipeline.problem.problem import Problem

GZIP = b"\x1f\x8b"
PART = 1 << 20  # letters that are read at a time
_DECODER = json.JSONDecoder(parse_float=str, strict=False)


def opened(path: Path) -> IO[bytes]:
    """Return an open file of bytes, unpacked. Raises OSError."""
    with path.open("rb") as file:
        is_packed = file.read(len(GZIP)) == GZIP
    return cast("IO[bytes]", gzip.open(path)) if is_packed else path.open("rb")


def entries(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the keys of the objects in a file, each with its value; with a list first None, then each of its entries.

    Objects may follow each other, as in JSON lines. Decimals stay texts. Raises ConfigError for what is no JSON.
    """
    try:
        with io.TextIOWrapper(opened(path), encoding="utf-8-sig") as file:
            letters = _Letters(file)
            while letters.step():
                for _ in letters.items("{}"):
                    key = str(letters.value())
                    letters.step(":")
                    if letters.step() == "[":
                        yield key, None
                        yield from ((key, letters.value()) for _ in letters.items("[]"))
                    else:
                        yield key, letters.value()
    except (OSError, EOFError) as error:
        raise ConfigError(f"cannot read {shown(str(path), 300)}: {getattr(error, 'strerror', None) or error}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{shown(str(path), 300)} is no JSON document: {error}") from None


class _Letters:
    """The letters of a file from `at` on, as far as they were read."""

    def __init__(self, file: io.TextIOBase) -> None:
        self.file, self.text, self.at = file, "", 0

    def items(self, ends: str) -> Iterator[None]:
        """Stand before each item of an object or a list."""
        self.step(ends[0])
        while self.step() != ends[1]:
            yield
            if self.step() != ends[1]:
                self.step(",")
        self.step(ends[1])

    def step(self, wanted: str = "") -> str:
        """Return the next letter that is no space, nothing at the end; go behind it where it is the one `wanted`."""
        while (self.at < len(self.text) or self.more()) and self.text[self.at] in " \t\r\n":
            self.at += 1
        found = self.text[self.at : self.at + 1]
        if wanted not in ("", found):
            raise ValueError(f"expecting {wanted}, not {shown(found)}")
        self.at += len(wanted)
        return found

    def more(self) -> bool:
        """Read as many letters as there are already, at least a part; return whether there were any."""
        read = self.file.read(max(PART, len(self.text) - self.at))
        self.text, self.at = self.text[self.at :] + read, 0
        return bool(read)

    def value(self) -> Any:
        while True:
            self.step()
            try:
                found, end = _DECODER.raw_decode(self.text, self.at)
            except json.JSONDecodeError:
                if not self.more():
                    raise
                continue
            behind = self.text[end : end + 3]
            if len(behind) > 2 or behind.strip(".eE+-") or not self.more():  # else a number may go on
                self.at = min(end, len(self.text))
                return found


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
) -> tuple[TraceSource, Sequence[Recorded]]:
    """Return what the ranks of a run recorded, by rank, one file a rank in any order, or one with all ranks.

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
    if source is other_tools.PRIMUS:
        if names:
            raise ConfigError("has no effect on Primus's files, which say what their times are of", "ranges")
        found = [(other_tools.rank_of_primus(trace.file), trace.file) for trace in traces]
        _require_each_once(found, 1 + max(rank for rank, _ in found))
        placed = _placement(traces, placement, None if planned is None else planned.placement)
        ranks = [other_tools.recorded_by_primus(trace.content, trace.file, placed) for trace in traces]
    elif placement is not None:
        raise ConfigError(f"has no effect on traces of {source.name}, which name their stages", "placement")
    else:
        ranks = [*chain(*(trace.ranks for trace in traces))]
        counted = [*chain(*(trace.counted for trace in traces))]
        found = [*((one.rank, one.file) for one in ranks), *((rank, file) for rank, file, _ in counted)]
        if not found:
            raise ConfigError(f"{first.file} holds no range with one of the names of `ranges`")
        _require_each_once(found, min((one.ranks for one in ranks), default=0))
        ranks += in_steps(counted, None if planned is None else planned.microbatches)
    return source, sorted(ranks, key=lambda rank: rank.rank)


def _read(file: object, names: Mapping[str, str], *, alone: bool) -> TraceFile:
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
            said = other_tools.number_of(value.get("resource") if isinstance(value, dict) else None, *other_tools.RANKS)
            rank = len(of_ranks) if said is None else said  # one without a number stands behind the others
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
        return TraceFile(other_tools.PRIMUS, name, content=trace.rest)
    raise ConfigError(
        f"{name} is no trace of a run: neither of torch.profiler (it lacks traceEvents), nor OpenTelemetry's"
        " (resourceSpans), nor Primus's (iterations with fwd_start)"
    )


def _of_events(trace: ProfilerTrace, names: Mapping[str, str]) -> TraceFile:
    if trace.chart_events:
        if names:
            raise ConfigError(f"has no effect on {trace.file}, the chart of a schedule", "ranges")
        source, ranks = charted(trace.chart_events, trace.rest.get("otherData"), trace.file)
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
    numbers = re.findall(r"\d{1,9}", Path(file).stem)
    if not alone and (len(ran) > 1 or not numbers):
        why = f"{len(ran)} processes have such ranges" if len(ran) > 1 else "its name has no number"
        raise ConfigError(f"{file} does not say whose it is: {why}; give a file of each rank, run_0.sqlite, ..")
    ranks = range(len(ran)) if alone else [int(numbers[-1])] * len(ran)
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
        there = joined([*map(str, sorted(by_rank))])
        raise ConfigError(f"{said} missing: give the trace of every rank; there are {there}")


def _placement(
    traces: Sequence[TraceFile], given: Placement | Sequence[int] | str | None, planned: Placement | None
) -> Placement:
    """Return where Primus's chunks are: as given, as planned, or chunk x P + rank. Raises ConfigError."""
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


@dataclass(frozen=True)
class Steps:
    """The steps of a run that count, with their names: `ranges[n][r]` are those of rank r in step n.

    `home` is the rank of each operation, and `only` says that there was one step alone, which warms up too.
    """

    names: Sequence[str]
    ranges: Sequence[Sequence[Sequence[Range]]]
    home: dict[Op, int]
    only: bool

    @cached_property
    def stages(self) -> int:
        return 1 + max(op.stage for op in self.home)

    @cached_property
    def microbatches(self) -> int:
        return 1 + max(op.microbatch for op in self.home)

    @cached_property
    def letters(self) -> str:
        return "".join({op.kind for op in self.home})


def steps_of(ranks: Sequence[Recorded]) -> Steps:
    """Return the steps that count: without the first, which warms up, and without those that were cut off.

    Raises ConfigError where the file of a rank is missing, and InvalidSchedule, naming ranks, for files that are not of
    one run.
    """
    whole = []  # of each rank the steps with the operations that most steps have: not one cut off by the end
    for rank in ranks:
        ran = {name: frozenset(chain(*(ops_of(one.slot) for one in step))) for name, step in rank.steps.items()}
        usual = max(Counter(ran.values()).items(), key=lambda item: (item[1], len(item[0])))[0]
        whole.append({name for name, ops in ran.items() if ops == usual})
    names = [name for name in ranks[0].steps if all(name in steps for steps in whole)]
    for rank, own in zip(ranks, whole, strict=True):
        if len(own) != len(whole[0]) and len(rank.steps) != len(ranks[0].steps):
            raise _two_runs([f"rank {rank.rank} ran {len(own)} steps", f"rank {ranks[0].rank} ran {len(whole[0])}"])
    if not names:
        raise _two_runs([f"rank {rank.rank} has the steps {', '.join(rank.steps)}" for rank in ranks])
    first = next(iter(ranks[0].steps))
    counted = [name for name in names if name != first]
    names = counted or names
    home: dict[Op, int] = {}
    for place, rank in enumerate(ranks):
        for op in chain.from_iterable(ops_of(one.slot) for one in rank.steps[names[0]]):
            if op in home:
                raise _two_runs([f"{op} ran on rank {ranks[home[op]].rank}", f"{op} ran on rank {rank.rank}"])
            home[op] = place
    steps = Steps(names, [[rank.steps[name] for rank in ranks] for name in names], home, only=not counted)
    _require_every_stage(steps, ranks)
    return steps


def _require_every_stage(steps: Steps, ranks: Sequence[Recorded]) -> None:
    """Raise ConfigError where a stage has no file, and InvalidSchedule where ranks have other microbatches."""
    there = {op.stage for op in steps.home}
    wanted = {*range(steps.stages), *chain.from_iterable(rank.peers for rank in ranks)}
    missing = sorted(stage for stage in wanted - there if stage >= 0)
    if missing:
        numbers = [rank.rank for rank in ranks]
        gap = next((number for number in range(max(numbers)) if number not in numbers), None)
        whose = "a rank is" if gap is None else f"rank {gap} is"
        raise ConfigError(
            f"{whose} missing: no file has stage {joined([*map(str, missing)])};"
            f" there are ranks {joined([*map(str, numbers)])}"
        )
    counts = Counter(op.stage for op in steps.home if op.kind == "F")
    for stage in range(steps.stages):
        if counts[stage] != steps.microbatches:
            most = next(one for one in range(steps.stages) if counts[one] == max(counts.values()))
            rows = []
            for one in (stage, most):
                homes = sorted({at for op, at in steps.home.items() if op.stage == one})
                on = joined([str(ranks[at].rank) for at in homes])
                rows.append(f"{counts[one]} forwards of stage {one} on rank {on}")
            raise _two_runs(rows if stage != most else rows[:1])


def _two_runs(said: Sequence[str]) -> InvalidSchedule:
    return InvalidSchedule(f"these are not the files of one run: {'; '.join(said)}", said)


def _fed(placement: Placement, steps: Steps) -> Placement:
    """Return a placement with the microbatches that go the second way: those that enter at the device further on."""
    if len(placement.ways) == 1:
        return placement
    entries = [steps.home[Op._make((0, "F", microbatch, 0))] for microbatch in range(steps.microbatches)]
    seconds = [microbatch for microbatch, entry in enumerate(entries) if entry != entries[0]]
    if seconds == [*range(steps.microbatches // 2, steps.microbatches)]:
        return placement
    if entries[0] > placement.last - entries[0]:
        placement = replace(placement, devices=placement.ways[1])
        seconds = [microbatch for microbatch, entry in enumerate(entries) if entry == entries[0]]
    return replace(placement, second=tuple(seconds))


def placement_of(steps: Steps, devices: int, planned: Placement | None = None) -> Placement:
    """Return where the stages ran, which is as `planned` where that has all operations where they ran.

    Raises InvalidSchedule for a stage on two ranks, unless all are in both directions.
    """
    if planned is not None and len(planned.ways) > 1 and len(planned.devices) == steps.stages:
        homes = (planned.device(op.stage, op.microbatch, steps.microbatches) for op in steps.home)
        if all(map(int.__eq__, homes, steps.home.values())):
            return planned
    half, stages = steps.microbatches // 2, range(steps.stages)
    first = tuple(steps.home[Op._make((stage, "F", 0, 0))] for stage in stages)
    mirrored = any(steps.home[op] != first[op.stage] for op in steps.home)
    placement = _fed(Placement(first, mirrored), steps)
    for op, place in steps.home.items():
        due = placement.device(op.stage, op.microbatch, steps.microbatches)
        if place != due:
            text = f"{op.stage}{op.kind}0 ran on rank {first[op.stage]}, {op} on rank {place}"
            both = f" in both directions ({half} each)" if mirrored else ""
            why = f"{text}, which is no placement of stages{both}"
            raise InvalidSchedule(why, [why])
    if set(first) != {*range(devices)}:
        idle = min({*range(devices)} - {*first})
        raise InvalidSchedule(f"rank {idle} ran no stage", [f"rank {idle} ran no stage"])
    return placement
