"""The sheet that figures are drawn on: its size, its fonts, and the files that it becomes.

matplotlib is used through its objects alone, never through pyplot, and without the settings of the user: the same
schedule gives the same bytes. Text stays text in SVG, and PDF embeds TrueType fonts (Type 42), as publishers ask.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from textwrap import wrap
from typing import Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend_handler import HandlerPatch, HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from pipesched.core.arrays import ceil_div
from pipesched.render.scene import number
from pipesched.render.view import FONT, View

STEP = 5.0  # points from stripe to stripe, along either side
WIDTH = 0.5
Stripe = tuple[tuple[float, float], tuple[float, float]]


def stripes(width: float, height: float, *, falling: bool = False) -> Iterator[Stripe]:
    """Yield the ends of the diagonals within a box whose lower left corner is (0, 0), all in points."""
    for place in range(1, int((width + height) / STEP) + 1):
        reach = place * STEP - height  # where the line would cross the bottom
        left, right = max(reach, 0.0), min(reach + height, width)
        low, high = left - reach, right - reach
        yield ((left, height - low), (right, height - high)) if falling else ((left, low), (right, high))


class Striped(Patch):
    """The swatch of a legend, with stripes of a colour."""

    def __init__(self, *, falling: bool, stripe: object, **settings: Any) -> None:
        super().__init__(**settings)
        self.falling, self.stripe = falling, stripe


class StripedHandler(HandlerPatch):
    """The handler with which a legend draws a Striped."""

    def create_artists(self, legend: Any, orig_handle: Artist, *place: Any) -> list[Artist]:
        """Return the box, and its stripes on top."""
        box = super().create_artists(legend, orig_handle, *place)
        xdescent, ydescent, width, height, _, trans = place
        assert isinstance(orig_handle, Striped)
        look: Any = {"color": orig_handle.stripe, "linewidth": WIDTH, "transform": trans, "solid_capstyle": "butt"}
        lines = [
            Line2D([x0 - xdescent, x1 - xdescent], [y0 - ydescent, y1 - ydescent], **look)
            for (x0, y0), (x1, y1) in stripes(width, height, falling=orig_handle.falling)
        ]
        return [*box, *lines]


POINTS = 72  # to the inch
DIGIT = 0.64  # width of a digit of DejaVu Sans, of its size
WIDE = 0.85  # of a figure, that a title may take
DOTS = 300  # to the inch, in PNG
TALLEST = 9.0  # inches of a page
GREY, PALE, RED = "0.35", "0.94", "#b2182b"
SETTINGS: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib, so that it is everywhere
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width"), 0.5),
    **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 2.5),
    "text.parse_math": False,  # a name may hold a dollar
    "svg.fonttype": "none",
    "svg.hashsalt": "pipesched",
    "pdf.fonttype": 42,
}
Key = tuple[Artist | tuple[Artist, ...], str]  # an entry of a legend: a swatch, or several in a row, and what it means
METADATA: dict[str, dict[str, str | None]] = {  # no dates, no versions
    "svg": {"Date": None, "Creator": "pipesched"},
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": "pipesched", "Producer": None},
    "png": {"Software": "pipesched"},
}


class Drawing(Figure):
    """A figure that a notebook shows just as a file holds it; its `view` says how it looks."""

    view: View

    def _repr_svg_(self) -> str:
        return image(self, "svg").decode()


@contextmanager
def our_settings(font: float = FONT) -> Iterator[None]:
    """Let matplotlib draw and write with our settings alone, inside the block, text in `font` points."""
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in letters that the font lacks: boxes
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        mpl.rcParams.update(dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize", "figure.titlesize"), font))
        mpl.rcParams.update(dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), font - 0.5))
        yield


@contextmanager
def sheet(view: View, height: float) -> Iterator[Drawing]:
    """Yield an empty figure, but for a title, `height` inches high, to be drawn inside the block."""
    with our_settings(view.font_size):
        engine = ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, hspace=0.02, wspace=0.03)
        figure = Drawing(figsize=(view.inches, height), dpi=POINTS, layout=engine)  # matplotlib's pixels are points
        figure.view = view
        if view.title:
            figure.suptitle(view.title)
        yield figure


def font(less: float = 0) -> float:
    """Return the points of text in the figure that is being drawn, `less` for what is smaller."""
    return float(mpl.rcParams["font.size"]) - less


def settle(figure: Drawing) -> None:
    """Lay out the figure for good, so that what depends on final positions can be drawn."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    figure.set_layout_engine("none")


def image(figure: Figure, kind: str) -> bytes:
    """Return the figure as the content of a file; `kind` is svg, png or pdf."""
    buffer = io.BytesIO()
    with our_settings():
        figure.savefig(buffer, format=kind, dpi=DOTS, metadata=METADATA[kind])
    return buffer.getvalue()


def plot_axes(figure: Figure) -> Axes:
    """Return axes with a pale grid behind what is drawn, and no lines at the right and above."""
    axes = figure.add_subplot()
    axes.grid(linewidth=0.3, color="0.88")
    axes.set_axisbelow(True)
    axes.spines[["right", "top"]].set_visible(False)
    return axes


def plain_numbers(*along: Axis) -> None:
    """Put plain numbers along these axes."""
    for axis in along:
        axis.set_major_formatter(lambda value, _: number(int(value) if value == int(value) else value))


def wrapped(text: str, inches: float) -> str:
    """Return a text on as many lines as it needs in a figure of that width, beside the names of its devices."""
    return "\n".join(wrap(text, int(WIDE * inches * POINTS / (font() * DIGIT))))


def legend(figure: Drawing, entries: Sequence[Key]) -> None:
    """Add a legend where the view of the figure says; below everything it has as few rows as its width allows."""
    place = figure.view.legend
    handles: Any = [handle for handle, _ in entries]
    labels = [wrapped(label, figure.get_figwidth()) for _, label in entries]
    look: Any = {"frameon": False, "handlelength": 2.4, "handleheight": 1.0}
    look["loc"] = "outside right upper" if place == "right" else "outside lower center"
    look |= {"handletextpad": 0.5, "columnspacing": 1.6, "borderpad": 0.2}
    look["handler_map"] = {tuple: HandlerTuple(ndivide=None, pad=0), Striped: StripedHandler()}
    for rows in range(1, len(entries) + 1) if place == "below" else [len(entries)] * (place == "right"):
        box = figure.legend(handles, labels, ncols=ceil_div(len(entries), rows), **look)
        if box.get_window_extent().width <= figure.bbox.width:
            return
        if rows < len(entries):
            box.remove()
