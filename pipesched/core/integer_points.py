"""Whether a small system of linear inequalities has a point of whole numbers, exactly.

Dual simplex with Bland's rule in rationals (Bland 1977), then branching on a variable that is no whole number. Made for
a handful of variables: nothing is imported, and no answer depends on rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor

from pipesched.core.clock import look

MOST_NODES = 200  # systems that are solved before the answer is left open
ZERO = Fraction(0)


def may_hold(rows: Sequence[Sequence[int]], limits: Sequence[int]) -> bool:
    """Return False if no whole numbers x >= 0 keep every row (the sum of row[j] x[j] is at most its limit).

    True says that there are such numbers, or that MOST_NODES systems were not enough to tell.
    """
    if all(limit >= 0 for limit in limits):
        return True  # x = 0
    waiting: list[tuple[list[list[int]], list[int]]] = [([*map(list, rows)], list(limits))]
    for _ in range(MOST_NODES):
        if not waiting:
            return False
        look()
        system, most = waiting.pop()
        point = _point(system, most)
        if point is None:
            continue
        broken = next((number for number, value in enumerate(point) if value.denominator != 1), None)
        if broken is None:
            return True
        below = floor(point[broken])
        unit = [int(number == broken) for number in range(len(point))]
        waiting.append(([*system, unit], [*most, below]))
        waiting.append(([*system, [-one for one in unit]], [*most, -below - 1]))
    return True


def _point(rows: Sequence[Sequence[int]], limits: Sequence[int]) -> list[Fraction] | None:
    """Return a rational point x >= 0 that keeps every row; None if there is none."""
    count = len(rows[0])
    table = [[*map(Fraction, row)] for row in rows]
    slack = [*map(Fraction, limits)]
    outside, inside = list(range(count)), list(range(count, count + len(rows)))  # variables at 0, and the others
    while True:
        leaving = min((number for number, value in enumerate(slack) if value < 0), key=inside.__getitem__, default=None)
        if leaving is None:
            point = [ZERO] * count
            for variable, value in zip(inside, slack, strict=True):
                if variable < count:
                    point[variable] = value
            return point
        row = table[leaving]
        negative = (column for column, entry in enumerate(row) if entry < 0)
        entering = min(negative, key=outside.__getitem__, default=None)
        if entering is None:
            return None
        _pivot(table, slack, leaving, entering)
        outside[entering], inside[leaving] = inside[leaving], outside[entering]


def _pivot(table: list[list[Fraction]], slack: list[Fraction], leaving: int, entering: int) -> None:
    """Exchange the variable of a row with that of a column."""
    row = table[leaving]
    by = row[entering]
    row[entering] = Fraction(1)
    table[leaving] = row = [entry / by for entry in row]
    slack[leaving] /= by
    for number, other in enumerate(table):
        part = other[entering]
        if number == leaving or not part:
            continue
        other[entering] = ZERO
        table[number] = [entry - part * mine for entry, mine in zip(other, row, strict=True)]
        slack[number] -= part * slack[leaving]
