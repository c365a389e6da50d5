"""The look of a row in a terminal, its strip of memory, and the legend that explains them.

Columns are filled with colour, or spelled out in letters. Both show the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain, pairwise

from rich.segment import Segment
from rich.style import Style

from pipesched.core.arrays import ceil_div
from pipesched.pipeline.kinds import ALL_KINDS, KINDS, LANES, MESSAGE_KINDS, STEP_KINDS
from pipesched.pipeline.ops import SIDE_MESSAGES, Op
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import in_units, plain
from pipesched.pipeline.schedule import Schedule
from pipesched.render.palette import (
    CRITICAL_STYLE,
    DIM,
    HUES,
    OVER,
    PAIR_STYLE,
    break_mark,
    fill,
    fill_of_kind,
    place_of,
)
from pipesched.render.scene import (
    PAIR,
    Row,
    Run,
    TimeScale,
    chunk_of_stage,
    describe,
    in_all,
    is_numbered,
    lane_rows,
    letter_of,
    look_of,
    number,
    operation_times,
    rows_of,
)
from pipesched.render.view import LineFrame

IDLE, ASCII_IDLE, HALF = "·", ".", "▌"

Line = list[Segment]


class ColourCells:
    """A line for each device: hue by microbatch, shade by kind, chunk and slice, the label where it fits.

    `label` auto means the texts of operations if the longest fits into the narrowest, else microbatches. With
    `by_kind`, as where slots share columns, hue is by kind, and shade by chunk; then auto writes only numbers that fit.
    With `few` colours each kind has one. What is `underlined` is.
    """

    def __init__(
        self, schedule: Schedule, label: str, layout: LineFrame, *, by_kind: bool, underlined: Set[int]
    ) -> None:
        index, (start, end) = schedule.plan.index, layout.scale.window
        longest = len(f"{index.op(index.row('F', index.stages - 1)[-1])}")
        shortest = min((time for time in operation_times(schedule) if time), default=0)
        narrowest = shortest * layout.scale.columns // max(end - start, 1)
        self.plan, self.label, self.by_kind, self.few = schedule.plan, label, by_kind, layout.few_colours
        self.underlined = underlined
        self.cuts = label != "auto" or not by_kind
        if label == "auto":
            self.label = "op" if longest < narrowest else "microbatch"
        self.chunk = chunk_of_stage(schedule)
        self.chunks = max(self.chunk) + 1

    def lines(self, runs: Sequence[Run], *, of_two: bool = False) -> list[Line]:
        """Return the line that shows `runs`; on a lane `of_two` devices, labels name the stage too where that fits."""
        return [[self._cell(run, of_two) for run in runs]]

    def _cell(self, run: Run, of_two: bool) -> Segment:
        if run.is_break:
            return break_mark(ascii_only=False)
        if run.slot is None:
            return Segment(IDLE * run.width, DIM)
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
        label = "op" if of_two and self.label != "none" and len(f"{op}") <= run.width else self.label
        text = label_of(label, op, paired, run.width)
        if not self.cuts and label == "microbatch":
            number = op.microbatch if is_numbered(op.kind) else op.stage  # what tells it from others of its kind
            text = text if len(str(number)) <= run.width else ""
        return Segment(text.ljust(run.width), style)

    def _fill(self, op: Op, run: Run) -> Style:
        if self.few:
            return fill_of_kind(op.kind)
        if run.shared:
            return fill(None, op.kind)
        return fill(*look_of(op, self.chunk, self.chunks, self.plan.index.slices, by_kind=self.by_kind))


def label_of(label: str, op: Op, paired: Op | None, width: int) -> str:
    """Return the text that `label` asks for; of a number that does not fit, its last digits."""
    if label == "none":
        return ""
    if label == "stage" or not (is_numbered(op.kind) or (label == "op" and len(f"{op}") <= width)):
        return str(op.stage)[-width:]
    if label == "op":
        return (f"{op}" if paired is None else f"{op}&{paired}")[:width]
    if op.is_sliced:
        text = _apart(op, paired, "{0.microbatch}.{0.slice}")
        if len(text) < width:  # else neighbours would run together
            return text
    text = _apart(op, paired, "{0.microbatch}")
    return text if len(text) <= width else str(op.microbatch)[-width:]


def _apart(op: Op, paired: Op | None, form: str) -> str:
    """Return what a form says of an operation, and of the one that is paired with it."""
    return form.format(op) if paired is None else f"{form.format(op)}&{form.format(paired)}"


class LetterCells:
    """A line of kinds, a line of labels and, with several chunks, a line of chunks for each device.

    `label` auto means microbatches.
    """

    def __init__(self, schedule: Schedule, label: str, ascii_only: bool) -> None:
        self.plan, self.label = schedule.plan, label
        self.idle = ASCII_IDLE if ascii_only else IDLE
        self.pause = break_mark(ascii_only=ascii_only).text
        self.chunk = chunk_of_stage(schedule)
        self.chunks = max(self.chunk) + 1

    def lines(self, runs: Sequence[Run], *, of_two: bool = False) -> list[Line]:
        """Return the lines that spell out `runs`; on a lane `of_two` devices, the last line shows stages."""
        lines = ["".join(map(row, runs)) for row in (self._kind, self._text)]
        numbers = range(self.plan.index.stages) if of_two else self.chunk if self.chunks > 1 else []
        if numbers:
            lines.append("".join(self._number(run, numbers) for run in runs))
        return [[Segment(line)] for line in (lines[0], *(line.rstrip() for line in lines[1:] if line.strip()))]

    def _kind(self, run: Run) -> str:
        if run.is_break:
            return self.pause
        if run.slot is None:
            return self.idle * run.width
        if run.slot in self.plan.pairs:
            return PAIR.ljust(run.width, ALL_KINDS["B"].mark)
        kind = self.plan.index.kind_of(run.slot)
        return letter_of(kind).ljust(run.width, ALL_KINDS[kind].mark)

    def _text(self, run: Run) -> str:
        if run.slot is None or run.shared:
            return " " * run.width
        op, paired = self.plan.index.op(run.slot), self.plan.paired(run.slot)
        return label_of(self.label, op, paired, run.width).ljust(run.width)

    def _number(self, run: Run, of_stage: Sequence[int]) -> str:
        if run.slot is None or run.shared:
            return " " * run.width
        op = self.plan.index.op(run.slot)
        if op.kind in (*STEP_KINDS, *SIDE_MESSAGES):  # the line above shows their stages, and side work has none
            return " " * run.width
        return str(of_stage[op.stage])[-run.width :].ljust(run.width)


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


def cells_of(
    schedule: Schedule, label: str, layout: LineFrame, *, by_kind: bool, underlined: Set[int] = frozenset()
) -> Cells:
    """Return what draws the cells of a row: colours where there are, else letters."""
    if not layout.colour:
        return LetterCells(schedule, label, layout.ascii_only)
    return ColourCells(schedule, label, layout, by_kind=by_kind, underlined=underlined)


def drawn_lanes(
    schedule: Schedule, device: int, cells: Cells, layout: LineFrame
) -> Iterator[tuple[str, Row, list[Run], list[Line]]]:
    """Yield name, row, runs and lines of each lane below a device that moves something."""
    for name, row in lane_rows(schedule, device):
        runs = row.runs(*layout.scales)
        of_two = schedule.problem.lanes == "pair" and name in [lane.value for lane in LANES]
        yield name, row, runs, cells.lines(runs, of_two=of_two)


BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII_LEVELS = " 123456789"


def memory_strip(schedule: Schedule, device: int, layout: LineFrame, full: int) -> list[Segment]:
    """Return a mark for each column, and one for each break: the activations as a share of `full` grains.

    The mark is `!`, or red, where they are over what the budget leaves beside static memory.
    """
    steps, capacity = list(schedule.memory_steps(device)), schedule.problem.capacity_grains[device]
    marks: list[Segment] = []
    for scale in layout.scales:
        marks += [break_mark(ascii_only=layout.ascii_only)] if marks else []
        marks += level_marks(column_levels(steps, scale), full, layout, capacity)
    return marks


def level_marks(levels: Sequence[int], full: int, layout: LineFrame, capacity: int | None = None) -> list[Segment]:
    """Return a mark for each level as a share of `full`; those over `capacity` are red, or `!` without colours."""
    marks = ASCII_LEVELS if layout.ascii_only else BLOCKS
    segments = []
    for level in levels:
        over = capacity is not None and level > capacity
        mark = marks[ceil_div(min(level, full) * (len(marks) - 1), full)] if full else marks[0]
        segments.append(Segment("!" if over and not layout.colour else mark, OVER if over else DIM))
    return segments


def column_levels(steps: Iterable[tuple[int, int]], scale: TimeScale) -> list[int]:
    """Return the highest level within each column; `steps` are the (tick, level) pairs at which the level changes."""
    levels = [0] * scale.columns
    for (time, level), (until, _) in pairwise([*steps, (scale.window.end, 0)]):
        if until <= scale.window.start or time >= scale.window.end or until == time:
            continue
        first = scale.column(max(time, scale.window.start))
        last = min(scale.column_before(until), scale.columns - 1)
        for column in range(first, last + 1):
            if levels[column] < level:
                levels[column] = level
    return levels


def full_scale(schedules: Iterable[Schedule]) -> int:
    """Return the grains of activations of the highest mark: the largest peak of all, at most the largest capacity.

    So charts that are drawn together share a scale on which the shape of their strips shows.
    """
    peaks, capacities = [0], []
    for schedule in schedules:
        peaks += schedule.peak_grains
        capacities += [capacity for capacity in schedule.problem.capacity_grains if capacity is not None]
    most = max(capacities, default=0)
    return min(max(peaks), most) if most > 0 else max(peaks)


def peak_text(schedule: Schedule, device: int) -> str:
    """Return the most that a device holds, static memory included, with its budget, if it has one: `4/6`."""
    budget = schedule.problem.memory.budget
    held = number(schedule.memory[device])
    return held if budget is None else f"{held}/{number(plain(budget[device]))}"


def has_static(problem: Problem) -> bool:
    """Return whether some device holds memory all the time."""
    return any(problem.static_grains(device) for device in range(problem.devices))


def above_static(problem: Problem) -> str:
    """Return what a legend of memory says where the strips stand above static memory."""
    return " above static memory" if has_static(problem) else ""


Item = list[Segment]
MOST_SHADES = 4  # of chunks, or slices, that are shown
SHARED = "a column that several share: its kinds in turn"


class Look:
    """What drawn charts contain.

    `apart` and `shared` say whether there are rows of whole slots, and rows of columns that several slots share;
    `hidden` counts the slots too short to show.
    """

    def __init__(self) -> None:
        self.apart = self.shared = False
        self.hidden = 0

    def add(self, row: Row, runs: Sequence[Run], *scales: TimeScale) -> None:
        """Add a row that was drawn as `runs` on these scales."""
        self.shared = self.shared or runs[0].shared
        self.apart = self.apart or not runs[0].shared
        self.hidden += row.hidden(runs, *scales)


class LegendKey:
    """The legend of the charts of `schedules`, which are drawn on one scale."""

    def __init__(self, schedules: Sequence[Schedule], layout: LineFrame, *, memory: bool, by_kind: bool) -> None:
        self.schedules, self.scale, self.memory, self.by_kind = schedules, layout.scale, memory, by_kind
        self.colour, self.few, self.ascii_only = layout.colour, layout.few_colours, layout.ascii_only
        self.kinds = [kind for kind in ALL_KINDS if any(_occurs(kind, schedule) for schedule in schedules)]
        self.lanes_of_two = any(schedule.offloaded and schedule.problem.lanes == "pair" for schedule in schedules)
        self.pairs = any(schedule.plan.pairs for schedule in schedules)
        self.chunks = max(max(chunk_of_stage(schedule)) for schedule in schedules) + 1
        self.slices = max(schedule.plan.index.slices for schedule in schedules)

    def items(self, look: Look) -> Iterator[Item]:
        """Yield the items of the legend, for charts that contain what `look` says."""
        if self.colour:
            yield from self._colour_items(look)
        else:
            yield from self._letter_items(look)
        problem = self.schedules[0].problem
        yield [Segment(ASCII_IDLE if self.ascii_only else IDLE, DIM), Segment(" idle")]
        if look.shared:
            yield [Segment(SHARED)]
        if self.memory:
            top = number(in_units(full_scale(self.schedules), problem.grains.per_unit))
            mark, above = "9" if self.ascii_only else "█", above_static(problem)
            yield [Segment(f"mem: {mark} = {top} {problem.memory.unit}".rstrip() + above)]
        if self.memory and problem.memory.budget is not None:
            yield [Segment("█" if self.colour else "!", OVER), Segment(" over budget")]
        yield [Segment(describe(self.scale, problem.ticks.per_unit, problem.time_unit), DIM)]
        if look.hidden:
            slots = "slot" if look.hidden == 1 else "slots"
            yield [Segment(f"({look.hidden} {slots} too short to show; zoom in)", DIM)]

    def _colour_items(self, look: Look) -> Iterator[Item]:
        first, second = (None, None) if self.by_kind else (0, 1)
        if self.by_kind:
            yield [Segment("colour by kind:")]
        else:
            count = self.schedules[0].problem.microbatches
            swatches = [Segment(f"{m}", fill(m, "F")) for m in range(min(count, len(HUES)))]
            yield [Segment("microbatch "), *swatches, *([Segment("..")] if count > len(HUES) else [])]
        for kind in self.kinds:
            hue = first if is_numbered(kind) else None
            look_of_kind = fill_of_kind(kind) if self.few else fill(hue, kind, 0, self.chunks)
            yield [Segment(f" {letter_of(kind)} ", look_of_kind), Segment(f" {ALL_KINDS[kind].name}")]
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

    def _letter_items(self, look: Look) -> Iterator[Item]:
        for kind in self.kinds:
            mark = ALL_KINDS[kind].mark if look.apart else ""
            yield [Segment(f"{letter_of(kind)}{mark} {ALL_KINDS[kind].name}")]
        if self.pairs:
            yield [Segment(f"&{'=' * look.apart} overlapped pair")]
        if not look.apart:
            return
        lanes = "; on lanes of two devices stage" if self.lanes_of_two else ""
        what = "microbatch.slice" if self.slices > 1 else "microbatch"
        yield [Segment(f"below: {what}" + (", then chunk" if self.chunks > 1 else "") + lanes)]
        if not all(map(is_numbered, self.kinds)):
            yield [Segment("below net and optimizers: stage")]


def _occurs(kind: str, schedule: Schedule) -> bool:
    index, durations = schedule.plan.index, schedule.graph.durations
    if kind in MESSAGE_KINDS or (kind in STEP_KINDS and kind in index.kinds):
        return any(durations[number] for number in index.of_kind(kind))
    if kind not in index.kinds:
        return False
    if KINDS[kind].is_transfer:
        return bool(schedule.offloaded)
    return KINDS[kind].in_ideal or bool(schedule.recomputed)


def wrap(items: Iterator[Item], width: int) -> Iterator[Line]:
    """Yield lines of items, two blanks apart, as many on a line as fit; an item longer than a line is cut."""
    line: Line = []
    used = 0
    for item in items:
        length = sum(segment.cell_length for segment in item)
        if line and used + 2 + length > width:
            yield line
            line, used = [], 0
        if line:
            line.append(Segment("  "))
            used += 2
        line += Segment.adjust_line_length(item, min(length, width))
        used += length
    if line:
        yield line
