"""Several schedules in one figure: the charts of few, or of the best, on one time scale, or bars of all metrics.

The rows of a figure are as high as its shape asks for: neither much wider than high nor much higher than wide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from matplotlib.patches import Patch

from pipesched.errors import ConfigError
from pipesched.render.comparison import SHOWN_DEVICES, drawn, edge, not_drawn, some_devices
from pipesched.render.figure.chart import (
    TITLE_INCHES,
    Chart,
    chart_inches,
    draw_charts,
    frame_inches,
    makespan,
    mean_points,
    unit_rgb,
)
from pipesched.render.figure.page import RED, Drawing, font, legend, sheet, wrapped
from pipesched.render.marks import with_unit
from pipesched.render.palette import HUES
from pipesched.render.view import FONT, View
from pipesched.results.comparison import Comparison
from pipesched.results.outcome import Outcome
from pipesched.schedulers.registry import called

SHAPES = (0.4, 0.95)  # the least and the most height over width that rows are made higher or lower for
LOWEST, HIGHEST = 0.5, 1.6  # times their usual height
MOST_ROWS = 40  # devices of all charts together
BAR_INCHES = 0.17
Measure = Callable[[Outcome], float]
BEST, OTHERS = unit_rgb(HUES[2]), unit_rgb(HUES[0])


def comparison_figure(comparison: Comparison, view: View) -> Drawing:
    """Draw the schedules of a comparison, in its order. Raises ConfigError if there is none."""
    outcomes = [entry.outcome for entry in comparison if entry.outcome]
    if not outcomes:
        rows = any(entry.applicable for entry in comparison)
        why = "rows of a document hold no schedules" if rows else "none of the algorithms applies"
        raise ConfigError(f"there is nothing to draw: {why}", "result")
    chosen = drawn(comparison, view.charts)
    if chosen:
        return _charts(chosen, comparison, view)
    best = comparison.best
    least = best.outcome.schedule.makespan if best is not None and best.outcome else None
    return _bars(outcomes, least, view)


def _charts(outcomes: Sequence[Outcome], comparison: Comparison, view: View) -> Drawing:
    schedules = [outcome.schedule for outcome in outcomes]
    devices = schedules[0].problem.devices
    if view.rows is None:  # all of each schedule, or a few where the charts would have too many rows
        many = {} if len(schedules) * devices <= MOST_ROWS else {"many": SHOWN_DEVICES}
        view = replace(view, rows=some_devices(devices, **many))
    window = view.window(schedules[0], edge(schedules, comparison, view.end))
    mean = min(mean_points(schedule, view, window) for schedule in schedules)
    heights = [chart_inches(schedule, view) for schedule in schedules]
    rest = frame_inches(view) + TITLE_INCHES * len(heights) * view.font_size / FONT
    least, most = ((shape * view.inches - rest) / sum(heights) for shape in SHAPES)
    stretched = sum(heights) * min(max(min(max(1.0, least), most), LOWEST), HIGHEST)
    with sheet(view, rest + stretched) as figure:
        grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
        charts = [
            Chart(figure.add_subplot(grid[number]), schedule, view, window, mean)
            for number, schedule in enumerate(schedules)
        ]
        for chart, outcome in zip(charts, outcomes, strict=True):
            schedule = outcome.schedule
            metrics = f"makespan {makespan(schedule)}, bubble {schedule.bubble:.1%}, peak {_peak(outcome):g}"
            remarks = not_drawn(schedule, window.end, view.rows)
            title = wrapped("; ".join([f"{called(outcome.algorithm)}: {metrics}", *remarks]), view.inches)
            chart.axes.set_title(title, loc="left", pad=2)
            chart.axes.tick_params(axis="x", labelbottom=chart is charts[-1])
        charts[-1].axes.set_xlabel(with_unit("time", schedules[-1].problem.time_unit), labelpad=2)
        draw_charts(figure, charts)
        return figure


def _bars(outcomes: Sequence[Outcome], best: int | float | None, view: View) -> Drawing:
    """Draw makespan, bubble and peak memory as bars: the best that fits in green, those over budget in red."""
    problem = outcomes[0].schedule.problem
    measures: list[tuple[str, Measure, str]] = [
        (with_unit("makespan", problem.time_unit), lambda outcome: outcome.schedule.makespan, ".6g"),
        ("bubble (%)", lambda outcome: 100 * outcome.schedule.bubble, ".1f"),
        (with_unit("peak memory", problem.memory.unit), _peak, ".4g"),
    ]
    colours = [
        RED if not outcome.schedule.fits else BEST if outcome.schedule.makespan == best else OTHERS
        for outcome in outcomes
    ]
    with sheet(view, 0.6 + BAR_INCHES * len(outcomes)) as figure:
        for number, (title, measure, digits) in enumerate(measures):
            axes = figure.add_subplot(1, len(measures), number + 1)
            values = [measure(outcome) for outcome in outcomes]
            bars = axes.barh(range(len(outcomes)), values, height=0.72, color=colours)
            axes.bar_label(bars, [f"{value:{digits}}" for value in values], padding=2, fontsize=font(1))
            axes.set_yticks(range(len(outcomes)), [called(outcome.algorithm) for outcome in outcomes])
            axes.set_ylim(len(outcomes) - 0.4, -0.6)
            axes.set_xlim(0, 1.25 * max(*values, 1e-9))
            axes.tick_params(axis="y", length=0)
            axes.tick_params(axis="x", bottom=False, labelbottom=False)
            axes.spines[["right", "top", "bottom"]].set_visible(False)
            axes.set_title(title, pad=3)
            if number:
                axes.set_yticklabels([])
        entries = [
            (Patch(facecolor=BEST), "shortest" if problem.memory.budget is None else "shortest that fits the budget"),
            (Patch(facecolor=OTHERS), "others"),
        ]
        if not all(outcome.schedule.fits for outcome in outcomes):
            entries.append((Patch(facecolor=RED), "over budget"))
        legend(figure, entries)
        return figure


def _peak(outcome: Outcome) -> float:
    return max(outcome.schedule.memory)
