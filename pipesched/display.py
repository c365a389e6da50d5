"""How a notebook shows results, and how functions take them from files.

The modules of the results stand below the renderers and the formats, and import none of them. The package stands above
all and registers a renderer and a reader; without one a result is shown as its repr, and only itself is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar, overload

Row_co = TypeVar("Row_co", covariant=True)


class Displayable:
    """Something that a notebook shows as a chart or a table."""

    __slots__ = ()

    def _repr_mimebundle_(
        self, include: Iterable[str] | None = None, exclude: Iterable[str] | None = None
    ) -> dict[str, str]:
        """Return the chart or table as text/plain and, coloured, as text/html (IPython's protocol)."""
        bundle = _REGISTERED["show"](self)
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
        if "write" not in _REGISTERED:
            raise NotImplementedError("nothing writes pages yet: import pipesched")
        written: Path = _REGISTERED["write"](self, path, format="html", force=force)
        return written


class DisplayableRows(Displayable, Sequence[Row_co]):
    """A result that is the sequence of what its field `_rows` holds."""

    _rows: ClassVar[str] = "rows"

    def __len__(self) -> int:
        return len(getattr(self, self._rows))

    def __iter__(self) -> Iterator[Row_co]:
        return iter(getattr(self, self._rows))

    @overload
    def __getitem__(self, key: int) -> Row_co: ...

    @overload
    def __getitem__(self, key: slice) -> Sequence[Row_co]: ...

    def __getitem__(self, key: int | slice) -> Any:
        return getattr(self, self._rows)[key]


def from_file(value: Any, problem: Any, key: str, entry: int | None = None) -> Any:
    """Return the result in a file, where `value` is its name; else `value`. A CSV has the costs of a problem.

    `key` is the parameter, `entry` the index in its list; of a list each CSV, and nothing else, has those costs. Raises
    ConfigError and InvalidSchedule.
    """
    return _REGISTERED["read"](value, problem, key, entry)


def register(**functions: Callable[..., Any]) -> None:
    """Register what from now on makes the MIME types of every result (`show`), and what reads and writes files."""
    _REGISTERED.update(functions)


_REGISTERED: dict[str, Callable[..., Any]] = {
    "show": lambda result: {"text/plain": repr(result)},
    "read": lambda value, *_: value,
}
