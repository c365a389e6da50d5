"""Any result as a figure: a schedule, a comparison, or a frontier."""

from __future__ import annotations

from matplotlib.figure import Figure

from pipesched.checks import shown
from pipesched.comparison import Comparison
from pipesched.errors import ConfigError
from pipesched.outcome import Outcome
from pipesched.pipeline.quantities import Number
from pipesched.pipeline.schedule import Schedule
from pipesched.render.figure.comparison import comparison_figure
from pipesched.render.figure.gantt import gantt_figure
from pipesched.render.figure.page import Drawing, image
from pipesched.render.figure.solved import solved_figure
from pipesched.render.view import PAGE, View
from pipesched.solver.frontier import Frontier


def figure(
    result: Outcome | Schedule | Comparison | Frontier,
    *,
    start: Number | None = None,
    end: Number | None = None,
    zoom: float = 1,
    label: str = "auto",
    memory: bool | None = None,
    inches: float = PAGE,
) -> Figure:
    """Draw a result with matplotlib, which the extra `plot` installs.

    Args:
        result: An Outcome or Schedule (its chart), a Comparison (charts on one time scale, or bars of the metrics where
            they are many), or a Frontier.
        start: Draw from this time on, in the user's unit. Like `end`, `zoom`, `label` and `memory` not for a Frontier,
            which has no timeline.
        end: Draw up to this time.
        zoom: Draw 1/zoom of the timeline, that much closer.
        label: Label of a slot: auto, microbatch, op, stage, none.
        memory: Whether to draw memory over time; default: with a budget.
        inches: Width of the figure: 7 is a page's text, 3.5 a column.

    Raises:
        ConfigError: For a bad argument, or where matplotlib is not installed.
    """
    view = View(start, end, zoom, label, memory, inches)
    if isinstance(result, Frontier):
        _require_plain(view)
    return drawing_of(result, view)


def _require_plain(view: View) -> None:
    """Raise ConfigError for a part or a look of a timeline."""
    plain = View(inches=view.inches)
    for key in ("start", "end", "zoom", "label", "memory"):
        if getattr(view, key) != getattr(plain, key):
            raise ConfigError("has no effect on a result that is a Frontier, which has no timeline", key)


def drawing_of(result: object, view: View) -> Drawing:
    """Draw a result. Raises ConfigError for one that has no figure."""
    if isinstance(result, Schedule):
        result = Outcome("plan", result)
    if isinstance(result, Outcome):
        return gantt_figure(result, view)
    if isinstance(result, Comparison):
        return comparison_figure(result, view)
    if isinstance(result, Frontier):
        return solved_figure(result, view.inches)
    raise ConfigError(f"must be an Outcome, a Schedule, a Comparison or a Frontier, not {shown(result)}", "result")


def image_of(result: object, view: View, kind: str) -> bytes:
    """Return the figure of a result as the content of a file; `kind` is svg, png or pdf."""
    return image(drawing_of(result, view), kind)
