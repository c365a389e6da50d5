"""Makespan against memory: of the schedules of a comparison, and of a frontier; each as a plot and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_lowercase, digits

from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from pipesched.pipeline.quantities import plain, to_fraction
from pipesched.render.comparison import MAKESPAN, PEAK, refusals, units_of
from pipesched.render.grid import folded, grid, heads, right, uncut
from pipesched.render.held import held_text
from pipesched.render.labels import with_unit
from pipesched.render.palette import DIM, OVER
from pipesched.render.scatter import PlotPoint, Scatter, Wall
from pipesched.render.summary import BAD, GOOD
from pipesched.render.timescale import number
from pipesched.results.comparison import Comparison, ParetoPoint
from pipesched.results.frontier import Frontier
from pipesched.results.status import Status

BOLD = Style(bold=True)
PROVED, OPEN = "*", "o"
MEANING = "peak memory: {} of the device that holds most; dominated: another is no worse in both, better in one"


def pareto(
    pareto_points: Sequence[ParetoPoint], comparison: Comparison, *, ascii_only: bool = False, narrow: bool = False
) -> Group:
    """Return the plot, a row for each schedule, and why others do not apply; a `narrow` table leaves the bubble out."""
    refused = refusals(comparison)
    if not pareto_points:
        return Group(*refused)
    parts: list[RenderableType] = [
        plot(pareto_points, ascii_only=ascii_only),
        "",
        _table(pareto_points, units_of(comparison), narrow=narrow),
    ]
    held = held_text(pareto_points[0].outcome.problem)
    return Group(*parts, Text(MEANING.format(held), style="dim"), *refused)


def plot(pareto_points: Sequence[ParetoPoint], *, ascii_only: bool = False) -> Scatter:
    """Return a plot of the schedules; in a cell that several share, one that none dominates is drawn.

    The line joins those of them that fit the budget. More than twice the least makespan is off the scale.
    """
    problem = pareto_points[0].outcome.schedule.problem
    marked = sorted(
        zip(pareto_points, marks(pareto_points), strict=True), key=lambda pair: pair[0].dominated_by is not None
    )
    undominated = [point for point in pareto_points if point.fits and point.dominated_by is None]
    return Scatter(
        [PlotPoint(point.memory, point.makespan, mark, _style(point)) for point, mark in marked],
        x_title=with_unit("peak memory of the largest device", problem.memory.unit),
        y_title=with_unit("makespan", problem.time_unit),
        steps=sorted({(point.memory, point.makespan) for point in undominated}),
        walls=_walls(pareto_points),
        ceiling=2 * min(point.makespan for point in pareto_points),
        ascii_only=ascii_only,
    )


def marks(pareto_points: Sequence[ParetoPoint]) -> list[str]:
    """Return a mark for each schedule: a letter, a capital if none dominates it; after z digits, and then #."""
    letters = [*ascii_lowercase, *digits]
    letters += ["#"] * (len(pareto_points) - len(letters))
    return [
        letter.upper() if point.dominated_by is None else letter
        for point, letter in zip(pareto_points, letters, strict=False)
    ]


def _style(point: ParetoPoint) -> Style:
    if not point.fits:
        return OVER
    return BOLD if point.dominated_by is None else DIM


def _walls(pareto_points: Sequence[ParetoPoint]) -> list[Wall]:
    """Return the budget; where it differs by device, the least and the most of it."""
    problem = pareto_points[0].outcome.schedule.problem
    limits = problem.memory.budget
    if limits is None:
        return []
    ends = [("", limits[0])] if len(set(limits)) == 1 else [("least ", min(limits)), ("most ", max(limits))]
    unit = problem.memory.unit
    return [Wall(to_fraction(limit), f"{which}budget {number(plain(limit))} {unit}".rstrip()) for which, limit in ends]


def _table(pareto_points: Sequence[ParetoPoint], units: Mapping[str, str], *, narrow: bool) -> Table:
    titles = (MAKESPAN, PEAK) if narrow else (MAKESPAN, "vs\nbest", "\nbubble", PEAK)
    name, *columns = heads(("\nalgorithm", *titles), units)
    table = grid(uncut(), folded(name.header, min_width=11), *columns, folded())
    letters = marks(pareto_points)
    for point, mark in zip(pareto_points, letters, strict=True):
        cells = _cells(point, pareto_points[0])
        style = DIM if point.dominated_by is not None else BOLD
        middle = (cells[0], cells[-1]) if narrow else cells
        table.add_row(mark, point.label, *middle, _words(point, letters), style=style)
    return table


def _cells(point: ParetoPoint, best: ParetoPoint) -> tuple[str, str, str, Text]:
    apart = float(point.makespan / best.makespan - 1) if best.makespan else 0.0
    behind = "best" if point.fits and point.makespan == best.makespan else f"{apart:+.1%}"
    peak = number(plain(point.memory))
    memory = Text(peak) if point.fits else Text(f"{peak} over", style=BAD)
    return number(plain(point.makespan)), behind, f"{point.outcome.schedule.bubble:.1%}", memory


def _words(point: ParetoPoint, letters: Sequence[str]) -> str:
    if point.dominated_by is not None:
        return f"dominated by {letters[point.dominated_by]}"
    return "frontier" if point.fits else "over budget"


def frontier_view(frontier: Frontier, *, ascii_only: bool = False) -> Group:
    """Return the plot, then the table. Budgets and times are in the user's units."""
    legend = Text(f"{PROVED} proved {frontier.proved}  {OPEN} best found")
    return Group(_frontier_plot(frontier, ascii_only), "", frontier_table(frontier), legend)


def _frontier_plot(frontier: Frontier, ascii_only: bool) -> Scatter:
    corners = [(to_fraction(point.budget), to_fraction(point.value)) for point in frontier]
    drawn = [
        PlotPoint(x, y, PROVED if point.status == Status.OPTIMAL else OPEN)
        for point, (x, y) in zip(frontier, corners, strict=True)
    ]
    return Scatter(
        drawn,
        x_title=with_unit("memory budget of a device", frontier.memory_unit),
        y_title=with_unit(frontier.objective, frontier.time_unit),
        steps=corners,
        ascii_only=ascii_only,
    )


def frontier_table(frontier: Frontier) -> Table:
    """Return a row for each point: budget, objective, bound, gap, placement."""
    time, memory = frontier.time_unit, frontier.memory_unit
    heads = with_unit("memory budget", memory), with_unit(frontier.objective, time), with_unit("bound", time), "gap"
    table = grid(*map(right, heads), folded("placement"))
    for point in frontier:
        gap = Text(frontier.proved, style=GOOD) if point.status == Status.OPTIMAL else Text(f"{point.gap:.2%}")
        table.add_row(*map(number, (point.budget, point.value, point.bound)), gap, point.placement)
    return table
