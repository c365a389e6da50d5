"""The chart in a terminal: a row for each device, time to the right, an axis above, and a legend of what occurs.

`Gantt`, last, is where one begins: rich calls it, `_layout` divides the width, `_device` yields the lines of each row.
Its parts stand before it: axis, cells of rows, lanes, memory, legend, folds (repeated periods left out), marks.
With colours a slot is filled with its microbatch's hue. Without them, or in ASCII, a device takes a line of kinds, a
line of microbatches and, with several chunks, a line of chunks. Where several slots share columns, their kinds take
turns. Network lanes and transfer lanes stand below their device.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from fractions import Fraction
from itertools import chain, pairwise
from math import ceil, floor, gcd
from operator import lt
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style

from pipesched.checks import require_flag, require_sequence, require_type, require_whole
from pipesched.core.arrays import ceil_div
from pipesched.display import Displayable
from pipesched.errors import ConfigError
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.kinds import ALL_KINDS, KINDS, MESSAGE_KINDS, STEP_KINDS
from pipesched.pipeline.problem.ops import SIDE_MESSAGES, Op
from pipesched.pipeline.problem.quantities import Number, in_units, plain
from pipesched.render.palette import BREAK_MARKS, DIM, HUES, IDLE_MARKS, MARKS, OVER, fill, fill_of_kind, place_of
from pipesched.render.scene import (
    ABOVE_STATIC,
    LETTERS,
    MEASURED_MEMORY,
    OF_STAGES,
    PAIR,
    QUEUE,
    Row,
    Run,
    Spelling,
    TimeScale,
    Window,
    as_parameters,
    chunk_of_stage,
    counted,
    describe,
    device_row,
    fit_parts,
    in_all,
    lane_rows,
    looks_of,
    number,
    operation_times,
    quantum,
    round_number,
    rows_of,
)
from pipesched.render.view import MOST_DEVICES, View
from pipesched.results.outcome import Outcome

if TYPE_CHECKING:
    from pipesched.analysis.explain import Explanation
    from pipesched.pipeline.plan.period import SteadyState

IDLE, HALF = ("·", "."), "▌"  # the second in ASCII
PAIR_STYLE = Style(italic=True, underline=True)
CRITICAL_STYLE = Style(underline=True, bold=True)

Line = list[Segment]
NEWLINE = Segment.line()
WIDE = 70  # columns from which names are written out and the idle share stands at the end


class Widely:
    """What takes all of the width that there is, and at least 20 columns or what `_narrowest` says."""

    _narrowest = 20

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(self._narrowest, options.max_width), options.max_width)


class LineFrame(NamedTuple):
    """The parts of a line: the gutter with the names, the columns of time, the tail with idle shares and peaks.

    Where time is left out there are several scales, with a column for the break between two.
    """

    gutter: int
    scales: Sequence[TimeScale]
    tail: int
    colour: bool
    ascii_only: bool
    few_colours: bool = False  # 16 of them, or less


def axis(layout: LineFrame, ticks_a_unit: int, marked: Window | None = None) -> Iterator[Segment]:
    """Yield the line of round times above their columns, then a line of marks.

    The times on both sides of a break are given too; `marked` is a time that a double line shows.
    """
    (begin, finish), columns = in_all(layout.scales)
    widest = len(number(in_units(finish, ticks_a_unit))) + 3  # with what keeps labels apart
    step = round_number(max(Fraction(widest * (finish - begin), columns), Fraction(1)) / ticks_a_unit) * ticks_a_unit
    pause = BREAK_MARKS[layout.ascii_only].text
    glyphs = "-+=" if layout.ascii_only else "─┬═"
    labels = marks = " " * layout.gutter
    for position, scale in enumerate(layout.scales):
        texts: dict[int, str] = {}  # first those of the ends at which time is left out, where they fit
        start, end = (number(in_units(time, ticks_a_unit)) for time in scale.window)
        if position and len(start) <= scale.columns:
            texts[0] = start
        if scale is not layout.scales[-1] and len(end) + (len(start) + 1) * (position > 0) <= scale.columns:
            texts[scale.columns - len(end)] = end
        multiples = range(ceil(scale.window.start / step), floor(scale.window.end / step) + 1)
        for tick in (count * step for count in multiples):
            column, text = scale.column(floor(tick)), number(plain(tick / ticks_a_unit))
            if all(column + len(text) < other or column > other + len(texts[other]) for other in texts):
                texts[column] = text
        rule, written = [glyphs[0]] * scale.columns, ""
        if marked is not None and scale.window.start <= marked.start < scale.window.end:
            for column in range(scale.column(marked.start), min(scale.column_before(marked.end) + 1, scale.columns)):
                rule[column] = glyphs[2]
        for column, text in sorted(texts.items()):
            if column + len(text) <= scale.columns:  # others would be cut
                written = written.ljust(column) + text
                rule[column] = glyphs[1]
        labels += (" " if position else "") + written.ljust(scale.columns)
        marks += (pause if position else "") + "".join(rule)
    share = "idle".rjust(layout.tail) if layout.tail >= len(" idle") else ""
    yield from (Segment(labels + share, DIM), NEWLINE, Segment(marks, DIM), NEWLINE)


class ColourCells:
    """A line for each device: hue by microbatch, shade by kind, chunk and slice, the label where it fits.

    `label` auto means the texts of operations if the longest fits into the narrowest, else microbatches. With
    `by_kind`, as where slots share columns, hue is by kind, and shade by chunk; then auto writes only numbers that fit.
    With `few` colours each kind has one. What is `underlined` is.
    """

    def __init__(
        self, schedule: Schedule, label: str, layout: LineFrame, *, by_kind: bool, underlined: Set[int]
    ) -> None:
        index, ((start, end), columns) = schedule.plan.index, in_all(layout.scales)
        longest = len(f"{index.op(index.row('F', index.stages - 1)[-1])}")
        shortest = min((time for time in operation_times(schedule) if time), default=0)
        narrowest = shortest * columns // max(end - start, 1)
        self.plan, self.label, self.by_kind, self.few = schedule.plan, label, by_kind, layout.few_colours
        self.underlined = underlined
        self.cuts = label != "auto" or not by_kind
        if label == "auto":
            self.label = "op" if longest < narrowest else "microbatch"
        self.look = looks_of(schedule, by_kind=by_kind)

    def lines(self, runs: Sequence[Run]) -> list[Line]:
        return [[self._cell(run) for run in runs]]

    def _cell(self, run: Run) -> Segment:
        """Return the cells of a run: its colours, and its label as far as that fits."""
        if run.is_break:
            return BREAK_MARKS[False]
        if run.slot is None:
            return Segment(IDLE[False] * run.width, DIM)
        op, paired = self.plan.index.op(run.slot), self.plan.paired(run.slot)
        style = self._fill(op, run)
        if paired is not None:
            style += PAIR_STYLE
        if run.shared:
            left, right = (self._fill(self.plan.index.op(half), run) for half in run.halves)
            if left != right:
                return Segment(HALF, Style(color=left.bgcolor, bgcolor=right.bgcolor))
            return Segment(" " if paired is None else PAIR, style)
        style = style + CRITICAL_STYLE if run.slot in self.underlined else style
        text = label_of(self.label, op, paired, run.width)
        if not self.cuts and self.label == "microbatch":
            number = op.stage if op.kind in OF_STAGES else op.microbatch  # what tells it from others of its kind
            text = text if len(str(number)) <= run.width else ""
        return Segment(text.ljust(run.width), style)

    def _fill(self, op: Op, run: Run) -> Style:
        if self.few:
            return fill_of_kind(op.kind)
        if run.shared:
            return fill(None, op.kind)
        return fill(*self.look(op))


def label_of(label: str, op: Op, paired: Op | None, width: int) -> str:
    """Return the text that `label` asks for; of a number that does not fit, its last digits."""
    if label == "none":
        return ""
    if label == "stage" or (op.kind in OF_STAGES and (label != "op" or len(f"{op}") > width)):
        return str(op.stage)[-width:]
    if label == "op":
        return (f"{op}" if paired is None else f"{op}&{paired}")[:width]
    both = (op,) if paired is None else (op, paired)
    if op.is_sliced:
        text = "&".join(f"{one.microbatch}.{one.slice}" for one in both)
        if len(text) < width:  # else neighbours would run together
            return text
    text = "&".join(f"{one.microbatch}" for one in both)
    return text if len(text) <= width else str(op.microbatch)[-width:]


class LetterCells:
    """A line of kinds, a line of labels and, with several chunks, a line of chunks for each device.

    `label` auto means microbatches.
    """

    def __init__(self, schedule: Schedule, label: str, ascii_only: bool) -> None:
        self.plan, self.label = schedule.plan, label
        self.idle = IDLE[ascii_only]
        self.pause = BREAK_MARKS[ascii_only].text
        self.chunk = chunk_of_stage(schedule)
        self.chunks = max(self.chunk) + 1

    def lines(self, runs: Sequence[Run]) -> list[Line]:
        plan, (kinds, labels, chunks) = self.plan, ("", "", "")
        for width, slot, shared, *_, is_break in runs:
            label = chunk = ""
            if slot is None:
                kinds += self.pause if is_break else self.idle * width
            elif slot in plan.pairs:
                kinds += PAIR.ljust(width, ALL_KINDS["B"].mark)
            else:
                kind = plan.index.kind_of(slot)
                kinds += LETTERS[kind].ljust(width, ALL_KINDS[kind].mark)
            if slot is not None and not shared:
                op = plan.index.op(slot)
                label = label_of(self.label, op, plan.paired(slot), width)
                if op.kind not in STEP_KINDS and op.kind not in SIDE_MESSAGES:  # else the label is the stage, if any
                    chunk = str(self.chunk[op.stage])[-width:]
            labels += label.ljust(width)
            chunks += chunk.ljust(width)
        below = [labels, chunks] if self.chunks > 1 else [labels]
        return [[Segment(kinds)], *([Segment(text.rstrip())] for text in below if text.strip())]


Cells = ColourCells | LetterCells
NARROW = 2  # columns of a slot on average, below which its microbatch cannot be told


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


class LineBelow(NamedTuple):
    """A line below a device: its name, its segments, what stands at its end; of a lane its name, its row, its runs."""

    name: str
    segments: Line
    end: str = ""
    lane: str = ""
    row: Row | None = None
    runs: Sequence[Run] = ()


def lines_below(
    schedule: Schedule, device: int, cells: Cells, layout: LineFrame, *, full: int | None, is_first: bool
) -> Iterator[LineBelow]:
    """Yield a device's memory, as a share of `full` (None: no memory), and each of its lanes that moves something.

    Memory of a measured schedule is said to be as planned, once.
    """
    if full is not None:
        if schedule.own_lengths and is_first:
            columns = sum(scale.columns for scale in layout.scales)
            yield LineBelow("", [Segment(MEASURED_MEMORY[:columns], DIM)])
        steps, capacity = [*schedule.memory_steps(device)], schedule.problem.capacity_grains[device]
        strip = level_marks(steps, full, layout, capacity)
        yield LineBelow("mem", strip, peak_text(schedule, device))
    plan = schedule.plan
    for name, row in lane_rows(schedule, device) if plan.network or plan.messages or plan.lanes else ():
        runs = row.runs(*layout.scales)
        for place, segments in enumerate(cells.lines(runs)):
            yield LineBelow("" if place else name, segments, "", name, row, runs)


BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII_LEVELS = " 123456789"


def level_marks(steps: Sequence[tuple[int, int]], full: int, layout: LineFrame, capacity: int | None = None) -> Line:
    """Return a mark for each column, and each break: the highest level within it as a share of `full`.

    `steps` are the (tick, level) pairs at which the level changes. Those over `capacity` are red, or `!` without
    colours.
    """
    glyphs, marks = ASCII_LEVELS if layout.ascii_only else BLOCKS, Line()
    for scale in layout.scales:
        marks += [BREAK_MARKS[layout.ascii_only]] if marks else []
        (start, end), columns = scale
        levels = [0] * columns
        for (time, level), (until, _) in pairwise([*steps, (end, 0)]):
            if until > start and time < end and until != time:
                part = slice(scale.column(max(time, start)), min(scale.column_before(until), columns - 1) + 1)
                levels[part] = [max(level, other) for other in levels[part]]
        for level in levels:
            over = capacity is not None and level > capacity
            mark = glyphs[ceil_div(min(level, full) * (len(glyphs) - 1), full)] if full else glyphs[0]
            marks.append(Segment("!" if over and not layout.colour else mark, OVER if over else DIM))
    return marks


def full_scale(schedules: Sequence[Schedule]) -> int:
    """Return the grains of the highest mark of charts together: the largest peak, at most the largest capacity."""
    peak = max(0, *chain.from_iterable(schedule.peak_grains for schedule in schedules))
    capacities = chain.from_iterable(schedule.problem.capacity_grains for schedule in schedules)
    most = max((capacity for capacity in capacities if capacity is not None), default=0)
    return min(peak, most) if most > 0 else peak


def peak_text(schedule: Schedule, device: int) -> str:
    """Return the most that a device holds, static memory included, with its budget, if it has one: `4/6`."""
    budget = schedule.problem.memory.budget
    held = number(schedule.memory[device])
    return held if budget is None else f"{held}/{number(plain(budget[device]))}"


MOST_SHADES = 4  # of chunks, or slices, that are shown
SHARED = "a column that several share: its kinds in turn"


class Look:
    """What drawn charts contain.

    `apart` and `shared` say whether there are rows of whole slots, and rows of columns that several slots share;
    `hidden` counts the slots too short to show.
    """

    apart: bool = False
    shared: bool = False
    hidden: int = 0

    def add(self, row: Row, runs: Sequence[Run], *scales: TimeScale) -> None:
        self.shared = self.shared or runs[0].shared
        self.apart = self.apart or not runs[0].shared
        if not runs[0].shared:  # slots that take time, and have no column of their own
            for (start, end), _ in scales:
                first, last = bisect_right(row.ends, start), bisect_left(row.starts, end)
                self.hidden += sum(map(lt, row.starts[first:last], row.ends[first:last]))
            self.hidden -= sum(run.slot is not None for run in runs)


class LegendKey:
    """The legend of the charts of `schedules`, which are drawn on one scale."""

    def __init__(self, schedules: Sequence[Schedule], layout: LineFrame, *, memory: bool, by_kind: bool) -> None:
        self.schedules, self.layout, self.memory, self.by_kind = schedules, layout, memory, by_kind
        self.few, occurring = layout.few_colours, set[str]()
        for schedule in schedules:
            index, durations = schedule.plan.index, schedule.graph.durations
            for kind in map(KINDS.__getitem__, index.letters):
                if schedule.offloaded if kind.is_transfer else kind.in_ideal or schedule.recomputed:
                    occurring.add(kind.letter)
            beside = (*STEP_KINDS, *MESSAGE_KINDS)
            occurring |= {one for one in beside if any(durations[number] for number in index.of_kind(one))}
        self.kinds = [letter for letter in ALL_KINDS if letter in occurring]
        self.pairs = any(schedule.plan.pairs for schedule in schedules)
        self.chunks = max(max(chunk_of_stage(schedule)) for schedule in schedules) + 1
        self.slices = max(schedule.plan.index.slices for schedule in schedules)

    def items(self, look: Look) -> Iterator[Line]:
        """Yield the items of the legend, for charts that contain what `look` says."""
        yield from self._colour_items(look) if self.layout.colour else self._letter_items(look)
        problem, ascii_only = self.schedules[0].problem, self.layout.ascii_only
        yield [Segment(IDLE[ascii_only], DIM), Segment(" idle")]
        if look.shared:
            yield [Segment(SHARED)]
        if self.memory:
            top = number(in_units(full_scale(self.schedules), problem.grains.per_unit))
            mark, above = "9" if ascii_only else "█", ABOVE_STATIC * any(problem.static_grains)
            yield [Segment(f"mem: {mark} = {top} {problem.memory.unit}".rstrip() + above)]
        if self.memory and problem.memory.budget is not None:
            yield [Segment("█" if self.layout.colour else "!", OVER), Segment(" over budget")]
        yield [Segment(describe(in_all(self.layout.scales), problem.ticks.per_unit, problem.time_unit), DIM)]
        if look.hidden:
            yield [Segment(f"({counted(look.hidden, 'slot')} too short to show; zoom in)", DIM)]

    def _colour_items(self, look: Look) -> Iterator[Line]:
        first, second = (None, None) if self.by_kind else (0, 1)
        if self.by_kind:
            yield [Segment("colour by kind:")]
        else:
            count = self.schedules[0].problem.microbatches
            swatches = [Segment(f"{m}", fill(m, "F")) for m in range(min(count, len(HUES)))]
            yield [Segment("microbatch "), *swatches, *([Segment("..")] if count > len(HUES) else [])]
        for kind in self.kinds:
            hue = None if kind in OF_STAGES else first
            look_of_kind = fill_of_kind(kind) if self.few else fill(hue, kind, 0, self.chunks)
            yield [Segment(f" {LETTERS[kind]} ", look_of_kind), Segment(f" {ALL_KINDS[kind].name}")]
        if self.pairs:
            look_of_pair = (fill_of_kind("F") if self.few else fill(second, "F")) + PAIR_STYLE
            yield [Segment("1&0", look_of_pair), Segment(" overlapped pair")]
        if self.chunks > 1 and not self.few and (look.apart or not self.by_kind):
            chunks = range(min(self.chunks, MOST_SHADES))
            shades = [Segment(f" {chunk} ", fill(first, "F", chunk, self.chunks)) for chunk in chunks]
            yield [Segment("chunk "), *shades]
        if self.slices > 1 and not self.few and not self.by_kind:
            few = self.slices <= MOST_SHADES  # of many slices the first and the last one are shown
            parts = range(self.slices) if few else (0, self.slices - 1)
            look_of = {part: fill(0, "F", 0, self.chunks, place_of(part, self.slices)) for part in parts}
            first_slice, *others = (Segment(f" {part} ", look) for part, look in look_of.items())
            yield [Segment("slice "), first_slice, *[Segment("..")] * (not few), *others]

    def _letter_items(self, look: Look) -> Iterator[Line]:
        for kind in self.kinds:
            mark = ALL_KINDS[kind].mark if look.apart else ""
            yield [Segment(f"{LETTERS[kind]}{mark} {ALL_KINDS[kind].name}")]
        if self.pairs:
            yield [Segment(f"&{'=' * look.apart} overlapped pair")]
        if not look.apart:
            return
        what = "microbatch.slice" if self.slices > 1 else "microbatch"
        yield [Segment(f"below: {what}" + (", then chunk" if self.chunks > 1 else ""))]
        if not OF_STAGES.isdisjoint(self.kinds):
            yield [Segment("below net and optimizers: stage")]


def wrap(items: Iterable[Line], width: int) -> Iterator[Segment]:
    """Yield items, two blanks apart, as many on a line as fit; an item longer than a line is cut."""
    used = 0
    for item in items:
        length = sum(segment.cell_length for segment in item)
        if used and used + 2 + length > width:
            yield NEWLINE
            used = 0
        elif used:
            yield Segment("  ")
            used += 2
        yield from Segment.adjust_line_length(item, min(length, width))
        used += length
    if used:
        yield NEWLINE


OFTEN = 4  # times a period must come, and
HELPS = Fraction(2, 3)  # of a timeline may be left of it, for schedules of one chunk to be folded without being asked
NOTHING = "nothing repeats often enough to be folded: drawn whole"


class Fold(NamedTuple):
    """What a chart leaves out of a steady state: `periods` periods, all but the first (and one, if nothing follows).

    The `period` is drawn, the `gap` is left out.
    """

    steady: SteadyState
    periods: int
    period: Window
    gap: Window

    def parts(self, window: Window) -> list[Window]:
        """Return what is left of a window that holds the gap."""
        return [Window(window.start, self.gap.start), Window(self.gap.end, window.end)]

    def text(self, schedule: Schedule) -> str:
        """Return what is left out in words: `20 periods of 90 left out: 1200..3000`."""
        unit, label = schedule.problem.ticks.per_unit, schedule.problem.time_unit
        ticks, start, end = (number(in_units(time, unit)) for time in (self.steady.ticks, *self.gap))
        others = f"; of them {counted(self.steady.others, 'slot')} run otherwise" if self.steady.others else ""
        return f"{counted(self.periods, 'period')} of {ticks} {label}".rstrip() + f" left out: {start}..{end}{others}"


def fold_of(schedule: Schedule) -> Fold | None:
    """Return the fold of a schedule that has a steady state, or nearly."""
    from pipesched.pipeline.plan.period import steady_state

    steady = steady_state(schedule, nearly=True)
    if steady is None:
        return None
    is_last = steady.start + steady.repeats * steady.ticks >= schedule.last_ticks
    periods = steady.repeats - 1 - is_last
    end, starts, ends = steady.start + steady.ticks, schedule.start_ticks, schedule.end_ticks
    gap = Window(end, end + periods * steady.ticks)
    beside = range(schedule.plan.index.passes, len(starts))  # of what a step has beside its passes all is drawn
    is_hidden = any(starts[number] < gap.end and ends[number] > gap.start for number in beside)
    return Fold(steady, periods, Window(steady.start, end), gap) if periods and not is_hidden else None


def helps(schedule: Schedule, fold: Fold, folded: Sequence[TimeScale], whole: Sequence[TimeScale]) -> bool:
    """Return whether slots get wider by a fold; with one chunk also whether enough of the timeline is left out."""
    narrow, wide = (in_all(scales) for scales in (whole, folded))
    before, after = (scale.window.end - scale.window.start for scale in (narrow, wide))
    has_chunks = schedule.problem.stages > schedule.problem.devices
    is_enough = has_chunks or (fold.steady.repeats >= OFTEN and after <= HELPS * before)
    return is_enough and wide.columns * before > narrow.columns * after


class MarkLines:
    """The marks of an explained schedule, for `Gantt(marks=..)`."""

    name = "why"

    def __init__(self, explanation: Explanation) -> None:
        schedule = explanation.schedule
        first = min(schedule.first_start_ticks)
        path = self.underlined = frozenset(explanation.path)
        starts, ends = schedule.start_ticks, schedule.end_ticks
        spans = [[(starts[t], ends[t], 0) for t in order if t in path] for order in schedule.plan.orders]
        places = {idle: place for place, idle in enumerate(IDLE_MARKS, 1)}
        for gap in explanation.gap_ticks:
            spans[gap.device].append((gap.start + first, gap.end + first, places[gap.idle]))
        lasting = [sorted(span for span in of_device if span[0] < span[1]) for of_device in spans]
        self._rows = [Row([m for *_, m in row], [s for s, *_ in row], [e for _, e, _ in row]) for row in lasting]
        self._used = sorted({place for of_device in spans for *_, place in of_device})

    def line(self, device: int, layout: LineFrame) -> Iterator[Segment]:
        """Yield the segments below a device; a column that several share shows what stands in its middle."""
        row = self._rows[device]
        for run in row.runs(*layout.scales) if row.order else ():
            if run.is_break:
                yield BREAK_MARKS[layout.ascii_only]
            elif run.slot is None:
                yield Segment(" " * run.width, DIM)
            else:
                yield Segment(MARKS[run.slot].letter * run.width, MARKS[run.slot].style if layout.colour else None)

    def legend(self, *, colour: bool) -> Iterator[list[Segment]]:
        for mark in (MARKS[place] for place in self._used):
            yield [Segment(mark.letter, mark.style if colour else None), Segment(f" {mark.meaning}")]


AXIS_EVERY = 16  # devices between two axes
Scales = Mapping[int, Sequence[TimeScale]]  # by the identity of a schedule


class Gantt(Widely, Displayable):
    """A schedule, or the schedule of an outcome, as a chart.

    `start` and `end` (in the user's time unit) and `zoom` choose the part to draw: 1/zoom of the window, from its
    start. `label` is one of view.LABELS; `memory` adds a strip under each device (None: when there is a budget).
    `rows` are the devices to draw (None: of more than 64 the first and the last 32; "all"). `fold` leaves out what
    repeats: of the steady state one period is drawn. None means where slots are narrower than two columns and it helps;
    not in a part, with `until`, or of charts together. Charts of the schedules in `together` share one layout, up to
    the tick `until` (or each folded by itself), so their ticks are equally long. The legend of a chart (`show_legend`)
    explains them all. `marks` adds a line of marks below each device; `spell` spells parameters in texts. Raises
    ConfigError, about the argument at fault.
    """

    _narrowest = 24

    def __init__(
        self,
        schedule: Schedule | Outcome,
        *,
        start: Number | None = None,
        end: Number | None = None,
        zoom: float = 1,
        label: str = "auto",
        memory: bool | None = None,
        rows: Sequence[int] | str | None = None,
        fold: bool | None = None,
        ascii_only: bool = False,
        together: Sequence[Schedule | Outcome] = (),
        until: int | None = None,
        show_legend: bool = True,
        marks: MarkLines | None = None,
        spell: Spelling = as_parameters,
    ) -> None:
        self.schedule = schedule.schedule if isinstance(schedule, Outcome) else schedule
        require_type(self.schedule, Schedule, "a Schedule or an Outcome", "schedule")
        view = View(start, end, zoom, label, memory, rows=rows, fold=fold)
        self.ascii_only = require_flag(ascii_only, "ascii_only")
        members = []
        for member in require_sequence(together, "together"):
            members.append(member.schedule if isinstance(member, Outcome) else member)
            require_type(members[-1], Schedule, "Schedules or Outcomes", "together")
        if {member.problem.ticks.per_unit for member in members} - {self.schedule.problem.ticks.per_unit}:
            raise ConfigError("must be schedules whose ticks are as long as those of schedule", "together")
        self.together: Sequence[Schedule] = members or (self.schedule,)
        longest = max(member.last_ticks for member in self.together)
        last = longest if until is None else require_whole(until, "until", least=int(longest > 0))
        self.window, self.label = view.window(self.schedule, last), label
        self.may_fold = fold is not False and (start, end, zoom) == (None, None, 1) and until is None
        self.must_fold = bool(fold)
        self.memory, self.devices = view.shows_memory(self.schedule), view.devices(self.schedule)
        left_out = self.schedule.problem.devices - len(self.devices) if rows is None else 0
        self.left_out = spell(f"{counted(left_out, 'device')} left out; `rows` all draws them") if left_out else ""
        self.show_legend = require_flag(show_legend, "show_legend")
        self.marks = marks

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        layout, fold, folded = self._layout(console, options)
        by_kind = layout.few_colours or (layout.colour and is_by_kind(self.together, layout.scales))
        underlined = self.marks.underlined if self.marks else frozenset()
        cells: Cells = LetterCells(self.schedule, self.label, layout.ascii_only)
        if layout.colour:
            cells = ColourCells(self.schedule, self.label, layout, by_kind=by_kind, underlined=underlined)
        look = Look()
        for position, device in enumerate(self.devices):
            if self.left_out and position == MOST_DEVICES // 2:
                yield from Segment.adjust_line_length([Segment(self.left_out, DIM)], options.max_width, pad=False)
                yield NEWLINE
            if position % AXIS_EVERY == 0:
                yield from axis(layout, self.schedule.problem.ticks.per_unit, fold and fold.period)
            yield from self._device(device, cells, layout, look)
        left_out: list[Line] = [[Segment(NOTHING, DIM)]] if self.must_fold else []
        if fold is not None:
            period = "= one period" if layout.ascii_only else "═ one period"
            gap = [BREAK_MARKS[layout.ascii_only], Segment(f" {fold.text(self.schedule)}", DIM)]
            left_out = [[Segment(period, DIM)], gap]
        yield from wrap(left_out, options.max_width)
        if self.show_legend:
            for other in (other for other in self.together if other is not self.schedule):
                scales = folded.get(id(other), layout.scales)
                for row in rows_of(other):
                    look.add(row, row.runs(*scales), *scales)
            key = LegendKey(self.together, layout, memory=self.memory, by_kind=by_kind)
            marks = self.marks.legend(colour=layout.colour) if self.marks else ()
            yield from wrap(chain(key.items(look), marks), options.max_width)

    def _folded(self, fold: Fold | None, columns: int) -> Scales:
        """Return the scales of folded charts whose ticks are equally long; `fold` is that of this schedule."""
        parts: dict[int, list[Window]] = {}
        for member in (self.schedule, *self.together):
            if id(member) not in parts:
                own = fold if member is self.schedule else fold_of(member)
                parts[id(member)] = own.parts(Window(0, member.last_ticks)) if own else [self.window]
        most = max(sum(end - start for start, end in windows) for windows in parts.values())
        breaks = max(map(len, parts.values())) - 1
        least = gcd(quantum(self.together), *chain.from_iterable(chain.from_iterable(parts.values())))
        return {key: fit_parts(windows, least, columns - breaks, most) for key, windows in parts.items()}

    def _layout(self, console: Console, options: ConsoleOptions) -> tuple[LineFrame, Fold | None, Scales]:
        """Return the parts of a line, its fold if it has one, and the scales of charts that all must fold."""
        width, problem = options.max_width, self.schedule.problem
        ascii_only = self.ascii_only or options.ascii_only
        word = "device " if width >= WIDE else "d"
        gutter = max(len(problem.device_name(device, word)) for device in range(problem.devices)) + 1
        if self.memory or self.marks or any(member.plan.lanes or member.plan.network for member in self.together):
            gutter = max(gutter, len("mem "))
        if any(member.plan.messages for member in self.together):
            gutter = max(gutter, len(f"{QUEUE} {problem.devices - 1} "))
        tail = len(" idle") if width >= WIDE else 0
        if self.memory:
            peaks = (peak_text(member, device) for member in self.together for device in range(member.problem.devices))
            tail = max(tail, max(map(len, peaks)) + 1)
        colour = not (ascii_only or console.no_color or console.color_system is None)
        few_colours = colour and console.color_system in ("standard", "windows")
        columns = max(width - gutter - tail, 2)
        begin, end = self.window
        scales = fit_parts([self.window], quantum(self.together), columns, end - begin)
        may_fold = self.may_fold and len(self.together) == 1 and is_narrow(self.together, scales)
        fold = fold_of(self.schedule) if self.must_fold or may_fold else None
        folded = self._folded(fold, columns) if self.must_fold or fold else {}
        own = folded.get(id(self.schedule), scales)
        if fold and not self.must_fold and not helps(self.schedule, fold, own, scales):
            fold, own = None, scales
        frame = LineFrame(gutter, own, tail, colour, ascii_only, few_colours)
        return frame, fold, folded if self.must_fold else {}

    def _device(self, device: int, cells: Cells, layout: LineFrame, look: Look) -> Iterator[Segment]:
        """Yield the lines of a device, its marks, its memory and its lanes; `look` is told what they contain."""
        row = device_row(self.schedule, device)
        runs = row.runs(*layout.scales)
        look.add(row, runs, *layout.scales)
        over = device in self.schedule.over_budget
        name = self.schedule.problem.device_name(device)
        if layout.gutter <= len(name):
            name = self.schedule.problem.device_name(device, "d")
        head = Segment(name.ljust(layout.gutter), OVER if over else None)
        whole = self.schedule.makespan_ticks
        idle = f"{self.schedule.idle_ticks[device] / whole:.0%}" if whole else "0%"
        share = [Segment(idle.rjust(layout.tail), DIM)] if layout.tail >= len(" idle") else []
        first, *others = cells.lines(runs)
        yield from (head, *first, *share, NEWLINE)
        for cell_line in others:
            yield from (Segment(" " * layout.gutter), *cell_line, NEWLINE)
        if self.marks:
            head_of_marks = Segment(self.marks.name.ljust(layout.gutter), DIM)
            yield from (head_of_marks, *self.marks.line(device, layout), NEWLINE)
        plan = self.schedule.plan
        if not (self.memory or plan.network or plan.messages or plan.lanes):
            return
        full, is_first = full_scale(self.together) if self.memory else None, device == self.devices[0]
        for below in lines_below(self.schedule, device, cells, layout, full=full, is_first=is_first):
            if below.row is not None and below.name:
                look.add(below.row, below.runs, *layout.scales)
            head = Segment(below.name.ljust(layout.gutter), DIM if below.name else None)
            peak = [Segment(below.end.rjust(layout.tail), OVER if over else DIM)] if below.end else []
            yield from (head, *below.segments, *peak, NEWLINE)
