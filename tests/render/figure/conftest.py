"""Pictures as a reader sees them: pixels looked up by device and time, and the texts of an SVG."""

from __future__ import annotations

import io
from itertools import groupby
from typing import Any
from xml.etree import ElementTree

from pipesched.render.figure.draw import image_of
from pipesched.render.view import View

Colour = tuple[int, int, int]
IDLE, GREY, RED = (240, 240, 240), (158, 158, 158), (178, 24, 43)


def image(result: Any, kind: str = "svg", **view: Any) -> bytes:
    """The file of a figure; arguments are those of a view."""
    return image_of(result, View(**view), kind)


def picture(result: Any, **view: Any) -> Picture:
    """The figure of a result without labels in slots, as pixels."""
    return Picture(image(result, "png", label="none", **view))


def texts_of(result: Any, **view: Any) -> list[str]:
    """The texts of a figure."""
    return texts(image(result, **view))


class Picture:
    """A chart in PNG. Rows of devices are found by what is drawn: bands from the first start to the last end."""

    def __init__(self, png: bytes) -> None:
        from matplotlib.image import imread

        pixels: Any = (imread(io.BytesIO(png), format="png")[..., :3] * 255).round().astype(int)
        self.pixels = pixels
        self.height, self.width = pixels.shape[:2]
        grey = (pixels.max(axis=2) == pixels.min(axis=2)) & (pixels[..., 0] < 230)  # memory, text, axis
        drawn = (pixels != 255).any(axis=2) & ~grey
        # A row of pixels that crosses a band is drawn from end to end, but for the white lines between slots.
        full = [int(line.sum()) for line in drawn]
        crossing = [count > 0.7 * max(full) for count in full]
        places = [
            (flag, [y for y, _ in group]) for flag, group in groupby(enumerate(crossing), key=lambda entry: entry[1])
        ]
        self.bands = [(rows[0], rows[-1]) for flag, rows in places if flag and len(rows) > 8]
        middle = drawn[sum(self.bands[0]) // 2]
        self.left, self.right = self._ends(middle)

    @staticmethod
    def _ends(line: Any) -> tuple[int, int]:
        """The longest stretch of drawn pixels in a line, white gaps of up to 4 pixels included."""
        best, start, last = (0, 0), 0, -9
        for x in line.nonzero()[0].tolist():
            start, last = (x if x - last > 5 else start), x
            best = max(best, (start, x), key=lambda ends: ends[1] - ends[0])
        return best

    def at(self, device: int, share: float, depth: float = 0.5) -> Colour:
        """The colour in the row of a device: `share` of the makespan from the left, `depth` of the row from above."""
        top, bottom = self.bands[device]
        x = round(self.left + share * (self.right - self.left))
        return self.colour(x, round(top + depth * (bottom - top)))

    def colour(self, x: int, y: int) -> Colour:
        """The colour of a pixel."""
        red, green, blue = self.pixels[y, x].tolist()
        return red, green, blue

    def column(self, device: int, share: float) -> list[Colour]:
        """The pixels from the bottom of a device's row to the top of the next (or to the foot of the picture)."""
        x = round(self.left + share * (self.right - self.left))
        below = self.bands[device + 1][0] if device + 1 < len(self.bands) else self.height
        return [self.colour(x, y) for y in range(self.bands[device][1] + 1, below)]

    def count(self, colour: Colour) -> int:
        """How many pixels have exactly this colour."""
        return int((self.pixels == colour).all(axis=2).sum())


def texts(svg: bytes) -> list[str]:
    """The text elements of an SVG, in order."""
    nodes = (node for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("}text"))
    return ["".join(node.itertext()).strip() for node in nodes]
