"""What one device can have of equal items: for each number of them, the options that no other one beats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import product, takewhile
from math import inf
from operator import le
from typing import NamedTuple

from pipesched.core.clock import look
from pipesched.estimation.cutting.costs import ChunkCost, ChunkCosts
from pipesched.estimation.cutting.end_cuts import EndChunk, EqualRun

MOST_OPTIONS = 400  # for one number of items; above that the method gives up

Growing = Sequence[tuple[int, ChunkCost]]  # a chunk with more and more equal items: how many, and its costs


class TooManyOptions(Exception):
    """Raised when a device has too many incomparable options; another method must answer."""


@dataclass(frozen=True)
class ChunkLimits:
    """The most that a device may have: equal items in a chunk, work of a chunk, of all, bytes above its capacity."""

    longest: int
    chunk: float = inf
    device: float = inf
    excess: float = inf


class DeviceOption(NamedTuple):
    """Counts of equal items in the chunks of a device, their work, and their bytes for each vector in flight."""

    work: int
    held: tuple[int, ...]
    counts: tuple[int, ...]


class DeviceOptions:
    """The options of each device, found once for devices that are the same."""

    def __init__(self, costs: ChunkCosts, run: EqualRun) -> None:
        self.costs, self.run = costs, run
        self._known: dict[tuple[object, ...], list[list[DeviceOption]]] = {}

    def chunk(self, end: EndChunk, count: int) -> ChunkCost:
        """Return the costs of a chunk with `count` equal items."""
        return self.costs.at(*end.span(self.run, count))

    def of(
        self, device: int, chunks: Sequence[EndChunk], limits: ChunkLimits, *, bytes_only: bool = False
    ) -> list[list[DeviceOption]]:
        """Return the best options for each number of equal items, the least first; `bytes_only`: whatever the work."""
        problem = self.costs.problem
        capacity = problem.capacity[device]
        vectors = problem.held[device] if capacity is not None else ()
        key = (tuple(chunks), vectors, capacity, limits, bytes_only)
        if key not in self._known:
            most = inf if capacity is None else capacity + limits.excess
            growing = [[self._growing(chunk, limits, bytes_only=bytes_only)] for chunk in chunks]
            found = options_of(growing, vectors, limits.device, most)
            self._known[key] = [found[count] for count in sorted(found)]
        return self._known[key]

    def _growing(self, end: EndChunk, limits: ChunkLimits, *, bytes_only: bool) -> Growing:
        """Return the counts that a chunk may have, and its costs with them."""
        counts = range(end.least, (0 if end.is_fixed else min(limits.longest, self.run.items)) + 1)
        chunks = takewhile(
            lambda one: one[1].work <= limits.chunk, ((count, self.chunk(end, count)) for count in counts)
        )
        return [(count, chunk._replace(work=0)) for count, chunk in chunks] if bytes_only else [*chunks]


def options_of(
    chunks: Sequence[Sequence[Growing]], vectors: Sequence[Sequence[int]], most_work: float, most_bytes: float
) -> dict[int, list[DeviceOption]]:
    """Return the options of a device by their number of equal items; each chunk may be one of some growing ones."""
    states = {0: [DeviceOption(0, (0,) * len(vectors), ())]}
    for place, growing in enumerate(chunks):
        rows = [
            [
                (count, chunk.work, tuple(chunk.static + vector[place] * chunk.activation for vector in vectors))
                for count, chunk in row
            ]
            for row in growing
        ]
        after: dict[int, list[DeviceOption]] = {}
        for (total, options), row in product(states.items(), rows):
            look()
            for option in options:
                for count, more, held in row:
                    work, both = option.work + more, tuple(map(sum, zip(option.held, held, strict=True)))
                    if work > most_work or (both and max(both) > most_bytes):
                        break
                    after.setdefault(total + count, []).append(DeviceOption(work, both, (*option.counts, count)))
        states = {total: _unbeaten(options) for total, options in after.items()}
    return states


def _unbeaten(options: list[DeviceOption]) -> list[DeviceOption]:
    """Return the options than which no other has as little work and as few bytes; of equals the most even one."""
    kept: list[DeviceOption] = []
    for option in sorted(
        options, key=lambda its: (its.work, its.held, max(its.counts), [-count for count in its.counts])
    ):
        if not any(all(map(le, other.held, option.held)) for other in kept):
            kept.append(option)
    if len(kept) > MOST_OPTIONS:
        raise TooManyOptions
    return kept


def least_limit(values: Sequence[Sequence[int]], count: int) -> tuple[int, list[int]] | None:
    """Return the least limit under which devices have `count` more items than their fewest, and how many each has.

    `values` are what each device has of a cost with its fewest equal items, with one more, and so on. None where they
    cannot have as many.
    """
    if count < 0 or not all(values):
        return None
    limit, more = max(value[0] for value in values), [0] * len(values)
    heap = [(value[1], device) for device, value in enumerate(values) if len(value) > 1]
    heapify(heap)
    for _ in range(count):
        if not heap:
            return None
        value, device = heappop(heap)
        limit, more[device] = max(limit, value), more[device] + 1
        if more[device] + 1 < len(values[device]):
            heappush(heap, (values[device][more[device] + 1], device))
    return limit, more
