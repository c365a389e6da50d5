"""Helpers of the render tests: consoles of a fixed kind and width, and golden texts."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console, RenderableType

Renderer = Callable[..., str]


@pytest.fixture
def draw() -> Renderer:
    """Render to text, as a terminal of that width would get it; `colour` keeps the escape codes."""

    def render(renderable: RenderableType, width: int, *, colour: bool = False) -> str:
        console = Console(
            file=io.StringIO(),
            width=width,
            force_terminal=colour,
            color_system="truecolor" if colour else None,
            no_color=not colour,
            highlight=False,
            legacy_windows=False,
        )
        console.print(renderable)
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue()

    return render
