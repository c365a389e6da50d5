"""The steps of a run on one clock, each operation from when its inputs were there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median_low

from pipesched.analysis.measured.clocks import Clocks, Kind, align, kind_of, messages
from pipesched.analysis.measured.files import RecordedRun
from pipesched.analysis.measured.ranges import Range, ops_of, producers
from pipesched.analysis.measured.steps import Steps
from pipesched.pipeline.kinds import KINDS
from pipesched.pipeline.ops import Op, Slot


@dataclass(frozen=True)
class AlignedStep:
    """A step on the clock of the first rank: `ranges[r]` are those of rank r, without what they waited.

    `ahead` is the clock of each rank less that of the first, in ticks.
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

    def lengths(self) -> dict[tuple[str, int], list[int]]:
        """Return how long the operations of each kind and stage took, in ticks; pairs by the stage of their forward."""
        found: dict[tuple[str, int], list[int]] = {}
        for one in chain.from_iterable(chain(*step.ranges) for step in self.steps):
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
        [one._replace(start=one.start - ahead, end=one.end - ahead) for one in row]
        for row, ahead in zip(steps.ranges[number], clocks.ahead, strict=True)
    ]
    ends = {op: one.end for row in on_one_clock for one in row for op in ops_of(one.slot)}
    rows = [[_without_waiting(one, ends, steps) for one in row] for row in on_one_clock]
    return AlignedStep(steps.names[number], [sorted(row, key=lambda one: one[1:]) for row in rows], clocks.ahead)


def _without_waiting(one: Range, ends: Mapping[Op, int], steps: Steps) -> Range:
    ops = ops_of(one.slot)
    inputs: Iterable[Op] = chain.from_iterable(producers(op, steps.letters, steps.stages) for op in ops)
    there = [ends[op] for op in inputs if op in ends and op not in ops]
    return one._replace(start=min(max([one.start, *there]), one.end))
