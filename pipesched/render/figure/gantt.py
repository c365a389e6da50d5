"""One schedule as a figure."""

from __future__ import annotations

from pipesched.outcome import Outcome
from pipesched.pipeline.schedule import Schedule
from pipesched.render.figure.chart import ROW_INCHES, Chart, pitch, shows_memory, time_text
from pipesched.render.figure.page import DIGIT, FONT, POINTS, TALLEST, image, legend, settle, sheet, with_unit
from pipesched.render.summary import heading
from pipesched.render.timescale import Window
from pipesched.render.view import View

FRAME_INCHES = 0.95  # title, time axis and legend


def gantt_image(outcome: Outcome, view: View, kind: str) -> bytes:
    """The chart of a schedule as svg, png or pdf."""
    schedule = outcome.schedule
    window = view.window or Window(0, max(schedule.last_end))
    with sheet(view.inches, FRAME_INCHES + chart_inches(schedule, view)) as figure:
        axes = figure.add_subplot()
        chart = Chart(axes, schedule, view, window)
        chart.draw()
        axes.set_xlabel(with_unit("time", schedule.problem.time_unit), labelpad=2)
        _title(chart, outcome)
        legend(figure, list(chart.legend_entries()))
        settle(figure)
        chart.label()
        return image(figure, kind)


def chart_inches(schedule: Schedule, view: View) -> float:
    """The height of the rows of a chart, at most what a page has."""
    return min(schedule.problem.devices * pitch(shows_memory(schedule, view)) * ROW_INCHES, TALLEST - FRAME_INCHES)


def _title(chart: Chart, outcome: Outcome) -> None:
    """What was scheduled, to the left, and its figures, to the right; one above the other in a narrow figure."""
    schedule = outcome.schedule
    name = heading(outcome).plain
    figures = f"makespan {time_text(schedule, schedule.makespan)}, bubble {schedule.bubble:.2%}"
    if len(name + figures) * FONT * DIGIT < 0.85 * chart.view.inches * POINTS:
        chart.axes.set_title(name, loc="left", pad=3)
        chart.axes.set_title(figures, loc="right", pad=3)
    else:
        chart.axes.set_title(f"{name}\n{figures}", loc="left", pad=3)
