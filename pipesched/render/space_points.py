"""Points as a table: a column for each size in which they differ, and what a step of each takes and holds."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from pipesched.render.grid import GAP, fitting_columns, folded, grid, right, uncut, width_of
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
}
USUAL = (1, "none")  # a column of nothing else is left out
ALGORITHM = "\nalgorithm"
RATE, APART, MFU, BUBBLE, HELD, SPARE = "tokens/s\n/GPU", "vs\nbest", "\nMFU", "\nbubble", "\nGB", "GB\nleft"
KEPT_LONGEST = (RATE, HELD, APART, MFU, SPARE, BUBBLE)
NARROWEST_LAYOUT = 10
MEANING = "GB: of the fullest device; left: on the one that has least left"


class PointsTable:
    """A row for each point, those as fast as the best marked; `marks` stand before the rows.

    A narrow table has fewer columns, and a very narrow one a layout as one text.
    """

    def __init__(self, trials: Sequence[Trial], marks: Sequence[str] = ()) -> None:
        self.trials, self.marks = trials, marks
        self.best = max((trial.rate for trial in trials if trial.fits), default=0.0)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table and the meaning of its columns."""
        if not self.trials:
            return
        sizes = sizes_that_differ([trial.point.layout for trial in self.trials])
        cells = [_cells(trial, self.best) for trial in self.trials]
        algorithm = width_of(ALGORITHM, (trial.point.algorithm for trial in self.trials))
        width = options.max_width - algorithm - (1 + GAP if self.marks else 0)
        layouts = [trial.point.layout for trial in self.trials]
        across = sum(width_of(LETTERS[size][0], (_size(layout, size) for layout in layouts)) + GAP for size in sizes)
        is_compact = not fitting_columns(cells, [RATE], width - across)
        room = width - (NARROWEST_LAYOUT + GAP if is_compact else across)
        columns = fitting_columns(cells, KEPT_LONGEST, room) or [RATE]
        first = [folded("\nlayout")] if is_compact else [right(f"\n{LETTERS[size][0]}") for size in sizes]
        first.append((folded if is_compact else uncut)(ALGORITHM))
        table = grid(*[uncut()] * bool(self.marks), *first, *map(right, columns))
        for row, trial in enumerate(self.trials):
            layout = trial.point.layout
            texts = [brief(layout, sizes)] if is_compact else [_size(layout, size) for size in sizes]
            style = GOOD if trial.rate == self.best and trial.fits else ""
            name = Text(trial.point.algorithm, style=style)
            table.add_row(*self.marks[row : row + 1], *texts, name, *(cells[row][column] for column in columns))
        yield table
        letters = [f"{letter} {meaning}" for letter, meaning in (LETTERS[size] for size in sizes) if meaning]
        meaning = [", ".join(letters)] * bool(letters) + [MEANING] * (HELD in columns)
        if meaning:
            yield Text("; ".join(meaning), style="dim")


def sizes_that_differ(layouts: Sequence[Layout]) -> list[str]:
    """Return the sizes that are not the usual one in all of the layouts."""
    return [size for size in LETTERS if any(getattr(layout, size) not in USUAL for layout in layouts)]


def brief(layout: Layout, sizes: Sequence[str]) -> str:
    """Return a layout as a short text: t4 p8 v2."""
    words = []
    for size in sizes:
        if getattr(layout, size) in USUAL and size not in ("tensor", "pipeline"):
            continue
        words.append(("" if size == "recompute" else LETTERS[size][0]) + _size(layout, size))
    return " ".join(words)


def _size(layout: Layout, size: str) -> str:
    value = getattr(layout, size)
    return f"full {value}" if size == "recompute" and isinstance(value, int) else str(value)


def _cells(trial: Trial, best: float) -> dict[str, Text]:
    """Return the cells of a row by the titles of their columns."""
    is_best = trial.rate == best
    return {
        RATE: Text(f"{trial.rate:,.1f}"),
        APART: Text("best" if is_best else f"{trial.rate / best - 1:+.1%}" if best else ""),
        MFU: Text("" if trial.step is None else f"{trial.step.mfu:.1%}"),
        BUBBLE: Text(f"{trial.bubble:.1%}"),
        HELD: Text(f"{trial.memory:.1f}"),
        SPARE: Text(f"{trial.spare:.1f}", style="" if trial.fits else BAD),
    }
