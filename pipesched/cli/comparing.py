"""The parts of `pipesched compare`: which charts to draw, on which scale, and what a sweep varies."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pipesched.cli.chart_options import ChartOptions
from pipesched.cli.flags import INSIDE_FLAGS, PROBLEM_FLAGS
from pipesched.cli.option import parse_value
from pipesched.cli.options import Screen
from pipesched.cli.output import chart_of
from pipesched.errors import ConfigError
from pipesched.pipeline.units_of_measure import has_unit
from pipesched.schedulers.options import VARIED

if TYPE_CHECKING:
    from rich.console import Console

    from pipesched.config.values import Values
    from pipesched.pipeline.problem import Problem
    from pipesched.results.comparison import Comparison
    from pipesched.results.outcome import Outcome
    from pipesched.results.sweep import Sweep

MOST_VALUES, MOST_DIGITS = 1_000, 12  # of a range
SHARD_FLAGS = {"shard" if key == "shard.level" else key: INSIDE_FLAGS[key] for key in INSIDE_FLAGS if "shard" in key}
ALTERNATIVES = {"chunks": ("chunks", "stages"), "stages": ("stages", "chunks")}  # that replace each other

Charts = int | str | None  # so many, "all", or None for the default


def wanted_charts(text: str | None) -> Charts:
    """Read the number of charts to draw. Raises ConfigError."""
    if text is None or text == "all":
        return text
    number = 0 if text == "none" else parse_value(text)
    if not isinstance(number, int) or number < 0:
        raise ConfigError(f"--charts: must be a number, all or none, not {text!r}")
    return number


def print_comparison(
    comparison: Comparison, given: Problem, wanted: Charts, chart: ChartOptions, screen: Screen, *, fold: bool
) -> None:
    """Print a chart for each algorithm and the table; of many algorithms the table first, and the best charts."""
    from pipesched.cli.output import console_for, print_where_idle
    from pipesched.render.chosen import are_few, drawn
    from pipesched.render.comparison import ComparisonTable

    console = console_for(screen)
    table = ComparisonTable(comparison, ascii_only=screen.ascii_only, fold=fold)
    chosen = drawn(comparison, wanted)
    if are_few(comparison):
        _print_charts(console, chosen, comparison, given, chart, screen)
        console.print(table)
    else:
        console.print(table)
        if chosen:
            console.print()
        _print_charts(console, chosen, comparison, given, chart, screen)
    best = comparison.best
    if best is not None and best.outcome is not None:
        print_where_idle(console, best.outcome, best.label)


def require_drawable(comparison: Comparison, wanted: Charts, chart: ChartOptions) -> None:
    """Raise ConfigError for a window or devices that one of the charts to print has not."""
    from pipesched.render.chosen import drawn, edge

    chosen = drawn(comparison, wanted)
    for outcome in chosen:
        chart.require_drawable(outcome.schedule, edge([each.schedule for each in chosen], comparison))


def _print_charts(
    console: Console,
    drawn: Sequence[Outcome],
    comparison: Comparison,
    given: Problem,
    chart: ChartOptions,
    screen: Screen,
) -> None:
    """Print the charts on one scale, each with its heading; what is far longer than the best is cut, or folded."""
    from pipesched.render.chosen import edge, not_drawn, some_devices
    from pipesched.render.fold import fold_of
    from pipesched.render.summary import heading

    if not drawn:
        return
    together, view = [outcome.schedule for outcome in drawn], chart.view()
    until = edge(together, comparison)
    rows = view.rows if chart.rows else some_devices(given.devices)
    for outcome in drawn:
        is_folded = bool(view.fold) and fold_of(outcome.schedule) is not None
        remarks = not_drawn(outcome.schedule, None if is_folded else until, rows)
        said = "".join(f"; {remark}" for remark in remarks)
        console.print(heading(outcome, given).append(said, style="dim"))
        legend = outcome is drawn[-1]
        console.print(chart_of(outcome, view, screen, rows=rows, together=together, until=until, show_legend=legend))
        console.print()


def read_sweep(text: str, values: Values, algorithms: str | Sequence[str], **settings: Any) -> Sweep:
    """Return the sweep of FIELD=VALUES over the values of a config. Raises ConfigError."""
    from pipesched.cli.reading import flags_of_problem, note_values
    from pipesched.comparing.sweep import compared_points, varied_field, varied_points
    from pipesched.results.sweep import VARIED_WORDS, Sweep
    from pipesched.text.given import Given

    name, _, listed = text.partition("=")
    field, parts = _parameter(name.strip()), [part.strip() for part in listed.split(",") if part.strip()]
    is_option = field in VARIED
    words = VARIED_WORDS.get(field if is_option else varied_field(field).key, ())
    varied = _values(parts, words)
    if not varied:
        raise ConfigError("--sweep: no values; write for instance microbatches=4,8,16,32")
    with flags_of_problem():
        key, points = varied_points(values, field, varied)
    note_values(values if is_option else {**values, varied_field(field).name: Given(varied, "--sweep")})
    return Sweep(key, compared_points(points, algorithms, **settings))


def _values(parts: Sequence[str], words: Collection[str]) -> list[Any]:
    """Return the numbers that texts spell, also in ranges and with units. Raises ConfigError for other texts.

    Where there are `words` that may be varied, other texts are left to what knows them.
    """
    texts = [text for part in parts for text in _range(part)]
    for text in texts if not words else ():
        if isinstance(parse_value(text), str) and not has_unit(text):
            raise ConfigError(f"--sweep: {text!r} is no number; write for instance microbatches=4,8,16,32")
    return [*map(parse_value, texts)]


def require_unvaried(text: str, overrides: Mapping[str, Any]) -> None:
    """Raise ConfigError for an option of the problem that each value of the sweep would replace."""
    from pipesched.comparing.sweep import replaces, varied_field

    parameter = _parameter(text.partition("=")[0].strip())
    if parameter in VARIED:
        return
    field = varied_field(parameter)
    name = "" if field.key.endswith("]") else field.name  # of one device the others keep theirs
    for replaced in ALTERNATIVES.get(name, (name,)):
        if replaced in overrides and replaces(field, overrides[replaced]):
            flag = SHARD_FLAGS[field.key] if field.name == "shard" else PROBLEM_FLAGS[replaced]
            raise ConfigError(f"{flag}: has no effect with --sweep {text}, which varies it")


def _range(text: str) -> Iterator[str]:
    """Yield the values of a range, such as 8:96, 8:96:8 or 0.5:1:0.1, both ends included; else the text itself.

    Raises ConfigError.
    """
    ends = text.split(":")
    if len(ends) == 1:
        yield text
        return
    numbers = [Decimal(end) for end in ends if re.fullmatch(r"\s*[0-9]*\.?[0-9]+\s*", end) and len(end) < MOST_DIGITS]
    if len(numbers) != len(ends) or len(ends) > 3 or (len(ends) == 3 and not numbers[2]):
        raise ConfigError(f"--sweep: {text!r} is no range; write for instance microbatches=8:96:8")
    first, last, step = (*numbers, Decimal(1))[:3]
    if not 0 <= last - first < MOST_VALUES * step:
        raise ConfigError(f"--sweep: {text!r} must rise, to at most {MOST_VALUES:,} values")
    yield from (f"{first + number * step:f}" for number in range(int((last - first) / step) + 1))


def _parameter(name: str) -> str:
    """Return the parameter that a field or a flag names."""
    by_flag = {flag.strip("-"): parameter for parameter, flag in {**PROBLEM_FLAGS, **SHARD_FLAGS}.items()}
    spelling = name.strip("-").replace("_", "-")
    return by_flag.get(spelling, name.strip("-").replace("-", "_"))
