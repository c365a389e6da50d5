"""The parts of `pipesched compare`: which charts to draw, on which scale, and what a sweep varies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pipesched.cli.flags import PROBLEM_FLAGS
from pipesched.cli.options import ChartOptions, Screen, typed
from pipesched.cli.output import chart_of
from pipesched.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from pipesched.comparison import Comparison, Entry
    from pipesched.config.values import Values
    from pipesched.outcome import Outcome
    from pipesched.pipeline.problem import Problem
    from pipesched.pipeline.schedule import Schedule
    from pipesched.sweeping import Sweep

FEW = 4  # algorithms that are all drawn, above the table; of more, the best ones below it
BEST = 3
LONGEST = 2  # times the best makespan: what is longer is cut there
MANY_DEVICES, SHOWN_DEVICES = 16, 8
MOST_VALUES, MOST_DIGITS = 1_000, 12  # of a range

Charts = int | str | None  # so many, "all", or None for the default


def wanted_charts(text: str | None) -> Charts:
    """Read the number of charts to draw. Raises ConfigError."""
    if text is None or text == "all":
        return text
    number = 0 if text == "none" else typed(text)
    if not isinstance(number, int) or number < 0:
        raise ConfigError(f"--charts: must be a number, all or none, not {text!r}")
    return number


def print_comparison(
    comparison: Comparison, given: Problem, wanted: Charts, chart: ChartOptions, screen: Screen, *, fold: bool
) -> None:
    """Print a chart for each algorithm and the table; of many algorithms the table first, and the best charts."""
    from pipesched.cli.output import console_for
    from pipesched.render.comparison import ComparisonTable

    console = console_for(screen)
    few = _are_few(comparison)
    table = ComparisonTable(comparison, ascii_only=screen.ascii_only, fold=fold)
    drawn = _drawn(comparison, wanted, few=few)
    if few:
        _print_charts(console, drawn, comparison, given, chart, screen)
        console.print(table)
    else:
        console.print(table)
        if drawn:
            console.print()
        _print_charts(console, drawn, comparison, given, chart, screen)


def require_drawable(comparison: Comparison, wanted: Charts, chart: ChartOptions) -> None:
    """Raise ConfigError for a window or devices that one of the charts to print has not."""
    drawn = _drawn(comparison, wanted, few=_are_few(comparison))
    for outcome in drawn:
        chart.require_drawable(outcome.schedule, _edge([each.schedule for each in drawn], comparison))


def _are_few(comparison: Comparison) -> bool:
    """Return whether all that applies is drawn by default."""
    return len([entry for entry in comparison if entry.applicable]) <= FEW


def _drawn(comparison: Comparison, wanted: Charts, *, few: bool) -> list[Outcome]:
    """Return the schedules to draw: all in the order of the comparison, or the best ones, best first."""
    if wanted == "all" or (wanted is None and few):
        return _outcomes(comparison)
    return _outcomes(comparison.ranked())[: BEST if wanted is None else int(wanted)]


def _outcomes(entries: Sequence[Entry]) -> list[Outcome]:
    return [entry.outcome for entry in entries if entry.outcome]


def _print_charts(
    console: Console,
    drawn: Sequence[Outcome],
    comparison: Comparison,
    given: Problem,
    chart: ChartOptions,
    screen: Screen,
) -> None:
    """Print the charts on one scale, each with its heading; what is far longer than the best is cut at the edge."""
    from pipesched.render.summary import heading

    if not drawn:
        return
    together, view = [outcome.schedule for outcome in drawn], chart.view()
    until = _edge(together, comparison)
    rows = view.rows if chart.rows else _some_devices(given.devices)
    for outcome in drawn:
        console.print(heading(outcome, given).append(_remarks(outcome.schedule, until, rows), style="dim"))
        legend = outcome is drawn[-1]
        console.print(chart_of(outcome, view, screen, rows=rows, together=together, until=until, show_legend=legend))
        console.print()


def _edge(together: Sequence[Schedule], comparison: Comparison) -> int:
    """Return the tick at which charts end: the last end of all, but at most LONGEST times that of the best.

    Ticks of charts that are drawn together are of one length, since their problems are the same model.
    """
    best = comparison.best
    ends = [max(schedule.last_end_ticks) for schedule in together]
    if best is None or best.outcome is None:
        return max(ends)
    return min(max(ends), LONGEST * max(best.outcome.schedule.last_end_ticks))


def _some_devices(devices: int) -> list[int] | None:
    """Return a few of many devices, evenly spread, the first and the last among them; None for all of few."""
    if devices <= MANY_DEVICES:
        return None
    return [number * (devices - 1) // (SHOWN_DEVICES - 1) for number in range(SHOWN_DEVICES)]


def _remarks(schedule: Schedule, until: int, rows: Sequence[int] | None) -> str:
    """Say which parts of a schedule are not drawn."""
    from pipesched.pipeline.quantities import in_units
    from pipesched.render.timescale import number

    end, scale = max(schedule.last_end_ticks), schedule.problem.ticks.per_unit
    remarks = []
    if end > until:
        remarks.append(f"cut at {number(in_units(until, scale))}, ends at {number(in_units(end, scale))}")
    shown = schedule.problem.devices if rows is None else len(set(rows))
    if shown < schedule.problem.devices:
        remarks.append(f"{shown} of {schedule.problem.devices} devices")
    return "".join(f"; {remark}" for remark in remarks)


def read_sweep(text: str, values: Values, algorithms: str | Sequence[str], **settings: Any) -> Sweep:
    """Return the sweep of FIELD=VALUES over the values of a config. Raises ConfigError."""
    from pipesched.cli.reading import flags_of_problem
    from pipesched.comparison import compare
    from pipesched.pipeline.units_of_measure import has_unit
    from pipesched.sweeping import Sweep, SweepPoint, numeric_field, sweep_points

    name, _, listed = text.partition("=")
    field = numeric_field(_parameter(name.strip()))
    parts = [value for part in listed.split(",") if part.strip() for value in _range(part.strip())]
    for part in parts:
        if isinstance(typed(part), str) and not has_unit(part):
            raise ConfigError(f"--sweep: {part!r} is no number; write for instance microbatches=4,8,16,32")
    if not parts:
        raise ConfigError("--sweep: no values; write for instance microbatches=4,8,16,32")
    with flags_of_problem():
        points = sweep_points(values, field, [typed(part) for part in parts])
    compared = tuple(SweepPoint(value, compare(problem, algorithms, **settings)) for value, problem in points)
    return Sweep(field.key, compared)


def _range(text: str) -> Iterator[str]:
    """Yield the values of a range of whole numbers, such as 8:96 or 8:96:8, both ends included; else the text itself.

    Raises ConfigError.
    """
    ends = text.split(":")
    if len(ends) == 1:
        yield text
        return
    numbers = [int(end) for end in ends if end.strip().isdecimal() and len(end) < MOST_DIGITS]
    if len(numbers) != len(ends) or len(ends) > 3 or (len(ends) == 3 and not numbers[2]):
        raise ConfigError(f"--sweep: {text!r} is no range; write for instance microbatches=8:96:8")
    first, last, step = (*numbers, 1)[:3]
    if not 0 <= last - first < MOST_VALUES * step:
        raise ConfigError(f"--sweep: {text!r} must rise, to at most {MOST_VALUES:,} values")
    yield from map(str, range(first, last + 1, step))


def _parameter(name: str) -> str:
    """Return the parameter that a field or a flag names."""
    by_flag = {flag.strip("-"): parameter for parameter, flag in PROBLEM_FLAGS.items()}
    spelling = name.strip("-").replace("_", "-")
    return by_flag.get(spelling, name.strip("-").replace("-", "_"))
