"""Largest differencing: the published example, and sums as the plain method makes them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, strategies as st

from pipesched.comparing.packing.bins import differencing


def plain(weights: Sequence[int], parts: int) -> list[int]:
    """Return the sums of the parts, the heaviest first, by sorting at every step."""
    states = [(weight, -number, [weight] + [0] * (parts - 1)) for number, weight in enumerate(weights)]
    spread = [(max(sums) - min(sums), number, sums) for _, number, sums in states]
    for count in range(len(weights), 2 * len(weights) - 1):
        spread.sort(key=lambda state: (state[0], state[1]))
        (_, _, first), (_, _, second) = spread.pop(), spread.pop()
        sums = sorted((a + b for a, b in zip(first, reversed(second), strict=True)), reverse=True)
        spread.append((sums[0] - sums[-1], -count, sums))
    return spread[0][2]


def test_published_example() -> None:
    """8, 7, 6, 5, 4 in two parts: differencing ends with a difference of 2 (Karmarkar and Karp 1982)."""
    weights = [8, 7, 6, 5, 4]
    parts = differencing(weights, 2)
    assert [sum(weights[number] for number in part) for part in parts] == [16, 14]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 8))
def test_as_the_plain_method(weights: list[int], parts: int) -> None:
    """Each weight is in one part, the heaviest part is first, and sums are those of the plain method."""
    found = differencing(weights, parts)
    assert sorted(number for part in found for number in part) == [*range(len(weights))]
    assert [sum(weights[number] for number in part) for part in found] == plain(weights, parts)
    assert sum(map(bool, found)) == min(parts, len(weights))  # none is empty where there are enough
