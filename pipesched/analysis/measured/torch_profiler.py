"""Traces of torch.profiler, one a rank: ranges that PyTorch's pipeline runtime, or ours, names `PP:2F0`.

A complete event ("ph": "X") with that name is a slot or transfer, on the CPU ("user_annotation") or on the GPU
("gpu_user_annotation"). Where a name has both, the GPU's count, because the CPU only launches. Where the trace holds
the launches and what they ran, the times of the GPU are those of `gpu_ranges`. PyTorch waits for a message inside the
range of the operation that needs it; our runtime has that in a range of its own, `WAIT:2F0`. Times are microseconds
(docs: pytorch.org/docs/stable/profiler.html, `export_chrome_trace`).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from pipesched.analysis.measured.ranges import (
    Machine,
    MessageWait,
    Range,
    Recorded,
    TraceSource,
    idle_as_waits,
    ops_of,
    ticks_of,
)
from pipesched.checks import shown
from pipesched.errors import ConfigError
from pipesched.pipeline.ops import Op, Pair, Slot, parse_op, parse_slot

LAUNCHES, RAN = ("cuda_runtime", "cuda_driver"), ("kernel", "gpu_memcpy", "gpu_memset")
MESSAGE = "nccl"
SOURCE = TraceSource("torch.profiler", "us", clock_a_step=False)
RUN, WAIT = "PP:", "WAIT:"
GPU, CPU = "gpu_user_annotation", "user_annotation"
_MESSAGE = re.compile(r"PP:(?P<stage>\d{1,9})(?P<what>SEND_F|RECV_F|SEND_B|RECV_B)\d{1,9}")
COMMUNICATION = ("SEND_", "RECV_", "UNSHARD", "RESHARD", "REDUCE_GRAD")  # what PyTorch's runtime records besides


class Span(NamedTuple):
    """A time on the clock of a trace, in ticks."""

    start: int
    end: int


class GpuSpans:
    """What a trace says that the GPU ran, by when the CPU launched it."""

    def __init__(self, entries: Iterable[Any], file: str) -> None:
        ran, launched = dict[Any, Span](), list[tuple[int, Any]]()
        for entry in entries:
            if not isinstance(entry, Mapping) or entry.get("ph") != "X" or entry.get("cat") not in (*LAUNCHES, *RAN):
                continue
            given = entry.get("args")
            number = given.get("correlation") if isinstance(given, Mapping) else None  # of a launch and what it ran
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


class _Event(NamedTuple):
    """A range as it was recorded; `lane` is its category and thread or stream."""

    name: str
    lane: tuple[str, Any]
    start: int
    end: int


def recorded(content: Mapping[str, Any], file: str) -> Recorded:
    """Return what a rank recorded. Raises ConfigError for a trace without a rank, or without operations."""
    events = [*_events(content["traceEvents"], file)]
    waits = _of_one_lane([event for event in events if event.name.startswith(WAIT)])
    runs = [event for event in events if event.name.startswith(RUN)]
    runs = _on_the_gpu(runs, content["traceEvents"], file) or _of_one_lane(runs)
    ranges = _without_parts([*_ranges(runs, waits)])
    if not ranges:
        raise ConfigError(
            f"{file} holds no range that is named like PP:2F0; a run by PyTorch's pipeline runtime under"
            " torch.profiler, exported by `export_chrome_trace`, has them"
        )
    is_on_gpu = any(event.lane[0] == GPU for event in runs)
    if waits and is_on_gpu:  # a wait of the CPU says nothing of it, and its own holds the copies alone
        ranges = idle_as_waits(ranges, ranges[0].start)
    steps = {str(number): step for number, step in enumerate(_steps(ranges))}
    rank, ranks = _rank(content, file)
    sent = [match for match in map(_MESSAGE.fullmatch, (event.name for event in events)) if match]
    peers = frozenset(int(one["stage"]) + (1 if one["what"] in ("SEND_F", "RECV_B") else -1) for one in sent)
    said = content.get("pipesched")  # what our runtime says of the machine
    numbers: list[Any] = [said.get(key) for key in Machine._fields] if isinstance(said, dict) else []
    is_said = numbers and all(isinstance(one, int) and not isinstance(one, bool) and one >= 1 for one in numbers)
    machine = Machine(*numbers) if is_said else None
    return Recorded(rank, file, steps, apart=bool(waits), ranks=ranks, peers=peers, machine=machine)


def _on_the_gpu(runs: Sequence[_Event], entries: Sequence[Any], file: str) -> list[_Event]:
    """Return the ranges of the CPU as times of the GPU; none where the trace lacks launches inside them.

    What launches nothing takes no time, behind what came before it.
    """
    named = Counter(event.name for event in runs if event.lane[0] == GPU)
    if not named:
        return []
    spans, launching, found = GpuSpans(entries, file), Counter[str](), list[_Event]()
    for event in sorted((event for event in runs if event.lane[0] == CPU), key=lambda event: event.start):
        span = spans.of(event.start, event.end)
        if span is not None:
            launching[event.name] += 1
        elif found:
            span = Span(found[-1].end, found[-1].end)
        if span is not None:
            found.append(_Event(event.name, (GPU, None), *span))
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


def _events(entries: Iterable[Any], file: str) -> Iterator[_Event]:
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("ph") != "X" or entry.get("cat") not in (GPU, CPU):
            continue
        name = entry.get("name")
        if isinstance(name, str) and name.startswith((RUN, WAIT)):
            start = ticks_of(entry.get("ts"), f"ts of {name}", file)
            length = ticks_of(entry.get("dur", 0), f"dur of {name}", file)
            if length < 0:
                raise ConfigError(f"{file}: dur of {name} must be at least 0, not {shown(entry.get('dur'))}")
            yield _Event(name, (str(entry["cat"]), entry.get("tid")), start, start + length)


def _of_one_lane(events: Sequence[_Event]) -> list[_Event]:
    """Return of each name the events of one lane: of a GPU before a CPU, and of the busiest stream."""
    counts = Counter(event.lane for event in events)
    rising = sorted(events, key=lambda event: (event.lane[0] == GPU, counts[event.lane], str(event.lane[1])))
    first = {event.name: event.lane for event in rising}  # of each name the last one
    return [event for event in events if event.lane == first[event.name]]


def _ranges(runs: Sequence[_Event], waits: Sequence[_Event]) -> Iterator[Range]:
    """Yield the ranges of slots and transfers, each with its waiting; one that holds that begins behind it."""
    waited: dict[tuple[str, str], deque[_Event]] = {}
    for one in sorted(waits, key=lambda event: event.start):
        waited.setdefault((one.name.removeprefix(WAIT), one.lane[0]), deque()).append(one)
    for event in sorted(runs, key=lambda event: event.start):
        text = event.name.removeprefix(RUN)
        slot = _slot(text)
        if slot is None:
            continue
        if any(op.is_sliced for op in ops_of(slot)):
            raise ConfigError(f"{text} is of a slice; traces of microbatches that are cut into slices are not read")
        before, wait, start = waited.get((text, event.lane[0]), deque()), None, event.start
        while before and before[0].end <= event.end:
            wait = MessageWait(before[0].start, before[0].end)
            start = wait.end if wait.start >= event.start else start
            before.popleft()
        yield Range(slot, start, event.end, wait)


def _slot(text: str) -> Slot | None:
    """Return the slot or transfer of a name; None for communication, and for what is none of ours."""
    if any(word in text for word in COMMUNICATION):
        return None
    try:
        return parse_slot(text) if text.startswith("(") else parse_op(text)
    except ConfigError:
        return None


def _without_parts(ranges: Sequence[Range]) -> list[Range]:
    """Return ranges by their starts, without those of an operation inside the pair that it is a part of."""
    ordered = sorted(ranges, key=lambda one: (one.start, -one.end))
    kept: list[Range] = []
    pair: Range | None = None
    for one in ordered:
        if pair is not None and one.end <= pair.end and isinstance(one.slot, Op) and one.slot in ops_of(pair.slot):
            continue
        if isinstance(one.slot, Pair):
            pair = one
        kept.append(one)
    return kept


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
