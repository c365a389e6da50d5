"""The list of algorithms, as a table and as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from pipesched.schedulers.family import Family
from pipesched.schedulers.registry import aliases

WIDE = 150  # columns from which everything stands in one table


class catalogue:  # noqa: N801  used like a function: a renderable that depends on the width
    """A table where there is room for it, else a paragraph a family."""

    def __init__(self, families: Iterable[Family]) -> None:
        self.families = list(families)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table or the paragraphs."""
        if options.max_width >= WIDE:
            yield _table(self.families)
            return
        for family in self.families:
            yield _paragraph(family)


def catalogue_rows(families: Iterable[Family]) -> Iterator[dict[str, Any]]:
    """One object a family, for JSON."""
    for family in families:
        yield {
            "name": family.name,
            "aliases": aliases(family.name),
            "placement": family.placement,
            "stages": family.stages,
            "needs": family.needs,
            "bubble": family.bubble,
            "memory": family.memory,
            "options": family.option_names(),
            "elsewhere": family.elsewhere,
            "source": family.source,
        }


def _title(family: Family) -> Text:
    others = aliases(family.name)
    title = Text(family.name, style="bold")
    return title.append(f" ({', '.join(others)})", style="not bold") if others else title


def _facts(family: Family) -> list[tuple[str, str]]:
    options = ", ".join(family.option_names())
    if family.required:
        options = f"in a config: {options}"
    return [
        ("needs", family.needs),
        ("placement", family.placement),
        ("bubble", family.bubble),
        ("memory", family.memory),
        ("options", options or "none"),
        ("also in", family.elsewhere),
        ("source", family.source),
    ]


def _table(families: list[Family]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("algorithm", overflow="fold")
    for name, _ in _facts(families[0]):
        table.add_column(name, overflow="fold")
    for family in families:
        table.add_row(_title(family), *(value for _, value in _facts(family)))
    return table


def _paragraph(family: Family) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False, title_justify="left")
    table.title, table.title_style = _title(family), ""
    table.add_column(style="dim", min_width=9)
    table.add_column(overflow="fold")
    for name, value in _facts(family):
        table.add_row(name, value)
    return table
