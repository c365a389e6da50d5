"""The options of charts and figures: what to draw of a schedule, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.checks import require_name
from pipesched.cli.options import number_of, option, whole_numbers
from pipesched.errors import ConfigError

if TYPE_CHECKING:
    from pipesched.pipeline.schedule import Schedule
    from pipesched.render.view import View

LABEL = option("--label NAME", "label of a slot: auto, microbatch, op, stage, none")


def _no_columns(flag: str, _text: str) -> None:
    raise ConfigError(f"{flag}: counts columns of a terminal; --inches is the width of a figure")


class ChartOptions(NamedTuple):
    """What part of a chart to draw, and how; None where nothing is said."""

    zoom: float | None = option("--zoom ZOOM", "draw 1/ZOOM of the timeline, that much closer", number_of)
    start: float | None = option("--from TIME", "draw from this time on", number_of)
    end: float | None = option("--to TIME", "draw up to this time", number_of)
    label: str | None = LABEL
    memory: bool | None = option("--memory/--no-memory", "the strip of memory over time; default: with a budget")
    rows: list[int] | str | None = option(
        "--rows D,D..", "devices to draw: all, or 0,31,63; default: at most 64, of more than 16 in compare 8",
        lambda flag, text: text if text == "all" else whole_numbers(flag, text, least=0),
    )  # fmt: skip
    fold: bool | None = option(
        "--fold/--no-fold",
        "draw of what repeats one period only; default: where slots are narrow and it helps, not in compare",
    )
    inches: float | None = option(
        "--inches INCHES", "width of the figure that -o writes; default 7, a page's text", number_of
    )
    charts: str | None = option(
        "--charts all|none", "whether the chart is drawn; default all",
        lambda flag, text: require_name(("all", "none"), text, "number of charts", flag),
    )  # fmt: skip

    def view(self, **more: Any) -> View:
        """Return these options as renderers take them, with `more` fields of a View. Raises ConfigError."""
        return figure_view(**{**self._replace(charts=None)._asdict(), **more})

    def require_drawable(self, schedule: Schedule, until: int | None = None) -> None:
        """Raise ConfigError for a window or devices that a chart of `schedule`, up to the tick `until`, has not."""
        view = self.view()
        view.window(schedule, until)
        view.devices(schedule)

    def given(self) -> list[str]:
        """Return the flags that were given and are about a chart."""
        options = self._field_defaults
        values = self._replace(inches=None)._asdict()
        return [options[name].flag for name, value in values.items() if value is not None]


def chart_options(**values: Any) -> ChartOptions:
    """Return the options of a chart. Raises ConfigError for bad ones, before anything takes long."""
    options = ChartOptions(**values)
    if options.given() or options.inches is not None:
        options.view()
    return options


FIGURE = {
    "inches": option("--inches INCHES", "width of a figure; default 7, a page's text (3.5: a column)", number_of),
    "label": LABEL,
    "memory": option("--memory/--no-memory", "memory over time; default: with a budget"),
    "width": option("--width COLUMNS", "of a chart in a terminal, which nothing here draws", _no_columns, hidden=True),
}


def figure_view(**values: Any) -> View:
    """Return the options of a figure as renderers take them; None is not given. Raises ConfigError."""
    from pipesched.render.view import View

    return View(**{name: value for name, value in values.items() if value is not None})
