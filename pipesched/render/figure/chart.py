"""A schedule as a chart in a pair of axes: a row a device, and under it, on request, its memory over time.

Slots are drawn as collections, one for each kind, so that a hundred thousand take seconds. A pair is two halves: its
forward above, its backward below.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from pipesched.pipeline.ops import KINDS, Op
from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule
from pipesched.render.cells import chunk_of_stage
from pipesched.render.figure.page import DIGIT, FONT, GREY, PALE, POINTS, RED, Key, with_unit
from pipesched.render.legend import KIND_NAMES
from pipesched.render.palette import HUES, Rgb, colour_of, text_on
from pipesched.render.strip import full_scale, peak_text
from pipesched.render.timescale import Window, number
from pipesched.render.view import View

BAR, STRIP, GAP = 1.0, 0.7, 0.22  # heights: of the slots of a device, of its memory, and what is left below
ROW_INCHES = 0.19  # height of a bar
LARGEST, SMALLEST = FONT - 1, 4.0  # points of a label
HATCH = {"W": "/////"}
NARROW = 2.5  # points; slots below that have no white edge, which would be most of them
MEMORY_FILL = "0.62"
DASHES = (0, (4, 2))
HEADROOM = 1.25  # a strip is this much higher than the most that it shows
Colour = tuple[float, float, float]
Polygon = list[tuple[float, float]]


class Bar(NamedTuple):
    """An operation as a rectangle, in user's time units and rows."""

    op: Op
    left: float
    right: float
    top: float
    bottom: float


class Chart:
    """Draws `schedule` into `axes`, on the time scale of `window` (ticks)."""

    def __init__(self, axes: Axes, schedule: Schedule, view: View, window: Window) -> None:
        self.axes, self.schedule, self.view = axes, schedule, view
        self.unit = schedule.problem.costs.scale
        self.window = Window(*window)
        self.memory = shows_memory(schedule, view)
        self.pitch = pitch(self.memory)
        self.chunk = chunk_of_stage(schedule)
        self.chunks = max(self.chunk) + 1
        self.bars = list(self._bars())
        self.bar_points = ROW_INCHES * POINTS  # until the axes have their final height

    def draw(self) -> None:
        """Everything but the labels of slots, which need the final size of the axes."""
        self._frame()
        self._idle()
        self._slots()
        if self.memory:
            self._memory()

    def _frame(self) -> None:
        axes, devices = self.axes, self.schedule.problem.devices
        axes.set_xlim(self.window.start / self.unit, max(self.window.end, self.window.start + 1) / self.unit)
        axes.set_ylim(devices * self.pitch - GAP / 2, -GAP / 2)
        axes.xaxis.set_major_formatter(lambda time, _: number(int(time) if time == int(time) else time))
        step = 1 + (devices - 1) // 32  # more names than that would touch
        shown = range(0, devices, step)
        axes.set_yticks([device * self.pitch + BAR / 2 for device in shown], [f"device {d}" for d in shown])
        axes.tick_params(axis="y", length=0, pad=2)
        for name in axes.get_yticklabels():
            if int(name.get_text().split()[1]) in self.schedule.over_budget:
                name.set_color(RED)
        for side in ("left", "right", "top"):
            axes.spines[side].set_visible(False)

    def _idle(self) -> None:
        """A pale band a device, from the first start to the last end of all: what the slots leave free is idle."""
        left, right = min(self.schedule.first_start) / self.unit, max(self.schedule.last_end) / self.unit
        tops = [device * self.pitch for device in range(self.schedule.problem.devices)]
        bands = [_rectangle(left, right, top, top + BAR) for top in tops]
        self.axes.add_collection(PolyCollection(bands, facecolors=PALE, edgecolors="none"), autolim=False)

    def _bars(self) -> Iterator[Bar]:
        """Every operation that takes time within the window; of a pair both, half as high."""
        plan = self.schedule.plan
        for device, order in enumerate(plan.orders):
            top = device * self.pitch
            times = zip(self.schedule.slot_starts[device], self.schedule.slot_ends[device], strict=True)
            for entry, (start, end) in zip(order, times, strict=True):
                if start == end or end <= self.window.start or start >= self.window.end:
                    continue
                left, right, paired = start / self.unit, end / self.unit, plan.paired(entry)
                middle = top + (BAR if paired is None else BAR / 2)
                yield Bar(plan.index.op(entry), left, right, top, middle)
                if paired is not None:
                    yield Bar(paired, left, right, middle, top + BAR)

    def _colour(self, op: Op) -> Rgb:
        return colour_of(op.microbatch, op.kind, self.chunk[op.stage], self.chunks)

    def _slots(self) -> None:
        groups: dict[str, list[Bar]] = defaultdict(list)
        for bar in self.bars:
            groups[bar.op.kind].append(bar)
        for kind, bars in sorted(groups.items()):
            self.axes.add_collection(self._collection(kind, bars), autolim=False)

    def _collection(self, kind: str, bars: Sequence[Bar]) -> PolyCollection:
        fills = [unit_rgb(self._colour(bar.op)) for bar in bars]
        rectangles = [_rectangle(*bar[1:]) for bar in bars]
        if self._points(min(bar.right - bar.left for bar in bars), self.view.inches) < NARROW:
            return PolyCollection(rectangles, facecolors=fills, edgecolors="face", linewidths=0.1)
        return PolyCollection(rectangles, facecolors=fills, edgecolors="white", linewidths=0.4, hatch=HATCH.get(kind))

    def _points(self, time: float, inches: float) -> float:
        """A stretch of time as points on paper, when the axes are that wide."""
        return time * self.unit / max(self.window.end - self.window.start, 1) * inches * POINTS

    def _memory(self) -> None:
        """The steps of each device's activation memory, what is over its budget in red, and the budget."""
        held, over, limits, floors = [], [], [], []
        full = max(full_scale(self.schedule), *self.schedule.peak_memory, 1) * HEADROOM
        for device, room in enumerate(self.schedule.problem.room()):
            base = device * self.pitch + BAR + STRIP
            steps = self._steps(device)
            floors.append(self._level(base))
            held.append(self._area(steps, base, full, 0))
            if room is not None:
                limit = max(room, 0)
                over.append(self._area([(time, max(level, limit)) for time, level in steps], base, full, limit))
                limits.append(self._level(base - STRIP * limit / full))
            text = f"peak {peak_text(self.schedule, device).partition('/')[0]}"
            colour = RED if device in self.schedule.over_budget else GREY
            place = (1.005, base - STRIP / 2)
            self.axes.annotate(
                text, place, xycoords=("axes fraction", "data"), color=colour, fontsize=FONT - 1, va="center"
            )
        self.axes.add_collection(PolyCollection(held, facecolors=MEMORY_FILL, edgecolors="none"), autolim=False)
        self.axes.add_collection(PolyCollection(over, facecolors=RED, edgecolors="none"), autolim=False)
        self.axes.add_collection(LineCollection(floors, colors=GREY, linewidths=0.3), autolim=False)
        self.axes.add_collection(
            LineCollection(limits, colors="black", linewidths=0.6, linestyles=DASHES), autolim=False
        )

    def _level(self, height: float) -> Polygon:
        """A line from end to end."""
        return [(self.window.start / self.unit, height), (self.window.end / self.unit, height)]

    def _steps(self, device: int) -> list[tuple[int, int]]:
        """(tick, level from then on), up to the end of the schedule."""
        return [*self.schedule.memory_steps(device), (max(self.schedule.last_end), 0)]

    def _area(self, steps: Sequence[tuple[int, int]], base: float, full: float, floor: int) -> Polygon:
        """The polygon between `floor` and the levels, in rows above `base`."""
        outline = [(steps[0][0], floor)]
        for (time, level), (until, _) in pairwise(steps):
            outline += [(time, level), (until, level)]
        outline.append((steps[-1][0], floor))
        return [(time / self.unit, base - STRIP * level / full) for time, level in outline]

    def label(self) -> None:
        """Write into the slots what has room there, now that the axes have their final width."""
        box = self.axes.get_window_extent()
        inches, rows = box.width / self.axes.figure.dpi, self.schedule.problem.devices * self.pitch
        self.bar_points = min(ROW_INCHES, box.height / self.axes.figure.dpi / rows) * POINTS
        style = self.view.label
        if style == "auto":
            style = "op" if self._fits_all("op", inches) else "microbatch"
        for bar in self.bars if style != "none" else ():
            size = self._size(bar, style, inches)
            if size >= SMALLEST:
                left, right = max(bar.left, self.window.start / self.unit), min(bar.right, self.window.end / self.unit)
                self.axes.text(
                    (left + right) / 2,
                    (bar.top + bar.bottom) / 2,
                    label_text(bar.op, style),
                    fontsize=size,
                    color=unit_rgb(text_on(self._colour(bar.op))),
                    ha="center",
                    va="center_baseline",
                    clip_on=True,
                ).set_in_layout(False)

    def _fits_all(self, style: str, inches: float) -> bool:
        return all(self._size(bar, style, inches) >= SMALLEST + 1 for bar in self.bars)

    def _size(self, bar: Bar, style: str, inches: float) -> float:
        """Points of the letters with which the longest label fits this bar: neighbours look alike."""
        index = self.schedule.plan.index
        longest = len(label_text(Op(index.stages - 1, "F", index.microbatches - 1), style))
        high = self.bar_points * (bar.bottom - bar.top) * 0.8
        return min(LARGEST, high, (self._points(bar.right - bar.left, inches) - 0.8) / (longest * DIGIT))

    def legend_entries(self) -> Iterator[Key]:
        """What the colours mean."""
        names: dict[Rgb, list[str]] = defaultdict(list)  # B and I share a shade
        for kind in KINDS:
            if any(bar.op.kind == kind for bar in self.bars):
                names[colour_of(0, kind)].append(kind)
        for colour, kinds in names.items():
            swatch = Patch(facecolor=unit_rgb(colour), edgecolor="white", linewidth=0.3, hatch=HATCH.get(kinds[0]))
            yield swatch, " or ".join(KIND_NAMES[kind] for kind in kinds)
        if self.schedule.plan.pairs:
            yield _two_tone(colour_of(0, "F"), colour_of(1, "B")), "overlapped pair"
        if self.chunks > 1:
            shades = [colour_of(0, "F", chunk, self.chunks) for chunk in range(min(self.chunks, 4))]
            yield _swatches(shades), f"chunks {_first(self.chunks)}"
        if self.schedule.problem.microbatches > 1:
            hues = HUES[: self.schedule.problem.microbatches]
            yield _swatches(hues), f"microbatches {_first(self.schedule.problem.microbatches)}"
        if self.memory:
            yield from self._memory_entries()

    def _memory_entries(self) -> Iterator[Key]:
        problem = self.schedule.problem
        yield Patch(facecolor=MEMORY_FILL), with_unit("memory", problem.memory.unit)
        if self.schedule.over_budget:
            yield Patch(facecolor=RED), "over budget"
        rooms = {room for room in problem.room() if room is not None}
        if rooms:
            limit = f" {number(in_units(rooms.pop(), problem.memory.scale))}" if len(rooms) == 1 else ""
            name = "budget less static memory" if any(problem.memory.static) else "budget"
            yield Line2D([], [], color="black", linewidth=0.6, linestyle=DASHES), f"{name}{limit}"


def shows_memory(schedule: Schedule, view: View) -> bool:
    """Whether there is a strip of memory under each device."""
    return schedule.problem.memory.budget is not None if view.memory is None else view.memory


def pitch(memory: bool) -> float:
    """From one device to the next, in heights of a bar."""
    return BAR + GAP + (STRIP if memory else 0)


def label_text(op: Op, style: str) -> str:
    """What `label` (one of labels.LABELS, not auto) writes into a slot."""
    return {"microbatch": str(op.microbatch), "op": str(op), "stage": str(op.stage), "none": ""}[style]


def unit_rgb(colour: Rgb) -> Colour:
    """A colour in matplotlib's numbers, 0 to 1."""
    red, green, blue = (value / 255 for value in colour)
    return red, green, blue


def _first(count: int) -> str:
    """The first of `count` numbers, for instance `0, 1, 2, ..`."""
    return ", ".join([*map(str, range(min(count, 3))), *([".."] if count > 3 else [])])


def _swatches(colours: Sequence[Rgb]) -> tuple[Artist, ...]:
    return tuple(Patch(facecolor=unit_rgb(colour), edgecolor="white", linewidth=0.3) for colour in colours)


def _two_tone(upper: Rgb, lower: Rgb) -> Artist:
    return Line2D(
        [],
        [],
        linestyle="none",
        marker="s",
        markersize=FONT,
        fillstyle="top",
        markeredgewidth=0,
        markerfacecolor=unit_rgb(upper),
        markerfacecoloralt=unit_rgb(lower),
    )


def _rectangle(left: float, right: float, top: float, bottom: float) -> Polygon:
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def time_text(schedule: Schedule, ticks: int) -> str:
    """A time with its unit, for people."""
    problem = schedule.problem
    return f"{number(in_units(ticks, problem.costs.scale))} {problem.time_unit}".rstrip()
