"""Traces of torch.profiler, one a rank: ranges that PyTorch's pipeline runtime, or ours, names `PP:2F0`.

`files.py` has a `ProfilerTrace` `see` each event, then asks for one of three: its steps (`recorded`), ranges with a
user's own names (`counted`), or the schedule of a Chrome trace (the function `charted`, of its `chart_events`). A lane
is a thread of the CPU, or a stream of the GPU.

A complete event ("ph": "X") with that name is a slot or transfer, on the CPU ("user_annotation") or on the GPU
("gpu_user_annotation"). Where a name has both, the GPU's count, because the CPU only launches. Where the trace holds
the launches and what they ran, the times of the GPU are those of `_on_the_gpu`. PyTorch waits for a message inside the
range of the operation that needs it; our runtime has that in a range of its own, `WAIT:2F0`. Times are microseconds
(docs: pytorch.org/docs/stable/profiler.html, `export_chrome_trace`).

A schedule as a Chrome trace, ours or of PyTorch's `_dump_chrometrace`, has events named `2F0`: all ranks on one clock.
A thread with slots is a rank. What a step has beside its passes, and gathers and reductions, is left out. SEND and RECV
are ends of messages, of which the n-th is that of step n.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cached_property
from typing import Any

from pipesched.analysis.measured.ranges import (
    PER_UNIT,
    CountedRank,
    Machine,
    MessageWait,
    NamedRange,
    Range,
    Recorded,
    TraceSource,
    idle_as_waits,
    ops_of,
    ticks_of,
)
from pipesched.checks import shown
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.kinds import KINDS, LETTERS
from pipesched.pipeline.problem.ops import Op, Pair, Slot, other_end, parse_op, parse_slot

LAUNCHES, RAN = ("cuda_runtime", "cuda_driver"), ("kernel", "gpu_memcpy", "gpu_memset")
MESSAGE = "nccl"
SOURCE = TraceSource("torch.profiler", "us")
RUN, WAIT = "PP:", "WAIT:"
GPU, CPU = "gpu_user_annotation", "user_annotation"
MESSAGES = ("SEND_F", "RECV_F", "SEND_B", "RECV_B")
_MESSAGE = re.compile(rf"PP:(0|[1-9]\d{{0,8}})({'|'.join(MESSAGES)})(0|[1-9]\d{{0,8}})", re.ASCII)
CHARTED = (*LETTERS, "F&B", "computation", *MESSAGES)  # categories: ours, and PyTorch's
COMMUNICATION = ("SEND_", "RECV_", "UNSHARD", "RESHARD", "REDUCE_GRAD")  # what PyTorch's runtime records besides

Span = tuple[int, int]  # when something began and ended on the clock of a trace, in ticks
_GPIPE = re.compile(r"(Forward|Backward) \d{1,9}")  # of PyTorch's ScheduleGPipe


class GpuSpans:
    """What a trace says that the GPU ran, by when the CPU launched it."""

    def __init__(self, file: str) -> None:
        self._file, self._ran, self._launched = file, dict[Any, Span](), list[tuple[int, Any]]()

    def see(self, entry: Any) -> None:
        """Note an event of a trace: a launch, or what was launched; of others nothing."""
        if not isinstance(entry, Mapping) or entry.get("ph") != "X" or entry.get("cat") not in (*LAUNCHES, *RAN):
            return
        given = entry.get("args")
        number = given.get("correlation") if isinstance(given, Mapping) else None  # of a launch and what it ran
        if number is None:
            return
        start = ticks_of(entry.get("ts"), "ts of a launch", self._file)
        if entry["cat"] in LAUNCHES:
            self._launched.append((start, number))
        elif MESSAGE not in str(entry.get("name")).lower():
            end = start + ticks_of(entry.get("dur", 0), "dur of a kernel", self._file)
            before = self._ran.get(number, (start, end))  # one launch of a graph runs many kernels
            self._ran[number] = min(before[0], start), max(before[1], end)

    @cached_property
    def _known(self) -> tuple[list[int], list[Span]]:
        known = [(start, self._ran[number]) for start, number in sorted(self._launched) if number in self._ran]
        return [start for start, _ in known], [span for _, span in known]

    def of(self, start: int, end: int) -> Span | None:
        """Return when the GPU ran what was launched in a time of the CPU; None where that was nothing."""
        starts, spans = self._known
        inside = spans[bisect_left(starts, start) : bisect_right(starts, end)]
        return (min(start for start, _ in inside), max(end for _, end in inside)) if inside else None


class ProfilerTrace:
    """The events of a trace as far as they count, seen one by one; `rest` is what the file has beside them.

    `names` are patterns of names, each with the letter of what it is: then ranges of these names are kept alone, and as
    their letters. `chart_events` are those of a schedule as a Chrome trace.
    """

    def __init__(self, file: str, names: Mapping[str, str]) -> None:
        self.file, self._names, self.rest = file, names, dict[str, Any]()
        self.events, self._spans, self.chart_events = list[NamedRange](), GpuSpans(file), list[dict[str, Any]]()

    def see(self, entry: Any) -> None:
        """Note an event. Raises ConfigError for times that are none."""
        if not isinstance(entry, dict) or entry.get("ph") != "X" or not isinstance(entry.get("name"), str):
            return
        category, name = entry.get("cat"), entry["name"]
        if category not in (GPU, CPU):
            self._spans.see(entry)
            self.chart_events += [entry] * (category in CHARTED)
            return
        if self._names:
            fitting = (letter for one, letter in self._names.items() if fnmatchcase(name, one))
            name = self._names.get(name) or next(fitting, "")
        elif not (name.startswith((RUN, WAIT)) or _GPIPE.fullmatch(name)):
            return
        if name:
            start = ticks_of(entry.get("ts"), f"ts of {name}", self.file)
            length = ticks_of(entry.get("dur", 0), f"dur of {name}", self.file)
            if length < 0:
                raise ConfigError(f"{self.file}: dur of {name} must be at least 0, not {shown(entry.get('dur'))}")
            args = entry.get("args")
            number = args.get("microbatch") if isinstance(args, dict) and self._names else None
            number = number if isinstance(number, int) and number >= 0 else None
            self.events.append(NamedRange(name, (str(category), entry.get("tid")), start, start + length, number))

    def counted(self, rank: int | None = None) -> CountedRank:
        """Return the ranges of names of its own. Raises ConfigError for a trace without a rank."""
        runs = _on_the_gpu(self.events, self._spans) or _of_one_lane(self.events)
        return _rank(self.rest, self.file)[0] if rank is None else rank, self.file, runs

    def recorded(self) -> Recorded:
        """Return what a rank recorded. Raises ConfigError for a trace without a rank, or without operations."""
        events, file, rest = self.events, self.file, self.rest
        waits = _of_one_lane([event for event in events if event.name.startswith(WAIT)])
        named = [event for event in events if event.name.startswith(RUN)]
        if not named and (gpipe := [event for event in events if not event.name.startswith(WAIT)]):
            stage = _rank(rest, file)[0]  # of GPipe, whose stage is the rank
            named = [event._replace(name=f"{RUN}{stage}{event.name[0]}{event.name.split()[1]}") for event in gpipe]
        runs = _on_the_gpu(named, self._spans) or _of_one_lane(named)
        ranges, pair = list[Range](), None  # without those of an operation inside the pair that it is a part of
        for one in sorted(_ranges(runs, waits), key=lambda one: (one.start, -one.end)):
            is_part = pair is not None and one.end <= pair.end and one.slot in pair.slot
            pair = one if isinstance(one.slot, Pair) else pair
            ranges += [one] * (not is_part)
        if not ranges:
            raise ConfigError(
                f"{file} holds no range that is named like PP:2F0. PyTorch's pipeline runtime names its ranges so, but"
                " its Schedule1F1B names none: run the same order as a CSV (`pipesched export 1f1b -o order.csv`, for"
                " _PipelineScheduleRuntime, or as torchtitan's pipeline_parallel_schedule_csv). Of ranges with other"
                " names, say in `ranges` what they are: forward_step=F, backward_step=B"
            )
        is_on_gpu = any(event.lane[0] == GPU for event in runs)
        if waits and is_on_gpu:  # a WAIT of the CPU says not how long the GPU waits; one of the GPU is its copies
            ranges = idle_as_waits(ranges, ranges[0].start)
        steps = {str(number): step for number, step in enumerate(_steps(ranges))}
        rank, ranks = _rank(rest, file)
        ends, ran = defaultdict[str, list[Range]](list), Counter[str]()
        for event in _of_one_lane([event for event in events if _MESSAGE.fullmatch(event.name)]):
            ends[str(ran[event.name])].append(Range(parse_op(event.name.removeprefix(RUN)), *event[2:4]))
            ran[event.name] += 1
        peers = frozenset(other_end(parse_op(name.removeprefix(RUN))).stage for name in ran)
        said = rest.get("pipesched")  # what our runtime says of the machine
        numbers: list[Any] = [said.get(key) for key in Machine._fields] if isinstance(said, dict) else [None]
        is_said = all(isinstance(one, int) and not isinstance(one, bool) and one >= 1 for one in numbers)
        machine = Machine(*numbers) if is_said else None
        return Recorded(rank, file, steps, bool(waits), ranks, peers, machine, ends)


def _on_the_gpu(runs: Sequence[NamedRange], spans: GpuSpans) -> list[NamedRange]:
    """Return ranges of the CPU as times of the GPU (nothing launched: no time); none where the trace lacks launches."""
    named = Counter(event.name for event in runs if event.lane[0] == GPU)
    if not named:
        return []
    launching, found = Counter[str](), list[NamedRange]()
    for event in sorted((event for event in runs if event.lane[0] == CPU), key=lambda event: event.start):
        span = spans.of(event.start, event.end)
        if span is not None:
            launching[event.name] += 1
        elif found:
            span = found[-1].end, found[-1].end
        if span is not None:
            found.append(NamedRange(event.name, (GPU, None), *span))
    return found if named <= launching else []


def _rank(content: Mapping[str, Any], file: str) -> tuple[int, int]:
    """Return the rank of a trace, and of how many; 0 where these are not all in the pipeline."""
    info = content.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else None
    if not isinstance(info, dict) or isinstance(rank, bool) or not isinstance(rank, int) or rank < 0:
        raise ConfigError(
            f"{file} does not say whose it is: distributedInfo.rank is {shown(rank)}; torch.profiler writes it where"
            " torch.distributed is initialized"
        )
    size = info.get("world_size")
    groups = info.get("pg_config")
    alone = not isinstance(groups, list) or len(groups) < 2  # else some ranks may belong to other pipelines
    return rank, size if isinstance(size, int) and not isinstance(size, bool) and alone else 0


def _of_one_lane(events: Sequence[NamedRange]) -> list[NamedRange]:
    """Return of each name the events of one lane: of a GPU before a CPU, and of the busiest stream."""
    counts = Counter(event.lane for event in events)
    rising = sorted(events, key=lambda event: (event.lane[0] == GPU, counts[event.lane], str(event.lane[1])))
    first = {event.name: event.lane for event in rising}  # of each name the last one
    return [event for event in events if event.lane == first[event.name]]


def _ranges(runs: Sequence[NamedRange], waits: Sequence[NamedRange]) -> Iterator[Range]:
    """Yield the ranges of slots and transfers, each with its waiting; one that holds that begins behind it."""
    waited: dict[tuple[str, str], deque[NamedRange]] = {}
    for one in sorted(waits, key=lambda event: event.start):
        waited.setdefault((one.name.removeprefix(WAIT), one.lane[0]), deque()).append(one)
    for event in sorted(runs, key=lambda event: event.start):
        text = event.name.removeprefix(RUN)
        slot = slot_of(text)
        if slot is None:
            continue
        before, wait, start = waited.get((text, event.lane[0]), deque()), None, event.start
        while before and before[0].end <= event.end:
            wait = MessageWait(before[0].start, before[0].end)
            start = wait.end if wait.start >= event.start else start
            before.popleft()
        yield Range(slot, start, event.end, wait)


def _steps(ranges: Sequence[Range]) -> list[list[Range]]:
    """Return the ranges step by step: an operation that repeats begins a step."""
    steps: list[list[Range]] = [[]]
    seen: set[Op] = set()
    for one in ranges:
        ops = ops_of(one.slot)
        if not seen.isdisjoint(ops):
            steps.append([])
            seen = set()
        steps[-1].append(one)
        seen.update(ops)
    return steps


def slot_of(text: str) -> Slot | None:
    """Return the slot or transfer of a name; None for any other, as communication. Raises ConfigError for a slice's."""
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
    rows, homes, found, ends = dict[Any, list[Range]](), dict[Op, Any](), list[tuple[Any, Range]](), list[Range]()
    for entry in entries:
        is_message = entry["cat"] in MESSAGES and _MESSAGE.fullmatch(RUN + entry["name"])
        slot = parse_op(entry["name"]) if is_message else slot_of(entry["name"])
        if slot is not None:
            start, length = (ticks_of(entry.get(key), f"{key} of {slot}", file, PER_UNIT) for key in ("ts", "dur"))
            first, last = (round(Fraction(end, max(scale, 1))) for end in (start, start + length))
            if is_message:
                ends.append(Range(slot, first, last))
                continue
            found.append(((entry.get("pid"), entry.get("tid")), Range(slot, first, last)))
            homes |= dict.fromkeys(ops_of(slot), found[-1][0])
    for thread, one in found:  # a transfer is of the rank that ran its forward
        op = ops_of(one.slot)[0]
        rows.setdefault(homes.get(op._replace(kind="F")) if KINDS[op.kind].is_transfer else thread, []).append(one)
    ranks = []  # the first one holds all messages: timeline.py joins those of all ranks
    for rank, thread in enumerate(sorted(rows, key=lambda thread: [(len(str(part)), str(part)) for part in thread])):
        steps = {"0": sorted(rows[thread], key=lambda one: one[1:3])}
        ranks.append(Recorded(rank, file, steps, apart=True, ends={} if rank else {"0": ends}))
    return TraceSource("chart of a schedule", about.get("time_unit", "us"), one_clock=True), ranks
