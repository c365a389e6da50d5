"""A sweep: a measure of each algorithm by the value of the field that is varied, as a plot and as a table.

Of each measure it says what it means, its number, its name and its unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from string import ascii_lowercase, ascii_uppercase
from typing import Any, NamedTuple

from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from pipesched.checks import look_up
from pipesched.pipeline import units_of_measure as units
from pipesched.pipeline.declared import BY_KEY, words_of
from pipesched.render.comparison import frozen
from pipesched.render.grid import folded, grid, right, width_of
from pipesched.render.palette import OVER, ink
from pipesched.render.scatter import Path, PlotPoint, Scatter
from pipesched.render.scene import number, with_unit
from pipesched.render.summary import FORMULAS, GOOD
from pipesched.results.comparison import Entry, Sweep, SweepPoint, memory_of
from pipesched.schedulers.registry import called

BUBBLE = "bubble"
MICROBATCHES = "microbatches"
TIME, MEMORY, SHARE = "time", "memory", "share"  # what a measure is measured in


class Measure(NamedTuple):
    """What a cell of the table shows: its name in words, its formula, its unit, and whether more of it is better."""

    name: str
    formula: str
    unit: str
    value: Callable[[Mapping[str, Any], float], float]
    more_is_better: bool = False

    @property
    def is_share(self) -> bool:
        """Whether it is a part of something, which is told in percent."""
        return self.unit == SHARE

    def text(self, value: float) -> str:
        """Return a value as a cell shows it."""
        return f"{value:.2%}" if self.is_share else number(int(value) if value.is_integer() else value)

    def scaled(self, value: float) -> float:
        """Return a value as an axis shows it: a share in percent."""
        return value * 100 if self.is_share else value


def _metric(name: str, unit: str, formula: str = "", **more: Any) -> Measure:
    words = name.replace("_", " ").replace("bubble span", "bubble of span")
    return Measure(words, formula or FORMULAS[words], unit, lambda metrics, _: float(metrics[name]), **more)


def _most(name: str, formula: str, held: Callable[[Mapping[str, Any]], Sequence[float]]) -> Measure:
    return Measure(name, formula, MEMORY, lambda metrics, _: float(max(held(metrics))))


MEASURES = {  # by their names in documents
    "makespan": _metric("makespan", TIME),
    "microbatch": Measure(
        "time a microbatch", "makespan / microbatches", TIME, lambda metrics, count: float(metrics["makespan"] / count)
    ),
    "span": _metric("span", TIME),
    "ideal": _metric("ideal", TIME),
    "lower_bound": _metric("lower_bound", TIME, "no schedule of its cut, placement and backward is shorter"),
    "gap": _metric("gap", SHARE, "(makespan - bound) / bound"),
    BUBBLE: _metric(BUBBLE, SHARE),
    "bubble_over_ideal": _metric("bubble_over_ideal", SHARE),
    "bubble_span": _metric("bubble_span", SHARE),
    "imbalance": _metric("imbalance", SHARE, "part of the bubble that uneven work makes"),
    "utilization": _metric("utilization", SHARE, "useful work / (devices x makespan)", more_is_better=True),
    "memory": _most("memory of the fullest device", "activations and static memory", memory_of),
    "peak_memory": _most("peak memory", "activations of the fullest device", lambda metrics: metrics["peak_memory"]),
}
OTHER_NAMES = dict.fromkeys(("bubble_of_span", "of_span"), "bubble_span")  # as tables write them
OTHER_NAMES |= {"over_ideal": "bubble_over_ideal", "vs_bound": "gap"}


def name_of_measure(show: object) -> str:
    """Return the name in MEASURES of a measure, given so or in the words of a table. Raises ConfigError for another."""
    spelled = "_".join(show.lower().replace("-", " ").replace("_", " ").split()) if isinstance(show, str) else ""
    known = OTHER_NAMES.get(spelled, spelled)
    if known not in MEASURES:
        look_up(MEASURES, show, "measure", "show")
    return known


def measure_named(show: object) -> Measure:
    """Return the measure of a name. Raises ConfigError."""
    return MEASURES[name_of_measure(show)]


def title_of(sweep: Sweep, measure: Measure) -> str:
    """Return the name of a measure with its unit: `bubble of span (%)`."""
    return with_unit(measure.name, {TIME: sweep.time_unit, MEMORY: sweep.memory_unit, SHARE: "%"}[measure.unit])


def title_of_field(sweep: Sweep) -> str:
    """Return the name of what a sweep varies, with its unit: `memory budget (GB)`."""
    field = BY_KEY.get(sweep.field)
    if field is None or field.dimension is None:
        return words_of(sweep.field)
    return with_unit(words_of(sweep.field), sweep.time_unit if field.dimension == units.TIME else sweep.memory_unit)


def fits(entry: Entry) -> bool:
    """Return whether an algorithm applies, and its schedule is within the budget."""
    return entry.metrics is not None and bool(entry.metrics["fits"])


def value_of(entry: Entry, point: SweepPoint, sweep: Sweep, measure: Measure) -> float | None:
    """Return a measure of an algorithm at a value of the field; None where it does not apply."""
    if entry.metrics is None:
        return None
    count = 1 if sweep.field != MICROBATCHES or isinstance(point.value, str) else point.value
    if entry.outcome is not None:
        count = entry.outcome.problem.microbatches
    return measure.value(entry.metrics, count)


LITTLE = 0.01  # of the time a microbatch: what one more microbatch gains beyond the elbow
MOST_COLUMNS = 8  # of algorithms; more of them are rows
FEWEST = 3  # values of a field that make a line
MOST_LINES = 8  # of a plot


def sweep_view(sweep: Sweep, show: str = BUBBLE, *, ascii_only: bool = False) -> Group:
    """Return the plot, if there is one, and the table. Raises ConfigError for an unknown measure."""
    plot = sweep_plot(sweep, show, ascii_only=ascii_only)
    table = sweep_table(sweep, show)
    return Group(table) if plot is None else Group(plot, "", table)


def sweep_table(sweep: Sweep, show: str = BUBBLE) -> Group:
    """Return a measure of each algorithm by the value of the field, with the best marked, and why others have none."""
    measure = measure_named(show)
    rows: list[list[Text]] = []
    notes: dict[str, None] = {}  # in order, each once
    for point in sweep.points:
        values = [value_of(entry, point, sweep, measure) for entry in point.comparison]
        fitting = [value for value, entry in zip(values, point.comparison, strict=True) if fits(entry)]
        known = [value for value in fitting if value is not None]
        best = (max if measure.more_is_better else min)(known, default=None)
        cells: list[Text] = []
        for entry, value in zip(point.comparison, values, strict=True):
            text = "n/a" if value is None else f"{measure.text(value)}{'' if fits(entry) else '!'}"
            cells.append(Text(text, "dim" if value is None else GOOD if fits(entry) and value == best else ""))
        rows.append(cells)
        for row in point.comparison:
            at = f" at {words_of(sweep.field)} {_text(point)}: {row.reason}"
            if row.metrics is None:
                notes[called(row.algorithm) + " failed" * row.failed + at] = None
            elif not row.metrics["fits"]:
                notes["! over budget"] = None
        notes |= dict.fromkeys(text.plain for text in frozen(point.comparison))
    asks_for_time = name_of_measure(show) == "microbatch" and sweep.field == MICROBATCHES
    elbow = [_elbow(sweep)] if asks_for_time else []
    head = measure.name if measure.is_share else title_of(sweep, measure)  # cells have their %
    return Group(f"{head}: {measure.formula}", _oriented(sweep, rows), *[line for line in elbow if line], *notes)


def _oriented(sweep: Sweep, rows: Sequence[Sequence[Text]]) -> Table:
    """Return the cells as a table: a column for each algorithm, or a row, where they are many and the values fewer."""
    entries = sweep.points[0].comparison if sweep.points else ()
    field, names = title_of_field(sweep), [entry.label + " (frozen)" * entry.frozen for entry in entries]
    values = [_text(point) for point in sweep.points]
    if len(names) <= max(MOST_COLUMNS, len(values)):
        each, down = zip(names, zip(*rows, strict=True), strict=True), zip(values, rows, strict=True)
        columns = (folded(name, justify="right", min_width=width_of("", cells)) for name, cells in each)
        return grid(right(field), *columns, rows=([value, *cells] for value, cells in down))
    columns, across = (Column(value, justify="right") for value in values), zip(*rows, strict=True)
    named = zip(names, across, strict=True)
    return grid(folded(f"{field}:"), *columns, rows=([name, *cells] for name, cells in named))


def _text(point: SweepPoint) -> str:
    return point.value if isinstance(point.value, str) else number(point.value)


def _elbow(sweep: Sweep) -> str | None:
    """Return from how many microbatches on one more of them gains little, by the best algorithm at each point."""
    times = [
        (point.value, min(entry.metrics["makespan"] / point.value for entry in point.comparison if entry.metrics))
        for point in sweep.points
        if any(entry.applicable for entry in point.comparison)
    ]
    elbow = None
    for (here, time), (there, later) in reversed([*pairwise(times)]):
        gained = (time - later) / time / (there - here) if time and there > here else 0.0
        if gained >= LITTLE:
            break
        elbow = here
    if elbow is None:
        return None
    whose = ", by the best algorithm at each" if any(len(point.comparison) > 1 for point in sweep.points) else ""
    return f"beyond {number(elbow)}: one more microbatch gains less than {LITTLE:.0%}{whose}"


class PlotMark(NamedTuple):
    """A value of a measure, at a value of the field; `fits` says whether the schedule is within its budget."""

    x: int | float
    y: float
    fits: bool


def sweep_lines(sweep: Sweep, show: str = BUBBLE) -> dict[str, list[PlotMark]]:
    """Return the values of a measure by algorithm and rising value of the field (words: places); shares in percent."""
    measure = measure_named(show)
    lines: dict[str, list[PlotMark]] = {}
    where: dict[Any, int | float] = {
        point.value: place if isinstance(point.value, str) or sweep.of_words else point.value
        for place, point in enumerate(sweep.points)
    }
    for point in sorted(sweep.points, key=lambda point: where[point.value]):
        for entry in point.comparison:
            value = value_of(entry, point, sweep, measure)
            if value is not None:
                mark = PlotMark(where[point.value], measure.scaled(value), fits(entry))
                lines.setdefault(entry.label, []).append(mark)
    return lines


def best_lines(sweep: Sweep, show: str = BUBBLE) -> tuple[dict[str, list[PlotMark]], str]:
    """Return the lines that a plot shows, of many the best at the largest value, and in words that they are not all."""
    lines, more_is_better = sweep_lines(sweep, show), measure_named(show).more_is_better
    if len(lines) <= MOST_LINES:
        return lines, ""

    def rank(name: str) -> tuple[float, float]:
        last = lines[name][-1]
        return -last.x, -last.y if more_is_better else last.y

    best = set(sorted(lines, key=rank)[:MOST_LINES])
    return {name: line for name, line in lines.items() if name in best}, f"the best {MOST_LINES} of {len(lines)}"


def sweep_plot(sweep: Sweep, show: str = BUBBLE, *, ascii_only: bool = False) -> Scatter | None:
    """Return a line for each algorithm (of many, the best), or None where less than FEWEST numbers have one."""
    lines, note = best_lines(sweep, show)
    if sweep.of_words or len({mark.x for line in lines.values() for mark in line}) < FEWEST:
        return None
    letters = [*ascii_lowercase, *ascii_uppercase]
    looks = {
        name: (letters[number % len(letters)], ink(number), line) for number, (name, line) in enumerate(lines.items())
    }
    return Scatter(
        [PlotPoint(x, y, mark, style if fit else OVER) for mark, style, line in looks.values() for x, y, fit in line],
        x_title=title_of_field(sweep),
        y_title=title_of(sweep, measure_named(show)),
        paths=[Path([(x, y) for x, y, _ in line], style) for _, style, line in looks.values()],
        names=[(mark, name, style) for name, (mark, style, _) in looks.items()],
        note=note,
        ascii_only=ascii_only,
        counts=all(float(point.value).is_integer() for point in sweep.points),
    )
