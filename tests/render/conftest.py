"""Helpers of the render tests: consoles of a fixed kind and width, and golden texts."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

GOLDEN = Path(__file__).parent.parent / "golden"
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


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with the golden file of that name. PIPESCHED_WRITE_GOLDEN=1 writes it instead; then look at it."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("PIPESCHED_WRITE_GOLDEN"):
            path.write_text(text, encoding="utf-8", newline="\n")
        assert text == path.read_text(encoding="utf-8")

    return compare
