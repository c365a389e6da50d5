"""Whether a small system of linear inequalities has a point of whole numbers, exactly.

Dual simplex with Bland's rule in rationals (Bland 1977), then branching on a variable that is no whole number. Made for
a handful of variables: nothing is imported, and no answer depends on rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from pipesched.core.clock import look

MOST_NODES, FEWEST_NODES = 200, 4  # systems that are solved before the answer is left open
MOST_ENTRIES = 20_000  # of all these systems together
LIMIT, SCALE = -2, -1  # the last two entries of a row


def may_hold(rows: Sequence[Sequence[int]], limits: Sequence[int]) -> bool:
    """Return False if no whole numbers x >= 0 keep every row (the sum of row[j] x[j] is at most its limit).

    True says that there are such numbers, or that branching was given up before that could be told.
    """
    if all(limit >= 0 for limit in limits):
        return True  # x = 0
    waiting: list[tuple[list[list[int]], list[int]]] = [([*map(list, rows)], list(limits))]
    nodes = MOST_ENTRIES // (len(rows) * len(rows[0]))
    for _ in range(min(max(nodes, FEWEST_NODES), MOST_NODES)):
        if not waiting:
            return False
        look()
        system, most = waiting.pop()
        point = _point(system, most)
        if point is None:
            continue
        broken = next((number for number, (value, scale) in enumerate(point) if value % scale), None)
        if broken is None:
            return True
        below = point[broken][0] // point[broken][1]
        unit = [int(number == broken) for number in range(len(point))]
        waiting.append(([*system, unit], [*most, below]))
        waiting.append(([*system, [-one for one in unit]], [*most, -below - 1]))
    return True


def _point(rows: Sequence[Sequence[int]], limits: Sequence[int]) -> list[tuple[int, int]] | None:
    """Return a rational point x >= 0 that keeps every row, as numbers and their scales; None if there is none."""
    count = len(rows[0])
    table = [[*row, limit, 1] for row, limit in zip(rows, limits, strict=True)]
    outside, inside = list(range(count)), list(range(count, count + len(rows)))  # variables at 0, and the others
    while True:
        below = (number for number, row in enumerate(table) if row[LIMIT] < 0)
        leaving = min(below, key=inside.__getitem__, default=None)
        if leaving is None:
            point = [(0, 1)] * count
            for variable, row in zip(inside, table, strict=True):
                if variable < count:
                    point[variable] = row[LIMIT], row[SCALE]
            return point
        negative = (column for column in range(count) if table[leaving][column] < 0)
        entering = min(negative, key=outside.__getitem__, default=None)
        if entering is None:
            return None
        _pivot(table, leaving, entering)
        outside[entering], inside[leaving] = inside[leaving], outside[entering]


def _pivot(table: list[list[int]], leaving: int, entering: int) -> None:
    """Exchange the variable of a row with that of a column, where the row has an entry below 0.

    A row says that scale x its variable is the limit less the sum of entry x variable; the scale is above 0.
    """
    row = table[leaving]
    scale, added = -row[entering], -row[SCALE]
    new = [-entry for entry in row]
    new[entering], new[SCALE] = added, scale
    for number, other in enumerate(table):
        part = other[entering]
        if number == leaving or not part:
            continue
        other[entering] = 0
        size = other[SCALE] * scale
        changed = [entry * scale - part * mine for entry, mine in zip(other, new, strict=True)]
        changed[SCALE] = size
        common = gcd(*changed)
        table[number] = [entry // common for entry in changed]
    table[leaving] = new
