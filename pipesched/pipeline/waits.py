"""From the order in which a device's memory is taken and given back to wait edges that keep it.

In a plan without times, a load may come back too early, and a forward may start before the offload that makes room for
it has ended. So whatever takes memory waits for all that gave some back before it in a known good order. Then, in any
replay, whoever took last in that order finds given back at least what was given back there, and taken at most what was
taken there: the memory never rises above its peak in that order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Change(NamedTuple):
    """An operation that takes memory at its start, or gives some back at its end; on a lane, or in a slot."""

    number: int
    gives: bool
    on_lane: bool


def memory_waits(changes: Iterable[Change]) -> Iterator[tuple[int, int]]:
    """The wait edges (before, after) for the memory of one device, whose changes come in a good order.

    Slots wait for each other by their order, and so do the offloads; the edges join the two. A slot gives when it
    ends, so in the good order no slot that takes comes before a slot that gives and runs earlier.
    """
    slot = offload = None
    for change in changes:
        if change.gives and change.on_lane:
            offload = change.number
        elif change.gives:
            slot = change.number
        else:
            if change.on_lane and slot is not None:
                yield slot, change.number
            if offload is not None:
                yield offload, change.number
