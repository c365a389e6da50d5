"""The table of formats, ours (FORMATS) and users' (`file_format`); `format_for` a file. Writers load when used."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.checks import require_callable, require_label, shown
from pipesched.errors import ConfigError
from pipesched.pipeline.plan.door import blamed, installed, loaded, package_of, place, place_of, require_free
from pipesched.results.kinds import RESULTS, SCHEDULE, load_place, places

if TYPE_CHECKING:
    from pipesched.render.view import View
    from pipesched.results.outcome import Outcome

Content = str | bytes
Writer = Callable[[Any, "View"], Content]
Reader = Callable[[str], Sequence[Sequence[Any]]]
GROUP = "pipesched.file_formats"  # of entry points


class Format(NamedTuple):
    """A file format.

    `writers` make the content of a file from each result that it can hold: text, or bytes where `binary`. `reads` says
    whether pipesched reads it back; else it is write-only. One of a user has an `origin`, the file and line of its
    functions, and may have a `reader`: of the text of a file to the operations of each device.
    """

    name: str
    suffix: str
    writers: dict[str, Writer]
    reads: bool = False
    binary: bool = False
    reader: Reader | None = None
    origin: str = ""

    @property
    def holds(self) -> tuple[str, ...]:
        """The results that it can hold: keys of RESULTS."""
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


FIGURES = ("svg", "png", "pdf")

FORMATS = {
    form.name: form
    for form in (
        Format("json", ".json", {kind: partial(_json, one.document) for kind, one in RESULTS.items()}, reads=True),
        Format("pytorch-csv", ".csv", {SCHEDULE: partial(_csv, "dump")}, reads=True),
        Format("pytorch-csv-comms", ".csv", {SCHEDULE: partial(_csv, "dump_comms")}, reads=True),
        Format("chrome-trace", ".trace.json", {SCHEDULE: partial(_json, "file_formats.chrome_trace:document")}),
        Format("config", ".yaml", {kind: partial(_text, place) for kind, place in places("config").items()}),
        Format("html", ".html", dict.fromkeys(places("outcomes"), partial(_text, "render.html.page:page"))),
        *(
            Format(kind, f".{kind}", dict.fromkeys(places("figure"), partial(_figure, kind)), binary=kind != "svg")
            for kind in FIGURES
        ),
    )
}


def formats() -> tuple[Format, ...]:
    """Return every format: its name, its suffix, the results that it holds, and whether pipesched reads it back."""
    return tuple(FORMATS.values())


def file_format(
    name: str, suffix: str, writer: Callable[[Outcome], Content] | None = None, reader: Reader | None = None
) -> Format:
    """Register a file format of schedules: `write`, `read` and every command that takes a file then know its suffix.

    Args:
        name: Its name, of small letters, digits, - and _.
        suffix: What ends the names of its files: ".lines".
        writer: Makes the content of a file of an Outcome, text or bytes; None: it is read alone.
        reader: Makes of the text of a file what each device runs, in order, as `pipesched.plan` takes it; costs come
            from elsewhere, as those of a CSV. None: it is written alone.

    Returns:
        The format; an entry point of the group `pipesched.file_formats` names it.

    Raises:
        ConfigError: For a name or a suffix that is taken, and where neither function is given.
    """
    if require_callable(writer, "writer") is None and require_callable(reader, "reader") is None:
        raise ConfigError("is missing, and so is a reader: give one of them", "writer")
    origin = place(*place_of(writer or reader))  # type: ignore[arg-type]
    others = {key: form for key, form in FORMATS.items() if form.origin != origin or key != name}
    require_free(name, others, "a file format")
    ending = require_label(suffix, "suffix").lower()
    if not ending.startswith(".") or len(ending) < 2:
        raise ConfigError(f"must begin with a dot, not {shown(suffix)}", "suffix")
    if ending in (".yml", *(form.suffix for form in others.values())):
        raise ConfigError(f"{shown(suffix)} is taken; choose another", "suffix")
    writers: dict[str, Writer] = {} if writer is None else {SCHEDULE: partial(_written, writer, name)}
    form = Format(name, ending, writers, reader is not None, reader=reader, origin=origin)
    FORMATS[name] = form
    return form


def _written(writer: Callable[[Any], Content], name: str, outcome: Any, _view: View) -> Content:
    with blamed(name, *place_of(writer)):
        content = writer(outcome)
        if not isinstance(content, (str, bytes)):
            raise ConfigError(f"must return text or bytes, not {shown(content)}")
    return content


@cache
def load_formats() -> None:
    """Load the file formats of installed packages. Raises ConfigError, which names the package."""
    for entry in installed(GROUP).values():
        form = loaded(entry)
        if not isinstance(form, Format) or FORMATS.get(entry.name) is not form:
            what = "is not what pipesched.file_format returned for that name"
            raise ConfigError(f"{entry.name!r} of {package_of(entry)} {what}")


def own_format(path: str) -> Format | None:
    """Return the format of a user whose suffix ends `path`; of packages too, where no known suffix does."""
    name = path.lower()
    if "." in name and not name.endswith(tuple(form.suffix for form in FORMATS.values())):
        load_formats()
    return next((form for form in FORMATS.values() if form.origin and name.endswith(form.suffix)), None)


def format_for(path: str, result: str) -> Format:
    """Return the format, ours or a user's, of a file that holds a result. Raises ConfigError as `format_of` does."""
    own_format(path)
    return format_of(path, formats_that_hold(result))


def format_of(path: str, names: Collection[str]) -> Format:
    """Return the format, out of `names`, with the longest suffix of `path`, of equals the first. Raises ConfigError."""
    known = [FORMATS[name] for name in names]
    fitting = [form for form in known if path.lower().endswith(form.suffix)]
    if not fitting:
        suffixes = ", ".join(dict.fromkeys(form.suffix for form in known))
        raise ConfigError(f"{path!r} must end in {' or '.join(suffixes.rsplit(', ', 1))}", "path")
    return max(fitting, key=lambda form: len(form.suffix))


def formats_that_hold(result: str) -> list[str]:
    """Return the names of the formats that can hold a result."""
    return [name for name, form in FORMATS.items() if result in form.writers]
