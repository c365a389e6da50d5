"""Placing the names of points near their own mark, clear of other names, marks and lines. Lengths are points."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot
from typing import NamedTuple

DIRECTIONS = ((1, 1), (1, 0), (1, -1), (-1, 1), (-1, 0), (-1, -1), (0, 1), (0, -1))  # best first
REACHES = (5, 12, 22, 34, 48)  # from a mark to its name
MARK = 3  # half the size of a mark
MARGIN = 1.5  # kept free around a name
# What costs how much: a square point on something else, and off the axes; a mark under a name; another mark that is
# nearer than its own; a line that runs through something.
OVERLAP, OUTSIDE, COVERED, MISLEADING, CROSSING = 4, 10, 100, 60, 60
Spot = tuple[float, float]


class Box(NamedTuple):
    """A rectangle that something covers."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def area(self) -> float:
        """Width times height."""
        return (self.right - self.left) * (self.top - self.bottom)

    @property
    def centre(self) -> Spot:
        """The middle of the box."""
        return (self.left + self.right) / 2, (self.bottom + self.top) / 2

    def padded(self, margin: float) -> Box:
        """Return the box with a margin around."""
        return Box(self.left - margin, self.bottom - margin, self.right + margin, self.top + margin)

    def common(self, other: Box) -> float:
        """Return the area that both boxes cover."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.top, other.top) - max(self.bottom, other.bottom)
        return wide * high if wide > 0 and high > 0 else 0.0

    def distance(self, spot: Spot) -> float:
        """Return the distance from a spot to the nearest point of the box."""
        nearest = self.nearest(spot)
        return hypot(spot[0] - nearest[0], spot[1] - nearest[1])

    def nearest(self, spot: Spot) -> Spot:
        """Return the point of the box that is nearest to a spot."""
        return min(max(spot[0], self.left), self.right), min(max(spot[1], self.bottom), self.top)


def place_names(marks: Sequence[Spot], sizes: Sequence[Spot], lines: Sequence[Box], inside: Box) -> list[Box]:
    """Return a box for the name of each mark, chosen in their order; `sizes` are widths and heights of the names."""
    taken, chosen = list(lines), []
    for mark, size in zip(marks, sizes, strict=True):
        others = [other for other in marks if other != mark]
        boxes = [(_beside(mark, size, direction, reach), reach) for reach in REACHES for direction in DIRECTIONS]
        best, _ = min(boxes, key=lambda pair: pair[1] + _cost(pair[0], mark, others, taken, inside))
        chosen.append(best)
        taken.append(best.padded(MARGIN))
    return chosen


def _beside(mark: Spot, size: Spot, direction: tuple[int, int], reach: float) -> Box:
    """Return the box of a name that stands `reach` away from its mark, in that direction."""
    (x, y), (width, height), (right, up) = mark, size, direction
    left = x + right * reach - (width if right < 0 else 0 if right else width / 2)
    bottom = y + up * reach - (height if up < 0 else 0 if up else height / 2)
    return Box(left, bottom, left + width, bottom + height)


def _cost(box: Box, mark: Spot, others: Sequence[Spot], taken: Sequence[Box], inside: Box) -> float:
    """Return how bad it is for a name to stand in `box`."""
    own = box.distance(mark)
    cost = OVERLAP * sum(map(box.common, taken)) + OUTSIDE * (box.area - box.common(inside))
    cost += COVERED * sum(box.distance(other) < MARK for other in others)
    if needs_line(box, mark):
        return cost + CROSSING * sum(_crosses(mark, box.centre, other) for other in taken)
    return cost + MISLEADING * sum(box.distance(other) <= own for other in others)


def needs_line(box: Box, mark: Spot) -> bool:
    """Return whether a name is so far from its mark that only a line says whose it is."""
    return box.distance(mark) > 2 * REACHES[0]


def _crosses(start: Spot, end: Spot, box: Box) -> bool:
    """Return whether a line passes through a box that neither end is in."""
    across, up = end[0] - start[0], end[1] - start[1]
    inside = [box.distance((start[0] + across * part / 8, start[1] + up * part / 8)) == 0 for part in range(9)]
    return any(inside) and not inside[0] and not inside[-1]
