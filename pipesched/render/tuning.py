"""A tuning as text: the best points, where the time of the best goes, and what memory forbids.

Or speed against memory: a plot of the points of which none is both slower and larger, and their table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from string import ascii_uppercase

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.style import Style
from rich.text import Text

from pipesched.render.gpus_text import gpus_text
from pipesched.render.grid import GAP, folded, grid, right, uncut
from pipesched.render.palette import DIM
from pipesched.render.point_lines import a_line_a_layout, a_line_each
from pipesched.render.scatter import Path, PlotPoint, Scatter, Wall
from pipesched.render.space_points import PointsTable
from pipesched.render.summary import BAD
from pipesched.render.tuning_trust import faster_outside_lines, how_sure, is_by_expected, item, named, published_lines
from pipesched.tuning.result import TimeShare, Tuning
from pipesched.tuning.trial import Trial

REASONS = {  # why points are not simulated -> what is said of them
    "evidence": "are unlike all that was measured",
    "divisibility": "do not divide",
    "memory": "do not fit",
    "bound": "cannot be faster",
    "dominance": "do as another does",
}
LEAST_SHOWN = 0.0005  # of the GPU time: smaller parts are left out
LONGEST_BAR = 30
BOLD = Style(bold=True)
OTHER = "o"  # a point that another one is no worse than
MEANING = "of the points that were simulated none is faster than one of these and holds less"


def tuning_view(tuning: Tuning, *, ascii_only: bool = False, all_rows: bool = False) -> Group:
    """Return what was searched, the best points, and what the answer rests on; or what fits least badly.

    Rows of a layout are one line, unless `all_rows` are asked for.
    """
    return Group(*_parts(tuning, ascii_only=ascii_only, all_rows=all_rows))


def tuning_table(tuning: Tuning) -> RenderableType:
    """Return a row for each of the best points; where nothing fits, what misses its memory by least."""
    if not tuning.rows:
        return Group(*_nearest(tuning))
    return PointsTable(a_line_each(tuning.rows, tied=tuning.tied), by_expected=is_by_expected(tuning))


def head(tuning: Tuning) -> Iterator[RenderableType]:
    """Yield what was tuned, and how many points the answer rests on."""
    found = tuning.estimate
    if found is not None:
        yield Text(f"{found.setup.model.name} on {gpus_text(found.setup)}", style="bold")
    elif tuning.name:
        yield Text(tuning.name, style="bold")
    yield Text(sentence(tuning), style="" if tuning.rows else BAD)


def sentence(tuning: Tuning) -> str:
    """Return how many points there are, how many were simulated, and what is known of the others."""
    points = f"{tuning.space:,} point{'s' * (tuning.space != 1)}"
    outside = tuning.pruned.get("evidence", 0)
    if tuning.rows:
        start = f"best {'' if tuning.is_complete else 'so far '}of {points}"
    else:
        capacity = f" in {tuning.capacity:g} GB" * bool(tuning.capacity)
        is_none = tuning.pruned.get("divisibility", 0) == tuning.space
        verb = "divides" if is_none else "fits" if tuning.is_complete else "is known to fit"
        start = f"none of {points} {verb}{'' if is_none else capacity}"
    if tuning.is_widened and tuning.rows:
        start = f"nothing that fits is like what was measured, so all was searched; {start}"
    if tuning.simulated == tuning.space:
        return f"{start}: all simulated"
    counts = [f"{tuning.simulated:,} simulated"] if tuning.simulated else []
    if tuning.left:
        counts.append(f"{tuning.left:,} left when the search was stopped")
    if outside:
        counts.append(f"{outside:,} unlike all that was measured")
    if tuning.simulated + tuning.left + outside < tuning.space:
        counts.append(f"{'the others' if counts else 'all'} proved {'worse or ' * bool(tuning.rows)}impossible")
    return f"{start}: {', '.join(counts)}"


def _parts(tuning: Tuning, *, ascii_only: bool, all_rows: bool) -> Iterator[RenderableType]:
    yield from head(tuning)
    if tuning.rows:
        yield ""
        lines = a_line_each(tuning.rows, tied=tuning.tied) if all_rows else a_line_a_layout(tuning.rows, tuning.tied)
        yield PointsTable(lines, by_expected=is_by_expected(tuning))
        yield from how_sure(tuning)
        if tuning.rows[0].verdicts:
            yield ""
            yield Text(trainers_text(tuning.rows[0]), style="dim")
        yield from published_lines(tuning)
        yield from faster_outside_lines(tuning)
        yield from _where_time_goes(tuning, ascii_only=ascii_only)
        yield from _over_memory(tuning)
    else:
        yield from _nearest(tuning)
    if any(tuning.pruned.values()):
        yield ""
        yield Text(_not_simulated(tuning), style="dim")
    yield from (Text(f"note: {note}") for note in tuning.notes)


def trainers_text(trial: Trial) -> str:
    """Return which trainers take the schedule of a point, and why others do not."""
    takers = [f"{one.trainer} ({one.note})" if one.note else one.trainer for one in trial.verdicts if one.takes]
    refusals: dict[str, list[str]] = {}
    for one in trial.verdicts:
        if not one.takes:
            refusals.setdefault(one.note, []).append(one.trainer)
    parts = [", ".join(takers) or "none", *(f"not {', '.join(names)}: {why}" for why, names in refusals.items())]
    return f"runs in: {'; '.join(parts)}"


def _where_time_goes(tuning: Tuning, *, ascii_only: bool) -> Iterator[RenderableType]:
    shares = [one for one in tuning.parts if one.share >= LEAST_SHOWN]
    if shares:
        yield ""
        yield Text("Where the GPU time of the best step goes:", style="dim")
        yield Bars(shares, ascii_only=ascii_only)


def _over_memory(tuning: Tuning) -> Iterator[RenderableType]:
    """Yield what memory forbids, with how much faster it could be."""
    if not tuning.wishes or tuning.best is None:
        return
    yield ""
    yield Text("Memory forbids what may be faster:", style="dim")
    for one in tuning.wishes:
        most = f"at most {one.most / tuning.best.rate - 1:.1%} faster"
        yield item(f"{named(one.layout, one.algorithm)}: {_too_much(one.over)}; {most}")


def _nearest(tuning: Tuning) -> Iterator[RenderableType]:
    """Yield what misses its memory by least, and what would help."""
    if not tuning.nearest:
        return
    yield ""
    yield Text("What misses its memory by least:", style="dim")
    for miss in tuning.nearest:
        yield item(f"{named(miss.layout, miss.algorithm)}: {_too_much(miss.over)}")
        for change in miss.help:
            yield item(f"it fits with {change}", 4)


def _not_simulated(tuning: Tuning) -> str:
    counts = [
        f"{count:,} {REASONS.get(reason, reason)}"
        for reason, count in sorted(tuning.pruned.items(), key=lambda pair: -pair[1])
        if count
    ]
    return f"Not simulated: {', '.join(counts)}."


def _too_much(over: float) -> str:
    return f"{over:.1f} GB too much" if over >= 0.05 else f"{over * 1000:,.0f} MB too much"


class Bars:
    """A row for each part of a whole: its name, its share, and where there is room a bar."""

    def __init__(self, shares: Sequence[TimeShare], *, ascii_only: bool = False) -> None:
        self.shares, self.ascii_only = shares, ascii_only

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table."""
        mark = "#" if self.ascii_only or options.ascii_only else "█"
        texts = [f"{one.share:.1%}" for one in self.shares]
        taken = GAP + max(len(one.name) for one in self.shares) + GAP + max(map(len, texts)) + GAP
        room = min(options.max_width - taken, LONGEST_BAR)
        most = max(one.share for one in self.shares)
        table = grid(folded(), right(), uncut(), header=False)
        for one, text in zip(self.shares, texts, strict=True):
            bar = mark * max(round(one.share / most * room), 1) if room >= LONGEST_BAR // 5 else ""
            table.add_row(f"  {one.name}", text, bar)
        yield table


def pareto_view(tuning: Tuning, *, ascii_only: bool = False) -> Group:
    """Return the plot, and a row for each of its marks; where nothing fits, what is nearest to that."""
    if not tuning.pareto:
        return tuning_view(tuning, ascii_only=ascii_only)
    plot = speed_against_memory(tuning, ascii_only=ascii_only)
    table = PointsTable(a_line_each(tuning.pareto, marks(len(tuning.pareto))), "")
    return Group(*head(tuning), "", plot, "", table, Text(MEANING, style="dim"))


def marks(count: int) -> list[str]:
    """Return a mark for each of so many points: a capital, after Z #."""
    return [*ascii_uppercase, *["#"] * (count - len(ascii_uppercase))][:count]


def speed_against_memory(tuning: Tuning, *, ascii_only: bool = False) -> Scatter:
    """Return a plot of the Pareto points, joined, and of the other rows."""
    points = tuning.pareto
    chosen = {trial.point for trial in points}
    others = [trial for trial in tuning.rows if trial.point not in chosen]
    walls = [Wall(Fraction(tuning.capacity), f"{tuning.capacity:g} GB of a GPU")] if tuning.capacity else []
    return Scatter(
        [
            *(PlotPoint(t.memory, t.rate, mark, BOLD) for t, mark in zip(points, marks(len(points)), strict=True)),
            *(PlotPoint(t.memory, t.rate, OTHER, DIM) for t in others),
        ],
        x_title="GB of the fullest device",
        y_title="tokens/s/GPU",
        walls=walls,
        paths=[Path([(t.memory, t.rate) for t in sorted(points, key=lambda t: t.memory)], DIM)],
        names=[(OTHER, "other points of the table", DIM)] if others else [],
        ascii_only=ascii_only,
    )
