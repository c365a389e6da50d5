"""The steady state of a schedule: the stretch of time in which the pattern of all devices and lanes repeats.

A slot repeats after a period of `ticks` with a step of `microbatches` if the slot of the same stage, kind, direction
and slice whose microbatch is one step later starts and ends exactly one period later. Times [start, end) are steady if
every slot that starts in [start, end - ticks) repeats, and every slot that starts in [start + ticks, end) is such a
repetition. So the slots that start in the first period tell all others.

Candidates for the period are read off at three instants, and each is verified at every slot of the schedule. A stretch
that covers a quarter of the timeline and two periods more holds one of the instants.

Orders that a solver or a person made often repeat but for a few slots. A nearly steady stretch does: in its first and
its last period every slot repeats.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise, product
from typing import NamedTuple

from pipesched.pipeline.plan.schedule import Schedule

INSTANTS = (2, 1, 3)  # quarters of the timeline at which a period is looked for
TRIALS = 4  # candidates at an instant that are verified
FEWEST, FEWEST_OF_CHUNKS = 3, 2  # repetitions of a period that make a steady state; of chunks a period is long


FEW = 20  # one of so many slots may run otherwise in a stretch


class SteadyState(NamedTuple):
    """The longest steady stretch, [start, end) in ticks, its period, and by how many microbatches one advances.

    In it `others` slots do not repeat.
    """

    start: int
    end: int
    ticks: int
    microbatches: int
    others: int = 0

    @property
    def repeats(self) -> int:
        """The number of whole periods."""
        return (self.end - self.start) // self.ticks


class Series(NamedTuple):
    """The times of the operations of one stage, kind, direction and slice, by microbatch; -1 for what does not run."""

    starts: Sequence[int]
    ends: Sequence[int]

    def unlike(self, ticks: int, step: int) -> Iterator[tuple[int, int]]:
        """Yield the start of what comes again, but not after a period, and that of what it comes again as."""
        starts, ends = self.starts, self.ends
        for start, later, end, last in zip(starts, starts[step:], ends, ends[step:], strict=False):
            if later - start != ticks or last - end != ticks or start < 0:
                yield start, later

    def breaks(self, ticks: int, step: int) -> Iterator[int]:
        """Yield the start of what does not repeat, and a period before the start of what repeats nothing."""
        for start, later in self.unlike(ticks, step):
            yield from (start, later - ticks)
        yield from self.starts[max(len(self.starts) - step, 0) :]
        yield from (start - ticks for start in self.starts[:step])


def steady_state(schedule: Schedule, *, nearly: bool = False) -> SteadyState | None:
    """Return the longest steady stretch of at least FEWEST periods, with several chunks FEWEST_OF_CHUNKS, or None.

    With `nearly` it may be one in which few slots do not repeat, where none that is steady covers half of the timeline.
    """
    # a device with several chunks takes turns: a period then holds several microbatches
    fewest = FEWEST_OF_CHUNKS if schedule.problem.stages > schedule.problem.devices else FEWEST
    index, series = schedule.plan.index, list[Series]()
    directions = schedule.problem.settled_placement.directions(index.microbatches)
    for row in (row for kind in index.letters for row in index.rows(kind)):
        for numbers, first in product(map(index.in_units, directions), range(index.slices)):
            part = slice(row.start + numbers.start + first, row.start + numbers.stop, index.slices)
            if any(start >= 0 for start in schedule.start_ticks[part]):
                series.append(Series(schedule.start_ticks[part], schedule.end_ticks[part]))
    last = max(schedule.last_end_ticks)
    best: SteadyState | None = None
    for few, quarter in product((0, len(schedule.start_ticks) // FEW * nearly), INSTANTS):
        instant = quarter * last // 4
        if few and best is not None and not best.others and 2 * (best.end - best.start) >= last:
            break
        if best is None or few or not best.start <= instant < best.end:
            stretches = (_longest(series, *one, few) for one in islice(_candidates(series, instant, last), TRIALS))
            found = next((one for one in stretches if one is not None and one.repeats >= fewest), None)
            best = max((each for each in (best, found) if each), key=lambda each: each.end - each.start, default=None)
    return best


def _candidates(series: Sequence[Series], instant: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield (ticks, microbatches) of periods after which all that starts from `instant` on repeats once."""
    ahead = []  # the first start at or behind the instant of each, where starts rise
    for each in series:
        late = (place for place, start in enumerate(each.starts) if start >= instant)
        place = next(late, -1) if -1 in each.starts else bisect_left(each.starts, instant)
        if 0 <= place < len(each.starts):
            ahead.append((each.starts, place))
    ahead.sort(key=lambda pair: pair[0][pair[1]])
    if not ahead:
        return
    starts, place = ahead[0]
    for step in range(1, len(starts) - place):
        ticks = starts[place + step] - starts[place]
        if instant + 2 * ticks > last:
            return
        if ticks > 0 and all(_repeats(*pair, instant + ticks, ticks, step) for pair in ahead):
            yield ticks, step


def _repeats(starts: Sequence[int], place: int, until: int, ticks: int, step: int) -> bool:
    """Return whether the `step` starts from `place` on come again after `ticks`, if they come before `until` at all."""
    if starts[place] >= until:
        return True
    if place + step >= len(starts) or starts[place + step] - starts[place] != ticks:
        return False
    middle = place + step
    pairs = zip(starts[place:middle], starts[middle : middle + step], strict=False)
    return all(later - start == ticks for start, later in pairs)


def _longest(series: Sequence[Series], ticks: int, step: int, few: int) -> SteadyState | None:
    """Return the longest stretch that is steady with this period, but for a `few` breaks at most, or None."""
    breaks = sorted({-1, *(tick for each in series for tick in each.breaks(ticks, step))})
    before, after = 0, 0
    calm = [place for place, (one, other) in enumerate(pairwise(breaks)) if other - one > ticks or not few]
    for place, first in enumerate(calm):  # a stretch begins and ends between two breaks that are a period apart
        last = calm[bisect_right(calm, first + few, place) - 1] + 1
        if breaks[last] - breaks[first] > after - before:
            before, after = breaks[first], breaks[last]
    starts = (min(filter(before.__lt__, each.starts), default=None) for each in series)
    first = min((start for start in starts if start is not None), default=after)
    others = sum(before < start < after for each in series for start, _ in each.unlike(ticks, step))
    return SteadyState(first, after + ticks, ticks, step, others) if first < after else None
