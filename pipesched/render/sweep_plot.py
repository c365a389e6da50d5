"""A sweep as a plot: a line for each algorithm, one measure over the value of the field that is varied."""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

from pipesched.checks import look_up
from pipesched.render.measures import BUBBLE, MEASURES, fits, value_of
from pipesched.render.palette import OVER, ink
from pipesched.render.scatter import Path, PlotPoint, Scatter
from pipesched.results.sweep import Sweep

FEWEST = 3  # values of a field that make a line
MOST_LINES = 8  # of a plot


class PlotMark(NamedTuple):
    """A value of a measure, at a value of the field; `fits` says whether the schedule is within its budget."""

    x: int | float
    y: float
    fits: bool


def sweep_lines(sweep: Sweep, show: str = BUBBLE) -> dict[str, list[PlotMark]]:
    """Return the values of a measure by algorithm, by rising value of the field; shares in percent.

    `show` is one of MEASURES. Raises ConfigError for another.
    """
    measure = look_up(MEASURES, show, "measure", "show")
    lines: dict[str, list[PlotMark]] = {}
    for point in sorted(sweep.points, key=lambda point: point.value):
        for entry in point.comparison:
            value = value_of(entry, point, sweep, measure)
            if value is not None:
                scaled = value * 100 if measure.is_share else value
                lines.setdefault(entry.label, []).append(PlotMark(point.value, scaled, fits(entry)))
    return lines


def best_lines(sweep: Sweep, show: str = BUBBLE) -> tuple[dict[str, list[PlotMark]], str]:
    """Return the lines that a plot shows, and in words that they are not all ("" where they are).

    Of more than MOST_LINES these are the best, by the value of the measure at the largest value of the field.
    """
    lines, more_is_better = sweep_lines(sweep, show), MEASURES[show].more_is_better
    if len(lines) <= MOST_LINES:
        return lines, ""

    def rank(name: str) -> tuple[float, float]:
        last = lines[name][-1]
        return -last.x, -last.y if more_is_better else last.y

    best = set(sorted(lines, key=rank)[:MOST_LINES])
    return {name: line for name, line in lines.items() if name in best}, f"the best {MOST_LINES} of {len(lines)}"


def title_of(sweep: Sweep, show: str) -> str:
    """Return the name of a measure with its unit."""
    measure, times = MEASURES[show], [point.comparison.time_unit for point in sweep.points]
    name = "time a microbatch" if show == "microbatch" else "memory of the fullest device" if show == "memory" else show
    unit = "%" if measure.is_share else times[0] if times and show in ("makespan", "microbatch") else ""
    if show == "memory":
        outcomes = (entry.outcome for point in sweep.points for entry in point.comparison)
        unit = next((outcome.problem.memory.unit for outcome in outcomes if outcome is not None), "")
    return f"{name} ({unit})" if unit else name


def sweep_plot(sweep: Sweep, show: str = BUBBLE, *, ascii_only: bool = False) -> Scatter | None:
    """Return a line for each algorithm (of many, the best), or None where less than FEWEST values have one.

    `show` is one of MEASURES. Raises ConfigError for another.
    """
    lines, note = best_lines(sweep, show)
    if len({mark.x for line in lines.values() for mark in line}) < FEWEST:
        return None
    letters = [*ascii_lowercase, *ascii_uppercase]
    looks = {
        name: (letters[number % len(letters)], ink(number, "F"), line)
        for number, (name, line) in enumerate(lines.items())
    }
    return Scatter(
        [PlotPoint(x, y, mark, style if fit else OVER) for mark, style, line in looks.values() for x, y, fit in line],
        x_title=sweep.field,
        y_title=title_of(sweep, show),
        paths=[Path([(x, y) for x, y, _ in line], style) for _, style, line in looks.values()],
        names=[(mark, name, style) for name, (mark, style, _) in looks.items()],
        note=note,
        ascii_only=ascii_only,
        counts=all(float(point.value).is_integer() for point in sweep.points),
    )
