"""The sheet that figures are drawn on, and charts of schedules, the memory of each device in a strip below its row.

matplotlib is used through its objects alone, never through pyplot, and without the settings of the user: the same
schedule gives the same bytes. Text stays text in SVG, and PDF embeds TrueType fonts (Type 42), as publishers ask.

One begins at the end: `gantt_figure` draws a schedule, `comparison_figure` several. Each opens a `sheet` and makes a
`Chart` of each schedule, from its rows (`layout`) and their slots (`bars`). Then `draw_charts` completes the figure:
`Chart.draw`, the legend, and, once sizes are final, `Chart.finish` with stripes and labels.

Slots are drawn as collections, one for each kind, so that a hundred thousand take seconds; narrower than a point they
are averaged. A pair is two halves: its forward above, its backward below. Weight gradients and recomputes are striped,
to be told apart without colours too. A kind has numbers, or stripes, only where each of its slots has room for them.

Several schedules are the charts of few, or of the best, on one time scale, or bars of all metrics. Their rows are as
high as the shape of the figure asks for: neither much wider than high nor much higher than wide.
"""

from __future__ import annotations

import io
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from math import ceil, inf
from textwrap import wrap
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend_handler import HandlerPatch, HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from pipesched.core.arrays import ceil_div
from pipesched.errors import ConfigError
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.kinds import ALL_KINDS
from pipesched.pipeline.problem.ops import Op
from pipesched.pipeline.problem.quantities import plain
from pipesched.render.comparison import SHOWN_DEVICES, drawn, edge, not_drawn, some_devices
from pipesched.render.palette import FALLING, HUES, MOST_SHADES, Rgb, colour_of, place_of, stripe_of, text_on
from pipesched.render.scene import (
    ABOVE_STATIC,
    MEASURED_MEMORY,
    OF_STAGES,
    Row,
    Window,
    chunk_of_stage,
    counted,
    device_row,
    lane_rows,
    looks_of,
    number,
    with_unit,
)
from pipesched.render.summary import heading
from pipesched.render.view import FONT, MOST_DEVICES, View
from pipesched.results.comparison import Comparison
from pipesched.results.outcome import Outcome
from pipesched.schedulers.registry import called

STEP = 5.0  # points from stripe to stripe, along either side
WIDTH = 0.5
Stripe = tuple[tuple[float, float], tuple[float, float]]


def stripes(width: float, height: float, *, falling: bool = False) -> Iterator[Stripe]:
    """Yield the ends of the diagonals within a box whose lower left corner is (0, 0), all in points."""
    for place in range(1, int((width + height) / STEP) + 1):
        reach = place * STEP - height  # where the line would cross the bottom
        left, right = max(reach, 0.0), min(reach + height, width)
        low, high = left - reach, right - reach
        yield ((left, height - low), (right, height - high)) if falling else ((left, low), (right, high))


class Striped(Patch):
    """The swatch of a legend, with stripes of a colour."""

    def __init__(self, *, falling: bool, stripe: object, **settings: Any) -> None:
        super().__init__(**settings)
        self.falling, self.stripe = falling, stripe


class StripedHandler(HandlerPatch):
    """The handler with which a legend draws a Striped."""

    def create_artists(self, legend: Any, orig_handle: Artist, *place: Any) -> list[Artist]:
        box = super().create_artists(legend, orig_handle, *place)
        xdescent, ydescent, width, height, _, trans = place
        assert isinstance(orig_handle, Striped)
        look: Any = {"color": orig_handle.stripe, "linewidth": WIDTH, "transform": trans, "solid_capstyle": "butt"}
        lines = [
            Line2D([x0 - xdescent, x1 - xdescent], [y0 - ydescent, y1 - ydescent], **look)
            for (x0, y0), (x1, y1) in stripes(width, height, falling=orig_handle.falling)
        ]
        return [*box, *lines]


POINTS = 72  # to the inch
DIGIT = 0.64  # width of a digit of DejaVu Sans, of its size
WIDE = 0.85  # of a figure, that a title may take
DOTS = 300  # to the inch, in PNG
TALLEST = 9.0  # inches of a page
GREY, PALE, RED = "0.35", "0.94", "#b2182b"
SETTINGS: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib, so that it is everywhere
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width"), 0.5),
    **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 2.5),
    "text.parse_math": False,  # a name may hold a dollar
    "svg.fonttype": "none",
    "svg.hashsalt": "pipesched",
    "pdf.fonttype": 42,
}
Key = tuple[Artist | tuple[Artist, ...], str]  # an entry of a legend: a swatch, or several in a row, and what it means
METADATA: dict[str, dict[str, str | None]] = {  # no dates, no versions
    "svg": {"Date": None, "Creator": "pipesched"},
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": "pipesched", "Producer": None},
    "png": {"Software": "pipesched"},
}


class Drawing(Figure):
    """A figure that a notebook shows just as a file holds it; its `view` says how it looks."""

    view: View

    def _repr_svg_(self) -> str:
        return image(self, "svg").decode()


@contextmanager
def our_settings(font: float = FONT) -> Iterator[None]:
    """Let matplotlib draw and write with our settings alone, inside the block, text in `font` points."""
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in letters that the font lacks: boxes
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        mpl.rcParams.update(dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize", "figure.titlesize"), font))
        mpl.rcParams.update(dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), font - 0.5))
        yield


@contextmanager
def sheet(view: View, height: float) -> Iterator[Drawing]:
    """Yield an empty figure, but for a title, `height` inches high, to be drawn inside the block."""
    with our_settings(view.font_size):
        engine = ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, hspace=0.02, wspace=0.03)
        figure = Drawing(figsize=(view.inches, height), dpi=POINTS, layout=engine)  # matplotlib's pixels are points
        figure.view = view
        if view.title:
            figure.suptitle(view.title)
        yield figure


def font(less: float = 0) -> float:
    """Return the points of text in the figure that is being drawn, `less` for what is smaller."""
    return float(mpl.rcParams["font.size"]) - less


def settle(figure: Drawing) -> None:
    """Lay out the figure for good, so that what depends on final positions can be drawn."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    figure.set_layout_engine(None)


def image(figure: Figure, kind: str) -> bytes:
    """Return the figure as the content of a file; `kind` is svg, png or pdf."""
    buffer = io.BytesIO()
    with our_settings():
        figure.savefig(buffer, format=kind, dpi=DOTS, metadata=METADATA[kind])
    return buffer.getvalue()


def plot_axes(figure: Figure) -> Axes:
    """Return axes with a pale grid behind what is drawn, and no lines at the right and above."""
    axes = figure.add_subplot()
    axes.grid(linewidth=0.3, color="0.88")
    axes.set_axisbelow(True)
    axes.spines[["right", "top"]].set_visible(False)
    return axes


def plain_numbers(*along: Axis) -> None:
    """Put plain numbers along these axes."""
    for axis in along:
        axis.set_major_formatter(lambda value, _: number(int(value) if value == int(value) else value))


def wrapped(text: str, inches: float) -> str:
    """Return a text on as many lines as it needs in a figure of that width, beside the names of its devices."""
    return "\n".join(wrap(text, int(WIDE * inches * POINTS / (font() * DIGIT))))


def legend(figure: Drawing, entries: Sequence[Key]) -> None:
    """Add a legend where the view of the figure says; below everything it has as few rows as its width allows."""
    place = figure.view.legend
    handles: Any = [handle for handle, _ in entries]
    labels = [wrapped(label, figure.get_figwidth()) for _, label in entries]
    look: Any = {"frameon": False, "handlelength": 2.4, "handleheight": 1.0}
    look["loc"] = "outside right upper" if place == "right" else "outside lower center"
    look |= {"handletextpad": 0.5, "columnspacing": 1.6, "borderpad": 0.2}
    look["handler_map"] = {tuple: HandlerTuple(ndivide=None, pad=0), Striped: StripedHandler()}
    for rows in range(1, len(entries) + 1) if place == "below" else [len(entries)] * (place == "right"):
        box = figure.legend(handles, labels, ncols=ceil_div(len(entries), rows), **look)
        if box.get_window_extent().width <= figure.bbox.width:
            return
        if rows < len(entries):
            box.remove()


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


LeftOut = tuple[float, str] | None  # where devices are left out, and how many


def layout(schedule: Schedule, view: View) -> tuple[list[ChartRow], list[ChartRow], float, LeftOut]:
    """Return devices and lanes, which stand below theirs, with their positions; the height of all; what is left out."""
    problem, top = schedule.problem, 0.0
    devices, lanes = [], []
    shown, left_out = view.devices(schedule), None
    count = problem.devices - len(shown) if view.rows is None else 0
    for position, device in enumerate(shown):
        if count and position == MOST_DEVICES // 2:
            left_out = top + BAR / 2 - GAP / 2, f"{counted(count, 'device')} left out"
            top += BAR
        name = problem.device_name(device, f"{view.device_name} ")
        devices.append(ChartRow(name, device_row(schedule, device), top, BAR))
        top += BAR + (STRIP if view.shows_memory(schedule) else 0)
        for name, slots in lane_rows(schedule, device):
            lanes.append(ChartRow(name, slots, top + LANE_GAP, LANE))
            top += LANE_GAP + LANE
        top += GAP
    return devices, lanes, top, left_out


def bars(schedule: Schedule, row: ChartRow, window: Window) -> Iterator[Bar]:
    """Yield every operation of a row that takes time within the window; of a pair both, half as high."""
    plan, unit = schedule.plan, schedule.problem.ticks.per_unit
    for entry, start, end in zip(row.slots.order, row.slots.starts, row.slots.ends, strict=True):
        if start == end or end <= window.start or start >= window.end:
            continue
        left, right, paired = start / unit, end / unit, plan.paired(entry)
        bottom = row.top + row.height
        middle = bottom if paired is None else row.top + row.height / 2
        yield Bar(plan.index.op(entry), left, right, row.top, middle)
        if paired is not None:
            yield Bar(paired, left, right, middle, bottom)


FILL = "0.62"
DASHES = (0, (4, 2))
HEADROOM = 1.25  # a strip is this much higher than the most that it shows


def draw_memory(axes: Axes, schedule: Schedule, rows: Mapping[int, ChartRow], window: Window) -> None:
    """Draw the memory of devices in strips below their `rows`, on one scale; what is over a budget is red."""
    unit = schedule.problem.ticks.per_unit
    highest = HEADROOM * max(*schedule.peak_grains, 1)  # at the upper edge of a strip
    grain = STRIP / highest
    held, over, limits, floors = [], [], [], []
    for device, row in rows.items():
        capacity = schedule.problem.capacity_grains[device]
        floor = row.top + row.height + STRIP
        steps = [*schedule.memory_steps(device), (schedule.last_ticks, 0)]
        held.append(_area(steps, unit, floor, grain))
        floors.append([(time / unit, floor) for time in window])
        colour = RED if device in schedule.over_budget else GREY
        beside: Any = {"xycoords": ("axes fraction", "data"), "fontsize": font(1), "va": "center"}
        axes.annotate(f"peak {number(schedule.memory[device])}", (1.005, floor - STRIP / 2), color=colour, **beside)
        if capacity is not None and capacity <= highest:
            limit = max(capacity, 0)
            above = [(time, max(level - limit, 0)) for time, level in steps]
            over.append(_area(above, unit, floor - grain * limit, grain))
            limits.append([(time / unit, floor - grain * limit) for time in window])
    for areas, colour in ((held, FILL), (over, RED)):
        axes.add_collection(PolyCollection(areas, facecolors=colour, edgecolors="none"), autolim=False)
    axes.add_collection(LineCollection(floors, colors=GREY, linewidths=0.3), autolim=False)
    axes.add_collection(LineCollection(limits, colors="black", linewidths=0.6, linestyles=DASHES), autolim=False)


def _area(steps: Sequence[tuple[int, int]], unit: int, floor: float, grain: float) -> Polygon:
    """Return the polygon under `steps` (tick, level from then on), `grain` high for each grain of memory."""
    outline = [(steps[0][0], 0)]
    for (time, level), (until, _) in pairwise(steps):
        outline += [(time, level), (until, level)]
    return [(time / unit, floor - grain * level) for time, level in [*outline, (steps[-1][0], 0)]]


def memory_key(schedules: Sequence[Schedule]) -> Iterator[Key]:
    """Yield the entries of the legend: what the strips of schedules of one problem show."""
    problem = schedules[0].problem
    above = ABOVE_STATIC * any(problem.static_grains)
    name = MEASURED_MEMORY if any(schedule.own_lengths for schedule in schedules) else "memory"
    yield Patch(facecolor=FILL), with_unit(name, problem.memory.unit) + above
    if any(schedule.over_budget for schedule in schedules):
        yield Patch(facecolor=RED), "over budget"
    if problem.memory.budget is not None:
        limits = {plain(limit) for limit in problem.memory.budget}
        name = f"budget {number(min(limits))}" if len(limits) == 1 else "budget"
        highest = HEADROOM * max(1, *(peak for schedule in schedules for peak in schedule.peak_grains))
        capacities = problem.capacity_grains
        drawn = any(capacity is not None and capacity <= highest for capacity in capacities)
        line = Line2D([], [], color="black", linewidth=0.6, linestyle=DASHES if drawn else "none")
        yield line, name if drawn else f"{name}, above the strips"


SMALLEST = 4.0  # points of a label
MOST_SLICES = 8  # in the legend
MOST_NAMES = 32  # of devices beside the chart, before they touch
LANE_LESS = 2  # points of the names of lanes less than of others
NARROW = 2.5  # points; slots below that have neither white edges nor stripes, which would be most of them
THIN = 6.0  # points; a number of two digits takes more
FINE = 1.0  # points; slots that are narrower on average cannot be told apart, and would make patterns of their own
COLUMNS = 4  # of FINE points, which what is averaged has
Colour = tuple[float, float, float]


class Chart:
    """The chart of `schedule` in `axes`, on the time scale of `window` (ticks).

    In its figure slots are at least `mean` points wide on average: of thin ones hue is by kind, of fine ones averaged.
    """

    def __init__(self, axes: Axes, schedule: Schedule, view: View, window: Window, mean: float) -> None:
        self.axes, self.schedule, self.view, self.window = axes, schedule, view, window
        self.by_kind, self.averaged = mean < THIN, 0 < mean < FINE
        self.unit = schedule.problem.ticks.per_unit
        self.memory = view.shows_memory(schedule)
        self.devices, self.lanes, self.height, self.left_out = layout(schedule, view)
        self.look, self.chunks = looks_of(schedule, by_kind=self.by_kind), max(chunk_of_stage(schedule)) + 1
        self.slices = schedule.plan.index.slices
        self.bars = [bar for row in (*self.devices, *self.lanes) for bar in bars(schedule, row, window)]
        self.kinds = {bar.op.kind for bar in self.bars}
        across = self._points_per_unit(self.view.inches * POINTS)
        self.narrow = {bar.op.kind for bar in self.bars if bar.width * across < NARROW}

    def draw(self) -> None:
        """Draw all that does not depend on the final size of the axes; slots of kinds that are narrow have no edges."""
        axes, rows = self.axes, (*self.devices, *self.lanes)
        axes.set_xlim(self.window.start / self.unit, max(self.window.end, self.window.start + 1) / self.unit)
        axes.set_ylim(self.height - GAP / 2, -GAP / 2)
        plain_numbers(axes.xaxis)
        axes.spines[["left", "right", "top"]].set_visible(False)
        self._names()
        # A pale band a row, from the first start to the last end of all: where no slot covers it, it is idle.
        left = (self.schedule.last_ticks - self.schedule.makespan_ticks) / self.unit
        right = self.schedule.last_ticks / self.unit
        bands = [rectangle(left, right, row.top, row.top + row.height) for row in rows]
        axes.add_collection(PolyCollection(bands, facecolors=PALE, edgecolors="none"), autolim=False)
        for row in rows if self.averaged else ():
            self._average(row, max(left, self.window.start / self.unit), min(right, self.window.end / self.unit))
        for kind in () if self.averaged else sorted(self.kinds):
            together = [bar for bar in self.bars if bar.op.kind == kind]
            boxes = [rectangle(bar.left, bar.right, bar.top, bar.bottom) for bar in together]
            colours = [unit_rgb(self._colour(bar.op)) for bar in together]
            edge, width = ("face", 0.1) if kind in self.narrow else ("white", 0.4)
            slots = PolyCollection(boxes, facecolors=colours, edgecolors=edge, linewidths=width)
            axes.add_collection(slots, autolim=False)
        if self.memory:
            of_devices = dict(zip(self.view.devices(self.schedule), self.devices, strict=True))
            draw_memory(axes, self.schedule, of_devices, self.window)

    def finish(self, narrow: Set[str], labels: Mapping[str, tuple[str, float]]) -> None:
        """Draw stripes and labels, when the axes have their final size; not the stripes of `narrow` kinds."""
        (across, down), lines, colours = self.points(), [], []
        for bar in (bar for bar in self.bars if bar.op.kind in FALLING.keys() - narrow):
            for stripe in stripes(bar.width * across, (bar.bottom - bar.top) * down, falling=FALLING[bar.op.kind]):
                lines.append([(bar.left + x / across, bar.bottom - y / down) for x, y in stripe])
                colours.append(unit_rgb(stripe_of(self._colour(bar.op))))
        striped = LineCollection(lines, colors=colours, linewidths=WIDTH, capstyle="butt")
        self.axes.add_collection(striped, autolim=False)
        for bar in self.bars:
            if bar.op.kind in labels:
                style, letters = labels[bar.op.kind]
                text = label_text(bar.op, style, self.view.first_microbatch)
                left, right = max(bar.left, self.window.start / self.unit), min(bar.right, self.window.end / self.unit)
                colour = self._colour(bar.op)
                look: Any = {"ha": "center", "va": "center_baseline", "clip_on": True}
                if bar.op.kind in FALLING:
                    look["bbox"] = {"facecolor": unit_rgb(colour), "edgecolor": "none", "pad": 0.4}  # clear of stripes
                look |= {"color": unit_rgb(text_on(colour)), "fontsize": letters}
                self.axes.text((left + right) / 2, (bar.top + bar.bottom) / 2, text, **look)

    def points(self) -> tuple[float, float]:
        """Return the points of a time unit, and of a unit of height, when the axes have their final size."""
        box = self.axes.get_window_extent()
        return self._points_per_unit(box.width), box.height / self.height

    def _average(self, row: ChartRow, left: float, right: float) -> None:
        """Draw what a row shows from one time to another as an image, averaged over twice FINE points on both sides."""
        wide = (right - left) * self._points_per_unit(self.view.inches * POINTS)
        edges = np.linspace(left, right, max(ceil(COLUMNS * wide / FINE), 1) + 1)
        spans: dict[Rgb, list[tuple[float, float, float]]] = defaultdict(list)
        for bar in bars(self.schedule, row, self.window):
            spans[self._colour(bar.op)].append((bar.left, bar.right, (bar.bottom - bar.top) / row.height))
        ground = 255 * float(PALE)  # where a column is idle
        sums = np.full((len(edges) - 1, 3), ground)
        for colour, found in spans.items():
            starts, ends, shares = np.array(found).T
            worked = np.concatenate([[0.0], np.cumsum((ends - starts) * shares)])  # time in this colour, slot by slot
            times, totals = np.stack([starts, ends], 1).ravel(), np.stack([worked[:-1], worked[1:]], 1).ravel()
            part = np.diff(np.interp(edges, times, totals)) / np.diff(edges)  # the share of each column
            sums += part[:, None] * (np.array(colour) - ground)
        reach = 2 * COLUMNS
        weights = reach - np.abs(np.arange(-reach, reach + 1))  # a triangle: near columns count most
        padded = np.pad(sums, ((reach, reach), (0, 0)), mode="edge").T
        smooth = np.stack([np.convolve(part, weights / weights.sum(), "valid") for part in padded], 1)
        image = AxesImage(self.axes, extent=(left, right, row.top + row.height, row.top), interpolation="nearest")
        image.set_data(smooth[None].round().astype(np.uint8))
        image.set(zorder=1.5, clip_on=False)
        self.axes.add_artist(image)

    def _points_per_unit(self, width: float) -> float:
        return self.unit / max(self.window.end - self.window.start, 1) * width

    def _names(self) -> None:
        """Write the names of devices and lanes to the left, in red for a device over its budget."""
        named = range(0, len(self.devices), ceil_div(len(self.devices), MOST_NAMES))
        lanes = self.lanes if len(self.lanes) <= MOST_NAMES else ()
        rows = [*(self.devices[row_number] for row_number in named), *lanes]
        self.axes.set_yticks([row.top + row.height / 2 for row in rows], [row.name for row in rows])
        self.axes.tick_params(axis="y", length=0, pad=2)
        names = self.axes.get_yticklabels()
        drawn = self.view.devices(self.schedule)
        for row_number, name in zip(named, names, strict=False):
            if drawn[row_number] in self.schedule.over_budget:
                name.set_color(RED)
        for name in names[len(named) :]:
            name.set(color=GREY, fontsize=font(LANE_LESS))
        if self.left_out is not None:
            height, text = self.left_out
            look: Any = {"color": GREY, "fontsize": font(LANE_LESS), "va": "center"}
            self.axes.annotate(text, (0, height), xycoords=("axes fraction", "data"), **look)

    def _colour(self, op: Op) -> Rgb:
        return colour_of(*self.look(op))


def labels_of(charts: Sequence[Chart]) -> dict[str, tuple[str, float]]:
    """Return the style of the labels of each kind, and the points of their letters: every slot has room for them."""
    style, rooms = charts[0].view.label, dict[str, tuple[float, float]]()  # of a kind the least width and height
    if style == "none" or (style == "auto" and charts[0].by_kind):
        return {}
    for chart in charts:
        across, down = chart.points()
        for bar in chart.bars:
            width, height = rooms.get(bar.op.kind, (inf, inf))
            rooms[bar.op.kind] = min(width, bar.width * across), min(height, (bar.bottom - bar.top) * down)

    indexes = [chart.schedule.plan.index for chart in charts]
    lasts = [index.op(index.row("F", index.stages - 1)[-1]) for index in indexes]  # of the longest labels

    def letters(kind: str, style: str) -> float:
        longest = max(len(label_text(op, style, charts[0].view.first_microbatch)) for op in lasts)
        return min(font(1), rooms[kind][1] * 0.8, (rooms[kind][0] - 0.8) / (longest * DIGIT))

    if style == "auto":
        style = "op" if all(letters(kind, "op") > SMALLEST + 1 for kind in rooms) else "microbatch"
    has_slices = style == "microbatch" and any(chart.slices > 1 for chart in charts)
    styles = ["slice", style] if has_slices else [style]  # the first that fits is taken
    sizes = {kind: [(one, size) for one in styles if (size := letters(kind, one)) >= SMALLEST] for kind in rooms}
    return {kind: fitting[0] for kind, fitting in sizes.items() if fitting}


def draw_charts(figure: Drawing, charts: Sequence[Chart]) -> None:
    """Complete a figure with a legend, then with stripes and labels, by one rule for all of its charts."""
    narrow = set().union(*(chart.narrow for chart in charts))
    for chart in charts:
        chart.draw()
    legend(figure, list(legend_keys(charts, narrow)))
    settle(figure)
    labels = labels_of(charts)
    for chart in charts:
        chart.finish(narrow, labels)


def legend_keys(charts: Sequence[Chart], narrow: Set[str]) -> Iterator[Key]:
    """Yield the entries of the legend for charts of one look: what the colours mean; `narrow` kinds have no stripes."""
    by_kind, chunks = charts[0].by_kind, max(chart.chunks for chart in charts)
    first, second = (None, None) if by_kind else (0, 1)
    for kind in ALL_KINDS:
        if any(kind in chart.kinds for chart in charts):
            colour = colour_of(None if kind in OF_STAGES else first, kind)
            yield _swatch(colour, "" if kind in narrow else kind), ALL_KINDS[kind].name
    if charts[0].averaged:
        yield Patch(facecolor="none"), f"averaged where narrower than {FINE:g} pt"
    if any(chart.schedule.plan.pairs for chart in charts):
        upper, lower = unit_rgb(colour_of(first, "F")), unit_rgb(colour_of(second, "B"))
        look: Any = {"linestyle": "none", "marker": "s", "markersize": font(), "fillstyle": "top", "markeredgewidth": 0}
        yield Line2D([], [], markerfacecolor=upper, markerfacecoloralt=lower, **look), "overlapped pair"
    if chunks > 1:
        shades = [colour_of(first, "F", chunk, chunks) for chunk in range(min(chunks, MOST_SHADES))]
        yield tuple(map(_swatch, shades)), f"chunks {_first(chunks)}"
    microbatches = charts[0].schedule.problem.microbatches
    if microbatches > 1 and not by_kind:
        hues = [colour_of(hue, "F") for hue in range(min(microbatches, len(HUES)))]
        again = f" (hues repeat after {len(HUES)})" if microbatches > len(HUES) else ""
        yield tuple(map(_swatch, hues)), f"microbatches {_first(microbatches, charts[0].view.first_microbatch)}{again}"
    slices = max(chart.slices for chart in charts)
    if slices > 1 and not by_kind:
        shades = [colour_of(first, "F", 0, chunks, place_of(part, slices)) for part in range(slices)]
        yield tuple(map(_swatch, shades[:: ceil_div(slices, MOST_SLICES)])), f"slices {_first(slices)}"
    if charts[0].memory:
        yield from memory_key([chart.schedule for chart in charts])


def mean_points(schedule: Schedule, view: View, window: Window) -> float:
    """Return how many points wide slots are on average."""
    points = view.inches * POINTS / max(window.end - window.start, 1)
    return sum(schedule.busy_ticks) * points / sum(map(len, schedule.plan.orders))


def label_text(op: Op, style: str, first: int) -> str:
    """Return the label of a slot by `style`, one of view.LABELS but auto, or slice; microbatches count from `first`."""
    if op.kind in OF_STAGES and style != "none":
        return str(op.stage)
    if first:
        op = op._replace(microbatch=op.microbatch + first)
    texts = {"microbatch": str(op.microbatch), "op": str(op), "stage": str(op.stage), "none": ""}
    return {**texts, "slice": f"{op.microbatch}.{op.slice}"}[style]


def unit_rgb(colour: Rgb) -> Colour:
    """Return a colour in matplotlib's numbers, 0 to 1."""
    red, green, blue = (value / 255 for value in colour)
    return red, green, blue


def chart_inches(schedule: Schedule, view: View) -> float:
    """Return the height of the rows of a chart in inches."""
    return layout(schedule, view)[2] * BAR_INCHES * view.font_size / FONT


def _first(count: int, begin: int = 0) -> str:
    """Return the first of `count` numbers as text: `0, 1, 2, ..`."""
    return ", ".join([*map(str, range(begin, begin + min(count, 3))), *([".."] if count > 3 else [])])


def _swatch(colour: Rgb, kind: str = "F") -> Artist:
    look: Any = {"facecolor": unit_rgb(colour), "edgecolor": "white", "linewidth": 0.3}
    if kind not in FALLING:
        return Patch(**look)
    return Striped(falling=FALLING[kind], stripe=unit_rgb(stripe_of(colour)), **look)


TITLE_INCHES, AXIS_INCHES, LEGEND_INCHES = 0.2, 0.5, 0.25


def frame_inches(view: View) -> float:
    """Return the height of title, time axis and legend."""
    inches = AXIS_INCHES + TITLE_INCHES * (view.title != "") + LEGEND_INCHES * (view.legend == "below")
    return inches * view.font_size / FONT


def gantt_figure(outcome: Outcome, view: View) -> Drawing:
    """Draw the chart of a schedule."""
    schedule = outcome.schedule
    window = view.window(schedule)
    with sheet(view, min(frame_inches(view) + chart_inches(schedule, view), TALLEST)) as figure:
        axes = figure.add_subplot()
        axes.set_xlabel(with_unit("time", schedule.problem.time_unit), labelpad=2)
        name = heading(outcome).plain
        metrics = f"makespan {makespan(schedule)}, bubble {schedule.bubble:.2%}"
        if view.title is not None:
            metrics = name = ""
        if len(name + metrics) * font() * DIGIT < WIDE * view.inches * POINTS:
            axes.set_title(name, loc="left", pad=3)
            axes.set_title(metrics, loc="right", pad=3)
        else:  # there is no room for both on one line
            axes.set_title(f"{wrapped(name, view.inches)}\n{metrics}", loc="left", pad=3)
        draw_charts(figure, [Chart(axes, schedule, view, window, mean_points(schedule, view, window))])
        return figure


def makespan(schedule: Schedule) -> str:
    """Return the makespan with its unit as text."""
    return f"{number(schedule.makespan)} {schedule.problem.time_unit}".rstrip()


SHAPES = (0.4, 0.95)  # the least and the most height over width that rows are made higher or lower for
LOWEST, HIGHEST = 0.5, 1.6  # times their usual height
MOST_ROWS = 40  # devices of all charts together
METRIC_INCHES = 0.17  # height of a bar of a metric
Measure = Callable[[Outcome], float]
BEST, OTHERS = unit_rgb(HUES[2]), unit_rgb(HUES[0])


def comparison_figure(comparison: Comparison, view: View) -> Drawing:
    """Draw the schedules of a comparison, in its order. Raises ConfigError if there is none."""
    outcomes = [entry.outcome for entry in comparison if entry.outcome]
    if not outcomes:
        rows = any(entry.applicable for entry in comparison)
        why = "rows of a document hold no schedules" if rows else "none of the algorithms applies"
        raise ConfigError(f"there is nothing to draw: {why}", "result")
    chosen, best = drawn(comparison, view.charts), comparison.best
    if chosen:
        return _charts(chosen, comparison, view)
    return _bars(outcomes, best.outcome.schedule.makespan if best is not None and best.outcome else None, view)


def _charts(outcomes: Sequence[Outcome], comparison: Comparison, view: View) -> Drawing:
    """Draw a chart for each schedule, one below the other on one time scale, as high as the figure's shape asks for."""
    schedules = [outcome.schedule for outcome in outcomes]
    devices = schedules[0].problem.devices
    if view.rows is None:  # all of each schedule, or a few where the charts would have too many rows
        many = {} if len(schedules) * devices <= MOST_ROWS else {"many": SHOWN_DEVICES}
        view = replace(view, rows=some_devices(devices, **many))
    window = view.window(schedules[0], edge(schedules, comparison, view.end))
    mean = min(mean_points(schedule, view, window) for schedule in schedules)
    heights = [chart_inches(schedule, view) for schedule in schedules]
    rest = frame_inches(view) + TITLE_INCHES * len(heights) * view.font_size / FONT
    least, most = ((shape * view.inches - rest) / sum(heights) for shape in SHAPES)
    stretched = sum(heights) * min(max(min(max(1.0, least), most), LOWEST), HIGHEST)
    with sheet(view, rest + stretched) as figure:
        grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
        charts = [
            Chart(figure.add_subplot(grid[number]), schedule, view, window, mean)
            for number, schedule in enumerate(schedules)
        ]
        for chart, outcome, schedule in zip(charts, outcomes, schedules, strict=True):
            metrics = f"makespan {makespan(schedule)}, bubble {schedule.bubble:.1%}, peak {_peak(outcome):g}"
            title = f"{called(outcome.algorithm)}: {metrics}{not_drawn(schedule, window.end, view.rows)}"
            chart.axes.set_title(wrapped(title, view.inches), loc="left", pad=2)
            chart.axes.tick_params(axis="x", labelbottom=chart is charts[-1])
        charts[-1].axes.set_xlabel(with_unit("time", schedules[-1].problem.time_unit), labelpad=2)
        draw_charts(figure, charts)
        return figure


def _bars(outcomes: Sequence[Outcome], best: int | float | None, view: View) -> Drawing:
    """Draw makespan, bubble and peak memory as bars: the best that fits in green, those over budget in red."""
    problem = outcomes[0].schedule.problem
    measures: list[tuple[str, Measure, str]] = [
        (with_unit("makespan", problem.time_unit), lambda outcome: outcome.schedule.makespan, ".6g"),
        ("bubble (%)", lambda outcome: 100 * outcome.schedule.bubble, ".1f"),
        (with_unit("peak memory", problem.memory.unit), _peak, ".4g"),
    ]
    colours = [
        RED if not outcome.schedule.fits else BEST if outcome.schedule.makespan == best else OTHERS
        for outcome in outcomes
    ]
    with sheet(view, 0.6 + METRIC_INCHES * len(outcomes)) as figure:
        for number, (title, measure, digits) in enumerate(measures):
            axes = figure.add_subplot(1, len(measures), number + 1)
            values = [measure(outcome) for outcome in outcomes]
            bars = axes.barh(range(len(outcomes)), values, height=0.72, color=colours)
            axes.bar_label(bars, [f"{value:{digits}}" for value in values], padding=2, fontsize=font(1))
            axes.set_yticks(range(len(outcomes)), [called(outcome.algorithm) for outcome in outcomes])
            axes.set_ylim(len(outcomes) - 0.4, -0.6)
            axes.set_xlim(0, 1.25 * max(*values, 1e-9))
            axes.tick_params(axis="y", length=0)
            axes.tick_params(axis="x", bottom=False, labelbottom=False)
            axes.spines[["right", "top", "bottom"]].set_visible(False)
            axes.set_title(title, pad=3)
            if number:
                axes.set_yticklabels([])
        entries = [
            (Patch(facecolor=BEST), "shortest" if problem.memory.budget is None else "shortest that fits the budget"),
            (Patch(facecolor=OTHERS), "others"),
        ]
        if not all(outcome.schedule.fits for outcome in outcomes):
            entries.append((Patch(facecolor=RED), "over budget"))
        legend(figure, entries)
        return figure


def _peak(outcome: Outcome) -> float:
    return max(outcome.schedule.memory)
