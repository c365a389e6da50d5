"""The conversion of ticks to columns, and round numbers for the axis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, chain, groupby, pairwise
from math import ceil, floor, gcd
from typing import NamedTuple

from pipesched.core.arrays import ceil_div
from pipesched.pipeline.kinds import KINDS
from pipesched.pipeline.metrics import NETWORK, PARTS
from pipesched.pipeline.quantities import in_units, plain
from pipesched.pipeline.schedule import Schedule


class Window(NamedTuple):
    """The part of the timeline to draw, in ticks: from `start` up to `end`."""

    start: int
    end: int


def zoomed(window: Window, zoom: float) -> Window:
    """Return 1/zoom of a window, from its start; of a window that is not empty at least a tick."""
    length = window.end - window.start
    return Window(window.start, window.start + max(int(length / zoom), min(1, length)))


class TimeScale(NamedTuple):
    """A scale on which `columns` columns show `window`."""

    window: Window
    columns: int

    def middle(self, column: int) -> int:
        """Return the tick in the middle of a column."""
        length = self.window.end - self.window.start
        return self.window.start + (2 * column + 1) * length // (2 * self.columns)

    def edge(self, column: int) -> int:
        """Return the tick at the left edge of a column (for column = columns, the one at the right end)."""
        return self.window.start + column * (self.window.end - self.window.start) // self.columns

    def column(self, tick: int) -> int:
        """Return the column into which a tick falls."""
        length = self.window.end - self.window.start
        return (tick - self.window.start) * self.columns // length if length else 0

    def column_before(self, tick: int) -> int:
        """Return the last column that something touches which ends at a tick."""
        length = self.window.end - self.window.start
        return ceil_div((tick - self.window.start) * self.columns, length) - 1 if length else 0


def fit(window: Window, quantum: int, width: int) -> TimeScale:
    """Return the largest scale that shows `window` in at most `width` columns.

    If one column a quantum (which divides all times that occur) fits, each quantum gets the same whole number of
    columns, so that equal operations look equal. Otherwise the window is spread over the whole width.
    """
    return fit_parts([window], quantum, width, window.end - window.start)[0]


def fit_parts(windows: Sequence[Window], quantum: int, width: int, most: int) -> Sequence[TimeScale]:
    """Return scales that show the windows one behind the other, where `most` ticks would take `width` columns.

    All have the same number of columns a tick, by the rule of `fit` (but for rounding where that is not whole).
    """
    quantum = gcd(quantum, most, *chain(*windows))
    quanta = most // quantum if quantum else 0
    if not quanta:
        return [TimeScale(window, 1) for window in windows]
    columns = width // quanta * quanta if quanta <= width else width
    ends = [total * columns // most for total in accumulate(end - start for start, end in windows)]
    ends[-1] = max(ends[-1], len(ends))
    rising = [0]  # ends of parts, each of which has a column at least; the last end stays if it can
    for place, end in enumerate(ends, 1):
        rising.append(min(max(end, rising[-1] + 1), ends[-1] - (len(ends) - place)))
    return [TimeScale(window, end - begin) for window, (begin, end) in zip(windows, pairwise(rising), strict=True)]


def quantum(schedules: Iterable[Schedule]) -> int:
    """Return the quantum of problems: the greatest common divisor of all their times, in ticks."""
    times: set[int] = set()
    for schedule in schedules:
        model = schedule.problem.model
        times.update(operation_times(schedule), model.there.ravel().tolist(), model.back.ravel().tolist())
        if schedule.problem.has_step:
            times.update(schedule.graph.durations[schedule.plan.index.passes :], schedule.problem.step_ticks.side_p2p)
    return gcd(*times)


def operation_times(schedule: Schedule) -> Iterator[int]:
    """Yield the durations of all kinds of passes and transfers of a schedule, in ticks."""
    model, plan = schedule.problem.model, schedule.plan
    tables = [model.ticks[KINDS[letter].cost] for letter in plan.index.letters]
    for table in (*tables, model.overlap) if plan.pairs and model.overlap is not None else tables:
        yield from {*table.ravel().tolist()}


def in_all(scales: Sequence[TimeScale]) -> TimeScale:
    """Return one scale with the columns of several, and a window as long as theirs that ends with the last."""
    if len(scales) == 1:
        return scales[0]
    end, length = scales[-1].window.end, sum(scale.window.end - scale.window.start for scale in scales)
    return TimeScale(Window(end - length, end), sum(scale.columns for scale in scales))


def describe(scale: TimeScale, ticks_a_unit: int, unit: str | None) -> str:
    """Return the scale in words: `1 column = 5 ms`."""
    length = scale.window.end - scale.window.start
    label = f" {unit}" if unit else ""
    if not length:
        return "nothing takes time here"
    if length % scale.columns and not scale.columns % length:
        return f"{scale.columns // length} columns = {in_units(1, ticks_a_unit)}{label}"
    if length % scale.columns:
        step = length / scale.columns / ticks_a_unit
        return f"1 column = {float(f'{step:.4g}'):,g}{label}"
    return f"1 column = {number(in_units(length // scale.columns, ticks_a_unit))}{label}"


def axis_ticks(scale: TimeScale, ticks_a_unit: int, step: Fraction) -> list[tuple[int, str]]:
    """Return (column, label) of the multiples of `step` ticks."""
    start, end = scale.window
    if start == end:
        return [(0, "0")]
    marks = [count * step for count in range(ceil(start / step), floor(end / step) + 1)]
    return [(scale.column(floor(tick)), number(plain(tick / ticks_a_unit))) for tick in marks]


def round_step(scale: TimeScale, unit: int) -> Fraction:
    """Return the least of 1, 2, 5 times a power of ten of units, in ticks, whose labels do not touch."""
    length = scale.window.end - scale.window.start
    widest = len(number(in_units(scale.window.end, unit)))
    return round_number(max(Fraction((widest + 3) * length, scale.columns), Fraction(1)) / unit) * unit


def round_number(least: Fraction) -> Fraction:
    """Return the smallest of 1, 2, 5 times a power of ten that is no less than `least`, which must be positive."""
    power = Fraction(1)
    while power > least:
        power /= 10
    while power * 10 < least:
        power *= 10
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least)


def number(value: int | float) -> str:
    """Return a number as text for people: thousands apart from five digits on, and at most six digits of a fraction."""
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    return f"{value:.6g}" if abs(value) < 1e6 else f"{value:,.1f}"


MOST_NAMED = 4  # operations of one part that a row names


def step_rows(schedule: Schedule, time: Callable[[int | float], str]) -> Iterator[tuple[str, str, str]]:
    """Yield what the step costs beside its passes, and of each part of it how long it lasts and what of it shows."""
    step = schedule.step
    lasting = {} if step is None else {part: times for part in PARTS if any(times := step.time(part))}
    if step is None or not lasting:
        return
    yield "pipeline", time(step.pipeline), "makespan in which gathers, reductions and optimizers take no time"
    if not lasting.keys().isdisjoint(NETWORK):
        yield "exposed", time(step.network), "makespan less that in which gathers and reductions take no time"
    for part, times in lasting.items():
        owners = [device for device, one in enumerate(times) if one]
        least, most = min(filter(None, times)), max(times)
        each = time(most) if least == most else f"{number(least)} to {time(most)}"
        if len(owners) < len(times):
            each += f" on {devices_text(owners)}"
        elif len(times) > 1:
            each += " a device"
        said = f"{time(step.cost(part))} exposed"
        if part in NETWORK:  # by which operations, and where it is hidden
            exposed, hidden = step.exposed_of(part), step.hidden_on(part)
            texts = [str(schedule.plan.index.op(one)) for one in exposed[:MOST_NAMED]]
            texts += [f"and {len(exposed) - MOST_NAMED} more"] * (len(exposed) > MOST_NAMED)
            said += f" ({', '.join(texts)})" if texts else ""
            said += f", hidden on {devices_text(hidden)}" if hidden else ""
        yield f"  {part}", each, said


def devices_text(devices: Sequence[int]) -> str:
    """Name devices, neighbours as a range: `device 2`, `devices 0, 2-5`."""
    return f"device{'s' * (len(devices) > 1)} {numbers_text(devices)}"


def numbers_text(numbers: Sequence[int]) -> str:
    """Return rising numbers as a text: 1-3, 5."""
    runs = ([number for _, number in run] for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]))
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
