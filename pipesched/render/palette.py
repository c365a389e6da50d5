"""Colours, by `colour_of`: hue by microbatch, shade by kind, chunk, slice; of narrow slots hue by kind, shade by chunk.

Terminals of 16 colours have one for each kind. Of each class of idle time its letter, its style and its name.

The hues are Paul Tol's "muted" set and Okabe and Ito's, reordered so that neighbours differ in lightness too. So they
stay apart for colour-blind eyes, and carry their own text colour, so they read on dark and on light terminals.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from math import log
from typing import NamedTuple

from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from pipesched.core.reasons import Idle

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
# The lightness of a kind in the first chunk of a device, then in the last: of the darkest hue (or the first slice), and
# of the lightest. F, I and W are a step of 1.6 apart whatever their microbatches: prints in grey tell them apart.
LIGHT = {"F": (0.22, 0.335, 0.33, 0.41), "B": (0.096, 0.136, 0.15, 0.205), "I": (0.092, 0.133, 0.145, 0.2)}
LIGHT |= dict.fromkeys("WR", (0.55, 0.68, 0.67, 0.8)) | {"O": (0.4, 0.6, 0.5, 0.7), "L": (0.13, 0.2, 0.2, 0.3)}
LIGHT |= {"E": (0.7, 0.85, 0.7, 0.85), "G": (0.06, 0.09, 0.06, 0.09)}
LIGHT |= {f"SEND_{kind}": LIGHT[kind] for kind in "FBEG"}
KIND_LIGHT = {"F": (0.205, 0.3), "B": (0.345, 0.5), "I": (0.105, 0.18), "W": (0.58, 0.82)}  # of hues of kinds
KIND_LIGHT |= {"R": (0.45, 0.6), "O": (0.46, 0.6), "L": (0.17, 0.3)}
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
MOST_SHADES = 4  # of chunks; further ones look like the last
STRIPE = 2.2  # how many times darker stripes are than what they are on
PALER = 0.4  # the share of white in the hue of the last chunk
DULLER = {"R": 0.6, "I": 0.15}  # of grey in that of a kind
BREAK = "≈"
DIM = Style(dim=True)
BREAK_MARKS = Segment(BREAK, DIM), Segment("/", DIM)  # of what stands where time is left out: the second in ASCII
OVER = Style(color="red", bold=True)


def _mix(colour: Rgb, other: Rgb, part: float) -> Rgb:
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(colour, other, strict=True))
    return red, green, blue


def _linear(colour: Rgb) -> list[float]:
    return [v / 12.92 if (v := part / 255) <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for part in colour]


def lightness(colour: Rgb) -> float:
    """Return the luminance of a colour, from 0.05 to 1.05: the contrast of two colours is its ratio (WCAG)."""
    red, green, blue = _linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05


@cache
def ends_of_hues() -> tuple[float, float]:
    """Return the logarithms of the lightness of the darkest and the lightest hue."""
    found = [log(lightness(hue)) for hue in HUES]
    return min(found), max(found)


def _as_light(colour: Rgb, light: float) -> Rgb:
    """Return a colour of this lightness: a darker one keeps its hue, a lighter one has white in it."""
    parts, now, wanted = _linear(colour), lightness(colour) - 0.05, light - 0.05
    share = max(0.0, (wanted - now) / (1 - now))
    parts = [part + (1 - part) * share if share else part * wanted / now for part in parts]
    red, green, blue = (round(255 * (p * 12.92 if p <= 0.0031308 else 1.055 * p ** (1 / 2.4) - 0.055)) for p in parts)
    return red, green, blue


def stripe_of(colour: Rgb) -> Rgb:
    """Return the colour of stripes on `colour`, which is a light one."""
    return _as_light(colour, lightness(colour) / STRIPE)


@lru_cache(maxsize=4096)
def colour_of(microbatch: int | None, kind: str, chunk: int = 0, chunks: int = 1, place: float | None = None) -> Rgb:
    """Return the colour of a slot: hue by microbatch, shade by kind and chunk; without a microbatch hue by kind.

    `place` is that of a slice in its microbatch, from 0 to 1, later ones are lighter; None of a whole microbatch.
    """
    last = min(chunk / min(chunks - 1, MOST_SHADES - 1), 1.0) if chunks > 1 else 0.0
    if microbatch is None and kind in STEP_HUES:
        return _mix(STEP_HUES[kind], WHITE, 0.7 * last)
    hue = HUES[KIND_HUE[kind] if microbatch is None else microbatch % len(HUES)]
    if microbatch is None:
        first, end = KIND_LIGHT[kind]
    else:
        darkest, lightest = ends_of_hues()
        place = (log(lightness(hue)) - darkest) / (lightest - darkest) if place is None else place
        first, end = (low ** (1 - place) * high**place for low, high in (LIGHT[kind][:2], LIGHT[kind][2:]))
        hue = _mix(hue, GREY, DULLER.get(kind, 0))
    return _as_light(_mix(hue, WHITE, PALER * last), first ** (1 - last) * end**last)


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
def ink(number: int) -> Style:
    """Return the style of the marks of a line or a row: the colour of the forward of a microbatch as a foreground."""
    return Style(color=fill(number, "F").bgcolor)


class ColumnMark(NamedTuple):
    """What a column of the line shows: a letter, its style in colour, and its meaning."""

    letter: str
    style: Style
    meaning: str


CRITICAL = ColumnMark("*", Style(bold=True), "critical path")
IDLE_MARKS: Mapping[Idle, ColumnMark] = {
    Idle.WARM_UP: ColumnMark("u", Style(color="white", bgcolor="blue"), "warm-up"),
    Idle.WAIT: ColumnMark("w", Style(color="black", bgcolor="yellow"), "wait"),
    Idle.TRANSFER: ColumnMark("t", Style(color="black", bgcolor="cyan"), "transfer"),
    Idle.QUEUE: ColumnMark("q", Style(color="white", bgcolor="black"), "queue"),
    Idle.ORDER: ColumnMark("o", Style(color="white", bgcolor="magenta"), "order"),
    Idle.MEMORY: ColumnMark("m", Style(color="white", bgcolor="red"), "memory"),
    Idle.DRAIN: ColumnMark("d", Style(color="black", bgcolor="green"), "drain"),
    Idle.LATE: ColumnMark("l", Style(color="black", bgcolor="white"), "late"),
    Idle.MESSAGE: ColumnMark("s", Style(color="white", bgcolor="cyan"), "message"),
    Idle.RUNTIME: ColumnMark("r", Style(color="black", bgcolor="white"), "runtime"),
}
MARKS = (CRITICAL, *IDLE_MARKS.values())
