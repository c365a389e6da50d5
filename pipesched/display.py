"""How a notebook shows the results of the public API, and how functions take them from files.

The modules of the results stand below the renderers and the formats, and import none of them. The package stands above
all and registers a renderer and a reader; without one a result is shown as its repr, and only itself is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Renderer = Callable[[object], dict[str, str]]  # from a result to its MIME types and their contents
Reader = Callable[[Any, Any, str, "int | None"], Any]  # as `from_file`
PageWriter = Callable[[object, str | Path, bool], Path]  # writes a result as a page to a file; replaces one if asked


class Displayable:
    """Something that a notebook shows as a chart or a table."""

    __slots__ = ()

    def _repr_mimebundle_(
        self, include: Iterable[str] | None = None, exclude: Iterable[str] | None = None
    ) -> dict[str, str]:
        """Return the chart or table as text/plain and, coloured, as text/html (IPython's protocol)."""
        bundle = _RENDERERS[-1](self)
        wanted = set(bundle if include is None else include).difference(() if exclude is None else exclude)
        return {kind: content for kind, content in bundle.items() if kind in wanted}


class HasPage(Displayable):
    """Something that also is an HTML page on which operations can be dragged."""

    __slots__ = ()

    def to_html(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the page to one file that needs no network; an existing one is replaced only by `force`.

        Returns the path. Raises ConfigError for a file that exists or cannot be written, InvalidSchedule for a schedule
        that breaks a rule, and NotApplicable for one that no page can show.
        """
        if not _PAGE_WRITERS:
            raise NotImplementedError("nothing writes pages yet: import pipesched")
        return _PAGE_WRITERS[-1](self, path, force)


def from_file(value: Any, problem: Any, key: str, entry: int | None = None) -> Any:
    """Return the result in a file, where `value` is its name; else `value`. A CSV has the costs of a problem.

    `key` is the parameter, `entry` the index in its list; of a list each CSV, and nothing else, has those costs. Raises
    ConfigError and InvalidSchedule.
    """
    return _READERS[-1](value, problem, key, entry)


def read_by(reader: Reader) -> None:
    """Register `reader` as what reads every file from now on."""
    _READERS.append(reader)


def show_by(renderer: Renderer) -> None:
    """Register `renderer` as what shows every result from now on."""
    _RENDERERS.append(renderer)


def write_pages_by(writer: PageWriter) -> None:
    """Register `writer` as what writes every page from now on."""
    _PAGE_WRITERS.append(writer)


_RENDERERS: list[Renderer] = [lambda result: {"text/plain": repr(result)}]
_PAGE_WRITERS: list[PageWriter] = []
_READERS: list[Reader] = [lambda value, *_: value]
