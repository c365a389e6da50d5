"""The steps of a run on one clock, each operation from when its inputs were there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median_low
from typing import NamedTuple

from pipesched.analysis.measured.clocks import Clocks, Kind, align, kind_of, messages
from pipesched.analysis.measured.files import RecordedRun
from pipesched.analysis.measured.ranges import Range, ops_of, producers
from pipesched.analysis.measured.steps import Steps
from pipesched.pipeline.kinds import KINDS
from pipesched.pipeline.ops import Op, Slot


@dataclass(frozen=True)
class AlignedStep:
    """A step on the clock of the first rank: `ranges[r]` are those of rank r, without what they waited.

    Each has the wait for its messages from other ranks, where that is known. `ahead` is the clock of each rank less
    that of the first, in ticks.
    """

    name: str
    ranges: Sequence[Sequence[Range]]
    ahead: Sequence[int]

    @property
    def makespan(self) -> int:
        """Last end less first start of what devices ran, in ticks."""
        starts = [one.start for one in self._slots()]
        return max(one.end for one in self._slots()) - min(starts)

    def _slots(self) -> Iterator[Range]:
        return (one for one in chain(*self.ranges) if not is_transfer(one.slot))


@dataclass(frozen=True)
class Aligned:
    """All steps of a run on one clock, and the kinds of operations that always waited: their length is in doubt."""

    steps: Sequence[AlignedStep]
    waited: frozenset[Kind]

    @property
    def typical(self) -> AlignedStep:
        """The step of median makespan, of an even number the shorter one of the middle."""
        middle = median_low(step.makespan for step in self.steps)
        return next(step for step in self.steps if step.makespan == middle)

    def lengths(self, microbatch: int | None = None) -> dict[tuple[str, int], list[int]]:
        """Return how long the operations of each kind and stage took, in ticks; pairs by the stage of their forward.

        Those of one microbatch, if it is given; a pair is of the microbatch of its forward.
        """
        found: dict[tuple[str, int], list[int]] = {}
        for one in chain.from_iterable(chain(*step.ranges) for step in self.steps):
            if microbatch is None or ops_of(one.slot)[0].microbatch == microbatch:
                found.setdefault(kind_of(one.slot)[:2], []).append(one.end - one.start)
        return found


def is_transfer(slot: Slot) -> bool:
    """Return whether a slot is an offload or a load."""
    return isinstance(slot, Op) and KINDS[slot.kind].is_transfer


def aligned(run: RecordedRun, steps: Steps) -> Aligned:
    """Return the steps on one clock. Raises InvalidSchedule where no clocks fit the messages."""
    apart = any(rank.apart for rank in run.ranks)
    numbers = [rank.rank for rank in run.ranks]
    unit = run.source.unit
    if run.source.clock_a_step:
        clocks = [align(messages(steps, [step]), numbers, unit, apart=apart) for step in range(len(steps.names))]
    else:
        clocks = [align(messages(steps), numbers, unit, apart=apart)] * len(steps.names)
    waited = frozenset(chain.from_iterable(one.waited for one in clocks))
    return Aligned([_aligned_step(steps, number, one) for number, one in enumerate(clocks)], waited)


def _aligned_step(steps: Steps, number: int, clocks: Clocks) -> AlignedStep:
    """Return a step on the clock of the first rank, each operation from when its inputs had ended."""
    on_one_clock = [
        [one.earlier(ahead) for one in row] for row, ahead in zip(steps.ranges[number], clocks.ahead, strict=True)
    ]
    ends = {op: one.end for row in on_one_clock for one in row for op in ops_of(one.slot)}
    rows = [[_without_waiting(one, rank, ends, steps) for one in row] for rank, row in enumerate(on_one_clock)]
    return AlignedStep(steps.names[number], [sorted(row, key=lambda one: one[1:3]) for row in rows], clocks.ahead)


def _without_waiting(one: Range, rank: int, ends: Mapping[Op, int], steps: Steps) -> Range:
    ops = ops_of(one.slot)
    inputs = chain.from_iterable(producers(op, steps.letters, steps.stages) for op in ops)
    known = [op for op in inputs if op in ends and op not in ops]
    start = min(max([one.start, *(ends[op] for op in known)]), one.end)
    return one._replace(start=start, wait=one.wait if any(steps.home[op] != rank for op in known) else None)


class Transit(NamedTuple):
    """How long a message took that its receiver waited for: over which boundary, whether forwards, and the ticks."""

    boundary: int
    forward: bool
    ticks: int


def transits(found: Aligned, steps: Steps) -> Iterator[Transit]:
    """Yield the messages whose receivers waited from before the end of the sender: from that to the end of waiting."""
    for step in found.steps:
        ends = {op: one.end for row in step.ranges for one in row for op in ops_of(one.slot)}
        for one in chain(*step.ranges):
            if one.wait is None:
                continue
            for op in ops_of(one.slot):
                for before in producers(op, steps.letters, steps.stages):
                    if steps.home.get(before, steps.home[op]) != steps.home[op] and one.wait.start < ends[before]:
                        boundary = min(before.stage, op.stage)
                        yield Transit(boundary, before.stage < op.stage, one.wait.end - ends[before])
