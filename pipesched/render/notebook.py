"""Nouns in notebooks: chart or table as text, and as coloured HTML; of schedules a picture and the page."""

from __future__ import annotations

import io
from importlib.util import find_spec
from typing import Any

from rich.console import Console

from pipesched.display import HasPage
from pipesched.errors import PipeschedError
from pipesched.render.figure.draw import image_of
from pipesched.render.sweep import sweep_lines
from pipesched.render.table import display_parts
from pipesched.render.view import View
from pipesched.results.comparison import Frontier, Sweep

COLUMNS = 110
MOST_EMBEDDED = 300_000  # letters of picture and frame: a larger page is left to `to_html`
HTML = '<pre style="line-height:1.2;white-space:pre;overflow-x:auto;font-family:monospace">{code}</pre>'


def mime_bundle(result: object) -> dict[str, str]:
    """Return a result by MIME type: as text/plain and as text/html; a frontier or a sweep also as SVG."""
    stream = io.StringIO()
    _print(Console(file=stream, width=COLUMNS, color_system=None, **_SETTINGS), result)
    text = "\n".join(line.rstrip() for line in stream.getvalue().rstrip().splitlines())  # without colour
    drawable = (isinstance(result, Frontier) and result.points) or (isinstance(result, Sweep) and sweep_lines(result))
    if drawable and find_spec("matplotlib") is not None:
        picture = image_of(result, View(), "svg").decode()
        inside = picture[picture.index("<svg") :]
        return {"text/plain": text, "text/html": f"{inside}{html(result)}", "image/svg+xml": picture}
    page = framed(result) if isinstance(result, HasPage) else None
    return {"text/plain": text, "text/html": page or html(result)}


def framed(result: object) -> str | None:
    """Return the still picture of schedules, and below it their page in a frame; None for what has no page.

    A page that is too large is left out: the picture says how to write it to a file.
    """
    from pipesched.render.html.page import embedded, page, still, titled

    try:
        schedules = titled(result)
        document = page(result)
    except PipeschedError:  # rows of a file without schedules, say, or a schedule that breaks a rule
        return None
    rows = sum(outcome.problem.devices for _, outcome in schedules)
    frame = embedded(document, ", ".join(name for name, _ in schedules), height=min(520 + 32 * rows, 900))
    picture = still(schedules)
    if len(picture) + len(frame) > MOST_EMBEDDED:
        frame = "<p>The page is too large for a notebook: <code>.to_html(path)</code> writes it.</p>"
    return f"{picture}{frame}"


def html(result: object) -> str:
    """Return a result as coloured HTML that needs no style sheet."""
    console = Console(file=io.StringIO(), width=COLUMNS, record=True, color_system="truecolor", **_SETTINGS)
    _print(console, result)
    return console.export_html(inline_styles=True, code_format=HTML)


_SETTINGS: dict[str, Any] = {"force_terminal": True, "force_jupyter": False, "legacy_windows": False}
_SETTINGS |= {"highlight": False, "markup": False, "emoji": False}


def _print(console: Console, result: object) -> None:
    for part in display_parts(result):
        console.print(part)
