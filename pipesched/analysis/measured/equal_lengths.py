"""The clocks at which operations of a kind take most nearly equal times, where ranges hold their waiting.

What a range took without waiting is its end less the later of its start and the arrival of its input. Operations of a
kind take about the same time, whether they waited or not, so at wrong clocks those that waited stand out. Arrival is
sent + ahead + latency: the two directions between a pair of ranks each tell one such sum, their difference is twice
what one clock is ahead, and their sum twice the latency, which is at least 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from pipesched.analysis.measured.differences import Bounds, Pair, tightest, with_equality

MOST = 256  # operations of a kind that are looked at: more change a median little
CELLS = 96  # into which a range is cut at first, and the best of them further
BEST = 3  # cells that are looked into
FINER = 4
Deviation = Callable[[int], float]


class LateArrival(NamedTuple):
    """A range that needs a result: its length, and how much later it ends than that was sent, each on its own clock."""

    length: int
    late: int


class Direction(NamedTuple):
    """The arrivals from one rank at another, by the kinds that need them, of so many steps."""

    kinds: Sequence[Sequence[LateArrival]]
    steps: int

    def deviation(self, shift: int) -> float:
        """Return by how much operations differ from the median of their kind, if arrival is sent + shift."""
        total = 0
        for arrivals in self.kinds:
            lengths = sorted(length if (left := late - shift) > length else max(left, 0) for length, late in arrivals)
            half = len(lengths) // 2
            total += sum(lengths[len(lengths) - half :]) - sum(lengths[:half])
        return total


def direction_of(by_kind: Iterable[Sequence[LateArrival]], steps: int) -> Direction:
    """Return a direction, thinned out evenly where there are more operations than are looked at."""
    return Direction([[*kind][:: 1 + (len(kind) - 1) // MOST] for kind in by_kind], steps)


NONE = Direction((), 0)


def with_equal_lengths(
    directions: Mapping[Pair, Direction], bounds: Bounds, ahead: Sequence[int], room: int
) -> dict[Pair, int]:
    """Return the bounds with what each pair of clocks with messages between them differs by.

    `ahead` are clocks that meet the bounds; a pair keeps them where nothing tells better ones. `room` is the most that
    a message takes. Pairs that lengths tell most of come first, and bound the others.
    """
    pairs = sorted({(min(pair), max(pair)) for pair in directions})
    found: list[tuple[float, Pair]] = []
    for i, j in pairs:
        lowest, highest = _range(len(ahead), bounds, (i, j), ahead)
        gained = _gain(directions.get((i, j), NONE), directions.get((j, i), NONE), lowest, highest)
        found.append((-gained, (i, j)))
    settled = dict(bounds)
    for _, (i, j) in sorted(found):
        there, back = directions.get((i, j), NONE), directions.get((j, i), NONE)
        lowest, highest = _range(len(ahead), settled, (i, j), ahead)
        now = min(max(ahead[j] - ahead[i], lowest), highest)
        settled = with_equality(settled, (i, j), difference(there, back, lowest, highest, now, room))
    return settled


def _range(count: int, bounds: Bounds, pair: Pair, ahead: Sequence[int]) -> tuple[int, int]:
    """Return the least and the most that clock j is ahead of clock i; where nothing bounds it, what it is now."""
    i, j = pair
    now = ahead[j] - ahead[i]
    most, behind = tightest(count, bounds, [i]).get((i, j)), tightest(count, bounds, [j]).get((j, i))
    return (now if behind is None else -behind), (now if most is None else most)


def _gain(there: Direction, back: Direction, lowest: int, highest: int) -> float:
    """Return how much the deviations vary over the range: what they tell of these two clocks."""
    step = max((highest - lowest) // FINER, 1)
    values = [there.deviation(one) + back.deviation(-one) for one in range(lowest, highest + 1, step)]
    return max(values) - min(values)


def difference(there: Direction, back: Direction, lowest: int, highest: int, now: int, room: int) -> int:
    """Return by how much clock j is ahead of clock i, from `lowest` to `highest`; `now` where all are as good.

    `there` are the arrivals from rank i at rank j, `back` those the other way; `room` is the most latency.
    """
    if lowest >= highest:
        return now
    most_there = _least(lambda one: there.deviation(one) + there.steps * one / 2, lowest, highest + room, now)
    most_back = _least(lambda one: back.deviation(one) + back.steps * one / 2, -highest, room - lowest, -now)
    if there.kinds and back.kinds and 0 <= most_there + most_back <= 2 * room:
        return min(max((most_there - most_back) // 2, lowest), highest)
    return _least(lambda one: there.deviation(one) + back.deviation(-one), lowest, highest, now)


def _least(deviation: Deviation, lowest: int, highest: int, now: int) -> int:
    """Return where a function is least, of those nearest to `now`: in the best cells of a grid, further and further."""
    known: dict[int, float] = {}

    def key(place: int) -> tuple[float, int]:
        if place not in known:
            known[place] = deviation(place)
        return known[place], abs(place - now)

    cell = max((highest - lowest) // CELLS, 1)
    places = {*range(lowest, highest + 1, cell), highest, now}
    best = sorted(places, key=key)[:BEST]
    while cell > 1:
        cell = max(cell // FINER, 1)
        near = range(-FINER, FINER + 1)
        best = [
            min((place + cell * one for one in near if lowest <= place + cell * one <= highest), key=key)
            for place in best
        ]
    candidates: list[int] = [*best, now]
    return min(candidates, key=key)
