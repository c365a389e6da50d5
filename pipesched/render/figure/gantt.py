"""One schedule as a figure."""

from __future__ import annotations

from matplotlib.axes import Axes

from pipesched.pipeline.schedule import Schedule
from pipesched.render.figure.chart import Chart, chart_inches, is_thin, key
from pipesched.render.figure.page import DIGIT, FONT, POINTS, TALLEST, Drawing, legend, settle, sheet, with_unit
from pipesched.render.summary import heading
from pipesched.render.timescale import number
from pipesched.render.view import View
from pipesched.results.outcome import Outcome

FRAME_INCHES = 0.95  # title, time axis and legend


def gantt_figure(outcome: Outcome, view: View) -> Drawing:
    """Draw the chart of a schedule."""
    schedule = outcome.schedule
    window = view.window(schedule)
    with sheet(view.inches, min(FRAME_INCHES + chart_inches(schedule, view), TALLEST)) as figure:
        axes = figure.add_subplot()
        chart = Chart(axes, schedule, view, window, by_kind=is_thin(schedule, view, window))
        chart.draw()
        axes.set_xlabel(with_unit("time", schedule.problem.time_unit), labelpad=2)
        _title(axes, outcome, view.inches)
        legend(figure, list(key([chart])))
        settle(figure)
        chart.finish()
        return figure


def _title(axes: Axes, outcome: Outcome, inches: float) -> None:
    """Write what was scheduled to the left and its metrics to the right, or below where the figure is narrow."""
    name = heading(outcome).plain
    metrics = f"makespan {makespan(outcome.schedule)}, bubble {outcome.schedule.bubble:.2%}"
    if len(name + metrics) * FONT * DIGIT < 0.85 * inches * POINTS:
        axes.set_title(name, loc="left", pad=3)
        axes.set_title(metrics, loc="right", pad=3)
    else:
        axes.set_title(f"{name}\n{metrics}", loc="left", pad=3)


def makespan(schedule: Schedule) -> str:
    """Return the makespan with its unit as text."""
    return f"{number(schedule.makespan)} {schedule.problem.time_unit}".rstrip()
