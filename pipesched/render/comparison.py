"""Several algorithms side by side: one table, the best marked, differences in percent."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pipesched.comparison import Entry, best_makespan
from pipesched.outcome import Outcome
from pipesched.pipeline.quantities import in_units
from pipesched.render.summary import BAD, GOOD
from pipesched.render.timescale import number

COLUMNS = ("\nmakespan", "vs\nbest", "\nbubble", "over\nideal", "of\nspan", "peak\nmemory", "vs\nbound")
NARROW = ("\nmakespan", "vs\nbest", "\nbubble", "peak\nmemory", "vs\nbound")
NARROWEST = ("\nmakespan", "peak\nmemory", "vs\nbound")
WIDE, MIDDLE = 80, 56  # terminal columns from which there is room for all, for most


def comparison(entries: Sequence[Entry], *, ascii_only: bool = False, width: int = WIDE) -> Group:
    """One row an algorithm, in the order asked for, and below the table why others do not apply.

    The best makespan among the schedules that fit the budget is marked. A narrow table has fewer columns.
    """
    best = best_makespan(entries)
    columns = COLUMNS if width >= WIDE else NARROW if width >= MIDDLE else NARROWEST
    table = _grid()
    table.add_column("\nalgorithm", overflow="fold", min_width=11)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for entry in entries:
        if entry.outcome is not None:
            name, cells = _cells(entry.outcome, best, "*" if ascii_only else "★")
            table.add_row(name, *(cells[column] for column in columns))
    refused = refusals(entries)
    if best is None:
        return Group(*refused)
    meaning = []
    if columns != NARROWEST:
        meaning.append("bubble: idle device-time / (devices x makespan)")
    if columns == COLUMNS:
        meaning += ["over ideal: Megatron's", "of span: Zero Bubble's"]
    return Group(table, *([Text("; ".join(meaning), style="dim")] if meaning else []), *refused)


def refusals(entries: Sequence[Entry]) -> list[Text]:
    """A sentence for each algorithm that does not apply."""
    return [Text(f"{entry.algorithm} does not apply: {entry.reason}") for entry in entries if entry.outcome is None]


def _grid() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")


def _cells(outcome: Outcome, best: int | None, star: str) -> tuple[Text, dict[str, Text]]:
    """The name of a row, and its cells by the title of their column."""
    schedule = outcome.schedule
    scale, memory = schedule.problem.costs.scale, schedule.problem.memory.scale
    is_best = schedule.makespan == best and schedule.fits
    name = Text(f"{outcome.algorithm} {star}" if is_best else outcome.algorithm, style=GOOD if is_best else "")
    peak = number(in_units(max(schedule.peak_memory), memory))
    apart = (schedule.makespan - best) / best if best else 0.0
    optimal = outcome.status == "optimal" and schedule.fits
    cells = (
        Text(number(in_units(schedule.makespan, scale))),
        Text("best" if is_best else f"{apart:+.1%}"),
        Text(f"{schedule.bubble:.1%}"),
        Text(f"{schedule.bubble_over_ideal:.1%}"),
        Text(f"{schedule.bubble_span:.1%}"),
        Text(peak if schedule.fits else f"{peak} over", style="" if schedule.fits else BAD),
        Text("optimal", style=GOOD) if optimal else Text(f"{outcome.gap:+.1%}"),
    )
    return name, dict(zip(COLUMNS, cells, strict=True))


def sweep_table(field: str, rows: Sequence[tuple[str, Sequence[Entry]]]) -> Group:
    """The bubble of each algorithm against the field, the best that fits marked; and below why others have none."""
    table = _grid()
    table.add_column(field, justify="right", no_wrap=True)
    for entry in rows[0][1] if rows else ():
        table.add_column(entry.algorithm, justify="right")
    notes: dict[str, None] = {}  # in order, each once
    for value, entries in rows:
        fitting = [entry.outcome.schedule for entry in entries if entry.outcome and entry.outcome.schedule.fits]
        least = min((schedule.bubble for schedule in fitting), default=None)
        table.add_row(value, *(_sweep_cell(entry, least) for entry in entries))
        for entry in entries:
            if entry.outcome is None:
                notes[f"{entry.algorithm} at {field} {value}: {entry.reason}"] = None
            elif not entry.outcome.schedule.fits:
                notes["! over budget"] = None
    return Group("bubble: idle device-time / (devices x makespan)", table, *notes)


def _sweep_cell(entry: Entry, least: float | None) -> Text:
    if entry.outcome is None:
        return Text("n/a", style="dim")
    schedule = entry.outcome.schedule
    mark = "" if schedule.fits else "!"
    return Text(f"{schedule.bubble:.2%}{mark}", style=GOOD if schedule.fits and schedule.bubble == least else "")
