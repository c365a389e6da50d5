"""The table of formats: name, suffix of files, and the writers of the results that each holds, loaded when used."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.errors import ConfigError
from pipesched.results.capabilities import CAPABILITIES, load_place

if TYPE_CHECKING:
    from pipesched.render.view import View

SCHEDULE, COMPARISON, SWEEP, FRONTIER = "schedule", "comparison", "sweep", "frontier"
Content = str | bytes
Writer = Callable[[Any, "View"], Content]
DOCUMENTS = {  # what makes the JSON document of each result
    SCHEDULE: "documents.schedule:document",
    COMPARISON: "documents.comparison:comparison_document",
    SWEEP: "documents.comparison:sweep_document",
    FRONTIER: "documents.comparison:frontier_document",
    **{kind: capability.document for kind, capability in CAPABILITIES.items()},
}
READERS = {  # and what makes a result of a document of rows; any other is that of a schedule
    COMPARISON: "documents.comparison:comparison_of",
    "pareto": "documents.comparison:comparison_of",
    SWEEP: "documents.comparison:sweep_of",
    FRONTIER: "documents.comparison:frontier_of",
    **{kind: capability.reader for kind, capability in CAPABILITIES.items() if capability.reader},
}
CONFIGS = {kind: capability.config for kind, capability in CAPABILITIES.items() if capability.config}


class Format(NamedTuple):
    """A file format.

    `writers` make the content of a file from each result that it can hold: text, or bytes where `binary`. `reads` says
    whether pipesched reads it back; else it is write-only.
    """

    name: str
    suffix: str
    writers: dict[str, Writer]
    reads: bool = False
    binary: bool = False

    @property
    def holds(self) -> tuple[str, ...]:
        """The results that it can hold: schedule, comparison, sweep, frontier, and those of capabilities."""
        return tuple(self.writers)


def _json(place: str, result: Any, _view: View) -> str:
    from pipesched.documents.json_text import dump

    return dump(load_place(place)(result))


def _text(place: str, result: Any, _view: View) -> str:
    text: str = load_place(place)(result)
    return text


def _csv(place: str, outcome: Any, view: View) -> str:
    return _text(f"file_formats.pytorch_csv:{place}", outcome.schedule, view)


def _figure(kind: str, result: Any, view: View) -> Content:
    from pipesched.render.figure.draw import image_of

    content = image_of(result, view, kind)
    return content.decode() if kind == "svg" else content


PAGES = (SCHEDULE, COMPARISON, *(kind for kind, one in CAPABILITIES.items() if one.outcomes))
DRAWN = (SCHEDULE, COMPARISON, SWEEP, FRONTIER, *(kind for kind, one in CAPABILITIES.items() if one.figure))
FIGURES = ("svg", "png", "pdf")


FORMATS = {
    form.name: form
    for form in (
        Format("json", ".json", {kind: partial(_json, place) for kind, place in DOCUMENTS.items()}, reads=True),
        Format("pytorch-csv", ".csv", {SCHEDULE: partial(_csv, "dump")}, reads=True),
        Format("pytorch-csv-comms", ".csv", {SCHEDULE: partial(_csv, "dump_comms")}, reads=True),
        Format("chrome-trace", ".trace.json", {SCHEDULE: partial(_json, "file_formats.chrome_trace:document")}),
        Format("config", ".yaml", {kind: partial(_text, place) for kind, place in CONFIGS.items()}),
        Format("html", ".html", dict.fromkeys(PAGES, partial(_text, "render.html.page:page"))),
        *(
            Format(kind, f".{kind}", dict.fromkeys(DRAWN, partial(_figure, kind)), binary=kind != "svg")
            for kind in FIGURES
        ),
    )
}


def formats() -> tuple[Format, ...]:
    """Return every format: its name, its suffix, the results that it holds, and whether pipesched reads it back."""
    return tuple(FORMATS.values())


def format_of(path: str, names: Collection[str]) -> Format:
    """Return the format, out of `names`, whose suffix ends `path`; of several the one with the longest suffix.

    Of formats with one suffix it is the first; only its name chooses another. Raises ConfigError with the suffixes of
    `names` where none does.
    """
    known = [FORMATS[name] for name in names]
    fitting = [form for form in known if path.lower().endswith(form.suffix)]
    if not fitting:
        suffixes = ", ".join(dict.fromkeys(form.suffix for form in known))
        raise ConfigError(f"{path!r} must end in {' or '.join(suffixes.rsplit(', ', 1))}", "path")
    return max(fitting, key=lambda form: len(form.suffix))


def formats_that_hold(result: str) -> list[str]:
    """Return the names of the formats that can hold a result."""
    return [name for name, form in FORMATS.items() if result in form.writers]
