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


def comparison(entries: Sequence[Entry], *, ascii_only: bool = False) -> Group:
    """One row an algorithm, in the order asked for, and below the table why others do not apply.

    The best makespan among the schedules that fit the budget is marked.
    """
    best = best_makespan(entries)
    table = _grid()
    table.add_column("\nalgorithm", no_wrap=True)
    for title in ("\nmakespan", "vs\nbest", "\nbubble", "over\nideal", "of\nspan", "peak\nmemory", "vs\nbound"):
        table.add_column(title, justify="right", no_wrap=True)
    star = "*" if ascii_only else "★"
    for entry in entries:
        if entry.outcome is not None:
            table.add_row(*_cells(entry.outcome, best, star))
    refused = [Text(f"{entry.algorithm} does not apply: {entry.reason}") for entry in entries if entry.outcome is None]
    if best is None:
        return Group(*refused)
    meaning = "bubble: idle device-time / (devices x makespan); over ideal: Megatron's; of span: Zero Bubble's"
    return Group(table, Text(meaning, style="dim"), *refused)


def _grid() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")


def _cells(outcome: Outcome, best: int | None, star: str) -> list[Text]:
    schedule = outcome.schedule
    scale, memory = schedule.problem.costs.scale, schedule.problem.memory.scale
    is_best = schedule.makespan == best and schedule.fits
    name = Text(f"{outcome.algorithm} {star}" if is_best else outcome.algorithm, style=GOOD if is_best else "")
    peak = number(in_units(max(schedule.peak_memory), memory))
    apart = (schedule.makespan - best) / best if best else 0.0
    bound = Text("optimal", style=GOOD) if outcome.status == "optimal" else Text(f"{outcome.gap:+.1%}")
    return [
        name,
        Text(number(in_units(schedule.makespan, scale))),
        Text("best" if not apart else f"{apart:+.1%}"),
        Text(f"{schedule.bubble:.1%}"),
        Text(f"{schedule.bubble_over_ideal:.1%}"),
        Text(f"{schedule.bubble_span:.1%}"),
        Text(f"{peak}" if schedule.fits else f"{peak} over", style="" if schedule.fits else BAD),
        bound,
    ]


def sweep_table(field: str, rows: Sequence[tuple[str, Sequence[Entry]]]) -> Table:
    """The bubble (idle device-time / (devices x makespan)) of each algorithm against the field; the best is marked."""
    table = _grid()
    table.add_column(field, justify="right", no_wrap=True)
    for entry in rows[0][1] if rows else ():
        table.add_column(entry.algorithm, justify="right")
    for value, entries in rows:
        bubbles = [entry.outcome.schedule.bubble for entry in entries if entry.outcome]
        least = min(bubbles, default=None)
        cells = []
        for entry in entries:
            if entry.outcome is None:
                cells.append(Text("n/a", style="dim"))
            else:
                bubble = entry.outcome.schedule.bubble
                over = "" if entry.outcome.schedule.fits else "!"
                cells.append(Text(f"{bubble:.2%}{over}", style=GOOD if bubble == least else ""))
        table.add_row(value, *cells)
    return table
