"""Nouns in notebooks: chart or table as text, and as coloured HTML."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from pipesched.render.table import display_parts

COLUMNS = 110
HTML = '<pre style="line-height:1.2;white-space:pre;overflow-x:auto;font-family:monospace">{code}</pre>'


def mime_bundle(result: object) -> dict[str, str]:
    """Return a result by MIME type: as text/plain and as text/html."""
    return {"text/plain": plain_text(result), "text/html": html(result)}


def plain_text(result: object, width: int = COLUMNS) -> str:
    """Return a result as text, without colour."""
    stream = io.StringIO()
    _print(Console(file=stream, width=width, color_system=None, **_SETTINGS), result)
    return "\n".join(line.rstrip() for line in stream.getvalue().rstrip().splitlines())


def html(result: object, width: int = COLUMNS) -> str:
    """Return a result as coloured HTML that needs no style sheet."""
    console = Console(file=io.StringIO(), width=width, record=True, color_system="truecolor", **_SETTINGS)
    _print(console, result)
    return console.export_html(inline_styles=True, code_format=HTML)


_SETTINGS: dict[str, Any] = {
    "force_terminal": True,
    "force_jupyter": False,
    "legacy_windows": False,
    "highlight": False,
    "markup": False,
    "emoji": False,
}


def _print(console: Console, result: object) -> None:
    for part in display_parts(result):
        console.print(part)
