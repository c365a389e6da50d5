"""The columns of a row of a chart. Slots are looked up by time, so that a long row costs no more than its columns."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from pipesched.core.arrays import ceil_div
from pipesched.pipeline.kinds import LANES
from pipesched.pipeline.metrics import picker
from pipesched.pipeline.plan import lane_of
from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.step import EDGE, FREE, PAIR as PAIR_QUEUE
from pipesched.render.timescale import TimeScale, in_all

NETWORK_LANE = "net"  # the name of its row
QUEUE, TO = "msg", "to"  # so of messages that a device has in a queue, and of those that it sends to another
PAIR = "&"  # the kind of an overlapped pair
MOST_SEEN = 12  # slots of a shared column that are looked at for marks


class Run(NamedTuple):
    """Neighbouring columns that show the same slot (None: idle).

    Kinds take turns in columns that several slots share, as often as they have time: `slot` is of the kind whose
    turn it is, `halves` are those of the half columns. `slots` are those that fall into one, of many every so manieth.
    """

    width: int
    slot: int | None
    shared: bool = False  # several slots may fall into the column
    slots: Sequence[int] = ()
    halves: tuple[int, ...] = ()
    is_break: bool = False  # time is left out here


class Row:
    """The slots of one row in their order, each with its start and its end, ready to be looked up by time.

    `kind_of` says of which kind a slot is, for columns that several share; by default each has its own.
    """

    def __init__(
        self, order: Sequence[int], starts: Sequence[int], ends: Sequence[int], kind_of: Callable[[int], Hashable] = int
    ) -> None:
        self.order, self.starts, self.ends, self.kind_of = order, starts, ends, kind_of

    def slot_at(self, tick: int) -> int | None:
        """Return the slot that runs at `tick`, None if the row is idle then."""
        position = bisect_right(self.starts, tick) - 1
        return self.order[position] if position >= 0 and tick < self.ends[position] else None

    def runs(self, *scales: TimeScale) -> list[Run]:
        """Return what the columns show, left to right: slots, or in a crowded row kinds in turn.

        A column that shows a break stands between two scales.
        """
        crowded = self.is_crowded(*scales)
        runs: list[Run] = []
        for scale in scales:
            runs += [Run(1, None, is_break=True)] if runs else []
            runs += self._kinds(scale) if crowded else self._slots(scale)
        return runs

    def is_crowded(self, *scales: TimeScale) -> bool:
        """Return whether slots are narrower than a column on average."""
        whole = in_all(scales)
        worked = sum(self._worked(*scale.window) for scale in scales)
        slots = sum(last - first for first, last in map(self._within, scales))
        return worked * whole.columns < slots * (whole.window.end - whole.window.start)

    def hidden(self, runs: Sequence[Run], *scales: TimeScale) -> int:
        """Return how many slots that take time are too short for a column of their own in `runs`."""
        if runs[0].shared:
            return 0
        lasting = 0
        for first, last in map(self._within, scales):
            times = zip(self.starts[first:last], self.ends[first:last], strict=True)
            lasting += sum(start < end for start, end in times)
        return lasting - sum(run.slot is not None for run in runs)

    def _within(self, scale: TimeScale) -> tuple[int, int]:
        """Return the positions of the first slot in the window of a scale, and of the first one behind it."""
        return bisect_right(self.ends, scale.window.start), bisect_left(self.starts, scale.window.end)

    def _slots(self, scale: TimeScale) -> Iterator[Run]:
        start, shown = 0, self.slot_at(scale.middle(0))
        for column in range(1, scale.columns):
            slot = self.slot_at(scale.middle(column))
            if slot != shown:
                yield Run(column - start, shown)
                start, shown = column, slot
        yield Run(scale.columns - start, shown)

    def _kinds(self, scale: TimeScale) -> Iterator[Run]:
        """Yield a run for each column."""
        wholes, halves = ([0.0] * len(self._by_kind) for _ in range(2))  # what each kind is owed
        for left, right in pairwise(borders(scale)):
            times = [row._worked(left, right) for row in self._by_kind]
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
        """The slots of each kind as a row of their own."""
        found: dict[Hashable, tuple[list[int], list[int], list[int]]] = {}
        for slot, start, end in zip(self.order, self.starts, self.ends, strict=True):
            if start < end:
                order, starts, ends = found.setdefault(self.kind_of(slot), ([], [], []))
                order.append(slot)
                starts.append(start)
                ends.append(end)
        return [Row(*columns) for columns in found.values()]

    def _worked(self, left: int, right: int) -> int:
        first, last = bisect_right(self.ends, left), bisect_left(self.starts, right)
        if first >= last:
            return 0
        whole = sum(self.ends[first:last]) - sum(self.starts[first:last])
        return whole - max(left - self.starts[first], 0) - max(self.ends[last - 1] - right, 0)


def _turns(owed: list[float], times: Sequence[int], count: int) -> Iterator[int]:
    """Yield the kinds of the parts of a column: of those in it the ones that are owed most; `owed` is kept up."""
    owed[:] = (debt + time / sum(times) for debt, time in zip(owed, times, strict=True))
    for _ in range(count):
        kind = max((kind for kind, time in enumerate(times) if time), key=owed.__getitem__)
        owed[kind] -= 1 / count
        yield kind


@lru_cache(maxsize=4)
def borders(scale: TimeScale) -> list[int]:
    """Return the ticks at the edges of the columns of a scale, which all rows share."""
    return [*map(scale.edge, range(scale.columns)), scale.window.end]


def kinds_of(schedule: Schedule) -> Callable[[int], Hashable]:
    """Return what says of which kind a slot is: its letter, or PAIR."""
    kind_of, pairs = schedule.plan.index.kind_of, schedule.plan.pairs
    return lambda slot: PAIR if slot in pairs else kind_of(slot)


def device_row(schedule: Schedule, device: int) -> Row:
    """Return the row of a device."""
    starts, ends = schedule.slot_start_ticks[device], schedule.slot_end_ticks[device]
    return Row(schedule.plan.orders[device], starts, ends, kinds_of(schedule))


def lane_rows(schedule: Schedule, device: int) -> Iterator[tuple[str, Row]]:
    """Yield name and row of each lane below a device that moves something.

    Its network lane, then its messages: all in one row, or where they have several queues one for each other device.
    Then its transfer lanes; below the second device of two that share these, those of the pair.
    """
    problem, plan = schedule.problem, schedule.plan
    lanes: list[tuple[str, Sequence[int]]] = []
    if plan.network:
        lanes.append((NETWORK_LANE, lane_of(plan.network[device], plan.index)))
    lanes += message_lanes(schedule, device)
    pair = problem.lane_pair(device)
    if plan.lanes and device == problem.devices_of_lanes(pair)[-1]:
        lanes += [(lane.value, order) for lane, order in zip(LANES, plan.lanes[pair], strict=True)]
    for name, order in lanes:
        if order:
            pick = picker(order)
            yield name, Row(order, pick(schedule.start_ticks), pick(schedule.end_ticks), kinds_of(schedule))


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
