"""The spread of what was measured several times."""

from __future__ import annotations

from typing import NamedTuple


class Quartiles(NamedTuple):
    """The first quartile, the median and the third quartile of measured lengths, in the unit of what has them."""

    q1: int | float
    median: int | float
    q3: int | float
