"""Tables without lines, as all here are: `grid`, and `FittedTable`, as many columns as fit side by side."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Column, Table
from rich.text import Text

Rows = Sequence[Mapping[str, Text | str]]  # by the titles of columns
GAP = 2  # columns of the screen between those of a table
LEAST_NAME = 24  # columns of the screen that a name keeps
MARKS = " ★☆*+"  # behind names
uncut = partial(Column, no_wrap=True)
right = partial(Column, justify="right", no_wrap=True)
folded = partial(Column, overflow="fold")


def grid(*columns: Column, rows: Iterable[Iterable[RenderableType]] = (), header: bool = True) -> Table:
    """Return a table of these columns and rows, without lines."""
    table = Table(*columns, box=None, pad_edge=False, padding=(0, GAP, 0, 0), show_header=header, header_style="dim")
    for row in rows:
        table.add_row(*row)
    return table


def width_of(title: str, cells: Iterable[Text | str]) -> int:
    """Return the width of a column whose cells are not cut; its title may have several lines."""
    return max(map(cell_len, (*title.split("\n"), *map(str, cells))))


def fitting(widths: Iterable[int], room: int) -> int:
    """Return how many columns fit, the first of them first, each behind a gap."""
    return sum(end <= room for end in accumulate(GAP + width for width in widths))


def fitting_columns(rows: Rows, kept_longest: Sequence[str], room: int) -> list[str]:
    """Return the columns of rows, in their order, that fit; where room is scarce, the first of `kept_longest`."""
    count = fitting((width_of(title, (cells[title] for cells in rows)) for title in kept_longest), room)
    return [title for title in rows[0] if title in kept_longest[:count]]


def without_room(wanted: Iterable[str], shown: Collection[str]) -> Iterator[Text]:
    """Yield which of the columns are not shown, if any."""
    if names := [" ".join(title.split()) for title in wanted if title not in shown]:
        yield Text(f"no room for {', '.join(names)}", style="dim")


def heads(titles: Sequence[str], units: Mapping[str, str]) -> list[Column]:
    """Return the columns of a table, the first one that of names, each with its unit below its title."""
    lines = [f"{title}\n({units[title]})" if title in units else f"{chr(10) * bool(units)}{title}" for title in titles]
    return [uncut(lines[0]), *map(right, lines[1:])]


def shortened(text: str, most: int, gap: str = "…") -> str:
    """Return a text of at most `most` columns of the screen: in a longer one `gap` stands for the middle."""
    if cell_len(text) <= most:
        return text
    left = max(most - cell_len(gap), 0)
    head, tail = set_cell_size(text, left - left // 2), set_cell_size(text[::-1], left // 2)[::-1]
    return head.rstrip() + gap + tail.lstrip()


class FittedTable:
    """A row for each algorithm: its name, and as many of its cells as fit beside the names.

    A name that leaves no room for all cells is shortened to LEAST_NAME at least, and said as a whole below the table. A
    unit of measure, by the title of its column, stands below the title.
    """

    def __init__(
        self, names: Sequence[Text], rows: Rows, kept_longest: Sequence[str], units: Mapping[str, str] | None = None
    ) -> None:
        self.names, self.rows, self.kept_longest = names, rows, kept_longest
        self.units = units or {}

    def columns(self, width: int) -> list[str]:
        """Return the titles of the columns that fit, but for that of the names."""
        names = min(width_of("algorithm", self.names), self._most(width))
        return fitting_columns(self.rows, self.kept_longest, width - names)

    def _most(self, width: int) -> int:
        cells = sum(GAP + width_of(title, (row[title] for row in self.rows)) for title in self.kept_longest)
        return max(width - cells, min(LEAST_NAME, width))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns, gap = self.columns(options.max_width), ".." if options.ascii_only else "…"
        texts = [shortened(name.plain, self._most(options.max_width), gap) for name in self.names]
        names = [Text(text, name.style) for text, name in zip(texts, self.names, strict=True)]
        rows = ((name, *(cells[column] for column in columns)) for name, cells in zip(names, self.rows, strict=True))
        yield grid(*heads(("\nalgorithm", *columns), self.units), rows=rows)
        yield from without_room(self.kept_longest, columns)
        for text, name in zip(texts, self.names, strict=True):
            if text != name.plain:
                yield Text(f"{text.rstrip(MARKS)}: {name.plain.rstrip(MARKS)}", style="dim")
