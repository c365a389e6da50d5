"""The options of charts and figures: what to draw of a schedule, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.cli.parse import number_of, whole_number

if TYPE_CHECKING:
    from pipesched.pipeline.schedule import Schedule
    from pipesched.render.view import View


class ChartOptions(NamedTuple):
    """What part of a chart to draw, and how; None where nothing is said."""

    zoom: float | None
    start: float | None
    end: float | None
    label: str | None
    memory: bool | None
    rows: str | None
    fold: bool | None
    inches: float | None

    def view(self, **more: Any) -> View:
        """Return these options as renderers take them, with `more` fields of a View. Raises ConfigError."""
        from pipesched.render.view import PAGE, View

        rows = None if self.rows in (None, "all") else _devices(str(self.rows))
        zoom, label = 1 if self.zoom is None else self.zoom, "auto" if self.label is None else self.label
        inches = PAGE if self.inches is None else self.inches
        return View(self.start, self.end, zoom, label, self.memory, inches, rows, self.fold, **more)

    def require_drawable(self, schedule: Schedule, until: int | None = None) -> None:
        """Raise ConfigError for a window or devices that a chart of `schedule`, up to the tick `until`, has not."""
        view = self.view()
        view.window(schedule, until)
        view.devices(schedule)

    def given(self) -> list[str]:
        """Return the flags that were given and are about a chart."""
        flags = ("--zoom", "--from", "--to", "--label", "--memory", "--rows", "--fold")
        return [flag for flag, value in zip(flags, self[: len(flags)], strict=True) if value is not None]


def chart_values(values: Mapping[str, Any]) -> ChartOptions:
    """Read the options of a chart."""
    start, end = (number_of(option, values[name]) for option, name in (("--from", "from_time"), ("--to", "to_time")))
    options = ChartOptions(
        number_of("--zoom", values["zoom"]),
        start,
        end,
        values["label"],
        values["memory"],
        values["rows"],
        values["fold"],
        number_of("--inches", values["inches"]),
    )
    if options.given() or options.inches is not None:
        options.view()  # raises for bad options before anything takes long
    return options


def figure_values(values: Mapping[str, Any]) -> View:
    """Read the options of a figure."""
    from pipesched.render.view import PAGE, View

    inches = number_of("--inches", values["inches"])
    return View(
        label="auto" if values["label"] is None else values["label"],
        memory=values["memory"],
        inches=PAGE if inches is None else inches,
    )


def _devices(text: str) -> list[int]:
    """Read a list of devices such as 0,31,63."""
    return [whole_number("--rows", part, least=0) for part in text.split(",")]
