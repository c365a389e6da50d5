"""Colours of the chart: hue by microbatch, shade by kind, chunk and slice; of narrow slots hue by kind, shade by chunk.

Terminals of 16 colours have one for each kind.

The hues are Paul Tol's "muted" set and Okabe and Ito's, reordered so that neighbours differ in lightness too. So they
stay apart for colour-blind eyes, and carry their own text colour, so they read on dark and on light terminals.
"""

from __future__ import annotations

from functools import lru_cache

from rich.color import Color
from rich.segment import Segment
from rich.style import Style

Rgb = tuple[int, int, int]

HUES: tuple[Rgb, ...] = (
    (0, 114, 178),  # blue
    (230, 159, 0),  # orange
    (0, 158, 115),  # green
    (204, 102, 153),  # rose
    (86, 180, 233),  # sky
    (190, 72, 22),  # vermilion
    (153, 153, 51),  # olive
    (126, 87, 178),  # purple
)
WHITE, GREY, BLACK = (255, 255, 255), (128, 128, 128), (0, 0, 0)
KIND_SHADE = {"F": (WHITE, 0.0), "B": (BLACK, 0.42), "I": (BLACK, 0.24), "W": (WHITE, 0.55), "R": (GREY, 0.7)}
KIND_SHADE |= {"O": (WHITE, 0.3), "L": (BLACK, 0.25), "E": (WHITE, 0.78), "G": (BLACK, 0.68)}
KIND_SHADE |= {f"SEND_{kind}": KIND_SHADE[kind] for kind in "FBEG"}
STEP_HUES: dict[str, Rgb] = {  # of kinds of the step, where no microbatch has their hue; Tol's too
    "UNSHARD": (221, 204, 119),  # sand
    "REDUCE_GRAD": (136, 34, 85),  # wine
    "REDUCE_TIED": (51, 34, 136),  # indigo
    "OPTIMIZER": (60, 64, 72),  # slate, as the next two
    "E": (180, 187, 194),
    "G": (112, 119, 126),
    "SEND_F": (136, 204, 238),  # Tol's cyan and purple, so of side work
    "SEND_B": (170, 68, 153),
    "SEND_E": (136, 204, 238),
    "SEND_G": (170, 68, 153),
}
KIND_HUE = {"F": 0, "B": 1, "I": 5, "W": 2, "R": 3, "O": 4, "L": 7}
KIND_ANSI = {"F": "blue", "B": "yellow", "I": "red", "W": "green", "R": "magenta", "O": "cyan", "L": "white"}
KIND_ANSI |= {"UNSHARD": "bright_yellow", "REDUCE_GRAD": "bright_red", "REDUCE_TIED": "bright_magenta"}
KIND_ANSI |= {"OPTIMIZER": "bright_black", "E": "bright_cyan", "G": "bright_blue"}
KIND_ANSI |= {f"SEND_{kind}": colour for kind, colour in zip("FBEG", ("cyan", "magenta") * 2, strict=True)}
WHITE_ON = ("F", "I", "R", "REDUCE_TIED", "OPTIMIZER", "G")  # of these colours
FALLING = {"W": False, "R": True}  # the stripes of a kind in figures: whether they fall from left to right
CHUNK_STEP = 0.34  # each further chunk of a device is this much lighter
SLICE_DARKEST, SLICE_SPAN = 1.2, 0.7  # of a shade with black in it: that of the first slice, and how far the last is
SLICE_LIGHTER = 0.4  # of other shades: so much lighter is the last slice; half of that where there are chunks too
BREAK, ASCII_BREAK = "≈", "/"
PAIR_STYLE = Style(italic=True, underline=True)
CRITICAL_STYLE = Style(underline=True, bold=True)
DIM = Style(dim=True)
OVER = Style(color="red", bold=True)


def _mix(colour: Rgb, other: Rgb, part: float) -> Rgb:
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(colour, other, strict=True))
    return red, green, blue


def colour_of(microbatch: int | None, kind: str, chunk: int = 0, chunks: int = 1, place: float | None = None) -> Rgb:
    """Return the colour of a slot: hue by microbatch, shade by kind and chunk; without a microbatch hue by kind.

    `place` is that of a slice in its microbatch, from 0 to 1, later ones are lighter; None of a whole microbatch.
    """
    if microbatch is None:
        hue = STEP_HUES[kind] if kind in STEP_HUES else HUES[KIND_HUE[kind]]
    else:
        hue = HUES[microbatch % len(HUES)]
    other, share = KIND_SHADE.get(kind, (WHITE, 0.0))
    if place is not None and other == BLACK:
        share *= SLICE_DARKEST - SLICE_SPAN * place
    elif place is not None:
        share += (1 - share) * SLICE_LIGHTER * place / min(chunks, 2)
    colour = hue if microbatch is None else _mix(hue, other, share)
    if chunks > 1:
        colour = _mix(colour, WHITE, min(CHUNK_STEP * chunk, 0.7) if chunk else 0.0)
    return colour


def place_of(part: int, slices: int) -> float | None:
    """Return the place of a slice in its microbatch, as `colour_of` takes it."""
    return part / (slices - 1) if slices > 1 else None


def text_on(colour: Rgb) -> Rgb:
    """Return black or white, whichever reads on `colour`."""
    red, green, blue = colour
    return BLACK if 0.299 * red + 0.587 * green + 0.114 * blue > 125 else WHITE


@lru_cache(maxsize=4096)
def fill(microbatch: int | None, kind: str, chunk: int = 0, chunks: int = 1, place: float | None = None) -> Style:
    """Return the style of a filled slot: a background as of `colour_of`, and a text colour that reads on it."""
    colour = colour_of(microbatch, kind, chunk, chunks, place)
    return Style(color=Color.from_rgb(*text_on(colour)), bgcolor=Color.from_rgb(*colour))


def fill_of_kind(kind: str) -> Style:
    """Return the style of a filled slot in a terminal of 16 colours."""
    return Style(color="white" if kind in WHITE_ON else "black", bgcolor=KIND_ANSI[kind])


@lru_cache(maxsize=4096)
def ink(microbatch: int | None, kind: str, chunk: int = 0, chunks: int = 1) -> Style:
    """Return the style of marks and lines: the colour of `fill` as a foreground."""
    return Style(color=fill(microbatch, kind, chunk, chunks).bgcolor)


def break_mark(*, ascii_only: bool) -> Segment:
    """Return what stands where time is left out."""
    return Segment(ASCII_BREAK if ascii_only else BREAK, DIM)
