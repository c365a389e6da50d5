"""What a chart shows, whatever draws it: scales of time, rows of slots, lanes, chunks and hues; and numbers as texts.

`fit` makes a `TimeScale`, `rows_of` each `Row` of a chart, and `Row.runs` says what columns show. Slots are looked up
by time, so that a long row costs no more than its columns.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import accumulate, chain, count, groupby, pairwise
from math import gcd
from typing import NamedTuple

from pipesched.core.arrays import ceil_div
from pipesched.pipeline.plan.plan import SIDE_KINDS, Plan, lane_of
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.plan.step import EDGE, FREE, PAIR as PAIR_QUEUE
from pipesched.pipeline.problem.kinds import ALL_KINDS, KINDS, LANES, STEP_KINDS, Scope
from pipesched.pipeline.problem.ops import SIDE_MESSAGES, Op
from pipesched.pipeline.problem.quantities import in_units
from pipesched.render.palette import place_of


class Window(NamedTuple):
    """The part of the timeline to draw, in ticks: from `start` up to `end`."""

    start: int
    end: int


class TimeScale(NamedTuple):
    """A scale on which `columns` columns show `window`."""

    window: Window
    columns: int

    def column(self, tick: int) -> int:
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


def devices_text(devices: Sequence[int]) -> str:
    """Name devices, neighbours as a range: `device 2`, `devices 0, 2-5`."""
    return f"device{'s' * (len(devices) > 1)} {numbers_text(devices)}"


def numbers_text(numbers: Sequence[int]) -> str:
    """Return rising numbers as a text: 1-3, 5."""
    runs = ([number for _, number in run] for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]))
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


NETWORK_LANE = "net"  # the name of its row
QUEUE, TO = "msg", "to"  # so of messages that a device has in a queue, and of those that it sends to another
PAIR = "&"  # the kind of an overlapped pair
MOST_SEEN = 12  # slots of a shared column that are looked at for marks
LETTERS = {kind: kind if len(kind) == 1 else one.mark.upper() for kind, one in ALL_KINDS.items()}  # in charts
OF_STAGES = frozenset(kind for kind, one in STEP_KINDS.items() if one.scope is not Scope.SIDE)  # without microbatches


class Run(NamedTuple):
    """Neighbouring columns that show the same slot (None: idle).

    Kinds take turns in columns that several slots share, as often as they have time. `slot` is of the kind whose
    turn it is, `halves` are those of the half columns. `slots` are those that fall into one, of many every so manieth.
    """

    width: int
    slot: int | None
    shared: bool = False  # several slots may fall into the column
    slots: Sequence[int] = ()
    halves: tuple[int, ...] = ()
    is_break: bool = False  # time is left out here


@dataclass(eq=False, repr=False)
class Row:
    """The slots of one row in their order, each with its start and its end, ready to be looked up by time.

    `kind_of` says of which kind a slot is, for columns that several share; by default each has its own.
    """

    order: Sequence[int]
    starts: Sequence[int]
    ends: Sequence[int]
    kind_of: Callable[[int], Hashable] = int

    def runs(self, *scales: TimeScale) -> list[Run]:
        """Return what the columns show: slots, or in a crowded row kinds in turn; and breaks between two scales."""
        crowded, runs = self.is_crowded(*scales), list[Run]()
        for scale in scales:
            runs += [Run(1, None, is_break=True)] if runs else []
            runs += self._kinds(scale) if crowded else self._slots(scale)
        return runs

    def is_crowded(self, *scales: TimeScale) -> bool:
        whole = in_all(scales)
        worked = sum(self.worked(*scale.window) for scale in scales)
        slots = sum(bisect_left(self.starts, end) - bisect_right(self.ends, start) for (start, end), _ in scales)
        return worked * whole.columns < slots * (whole.window.end - whole.window.start)

    def _slots(self, scale: TimeScale) -> Iterator[Run]:
        (begin, end), columns = scale
        start, shown = 0, None
        for column in range(columns):
            tick = begin + (2 * column + 1) * (end - begin) // (2 * columns)  # in the middle of the column
            position = bisect_right(self.starts, tick) - 1  # of the slot that runs then, if one does
            slot = self.order[position] if position >= 0 and tick < self.ends[position] else None
            if column and slot != shown:
                yield Run(column - start, shown)
                start = column
            shown = slot
        yield Run(columns - start, shown)

    def _kinds(self, scale: TimeScale) -> Iterator[Run]:
        wholes, halves = ([0.0] * len(self._by_kind) for _ in range(2))  # what each kind is owed
        (start, end), columns = scale
        edges = (start + column * (end - start) // columns for column in range(columns + 1))
        for left, right in pairwise(edges):
            times = [row.worked(left, right) for row in self._by_kind]
            if not any(times):
                yield Run(1, None, shared=True)
                continue
            turn, *both = *_turns(wholes, times, 1), *_turns(halves, times, 2)
            kinds = (self._by_kind[kind] for kind in (turn, *sorted(both)))
            slot, *parts = (row.order[bisect_right(row.ends, left)] for row in kinds)
            first, last = bisect_right(self.ends, left), bisect_left(self.starts, right)
            seen = self.order[first : last : ceil_div(last - first, MOST_SEEN)]
            yield Run(1, slot, shared=True, slots=seen, halves=tuple(parts))

    @cached_property
    def _by_kind(self) -> Sequence[Row]:
        found: dict[Hashable, tuple[list[int], list[int], list[int]]] = {}
        for slot, start, end in zip(self.order, self.starts, self.ends, strict=True):
            if start < end:
                order, starts, ends = found.setdefault(self.kind_of(slot), ([], [], []))
                order.append(slot)
                starts.append(start)
                ends.append(end)
        return [Row(*columns) for columns in found.values()]

    def worked(self, left: float, right: float) -> float:
        first, last = bisect_right(self.ends, left), bisect_left(self.starts, right)
        if first >= last:
            return 0
        whole = sum(self.ends[first:last]) - sum(self.starts[first:last])
        return whole - max(left - self.starts[first], 0) - max(self.ends[last - 1] - right, 0)


def _turns(owed: list[float], times: Sequence[float], count: int) -> Iterator[int]:
    """Yield the kinds of the parts of a column: of those in it the ones that are owed most; `owed` is kept up."""
    owed[:] = (debt + time / sum(times) for debt, time in zip(owed, times, strict=True))
    for _ in range(count):
        kind = max((kind for kind, time in enumerate(times) if time), key=owed.__getitem__)
        owed[kind] -= 1 / count
        yield kind


def kind_of_slot(plan: Plan, slot: int) -> str:
    """Return the letter of a slot, or PAIR."""
    return PAIR if slot in plan.pairs else plan.index.kind_of(slot)


def device_row(schedule: Schedule, device: int) -> Row:
    """Return the row of a device."""
    starts, ends = schedule.slot_start_ticks[device], schedule.slot_end_ticks[device]
    return Row(schedule.plan.orders[device], starts, ends, partial(kind_of_slot, schedule.plan))


def lane_rows(schedule: Schedule, device: int) -> Iterator[tuple[str, Row]]:
    """Yield name and row of each lane below a device that moves something.

    Its network lane, then its messages: all in one row, or where they have several queues one for each other device.
    Then its transfer lanes.
    """
    plan, lanes = schedule.plan, list[tuple[str, Sequence[int]]]()
    if plan.network:
        lanes.append((NETWORK_LANE, lane_of(plan.network[device], plan.index)))
    if plan.messages:
        lanes += message_lanes(schedule, device)
    if plan.lanes:
        lanes += [(lane.value, order) for lane, order in zip(LANES, plan.lanes[device], strict=True)]
    for name, order in lanes:
        if order:
            starts, ends = (tuple(map(times.__getitem__, order)) for times in schedule.times)
            yield name, Row(order, starts, ends, partial(kind_of_slot, plan))


def message_lanes(schedule: Schedule, device: int) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield name and messages of each queue of a device, of those that take time, in the order of their times."""
    known = schedule.problem.messages
    queue = FREE if known is None else known.queue
    for other, row in schedule.plan.queues_on(device, queue) if queue != FREE else ():
        name = {EDGE: f"{TO} {other}", PAIR_QUEUE: f"{QUEUE} {other}"}.get(queue, QUEUE)
        takes = schedule.times.end[row] > schedule.times.start[row]
        yield name, sorted(row[takes].tolist(), key=schedule.start_ticks.__getitem__)


def rows_of(schedule: Schedule) -> Iterator[Row]:
    """Yield every row of a chart."""
    for device in range(schedule.problem.devices):
        yield device_row(schedule, device)
        yield from (row for _, row in lane_rows(schedule, device))


def chunk_of_stage(schedule: Schedule) -> list[int]:
    """Return the chunk of each stage: 0 for the first stage of its device. Mirrored copies of a stage count once."""
    of_device: dict[int, Iterator[int]] = defaultdict(count)
    return [next(of_device[device]) for device in schedule.problem.settled_placement.devices]


def chunk_of(op: Op, of_stages: Sequence[int]) -> int:
    """Return the chunk of an operation, by those of the stages; side work has none."""
    return 0 if op.kind in (*SIDE_KINDS, *SIDE_MESSAGES) else of_stages[op.stage]


Looks = tuple[int | None, str, int, int, float | None]  # of a slot, as `colour_of` and `fill` take them


def looks_of(schedule: Schedule, *, by_kind: bool) -> Callable[[Op], Looks]:
    """Return what says the hue of a slot, its kind, its chunk and the count of chunks, and the place of its slice."""
    of_stages, slices = chunk_of_stage(schedule), schedule.plan.index.slices
    chunks = max(of_stages) + 1

    def look(op: Op) -> Looks:
        hue = None if by_kind or op.kind in OF_STAGES else op.microbatch  # None: that of its kind
        return hue, op.kind, chunk_of(op, of_stages), chunks, None if hue is None else place_of(op.slice, slices)

    return look


Spelling = Callable[[str], str]  # turns the parameters in a text, which stand in backticks, into what a reader types


def as_parameters(text: str) -> str:
    """Return a text without the backticks around its parameters, for a reader who calls functions."""
    return text.replace("`", "")


MEASURED_MEMORY = "memory as planned: traces hold none"  # of a measured schedule
ABOVE_STATIC = " above static memory"  # of the strips, where some device holds memory all the time


def counted(number: int, what: str, plural: str = "s") -> str:
    """Return a count as text: `1 stage`, `2 stages`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}{plural}"


def with_unit(name: str, unit: str) -> str:
    """Return the name of an axis, a column or a colour with its unit, if there is one: `makespan (ms)`."""
    return f"{name} ({unit})" if unit else name
