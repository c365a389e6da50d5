"""Idle times of devices, and work that is put into them one after another, each as early as it can end.

List scheduling (Graham 1969) on machines that are free only now and then. Behind its last slot a device is free without
end, so that all work finds a place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import NamedTuple

from pipesched.core.clock import EVERY, look
from pipesched.pipeline.ops import Op

LOOK = 32  # gaps of a device that are looked at for one piece of work, before its last


class FreeTime(NamedTuple):
    """A time in which a device is free: `place` says between which slots that is; `high` None: without end."""

    place: int
    low: int
    high: int | None


class SideTask(NamedTuple):
    """An operation and, for each device that may run it, from when on and for how long."""

    op: Op
    choices: Sequence[tuple[int, int, int]]  # (device, ready, length)


class Placed(NamedTuple):
    """Where an operation stands: on which device, and in which of its gaps."""

    op: Op
    device: int
    place: int


def fill(gaps: Sequence[Sequence[FreeTime]], works: Iterable[SideTask], loads: list[int]) -> list[Placed]:
    """Return a place for each work, one after another; `gaps` are those of each device, in order of time.

    Each goes where it ends first, of equals to the device that has less of it: `loads` counts that, and is updated.
    """
    devices = [_FreeDevice(one) for one in gaps]
    placed = []
    for step, work in zip(count(1), works):
        if not step & EVERY:
            look()
        best: tuple[int, int, int] | None = None
        chosen = length = ready = 0
        for device, since, lasts in work.choices:
            end, gap = devices[device].first_end(since, lasts)
            if best is None or (end, loads[device]) < best[:2]:
                best, chosen, length, ready = (end, loads[device], gap), device, lasts, since
        assert best is not None
        place = devices[chosen].put(best[2], best[0], ready)
        loads[chosen] += length
        placed.append(Placed(work.op, chosen, place))
    return placed


class _FreeDevice:
    """The gaps of a device; work fills each of them from its beginning."""

    def __init__(self, gaps: Sequence[FreeTime]) -> None:
        self.places = [gap.place for gap in gaps]
        self.lows = [gap.low for gap in gaps]
        self.highs = [gap.high for gap in gaps]
        self.first = 0

    def first_end(self, ready: int, length: int) -> tuple[int, int]:
        """Return when work of a length can end first, and in which gap that is."""
        last = len(self.lows) - 1
        room = max(length, 1)  # work of no length would fit a gap that ends as it gets ready, before what it waits for
        for gap in range(self.first, min(self.first + LOOK, last)):
            start = max(self.lows[gap], ready)
            high = self.highs[gap]
            if high is not None and start + room <= high:
                return start + length, gap
        return max(self.lows[last], ready) + length, last

    def put(self, gap: int, end: int, ready: int) -> int:
        """Fill a gap up to `end`, and return its place; gaps that are over before `ready` are left behind."""
        self.lows[gap] = end
        while self.first < len(self.lows) - 1:
            high = self.highs[self.first]
            if high is not None and max(self.lows[self.first], ready) < high:
                break
            self.first += 1
        return self.places[gap]
