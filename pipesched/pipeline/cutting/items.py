"""What a cut never divides: the items of a model in a row, with what each takes and holds."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple


class CutItems(NamedTuple):
    """What each item takes at speed 1, in a time unit, and holds, in a memory unit; and the latencies between them.

    `gradient` is the time of what must run before the gradient goes on: I, or a whole backward, whose `weight` is 0.
    `pair` is that of a pair F&B where it may be shorter than its parts. `held` is what one microbatch holds of an
    item, in each way to count it: of a stage the largest sum counts. `links` are latencies from device to device that
    the model has beside those of the problem.
    """

    forward: Sequence[Fraction]
    gradient: Sequence[Fraction]
    weight: Sequence[Fraction]
    pair: Sequence[Fraction] | None
    p2p: Sequence[Fraction]
    static: Sequence[Fraction]
    held: Sequence[Sequence[Fraction]]
    links: Sequence[Sequence[Fraction]] | None = None
