"""Any result as a `figure`: a schedule, a comparison, a sweep, a frontier, or a robustness; `image_of` as bytes."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipesched.checks import shown
from pipesched.display import Displayable, from_file
from pipesched.errors import ConfigError
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import Number
from pipesched.render.view import FONT, PAGE, View
from pipesched.results.comparison import Comparison, Frontier, Sweep
from pipesched.results.kinds import COMPARISON, RESULTS, SCHEDULE, SWEEP, kind_of
from pipesched.results.outcome import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pipesched.render.figure.chart import Drawing

TIMELINE = ("start", "end", "zoom", "label", "memory", "first_microbatch", "device_name")  # of charts alone


def figure(
    result: Outcome | Schedule | Comparison | Sweep | Frontier | Displayable | str | Path | Callable[..., Any],
    *,
    start: Number | None = None,
    end: Number | None = None,
    zoom: float = 1,
    label: str = "auto",
    memory: bool | None = None,
    inches: float = PAGE,
    charts: int | str | None = None,
    show: str = "bubble",
    title: str | None = None,
    font_size: float = FONT,
    legend: str = "below",
    first_microbatch: int = 0,
    device_name: str = "device",
    problem: Problem | None = None,
) -> Figure:
    """Draw a result with matplotlib, which the extra `plot` installs.

    Args:
        result: An Outcome or Schedule (its chart), a Comparison (charts on one time scale), a Sweep (a line for each
            algorithm), or a Frontier. Also a Robustness (a distribution function for each schedule), or the name of a
            file with one.
        start: Draw from this time on, in the user's unit. Like `end`, `zoom`, `label` and `memory` not for a Sweep, a
            Frontier or a Robustness, which have no timeline.
        end: Draw up to this time.
        zoom: Draw 1/zoom of the timeline, that much closer.
        label: Label of a slot: auto, microbatch, op, stage, none.
        memory: Whether to draw memory over time; default: with a budget.
        inches: Width of the figure: 7 is a page's text, 3.5 a column.
        charts: How many schedules of a Comparison: "all", or so many of the best; 0: bars of the metrics of all.
            Default: all of up to 4, of more the best 3.
        show: The measure of a Sweep: bubble, makespan, microbatch (time of one), utilization, memory.
        title: The title of the figure; default: what it shows. "" is none.
        font_size: Points of its text, 5 to 24.
        legend: Where the legend stands: below, right, none.
        first_microbatch: The number of the first microbatch in labels, 0 or 1. Like `device_name` of charts alone.
        device_name: The name of devices, with their number behind it: rank, GPU.
        problem: The costs, where `result` names a CSV, and what an algorithm, its name or its function, schedules.

    Raises:
        ConfigError: For a bad argument, or where matplotlib is not installed.
    """
    require_matplotlib()
    result = from_file(result, problem, "result")
    part = (start, end, zoom, label, memory, inches, None, None, charts, show)  # None: `rows` and `fold` of a View
    view = View(*part, title, font_size, legend, first_microbatch, device_name)
    kind, _ = kind_of(result)
    lacks = {} if kind in ("", SCHEDULE, COMPARISON) else dict.fromkeys(TIMELINE, "no timeline")
    lacks |= {} if kind == COMPARISON else {"charts": "nothing to choose from"}
    lacks |= {} if kind == SWEEP else {"show": "no value that varies"}
    for key, what in lacks.items():
        if getattr(view, key) != getattr(View(), key):
            raise ConfigError(f"has no effect on a result that is a {type(result).__name__}, which has {what}", key)
    return drawing_of(result, view)


def require_matplotlib() -> None:
    """Raise ConfigError where figures cannot be drawn."""
    if find_spec("matplotlib") is None:
        raise ConfigError("figures are drawn by matplotlib, which is not installed: pip install 'pipesched[plot]'")


def drawing_of(result: object, view: View) -> Drawing:
    """Draw a result. Raises ConfigError for one that has no figure."""
    kind, known = kind_of(result)
    if kind and RESULTS[kind].figure:
        drawing: Drawing = RESULTS[kind].load("figure")(known, view)
        return drawing
    what = "an Outcome, a Schedule, a Comparison, a Sweep or a Frontier"
    raise ConfigError(f"must be {what}, not {shown(result)}", "result")


def image_of(result: object, view: View, kind: str) -> bytes:
    """Return the figure of a result as the content of a file; `kind` is svg, png or pdf."""
    from pipesched.render.figure.chart import image

    return image(drawing_of(result, view), kind)
