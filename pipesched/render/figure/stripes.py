"""Diagonal stripes as separate lines, since not every program that shows an SVG knows pattern fills."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from matplotlib.artist import Artist
from matplotlib.legend_handler import HandlerPatch
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

STEP = 5.0  # points from stripe to stripe, along either side
WIDTH = 0.5
Stripe = tuple[tuple[float, float], tuple[float, float]]


def stripes(width: float, height: float, *, falling: bool = False) -> Iterator[Stripe]:
    """Yield the ends of the diagonals within a box whose lower left corner is (0, 0), all in points."""
    for number in range(1, int((width + height) / STEP) + 1):
        reach = number * STEP - height  # where the line would cross the bottom
        left, right = max(reach, 0.0), min(reach + height, width)
        low, high = left - reach, right - reach
        yield ((left, height - low), (right, height - high)) if falling else ((left, low), (right, high))


class Striped(Patch):
    """The swatch of a legend, with stripes."""

    def __init__(self, *, falling: bool, **settings: Any) -> None:
        super().__init__(**settings)
        self.falling = falling


class StripedHandler(HandlerPatch):
    """The handler with which a legend draws a Striped."""

    def create_artists(
        self,
        legend: Any,
        orig_handle: Artist,
        xdescent: float,
        ydescent: float,
        width: float,
        height: float,
        fontsize: float,
        trans: Any,
    ) -> list[Artist]:
        """Return the box, and its stripes on top."""
        box = super().create_artists(legend, orig_handle, xdescent, ydescent, width, height, fontsize, trans)
        falling = isinstance(orig_handle, Striped) and orig_handle.falling
        lines = [
            Line2D(
                [x0 - xdescent, x1 - xdescent],
                [y0 - ydescent, y1 - ydescent],
                color="white",
                linewidth=WIDTH,
                transform=trans,
            )
            for (x0, y0), (x1, y1) in stripes(width, height, falling=falling)
        ]
        return [*box, *lines]
