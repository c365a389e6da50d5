"""Several algorithms side by side: one table, the best marked, differences in percent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table
from rich.text import Text

from pipesched.comparison import Comparison, Entry
from pipesched.render.summary import BAD, GOOD
from pipesched.render.timescale import number
from pipesched.sweeping import Sweep

COLUMNS = ("\nmakespan", "vs\nbest", "\nbubble", "over\nideal", "of\nspan", "peak\nmemory", "vs\nbound")
KEPT_LONGEST = ("\nmakespan", "peak\nmemory", "vs\nbound", "vs\nbest", "\nbubble", "of\nspan", "over\nideal")
MEANINGS = {
    "\nbubble": "bubble: idle device-time / (devices x makespan)",
    "over\nideal": "over ideal: Megatron's",
    "of\nspan": "of span: Zero Bubble's",
}
GAP = 2  # columns between those of a table


class ComparisonTable:
    """A row for each algorithm, in the order asked for, and below the table why others do not apply.

    The best makespan among the schedules that fit the budget is marked. Names are never cut: a narrow table has fewer
    columns.
    """

    def __init__(self, comparison: Comparison, *, ascii_only: bool = False) -> None:
        self.comparison, self.ascii_only = comparison, ascii_only

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, the meaning of its columns, and why algorithms do not apply."""
        best = self.comparison.best
        star = "*" if self.ascii_only or options.ascii_only else "★"
        rows = [_cells(entry, best, star) for entry in self.comparison if entry.applicable]
        if rows:
            columns = _columns_that_fit(rows, options.max_width)
            table = grid()
            table.add_column("\nalgorithm", no_wrap=True)
            for column in columns:
                table.add_column(column, justify="right", no_wrap=True)
            for name, cells in rows:
                table.add_row(name, *(cells[column] for column in columns))
            yield table
            meaning = "; ".join(text for column, text in MEANINGS.items() if column in columns)
            if meaning:
                yield Text(meaning, style="dim")
        yield from refusals(self.comparison)


def refusals(comparison: Comparison) -> list[Text]:
    """Return a sentence for each algorithm that does not apply."""
    return [Text(f"{entry.algorithm} does not apply: {entry.reason}") for entry in comparison if not entry.applicable]


def grid() -> Table:
    """Return an empty table, without lines, in the style of all tables of this package."""
    return Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")


def _columns_that_fit(rows: Sequence[tuple[Text, Mapping[str, Text]]], width: int) -> list[str]:
    """Return the columns, in their order, that fit beside uncut names; the first of KEPT_LONGEST go last."""
    left = width - max(len("algorithm"), *(name.cell_len for name, _ in rows))
    chosen = []
    for column in KEPT_LONGEST:
        left -= GAP + max(*(len(part) for part in column.split("\n")), *(cells[column].cell_len for _, cells in rows))
        if left >= 0:
            chosen.append(column)
    return [column for column in COLUMNS if column in chosen]


def _cells(entry: Entry, best: Entry | None, star: str) -> tuple[Text, dict[str, Text]]:
    """Return the name of a row, and its cells by the title of their column."""
    metrics: Mapping[str, Any] = entry.metrics or {}
    least = best.metrics["makespan"] if best is not None and best.metrics else None
    is_best = metrics["makespan"] == least and metrics["fits"]
    name = Text(f"{entry.algorithm} {star}" if is_best else entry.algorithm, style=GOOD if is_best else "")
    peak = number(max(metrics["peak_memory"]))
    apart = (metrics["makespan"] - least) / least if least else 0.0
    optimal = metrics["makespan"] == metrics["lower_bound"] and metrics["fits"]
    cells = (
        Text(number(metrics["makespan"])),
        Text("best" if is_best else f"{apart:+.1%}"),
        Text(f"{metrics['bubble']:.1%}"),
        Text(f"{metrics['bubble_over_ideal']:.1%}"),
        Text(f"{metrics['bubble_span']:.1%}"),
        Text(peak if metrics["fits"] else f"{peak} over", style="" if metrics["fits"] else BAD),
        Text("optimal", style=GOOD) if optimal else Text(f"{metrics['gap']:+.1%}"),
    )
    return name, dict(zip(COLUMNS, cells, strict=True))


def sweep_table(sweep: Sweep) -> Group:
    """Return the bubble of each algorithm by the value of the field, with the best marked, and why others have none."""
    table = grid()
    table.add_column(sweep.field, justify="right", no_wrap=True)
    for entry in sweep.points[0].comparison if sweep.points else ():
        table.add_column(entry.algorithm, justify="right")
    notes: dict[str, None] = {}  # in order, each once
    for point in sweep.points:
        rows = [entry.metrics for entry in point.comparison if entry.metrics]
        least = min((metrics["bubble"] for metrics in rows if metrics["fits"]), default=None)
        table.add_row(number(point.value), *(_sweep_cell(entry, least) for entry in point.comparison))
        for entry in point.comparison:
            if entry.metrics is None:
                notes[f"{entry.algorithm} at {sweep.field} {number(point.value)}: {entry.reason}"] = None
            elif not entry.metrics["fits"]:
                notes["! over budget"] = None
    return Group("bubble: idle device-time / (devices x makespan)", table, *notes)


def _sweep_cell(entry: Entry, least: float | None) -> Text:
    if entry.metrics is None:
        return Text("n/a", style="dim")
    bubble, fits = entry.metrics["bubble"], entry.metrics["fits"]
    return Text(f"{bubble:.2%}{'' if fits else '!'}", style=GOOD if fits and bubble == least else "")
