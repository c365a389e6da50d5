"""The steady state of a schedule: the stretch of time in which the pattern of all devices and lanes repeats.

`steady_state` finds it.

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

from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import NamedTuple

from pipesched.core.arrays import Ints, np
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
        return (self.end - self.start) // self.ticks


Series = tuple[Ints, Ints]  # starts and ends of a stage, kind, direction and slice, by microbatch; -1: it does not run


def steady_state(schedule: Schedule, *, nearly: bool = False) -> SteadyState | None:
    """Return the longest steady stretch of at least FEWEST periods, with several chunks FEWEST_OF_CHUNKS, or None.

    With `nearly` it may be one in which few slots do not repeat, where none that is steady covers half of the timeline.
    """
    # a device with several chunks takes turns: a period then holds several microbatches
    fewest = FEWEST_OF_CHUNKS if schedule.problem.stages > schedule.problem.devices else FEWEST
    index, times, series = schedule.plan.index, schedule.times, list[Series]()
    directions = schedule.problem.settled_placement.directions(index.microbatches)
    for row in (row for kind in index.letters for row in index.rows(kind)):
        for numbers, first in product(map(index.in_units, directions), range(index.slices)):
            part = slice(row.start + numbers.start + first, row.start + numbers.stop, index.slices)
            if (times.start[part] >= 0).any():
                series.append((times.start[part], times.end[part]))
    last = max(schedule.last_end_ticks)
    best: SteadyState | None = None
    for few, quarter in product((0, len(times.start) // FEW * nearly), INSTANTS):
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
    ahead = list[tuple[int, Ints]]()  # the starts of each at or behind the instant, where they rise, by the first
    for starts, _ in series:
        late = [starts.searchsorted(instant)] if starts.min() >= 0 else np.flatnonzero(starts >= instant).tolist()
        if late and late[0] < len(starts):
            ahead.append((int(starts[late[0]]), starts[late[0] :]))
    ahead.sort(key=lambda each: each[0])
    for step, start in enumerate(ahead[0][1].tolist() if ahead else ()):
        ticks = start - ahead[0][0]
        if instant + 2 * ticks > last:
            return
        if (
            ticks > 0
            and all(
                first >= instant + ticks  # too late to count
                or (len(later := starts[step : 2 * step]) and (later - starts[: len(later)] == ticks).all())
                for first, starts in ahead
            )
        ):
            yield ticks, step


def _longest(series: Sequence[Series], ticks: int, step: int, few: int) -> SteadyState | None:
    """Return the longest stretch that is steady with this period, but for a `few` breaks at most, or None."""
    unlike = list[Ints]()  # starts of what comes again, but not after a period
    breaks = [np.array([-1])]
    for starts, ends in series:
        ahead = max(len(starts) - step, 0)
        wrong = (starts[step:] - starts[:ahead] != ticks) | (ends[step:] - ends[:ahead] != ticks) | (starts[:ahead] < 0)
        unlike.append(starts[:ahead][wrong])
        breaks += [unlike[-1], starts[step:][wrong] - ticks, starts[ahead:], starts[:step] - ticks]
    at = np.unique(np.concatenate(breaks))
    calm = np.flatnonzero((np.diff(at) > ticks) | (not few))
    if not len(calm):
        return None
    ends = at[calm[calm.searchsorted(calm + few, side="right") - 1] + 1]  # between two breaks that are a period apart
    longest = (ends - at[calm]).argmax()
    before, after = int(at[calm[longest]]), int(ends[longest])
    first = min(int(starts[starts > before].min(initial=after)) for starts, _ in series)
    others = int(sum(((before < row) & (row < after)).sum() for row in unlike))
    return SteadyState(first, after + ticks, ticks, step, others) if first < after else None
