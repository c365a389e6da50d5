"""The fold of a chart: warm-up, one period of the steady state and the end, without the periods in between."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import chain
from typing import NamedTuple

from pipesched.pipeline.period import SteadyState, has_chunks, steady_state
from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule
from pipesched.render.labels import counted
from pipesched.render.rows import rows_of
from pipesched.render.timescale import TimeScale, Window, in_all, number

NARROW = 2  # columns of a slot on average, below which its microbatch cannot be told
OFTEN = 4  # times a period must come, and
HELPS = Fraction(2, 3)  # of a timeline may be left of it, for schedules of one chunk to be folded without being asked
NOTHING = "nothing repeats often enough to be folded: drawn whole"


class Fold(NamedTuple):
    """What a chart leaves out of a steady state: `periods` periods, all but the first (and one, if nothing follows)."""

    steady: SteadyState
    periods: int

    @property
    def period(self) -> Window:
        """The period that is drawn."""
        return Window(self.steady.start, self.steady.start + self.steady.ticks)

    @property
    def gap(self) -> Window:
        """The time that is left out."""
        return Window(self.period.end, self.period.end + self.periods * self.steady.ticks)

    def parts(self, window: Window) -> list[Window]:
        """Return what is left of a window that holds the gap."""
        return [Window(window.start, self.gap.start), Window(self.gap.end, window.end)]

    def text(self, schedule: Schedule) -> str:
        """Return what is left out in words: `20 periods of 90 left out: 1200..3000`."""
        unit, label = schedule.problem.ticks.per_unit, schedule.problem.time_unit
        ticks, start, end = (number(in_units(time, unit)) for time in (self.steady.ticks, *self.gap))
        return f"{counted(self.periods, 'period')} of {ticks} {label}".rstrip() + f" left out: {start}..{end}"


def fold_of(schedule: Schedule) -> Fold | None:
    """Return the fold of a schedule that has a steady state."""
    steady = steady_state(schedule)
    if steady is None:
        return None
    is_last = steady.start + steady.repeats * steady.ticks >= schedule.last_ticks
    periods = steady.repeats - 1 - is_last
    fold = Fold(steady, periods)
    return fold if periods and not _hides_step(schedule, fold.gap) else None


def _hides_step(schedule: Schedule, gap: Window) -> bool:
    """Return whether something of the step beside its passes would run in the time that is left out."""
    starts, ends, first = schedule.start_ticks, schedule.end_ticks, schedule.plan.index.passes
    return any(starts[number] < gap.end and ends[number] > gap.start for number in range(first, len(starts)))


def is_narrow(schedules: Iterable[Schedule], scales: Sequence[TimeScale]) -> bool:
    """Return whether slots are narrower than NARROW columns on average in the chart of one of the schedules."""
    whole = in_all(scales)
    length = whole.window.end - whole.window.start
    return any(
        sum(schedule.busy_ticks) * whole.columns < NARROW * length * sum(map(len, schedule.plan.orders))
        for schedule in schedules
    )


def is_by_kind(schedules: Sequence[Schedule], scales: Sequence[TimeScale]) -> bool:
    """Return whether hues stand for kinds: where slots are narrow, or share columns in one of the rows."""
    rows = chain.from_iterable(map(rows_of, schedules))
    return is_narrow(schedules, scales) or any(row.is_crowded(*scales) for row in rows)


def helps(schedule: Schedule, fold: Fold, folded: Sequence[TimeScale], whole: Sequence[TimeScale]) -> bool:
    """Return whether slots get wider by a fold; with one chunk also whether enough of the timeline is left out."""
    narrow, wide = (in_all(scales) for scales in (whole, folded))
    before, after = (scale.window.end - scale.window.start for scale in (narrow, wide))
    is_enough = has_chunks(schedule) or (fold.steady.repeats >= OFTEN and after <= HELPS * before)
    return is_enough and wide.columns * before > narrow.columns * after
