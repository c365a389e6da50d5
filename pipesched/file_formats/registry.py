"""The table of formats: name, suffix of files, and the writers of the results that each holds, loaded when used."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.errors import ConfigError
from pipesched.results.capabilities import CAPABILITIES

if TYPE_CHECKING:
    from pipesched.render.view import View

SCHEDULE, COMPARISON, SWEEP, FRONTIER = "schedule", "comparison", "sweep", "frontier"
Content = str | bytes
Writer = Callable[[Any, "View"], Content]


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


def _schedule_json(outcome: Any, _view: View) -> str:
    from pipesched.documents.json_text import dump
    from pipesched.documents.schedule import document

    return dump(document(outcome))


def _comparison_json(comparison: Any, _view: View) -> str:
    from pipesched.documents.comparison import comparison_document
    from pipesched.documents.json_text import dump

    return dump(comparison_document(comparison))


def _sweep_json(sweep: Any, _view: View) -> str:
    from pipesched.documents.comparison import sweep_document
    from pipesched.documents.json_text import dump

    return dump(sweep_document(sweep))


def _frontier_json(frontier: Any, _view: View) -> str:
    from pipesched.documents.frontier import frontier_document
    from pipesched.documents.json_text import dump

    return dump(frontier_document(frontier))


def _capability_json(kind: str, result: Any, _view: View) -> str:
    from pipesched.documents.json_text import dump

    return dump(CAPABILITIES[kind].load("document")(result))


def _config(kind: str, result: Any, _view: View) -> str:
    """Return a config of a result."""
    text: str = CAPABILITIES[kind].load("config")(result)
    return text


def _configs() -> dict[str, Writer]:
    return {kind: partial(_config, kind) for kind, capability in CAPABILITIES.items() if capability.config}


def _pytorch_csv(outcome: Any, _view: View) -> str:
    from pipesched.file_formats.pytorch_csv import dump

    return dump(outcome.schedule)


def _chrome_trace(outcome: Any, _view: View) -> str:
    from pipesched.documents.json_text import dump
    from pipesched.file_formats.chrome_trace import document

    return dump(document(outcome))


def _page(result: Any, _view: View) -> str:
    from pipesched.render.html.page import page

    return page(result)


def _pages() -> dict[str, Writer]:
    explained = (kind for kind, capability in CAPABILITIES.items() if capability.outcomes)
    return dict.fromkeys((SCHEDULE, COMPARISON, *explained), _page)


def _figure(kind: str, result: Any, view: View) -> Content:
    """Return a figure of any result."""
    from pipesched.render.figure.draw import image_of

    content = image_of(result, view, kind)
    return content.decode() if kind == "svg" else content


def _figures(kind: str) -> dict[str, Writer]:
    drawn = (of_capability for of_capability, capability in CAPABILITIES.items() if capability.figure)
    return dict.fromkeys((SCHEDULE, COMPARISON, SWEEP, FRONTIER, *drawn), partial(_figure, kind))


FORMATS = {
    form.name: form
    for form in (
        Format(
            "json",
            ".json",
            {
                SCHEDULE: _schedule_json,
                COMPARISON: _comparison_json,
                SWEEP: _sweep_json,
                FRONTIER: _frontier_json,
                **{kind: partial(_capability_json, kind) for kind in CAPABILITIES},
            },
            reads=True,
        ),
        Format("pytorch-csv", ".csv", {SCHEDULE: _pytorch_csv}, reads=True),
        Format("chrome-trace", ".trace.json", {SCHEDULE: _chrome_trace}),
        Format("config", ".yaml", _configs()),
        Format("html", ".html", _pages()),
        Format("svg", ".svg", _figures("svg")),
        Format("png", ".png", _figures("png"), binary=True),
        Format("pdf", ".pdf", _figures("pdf"), binary=True),
    )
}
FIGURES = ("svg", "png", "pdf")


def formats() -> tuple[Format, ...]:
    """Return every format: its name, its suffix, the results that it holds, and whether pipesched reads it back."""
    return tuple(FORMATS.values())


def format_of(path: str, names: Collection[str]) -> Format:
    """Return the format, out of `names`, whose suffix ends `path`; of several the one with the longest suffix.

    Raises ConfigError with the suffixes of `names` where none does.
    """
    known = [FORMATS[name] for name in names]
    fitting = [form for form in known if path.lower().endswith(form.suffix)]
    if not fitting:
        suffixes = ", ".join(form.suffix for form in known)
        raise ConfigError(f"{path!r} must end in {' or '.join(suffixes.rsplit(', ', 1))}", "path")
    return max(fitting, key=lambda form: len(form.suffix))


def formats_that_hold(result: str) -> list[str]:
    """Return the names of the formats that can hold a result."""
    return [name for name, form in FORMATS.items() if result in form.writers]
