"""How a notebook shows the results of the public API.

The modules of the results stand below the renderers and import none of them. The package stands above both and
registers a renderer; without one a result is shown as its repr.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

Renderer = Callable[[object], dict[str, str]]  # from a result to its MIME types and their contents


class Displayable:
    """Something that a notebook shows as a chart or a table."""

    __slots__ = ()

    def _repr_mimebundle_(
        self, include: Iterable[str] | None = None, exclude: Iterable[str] | None = None
    ) -> dict[str, str]:
        """Return the chart or table as text/plain and, coloured, as text/html (IPython's protocol)."""
        return _RENDERERS[-1](self)


def show_by(renderer: Renderer) -> None:
    """Register `renderer` as what shows every result from now on."""
    _RENDERERS.append(renderer)


def _as_text(result: object) -> dict[str, str]:
    return {"text/plain": repr(result)}


_RENDERERS: list[Renderer] = [_as_text]
