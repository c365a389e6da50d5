"""Points as a table: a column for each size in which they differ, and what a step of each takes and holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Column
from rich.text import Text

from pipesched.render.grid import GAP, fitting_columns, narrowed, width_of, with_lines_between
from pipesched.render.point_lines import PointLine
from pipesched.render.summary import BAD, GOOD
from pipesched.tuning.space import Layout
from pipesched.tuning.trial import Trial

LETTERS = {  # of the sizes of a layout, and their names in a config
    "tensor": ("t", "tensor"),
    "pipeline": ("p", "pipeline"),
    "chunks": ("v", "chunks"),
    "context": ("c", "context"),
    "expert": ("e", "expert"),
    "expert_tensor": ("et", "expert_tensor"),
    "micro": ("b", "micro"),
    "recompute": ("recompute", ""),
    "shard": ("shard", ""),
    "shard_ranks": ("N", "shard_ranks"),
}
WORDS = ("recompute", "shard")  # sizes whose values are words
USUAL = (1, "none", None)  # a column of nothing else is left out
LAYOUT, ALGORITHM = "\nlayout", "\nalgorithm"
RATE, APART, MFU, BUBBLE, HELD, SPARE = "tokens/s\n/GPU", "vs\nbest", "\nMFU", "\nbubble", "\nGB", "GB\nleft"
LIKELY, EXPECTED = "\n80 %", "\nexpected"
KEPT_LONGEST = (RATE, LIKELY, APART, HELD, SPARE, MFU, EXPECTED, BUBBLE)
KEPT_BY_EXPECTED = (RATE, EXPECTED, LIKELY, HELD, SPARE, APART, MFU, BUBBLE)
NARROWEST_LAYOUT = 10
MEANINGS = {HELD: "GB: of the fullest device", SPARE: "left: on the one that has least left"}
LIKELY_MEANING = "80 %: tokens/s/GPU between which 8 of 10 such runs are"
MOST_DIGITS = 100  # tokens/s/GPU: more are shown as whole numbers


class PointsTable:
    """A line for each point, those as fast as the best marked; `title` is that of the marks before the lines.

    `by_expected`: they stand in the order of the rates that are expected. A narrow table has fewer columns, and a very
    narrow one a layout as one text.
    """

    def __init__(self, lines: Sequence[PointLine], title: str = "row", *, by_expected: bool = False) -> None:
        self.lines, self.title = lines, f"\n{title}"
        self.kept = KEPT_BY_EXPECTED if by_expected else KEPT_LONGEST
        self.trials = [line.trial for line in lines]
        self.best = max((trial.rate for trial in self.trials if trial.fits), default=0.0)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, with remarks below its lines, and the meaning of its columns."""
        if not self.trials:
            return
        sizes = sizes_that_differ([trial.point.layout for trial in self.trials])
        cells = [_cells(trial, self.best) for trial in self.trials]
        kept = self.kept if any(trial.trust for trial in self.trials) else [*_without_trust(self.kept)]
        named = self._named(sizes, is_compact=False)
        room = options.max_width - _together(named)
        is_compact = not fitting_columns(cells, [RATE], room)
        if is_compact:
            named = self._named(sizes, is_compact=True)
            room = options.max_width - _together({**named, LAYOUT: [" " * NARROWEST_LAYOUT]})
        shown = fitting_columns(cells, kept, room) or [RATE]
        values = {title: [one[title] for one in cells] for title in shown}
        table = {**named, **values}
        widths = [width_of(title, texts) for title, texts in table.items()]
        if is_compact:
            room = options.max_width - _together(values) - GAP * len(named)
            mark, layout, algorithm = widths[: len(named)]
            layout = min(layout, max(room - mark - algorithm, NARROWEST_LAYOUT))
            widths[: len(named)] = narrowed([mark, layout, algorithm], room)
        columns = [_column(title, width) for title, width in zip(table, widths, strict=True)]
        below = {row: [_remark(one) for one in line.remarks] for row, line in enumerate(self.lines) if line.remarks}
        yield from with_lines_between(columns, [*zip(*table.values(), strict=True)], below)
        letters = [f"{letter} {meaning}" for letter, meaning in (LETTERS[size] for size in sizes) if meaning]
        meaning = [", ".join(letters)] * bool(letters) + [text for column, text in MEANINGS.items() if column in shown]
        meaning += [LIKELY_MEANING] * (LIKELY in shown)
        if meaning:
            yield Text("; ".join(meaning), style="dim")

    def _named(self, sizes: Sequence[str], *, is_compact: bool) -> dict[str, list[Text]]:
        """Return the columns that say which points these are, by their titles: marks, sizes and algorithms."""
        layouts = [trial.point.layout for trial in self.trials]
        found = {self.title: [line.mark for line in self.lines]}
        if is_compact:
            found[LAYOUT] = [brief(layout, sizes) for layout in layouts]
        else:
            found |= {f"\n{LETTERS[size][0]}": [_size(layout, size) for layout in layouts] for size in sizes}
        looks = [GOOD if trial.rate == self.best and trial.fits else "" for trial in self.trials]
        names = [Text(trial.point.algorithm, style=look) for trial, look in zip(self.trials, looks, strict=True)]
        return {**{title: [*map(Text, texts)] for title, texts in found.items()}, ALGORITHM: names}


def _together(columns: Mapping[str, Sequence[Text | str]]) -> int:
    """Return the width of columns that stand side by side."""
    return sum(width_of(title, texts) for title, texts in columns.items()) + GAP * (len(columns) - 1)


def _column(title: str, width: int) -> Column:
    """Return a column of some width, in which a text that is longer goes on below."""
    at_left = title in (LAYOUT, ALGORITHM) or title.strip() in ("", "row")
    return Column(title, justify="left" if at_left else "right", overflow="fold", width=width)


def _remark(text: str) -> RenderableType:
    return Padding(Text(text, style="dim"), (0, 0, 0, GAP), expand=False)


def sizes_that_differ(layouts: Sequence[Layout]) -> list[str]:
    """Return the sizes that are not the usual one in all of the layouts."""
    return [size for size in LETTERS if any(getattr(layout, size) not in USUAL for layout in layouts)]


def brief(layout: Layout, sizes: Sequence[str]) -> str:
    """Return a layout as a short text: t4 p8 v2."""
    words = []
    for size in sizes:
        if getattr(layout, size) in USUAL and size not in ("tensor", "pipeline"):
            continue
        words.append(("" if size in WORDS else LETTERS[size][0]) + _size(layout, size))
    return " ".join(words)


def _size(layout: Layout, size: str) -> str:
    value = getattr(layout, size)
    if size == "shard_ranks" and value is None:
        return "all"
    return f"full {value}" if size == "recompute" and isinstance(value, int) else str(value)


def _without_trust(titles: Sequence[str]) -> Iterator[str]:
    return (title for title in titles if title not in (LIKELY, EXPECTED))


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= MOST_DIGITS else f"{value:.1f}"


def _cells(trial: Trial, best: float) -> dict[str, Text]:
    """Return the cells of a row by the titles of their columns."""
    is_best = trial.rate == best
    likely = None if trial.trust is None else trial.trust.tokens_per_second_per_gpu
    return {
        RATE: Text(f"{trial.rate:,.1f}"),
        EXPECTED: Text("" if likely is None else f"{likely.expected:,.1f}"),
        LIKELY: Text("" if likely is None else f"{_rate(likely.low)}-{_rate(likely.high)}"),
        APART: Text("best" if is_best else f"{trial.rate / best - 1:+.1%}" if best else ""),
        MFU: Text("" if trial.step is None else f"{trial.step.mfu:.1%}"),
        BUBBLE: Text(f"{trial.bubble:.1%}"),
        HELD: Text(f"{trial.memory:.1f}"),
        SPARE: Text(f"{trial.spare:.1f}", style="" if trial.fits else BAD),
    }
