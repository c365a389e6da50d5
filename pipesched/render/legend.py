"""The legend below a chart: the meaning of its colours or letters, the scale, and what memory devices hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from rich.segment import Segment

from pipesched.core.arrays import ceil_div
from pipesched.pipeline.kinds import ALL_KINDS, KINDS, MESSAGE_KINDS, STEP_KINDS
from pipesched.pipeline.metrics import ACTIVATIONS
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import in_units, plain
from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.step import GRADIENTS, WEIGHTS
from pipesched.render.cells import ASCII_IDLE, IDLE, Line
from pipesched.render.grid import shortened
from pipesched.render.marks import MEASURED_MEMORY
from pipesched.render.palette import DIM, HUES, OVER, PAIR_STYLE, break_mark, fill, fill_of_kind, place_of
from pipesched.render.scene import Row, Run, TimeScale, chunk_of_stage, describe, is_numbered, letter_of, number
from pipesched.render.view import LineFrame

if TYPE_CHECKING:
    from pipesched.hls.graph import Operation


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


FEW_DEVICES = 7  # whose peaks are listed; of more, the largest and the smallest


def has_static(problem: Problem) -> bool:
    """Return whether some device holds memory all the time."""
    return any(problem.static_grains(device) for device in range(problem.devices))


def above_static(problem: Problem) -> str:
    """Return what a legend of memory says where the strips stand above static memory."""
    return " above static memory" if has_static(problem) else ""


def held_text(problem: Problem) -> str:
    """Return what the memory of a device is of: `activations and static memory`."""
    parts = ["activations"]
    parts += ["whole weights"] * problem.sharding.divides(WEIGHTS)
    parts += ["whole gradients"] * problem.sharding.divides(GRADIENTS)
    parts += ["side work"] * bool(problem.side)
    parts += ["static memory"] * has_static(problem)
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def peak_row(schedule: Schedule, every: bool) -> tuple[str, str]:
    """Return the most that a device holds, and a note of all devices, or of many the largest and the smallest."""
    what = held_text(schedule.problem)
    if schedule.own_lengths:
        what = f"{MEASURED_MEMORY}; {what}"
    return _most(schedule.memory, what, schedule.problem.memory.unit, every)


def _most(held: Sequence[int | float], what: str, unit: str, every: bool) -> tuple[str, str]:
    """Return the most of what devices hold, and a note of all devices, or of many the largest and the smallest."""
    value = f"{number(max(held))} {unit}".strip()
    if every or len(held) <= FEW_DEVICES:
        whose = f"devices 0..{len(held) - 1}" if len(held) > 1 else "device 0"
        return value, f"{what} of {whose}: {', '.join(map(number, held))}"
    texts = []
    for word, extreme in (("largest", max(held)), ("smallest", min(held))):
        devices = [device for device, one in enumerate(held) if one == extreme]
        where = f"{len(devices)} devices, {devices[0]} the first"
        if len(devices) in (1, len(held)):
            where = f"device {devices[0]}" if len(devices) == 1 else "every device"
        texts.append(f"{word} {number(extreme)} on {where}")
    extremes = texts[0].replace("largest ", "") if max(held) == min(held) else ", ".join(texts)
    return value, f"{what}: {extremes}"


def class_rows(schedule: Schedule, every: bool) -> Iterator[tuple[str, str, str]]:
    """Yield the peak of each class of what comes and goes, where that is more than activations."""
    peaks = {what: schedule.peak_of(what) for what in schedule.held}
    if any(any(peaks[what]) for what in peaks if what != ACTIVATIONS):
        for what, held in peaks.items():
            if any(held):
                yield f"  {what}", *_most(held, "own peak", schedule.problem.memory.unit, every)


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


LONGEST = 36  # letters of an expression, of which a longer one shows the beginning and the end
MOST = 12  # operations that are explained


def explained(operations: Sequence[Operation], width: int, ascii_only: bool) -> Iterator[Item]:
    """Yield an item for each of the first operations, none wider than `width`, and how many more there are."""
    gap = " ... " if ascii_only else " … "
    for operation in operations[:MOST]:
        label = f"{operation.name} = "
        text = shortened(operation.text, max(min(LONGEST, width - len(label)), len(gap)), gap)
        yield [Segment(label + text)]
    if len(operations) > MOST:
        more = f"and {len(operations) - MOST} more"
        full = f"{more} without a name"
        yield [Segment(full if len(full) <= width else more, DIM)]
