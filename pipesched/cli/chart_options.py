"""The options of charts and figures: what to draw of a schedule, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.checks import require_name
from pipesched.cli.options import number_of, option, whole_number, whole_numbers
from pipesched.errors import ConfigError

if TYPE_CHECKING:
    from pipesched.pipeline.schedule import Schedule
    from pipesched.render.view import View

OF_CHARTS = ("first_microbatch", "device_name")
OF_FIGURES = {
    "inches": option("--inches INCHES", "width of a figure; default 7, a page's text (3.5: a column)", number_of),
    "title": option("--title TEXT", "title of a figure; default: what it shows ('': none)"),
    "font_size": option("--font-size POINTS", "size of the text of a figure; default 7", number_of),
    "legend": option("--legend PLACE", "of a figure: below, right, none"),
    "first_microbatch": option(
        "--first-microbatch 0|1", "number of the first microbatch in a figure; default 0",
        lambda flag, text: whole_number(flag, text, 0, 1),
    ),
    "device_name": option("--device-name WORD", "name of devices in a figure: rank, GPU"),
}  # fmt: skip
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
    charts: str | None = option(
        "--charts all|none", "whether the chart is drawn; default all",
        lambda flag, text: require_name(("all", "none"), text, "number of charts", flag),
    )  # fmt: skip
    figure: Mapping[str, Any] = {}  # what is said of OF_FIGURES

    def view(self, **more: Any) -> View:
        """Return these options as renderers take them, with `more` fields of a View. Raises ConfigError."""
        values = self._replace(charts=None)._asdict()
        return figure_view(**{**values.pop("figure"), **values, **more})

    def require_drawable(self, schedule: Schedule, until: int | None = None) -> None:
        """Raise ConfigError for a window or devices that a chart of `schedule`, up to the tick `until`, has not."""
        view = self.view()
        view.window(schedule, until)
        view.devices(schedule)

    def given(self) -> list[str]:
        """Return the flags that were given and are about a chart."""
        values = {name: getattr(self, name) for name in CHART} | {name: self.figure.get(name) for name in OF_CHARTS}
        return [(CHART | OF_FIGURES)[name].flag for name, value in values.items() if value is not None]


CHART = {name: one for name, one in ChartOptions._field_defaults.items() if name != "figure"}


def chart_options(**values: Any) -> ChartOptions:
    """Return the options of a chart. Raises ConfigError for bad ones, before anything takes long."""
    figure = {name: value for name in OF_FIGURES if (value := values.pop(name)) is not None}
    options = ChartOptions(**values, figure=figure)
    if options.given() or figure:
        options.view()
    return options


FIGURE = {
    **OF_FIGURES,
    "label": LABEL,
    "memory": option("--memory/--no-memory", "memory over time; default: with a budget"),
    "width": option("--width COLUMNS", "of a chart in a terminal, which nothing here draws", _no_columns, hidden=True),
}


def figure_view(**values: Any) -> View:
    """Return the options of a figure as renderers take them; None is not given. Raises ConfigError."""
    from pipesched.render.view import View

    return View(**{name: value for name, value in values.items() if value is not None})
