"""Every format in which a schedule is written: its name, the suffix of its files, and its writer, loaded when used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from pipesched.errors import ConfigError

if TYPE_CHECKING:
    from pipesched.outcome import Outcome
    from pipesched.render.view import View

Writer = Callable[["Outcome", "View"], "str | bytes"]


class Format(NamedTuple):
    """`write` makes the content of a file: text, or bytes where `binary`. The view is for figures."""

    name: str
    suffix: str
    write: Writer
    binary: bool = False


def _json(outcome: Outcome, _view: View) -> str:
    from pipesched.formats.schedule_json import document, dump

    return dump(document(outcome))


def _pytorch_csv(outcome: Outcome, _view: View) -> str:
    from pipesched.formats.pytorch_csv import dump

    return dump(outcome.schedule)


def _chrome_trace(outcome: Outcome, _view: View) -> str:
    from pipesched.formats.chrome_trace import document
    from pipesched.formats.schedule_json import dump

    return dump(document(outcome))


def _figure(kind: str) -> Writer:
    """The writer of a figure."""

    def write(outcome: Outcome, view: View) -> str | bytes:
        from pipesched.render.figure.gantt import gantt_image

        content = gantt_image(outcome, view, kind)
        return content.decode() if kind == "svg" else content

    return write


FORMATS = {
    one.name: one
    for one in (
        Format("json", ".json", _json),
        Format("pytorch-csv", ".csv", _pytorch_csv),
        Format("chrome-trace", ".trace.json", _chrome_trace),
        Format("svg", ".svg", _figure("svg")),
        Format("png", ".png", _figure("png"), binary=True),
        Format("pdf", ".pdf", _figure("pdf"), binary=True),
    )
}
FIGURES = ("svg", "png", "pdf")


def format_of(path: str, suffixes: Mapping[str, str]) -> str:
    """The name of the format whose suffix ends `path`, out of `suffixes` by name; the longest if several do.

    Raises ConfigError with those there are.
    """
    fitting = [name for name, suffix in suffixes.items() if path.lower().endswith(suffix)]
    if not fitting:
        known = ", ".join(suffixes.values())
        raise ConfigError(f"--output: {path!r} must end in {' or '.join(known.rsplit(', ', 1))}")
    return max(fitting, key=lambda name: len(suffixes[name]))
