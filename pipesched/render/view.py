"""What part of a schedule a figure shows, and how wide it is on paper."""

from __future__ import annotations

from typing import NamedTuple

from pipesched.render.timescale import Window

PAGE = 7.0  # inches: the text of a page; a column of a two-column paper is half of it


class View(NamedTuple):
    """`window` (None: all of it), `label` (one of labels.LABELS) and `memory` (None: when there is a budget) are those
    of the chart in a terminal; `inches` is the width of the figure.
    """

    window: Window | None = None
    label: str = "auto"
    memory: bool | None = None
    inches: float = PAGE
