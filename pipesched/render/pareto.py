"""Makespan against memory: a plot of the schedules of a comparison, and the table that is its key."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from string import ascii_lowercase, digits

from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from pipesched.comparison import Entry
from pipesched.pareto import Standing
from pipesched.pipeline.quantities import plain
from pipesched.render.comparison import refusals
from pipesched.render.palette import DIM, OVER
from pipesched.render.scatter import Point, Scatter, Wall
from pipesched.render.summary import BAD
from pipesched.render.timescale import number

BOLD = Style(bold=True)
MEANING = (
    "peak memory: activations of the device that holds most; dominated: another is no worse in both, better in one"
)


def pareto(
    standings: Sequence[Standing], entries: Sequence[Entry], *, ascii_only: bool = False, narrow: bool = False
) -> Group:
    """The plot, a row a schedule, and why others do not apply. A `narrow` table leaves the bubble out."""
    refused = refusals(entries)
    if not standings:
        return Group(*refused)
    parts: list[RenderableType] = [plot(standings, ascii_only=ascii_only), "", _table(standings, narrow=narrow)]
    return Group(*parts, Text(MEANING, style="dim"), *refused)


def plot(standings: Sequence[Standing], *, ascii_only: bool = False) -> Scatter:
    """The schedules as points, those that none dominates first, so that they stand for the cells they share.

    The line joins those of them that fit. More than twice the least makespan is off the scale.
    """
    problem = standings[0].outcome.schedule.problem
    time, memory = (f" ({unit})" if unit else "" for unit in (problem.time_unit, problem.memory.unit))
    marked = sorted(zip(standings, marks(standings), strict=True), key=lambda pair: pair[0].dominated_by is not None)
    frontier = {(one.peak, one.makespan) for one in standings if one.fits and one.dominated_by is None}
    return Scatter(
        [Point(one.peak, one.makespan, mark, _style(one)) for one, mark in marked],
        x_title=f"peak memory of the largest device{memory}",
        y_title=f"makespan{time}",
        steps=sorted(frontier),
        walls=_walls(standings),
        ceiling=2 * min(one.makespan for one in standings),
        ascii_only=ascii_only,
    )


def marks(standings: Sequence[Standing]) -> list[str]:
    """A letter a schedule, large if none dominates it; then digits, and # for those after."""
    letters = [*ascii_lowercase, *digits]
    letters += ["#"] * (len(standings) - len(letters))
    return [
        letter.upper() if one.dominated_by is None else letter for one, letter in zip(standings, letters, strict=False)
    ]


def _style(standing: Standing) -> Style:
    if not standing.fits:
        return OVER
    return BOLD if standing.dominated_by is None else DIM


def _walls(standings: Sequence[Standing]) -> list[Wall]:
    """The budget, less static memory. Where that differs by device or schedule, the least and the most of it."""
    problems = [one.outcome.schedule.problem for one in standings]
    rooms = {Fraction(room, one.memory.scale) for one in problems for room in one.room() if room is not None}
    if not rooms:
        return []
    static = any(one.static_memory(device) for one in problems for device in range(one.devices))
    name = "budget less static memory" if static else "budget"
    ends = [("", min(rooms))] if len(rooms) == 1 else [("least ", min(rooms)), ("most ", max(rooms))]
    unit = problems[0].memory.unit
    return [Wall(room, f"{which}{name} {number(plain(room))} {unit}".rstrip()) for which, room in ends]


def _table(standings: Sequence[Standing], *, narrow: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("", no_wrap=True)
    table.add_column("\nalgorithm", overflow="fold", min_width=11)
    for title in ("\nmakespan", "peak\nmemory") if narrow else ("\nmakespan", "vs\nbest", "\nbubble", "peak\nmemory"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    letters = marks(standings)
    for one, mark in zip(standings, letters, strict=True):
        cells = _cells(one, standings[0])
        style = DIM if one.dominated_by is not None else BOLD
        middle = (cells[0], cells[-1]) if narrow else cells
        table.add_row(mark, one.outcome.algorithm, *middle, _words(one, letters), style=style)
    return table


def _cells(one: Standing, best: Standing) -> tuple[str, str, str, Text]:
    apart = float(one.makespan / best.makespan - 1) if best.makespan else 0.0
    behind = "best" if one.fits and one.makespan == best.makespan else f"{apart:+.1%}"
    peak = number(plain(one.peak))
    memory = Text(peak) if one.fits else Text(f"{peak} over", style=BAD)
    return number(plain(one.makespan)), behind, f"{one.outcome.schedule.bubble:.1%}", memory


def _words(one: Standing, letters: Sequence[str]) -> str:
    if one.dominated_by is not None:
        return f"dominated by {letters[one.dominated_by]}"
    return "frontier" if one.fits else "over budget"
