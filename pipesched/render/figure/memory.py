"""The memory of each device over time, from its static memory up, under its row: its steps, its peak, its budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from pipesched.pipeline.ops import Op
from pipesched.pipeline.quantities import plain
from pipesched.pipeline.schedule import Schedule
from pipesched.render.figure.page import FONT, GREY, RED, Key
from pipesched.render.held import above_static
from pipesched.render.marks import MEASURED_MEMORY, counted, with_unit
from pipesched.render.rows import NETWORK_LANE, Row, device_row, lane_rows
from pipesched.render.timescale import Window, number
from pipesched.render.view import MOST_DEVICES, View

BAR, STRIP, GAP = 1.0, 0.7, 0.22  # heights: of the slots of a device, of its memory, and what is left below
LANE, LANE_GAP = 0.55, 0.1  # of a transfer lane, and what is left above it
BAR_INCHES = 0.19  # height of the slots, where a page is long enough
Polygon = list[tuple[float, float]]


class Bar(NamedTuple):
    """An operation as a rectangle."""

    op: Op
    left: float
    right: float
    top: float
    bottom: float

    @property
    def width(self) -> float:
        """The duration of the operation, in the user's time unit."""
        return self.right - self.left


def rectangle(left: float, right: float, top: float, bottom: float) -> Polygon:
    """Return the corners of a rectangle."""
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


class ChartRow(NamedTuple):
    """A row of a chart: its slots, its upper edge and its height."""

    name: str
    slots: Row
    top: float
    height: float

    @property
    def middle(self) -> float:
        """The height of its middle line."""
        return self.top + self.height / 2


class ChartRows(NamedTuple):
    """All rows of a chart, and the height of the whole."""

    devices: Sequence[ChartRow]
    lanes: Sequence[ChartRow]
    height: float
    left_out: tuple[float, str] | None = None  # where devices are left out, and how many


def layout(schedule: Schedule, view: View) -> ChartRows:
    """Return all rows with their positions; a lane stands below its last user."""
    problem, top = schedule.problem, 0.0
    devices, lanes = [], []
    count, left_out = view.left_out(schedule), None
    for position, device in enumerate(view.devices(schedule)):
        if count and position == MOST_DEVICES // 2:
            left_out = top + BAR / 2 - GAP / 2, f"{counted(count, 'device')} left out"
            top += BAR
        devices.append(ChartRow(problem.device_name(device), device_row(schedule, device), top, BAR))
        top += BAR + (STRIP if view.shows_memory(schedule) else 0)
        users = problem.devices_of_lanes(problem.lane_pair(device))
        shared = f" {users[0]}-{users[-1]}" if len(users) > 1 else ""
        for name, slots in lane_rows(schedule, device):
            lanes.append(ChartRow(name if name == NETWORK_LANE else name + shared, slots, top + LANE_GAP, LANE))
            top += LANE_GAP + LANE
        top += GAP
    return ChartRows(devices, lanes, top, left_out)


def bars(schedule: Schedule, row: ChartRow, window: Window) -> Iterator[Bar]:
    """Yield every operation of a row that takes time within the window; of a pair both, half as high."""
    plan, unit = schedule.plan, schedule.problem.ticks.per_unit
    for entry, start, end in zip(row.slots.order, row.slots.starts, row.slots.ends, strict=True):
        if start == end or end <= window.start or start >= window.end:
            continue
        left, right, paired = start / unit, end / unit, plan.paired(entry)
        bottom = row.top + row.height
        middle = bottom if paired is None else row.middle
        yield Bar(plan.index.op(entry), left, right, row.top, middle)
        if paired is not None:
            yield Bar(paired, left, right, middle, bottom)


FILL = "0.62"
DASHES = (0, (4, 2))
HEADROOM = 1.25  # a strip is this much higher than the most that it shows


def draw_memory(axes: Axes, schedule: Schedule, rows: Mapping[int, ChartRow], window: Window) -> None:
    """Draw the memory of devices in strips below their `rows`, on one scale; what is over a budget is red."""
    unit = schedule.problem.ticks.per_unit
    highest = _highest(schedule)
    grain = STRIP / highest
    held, over, limits, floors = [], [], [], []
    for device, row in rows.items():
        capacity = schedule.problem.capacity_grains[device]
        floor = row.top + row.height + STRIP
        steps = [*schedule.memory_steps(device), (schedule.last_ticks, 0)]
        held.append(_area(steps, unit, floor, grain))
        floors.append(_line(window, unit, floor))
        colour = RED if device in schedule.over_budget else GREY
        beside: Any = {"xycoords": ("axes fraction", "data"), "fontsize": FONT - 1, "va": "center"}
        axes.annotate(f"peak {number(schedule.memory[device])}", (1.005, floor - STRIP / 2), color=colour, **beside)
        if capacity is not None and capacity <= highest:
            limit = max(capacity, 0)
            above = [(time, max(level - limit, 0)) for time, level in steps]
            over.append(_area(above, unit, floor - grain * limit, grain))
            limits.append(_line(window, unit, floor - grain * limit))
    for areas, colour in ((held, FILL), (over, RED)):
        axes.add_collection(PolyCollection(areas, facecolors=colour, edgecolors="none"), autolim=False)
    axes.add_collection(LineCollection(floors, colors=GREY, linewidths=0.3), autolim=False)
    axes.add_collection(LineCollection(limits, colors="black", linewidths=0.6, linestyles=DASHES), autolim=False)


def _highest(schedule: Schedule) -> float:
    """Return the grains at the upper edge of a strip, on which the shape of the largest peak shows."""
    return HEADROOM * max(*schedule.peak_grains, 1)


def _area(steps: Sequence[tuple[int, int]], unit: int, floor: float, grain: float) -> Polygon:
    """Return the polygon under `steps` (tick, level from then on), `grain` high for each grain of memory."""
    outline = [(steps[0][0], 0)]
    for (time, level), (until, _) in pairwise(steps):
        outline += [(time, level), (until, level)]
    return [(time / unit, floor - grain * level) for time, level in [*outline, (steps[-1][0], 0)]]


def _line(window: Window, unit: int, height: float) -> Polygon:
    return [(window.start / unit, height), (window.end / unit, height)]


def memory_key(schedules: Sequence[Schedule]) -> Iterator[Key]:
    """Yield the entries of the legend: what the strips of schedules of one problem show."""
    problem = schedules[0].problem
    above = above_static(problem)
    name = MEASURED_MEMORY if any(schedule.own_lengths for schedule in schedules) else "memory"
    yield Patch(facecolor=FILL), with_unit(name, problem.memory.unit) + above
    if any(schedule.over_budget for schedule in schedules):
        yield Patch(facecolor=RED), "over budget"
    if problem.memory.budget is not None:
        limits = {plain(limit) for limit in problem.memory.budget}
        name = f"budget {number(min(limits))}" if len(limits) == 1 else "budget"
        highest, capacities = max(map(_highest, schedules)), problem.capacity_grains
        drawn = any(capacity is not None and capacity <= highest for capacity in capacities)
        line = Line2D([], [], color="black", linewidth=0.6, linestyle=DASHES if drawn else "none")
        yield line, name if drawn else f"{name}, above the strips"
