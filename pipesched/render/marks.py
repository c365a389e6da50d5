"""Marks below the devices of a chart: what is critical, why a device idles; and words of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style

from pipesched.analysis.reasons.explanation import Explanation
from pipesched.core.reasons import Idle
from pipesched.render.palette import DIM, break_mark
from pipesched.render.scene import Row
from pipesched.render.view import LineFrame


class ColumnMark(NamedTuple):
    """What a column of the line shows: a letter, its style in colour, and its meaning."""

    letter: str
    style: Style
    meaning: str


CRITICAL = ColumnMark("*", Style(bold=True), "critical path")
IDLE_MARKS: Mapping[Idle, ColumnMark] = {
    Idle.WARM_UP: ColumnMark("u", Style(color="white", bgcolor="blue"), "warm-up"),
    Idle.WAIT: ColumnMark("w", Style(color="black", bgcolor="yellow"), "wait"),
    Idle.TRANSFER: ColumnMark("t", Style(color="black", bgcolor="cyan"), "transfer"),
    Idle.QUEUE: ColumnMark("q", Style(color="white", bgcolor="black"), "queue"),
    Idle.ORDER: ColumnMark("o", Style(color="white", bgcolor="magenta"), "order"),
    Idle.MEMORY: ColumnMark("m", Style(color="white", bgcolor="red"), "memory"),
    Idle.DRAIN: ColumnMark("d", Style(color="black", bgcolor="green"), "drain"),
    Idle.LATE: ColumnMark("l", Style(color="black", bgcolor="white"), "late"),
    Idle.MESSAGE: ColumnMark("s", Style(color="white", bgcolor="cyan"), "message"),
    Idle.RUNTIME: ColumnMark("r", Style(color="black", bgcolor="white"), "runtime"),
}
MARKS = (CRITICAL, *IDLE_MARKS.values())


def idle_sentence(totals: Mapping[Idle, int | float]) -> str:
    """Return where idle time goes, the largest class first: "33% order, 33% drain, 17% wait, 17% warm-up"."""
    total = sum(totals.values())
    parts = sorted(totals.items(), key=lambda item: -item[1])
    return ", ".join(f"{time / total:.0%} {IDLE_MARKS[idle].meaning}" for idle, time in parts if time)


class MarkLines:
    """The marks of an explained schedule, for `Gantt(marks=..)`."""

    name = "why"

    def __init__(self, explanation: Explanation) -> None:
        schedule = explanation.schedule
        first = min(schedule.first_start_ticks)
        spans: list[list[tuple[int, int, int]]] = [[] for _ in range(schedule.problem.devices)]
        path = self.underlined = frozenset(explanation.path)
        for device, order in enumerate(schedule.plan.orders):
            spans[device] += [(schedule.start_ticks[t], schedule.end_ticks[t], 0) for t in order if t in path]
        numbers = {idle: number for number, idle in enumerate(IDLE_MARKS, 1)}
        for gap in explanation.gap_ticks:
            spans[gap.device].append((gap.start + first, gap.end + first, numbers[gap.idle]))
        lasting = [sorted(span for span in of_device if span[0] < span[1]) for of_device in spans]
        self._rows = [Row([m for *_, m in row], [s for s, *_ in row], [e for _, e, _ in row]) for row in lasting]
        self._used = sorted({number for of_device in spans for *_, number in of_device})

    def line(self, device: int, layout: LineFrame) -> Iterator[Segment]:
        """Yield the segments below a device; a column that several share shows what stands in its middle."""
        row = self._rows[device]
        for run in row.runs(*layout.scales) if row.order else ():
            if run.is_break:
                yield break_mark(ascii_only=layout.ascii_only)
            elif run.slot is None:
                yield Segment(" " * run.width, DIM)
            else:
                yield Segment(MARKS[run.slot].letter * run.width, MARKS[run.slot].style if layout.colour else None)

    def legend(self, *, colour: bool) -> Iterator[list[Segment]]:
        """Yield the items of the legend."""
        for number in self._used:
            mark = MARKS[number]
            yield [Segment(mark.letter, mark.style if colour else None), Segment(f" {mark.meaning}")]


Spelling = Callable[[str], str]  # turns the parameters in a text, which stand in backticks, into what a reader types


def as_parameters(text: str) -> str:
    """Return a text without the backticks around its parameters, for a reader who calls functions."""
    return text.replace("`", "")


MEASURED_MEMORY = "memory as planned: traces hold none"  # of a measured schedule


def counted(number: int, what: str, plural: str = "s") -> str:
    """Return a count as text: `1 stage`, `2 stages`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}{plural}"


def with_unit(name: str, unit: str) -> str:
    """Return the name of an axis, a column or a colour with its unit, if there is one: `makespan (ms)`."""
    return f"{name} ({unit})" if unit else name
