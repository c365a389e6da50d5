"""The look of a row: columns filled with colour, or spelled out in letters. Both show the same."""

from __future__ import annotations

from collections.abc import Sequence, Set

from rich.segment import Segment
from rich.style import Style

from pipesched.pipeline.kinds import ALL_KINDS, STEP_KINDS
from pipesched.pipeline.ops import SIDE_MESSAGES, Op
from pipesched.pipeline.schedule import Schedule
from pipesched.render.palette import CRITICAL_STYLE, DIM, PAIR_STYLE, break_mark, fill, fill_of_kind, place_of
from pipesched.render.scene import PAIR, Run, chunk_of, chunk_of_stage, is_numbered, letter_of

IDLE, ASCII_IDLE, HALF = "·", ".", "▌"

Line = list[Segment]


class ColourCells:
    """A line for each device: hue by microbatch, shade by kind, chunk and slice, the label where it fits.

    `label` auto means the texts of operations if the longest fits into `narrowest` columns, else microbatches. With
    `by_kind`, as where slots share columns, hue is by kind, and shade by chunk; then auto writes only numbers that fit.
    With `few` colours each kind has one. What is `underlined` is.
    """

    def __init__(
        self,
        schedule: Schedule,
        label: str,
        narrowest: int,
        *,
        by_kind: bool = False,
        few: bool = False,
        underlined: Set[int] = frozenset(),
    ) -> None:
        self.underlined = underlined
        index = schedule.plan.index
        longest = len(f"{index.op(index.row('F', index.stages - 1)[-1])}")
        self.plan, self.label, self.by_kind, self.few = schedule.plan, label, by_kind, few
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
        if self.by_kind or not is_numbered(op.kind):
            return fill(None, op.kind, chunk_of(op, self.chunk), self.chunks)
        chunk = chunk_of(op, self.chunk)
        return fill(op.microbatch, op.kind, chunk, self.chunks, place_of(op.slice, self.plan.index.slices))


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
