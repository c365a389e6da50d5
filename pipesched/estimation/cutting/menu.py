"""What one device can have of items that are all alike: for each number of them, the ways that no other one beats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

from pipesched.core.clock import look
from pipesched.estimation.cutting.costs import Amount, Chunk, Costs
from pipesched.estimation.cutting.shapes import Alike, Part

MOST_WAYS = 400  # for one number of items; above that the method gives up


class TooManyWays(Exception):
    """Raised when a device has too many incomparable ways; another method must answer."""


@dataclass(frozen=True)
class Limits:
    """The most that a device may have: alike items in a chunk, work of a chunk, of all, bytes above its capacity."""

    longest: int
    chunk: float = inf
    device: float = inf
    excess: Amount | float = inf


class Way(NamedTuple):
    """Counts of alike items in the chunks of a device, their work, and their bytes for each vector in flight."""

    work: int
    held: tuple[Amount, ...]
    counts: tuple[int, ...]


class Menu:
    """The ways of each device, found once for devices that are the same."""

    def __init__(self, costs: Costs, alike: Alike) -> None:
        self.costs, self.alike = costs, alike
        self._known: dict[tuple[object, ...], list[list[Way]]] = {}

    def chunk(self, part: Part, count: int) -> Chunk:
        """Return the costs of a part with `count` alike items."""
        return self.costs.at(*part.run(self.alike, count))

    def ways(self, device: int, parts: Sequence[Part], limits: Limits, *, bytes_only: bool = False) -> list[list[Way]]:
        """Return the best ways for each number of alike items, from the least on; empty where nothing is possible.

        With `bytes_only` work does not count.
        """
        question = self.costs.question
        capacity = question.capacity[device]
        vectors = question.held[device] if capacity is not None else ()
        key = (tuple(parts), vectors, capacity, limits, bytes_only)
        if key not in self._known:
            most = inf if capacity is None else capacity + limits.excess
            self._known[key] = self._found(parts, vectors, limits, most, bytes_only)
        return self._known[key]

    def _found(
        self,
        parts: Sequence[Part],
        vectors: tuple[tuple[int, ...], ...],
        limits: Limits,
        most: Amount | float,
        bytes_only: bool,
    ) -> list[list[Way]]:
        states = {0: [Way(0, (0,) * len(vectors), ())]}
        for place, part in enumerate(parts):
            added = [
                (count, chunk, tuple(chunk.static + vector[place] * chunk.activation for vector in vectors))
                for count, chunk in self._options(part, limits)
            ]
            after: dict[int, list[Way]] = {}
            for total, ways in states.items():
                look()
                for way in ways:
                    for count, chunk, held in added:
                        work = 0 if bytes_only else way.work + chunk.work
                        both = tuple(map(sum, zip(way.held, held, strict=True)))
                        if work > limits.device or (both and max(both) > most):
                            break
                        after.setdefault(total + count, []).append(Way(work, both, (*way.counts, count)))
            states = {total: _unbeaten(ways) for total, ways in after.items()}
        return [states[total] for total in sorted(states)]

    def _options(self, part: Part, limits: Limits) -> list[tuple[int, Chunk]]:
        """Return the counts that a part may have, and its costs with them."""
        most = 0 if part.is_fixed else min(limits.longest, self.alike.end - self.alike.begin)
        options = []
        for count in range(part.least, most + 1):
            chunk = self.chunk(part, count)
            if chunk.work > limits.chunk:
                break
            options.append((count, chunk))
        return options


def _unbeaten(ways: list[Way]) -> list[Way]:
    """Return the ways than which no other has as little work and as few bytes; of equals the most even one."""
    ordered = sorted(ways, key=lambda way: (way.work, way.held, max(way.counts), [-count for count in way.counts]))
    kept: list[Way] = []
    for way in ordered:
        if not any(all(map(_no_more, other.held, way.held)) for other in kept):
            kept.append(way)
    if len(kept) > MOST_WAYS:
        raise TooManyWays
    return kept


def _no_more(first: Amount, second: Amount) -> bool:
    return first <= second


def least_limit(values: Sequence[Sequence[Amount]], count: int) -> tuple[Amount, list[int]] | None:
    """Return the least limit under which devices have `count` more items than their fewest, and how many each has.

    `values` are what each device has of a cost with its fewest alike items, with one more, and so on. None where they
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
