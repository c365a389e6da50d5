"""Helpers of the render tests: text as a terminal of a fixed kind and width gets it."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from rich.console import Console, RenderableType

Golden = Callable[[str, str], None]


def draw(renderable: RenderableType, width: int, *, colour: bool = False, system: Any = "truecolor") -> str:
    """Return what a terminal of that width would get; `colour` keeps the escape codes, of so many colours."""
    file = io.StringIO()
    kind: Any = {"force_terminal": colour, "color_system": system if colour else None, "no_color": not colour}
    Console(file=file, width=width, highlight=False, legacy_windows=False, **kind).print(renderable)
    return file.getvalue()
