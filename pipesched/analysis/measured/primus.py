"""Primus's files `pp_rank_R.json` (its option `dump_pp_data`): the times of each iteration of a rank.

    {"1": {"fwd_start": [..], "fwd_end": [..], "fwd_minibatch": [..], "fwd_chunk": [..], "bwd_..", "wgrad_.."}}

Times are milliseconds since the rank began the iteration, so each iteration has clocks of its own. A bwd beside a
wgrad of the same microbatch and chunk is the gradient of the input alone, I; else it is the whole backward. A fwd and
a bwd of one interval ran together, as a pair. (github.com/AMD-AGI/Primus, megatron/core/pipeline_parallel, `pp_vis`.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

from pipesched.analysis.measured.ranges import Range, Recorded, TraceSource, idle_as_waits, ticks_of
from pipesched.checks import shown
from pipesched.errors import ConfigError
from pipesched.pipeline.ops import Op, Pair
from pipesched.pipeline.placement import Placement

SOURCE = TraceSource("Primus", "ms", clock_a_step=True)
MOST = 10**6  # microbatches, or chunks
_FILE = re.compile(r"pp_rank_(\d{1,6})\.json(?:\.gz)?")


class _Timed(NamedTuple):
    """An entry of a file: which microbatch and chunk, and its times in ticks."""

    microbatch: int
    chunk: int
    start: int
    end: int


def rank_of(file: str) -> int:
    """Return the rank that a file's name says. Raises ConfigError."""
    match = _FILE.fullmatch(PurePath(file.replace("\\", "/")).name)
    if match is None:
        raise ConfigError(
            f"{file} does not say whose it is: Primus's files are named pp_rank_0.json, pp_rank_1.json, .."
        )
    return int(match[1])


def recorded(content: Mapping[str, Any], file: str, placement: Placement) -> Recorded:
    """Return what a rank recorded, its chunks being the stages that `placement` has on it. Raises ConfigError."""
    rank = rank_of(file)
    stages = placement.stages_on(rank)
    steps = {}
    for name in sorted(content, key=int):
        ranges = sorted(_ranges(content[name], stages, f"{file}: iteration {name}"), key=lambda one: one[1:3])
        if not ranges:
            raise ConfigError(f"{file}: iteration {name} holds no operation")
        steps[name] = idle_as_waits(ranges, 0)
    return Recorded(rank, file, steps, apart=True)


def _ranges(part: Mapping[str, Any], stages: Sequence[int], where: str) -> Iterator[Range]:
    forwards, backwards, weights = ([*_timed(part, key, where)] for key in ("fwd", "bwd", "wgrad"))
    split = {(one.microbatch, one.chunk) for one in weights}
    whole = {one[2:]: one for one in backwards if (one.microbatch, one.chunk) not in split and one.end > one.start}
    paired = {one[2:] for one in forwards if one[2:] in whole}

    def op(one: _Timed, letter: str) -> Op:
        if one.chunk >= len(stages):
            raise ConfigError(f"{where} has chunk {one.chunk}, but the placement has {len(stages)} stages on this rank")
        return Op._make((stages[one.chunk], letter, one.microbatch, 0))

    for one in forwards:
        alone = op(one, "F")
        slot = Pair._make((alone, op(whole[one[2:]], "B"))) if one[2:] in paired else alone
        yield Range(slot, one.start, one.end)
    for one in backwards:
        if one[2:] not in paired or (one.microbatch, one.chunk) in split:
            yield Range(op(one, "I" if (one.microbatch, one.chunk) in split else "B"), one.start, one.end)
    for one in weights:
        yield Range(op(one, "W"), one.start, one.end)


def _timed(part: Mapping[str, Any], key: str, where: str) -> Iterator[_Timed]:
    """Yield the entries of one kind. Without microbatches they are 0, 1, 2, ..; without chunks all are chunk 0."""
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
        yield _Timed(microbatch, chunk, *times)


def _list(part: Mapping[str, Any], key: str, where: str) -> list[Any]:
    found = part.get(key, [])
    if not isinstance(found, list):
        raise ConfigError(f"{where}: {key} must be a list, not {shown(found)}")
    return found
