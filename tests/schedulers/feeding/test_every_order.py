"""All orders of microbatches of which some may be equal."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, strategies as st

from pipesched.schedulers.ordering import count_orders, every_order, in_turn


@st.composite
def equals(draw: st.DrawFn) -> list[int]:
    """Of up to six microbatches the first that equals each."""
    kinds = draw(st.lists(st.integers(0, 3), min_size=1, max_size=6))
    return [kinds.index(kind) for kind in kinds]


@given(equals())
def test_every_order_once(equal: list[int]) -> None:
    """They are the permutations in which equal microbatches stand by their numbers, in lexicographical order."""
    expected = [
        order
        for order in permutations(range(len(equal)))
        if all(
            order.index(first) < order.index(one) for one in order for first in range(one) if equal[first] == equal[one]
        )
    ]
    assert [*map(tuple, every_order(equal).tolist())] == expected
    assert count_orders(equal) == len(expected)


@given(equals(), st.randoms(use_true_random=False))
def test_equal_ones_in_turn(equal: list[int], random: object) -> None:
    """Of all orders with the same kinds in the same places, that one comes first."""
    order = random.sample(range(len(equal)), len(equal))  # type: ignore[attr-defined]
    same = [
        other
        for other in permutations(range(len(equal)))
        if all(equal[one] == equal[two] for one, two in zip(order, other, strict=True))
    ]
    assert in_turn(order, equal) == min(same)


@pytest.mark.parametrize(("equal", "count"), [([0] * 64, 1), ([0] * 7 + [7], 8), ([*range(20)], 2432902008176640000)])
def test_how_many(equal: list[int], count: int) -> None:
    """Equal microbatches make few orders of many; different ones more than any machine tries."""
    assert count_orders(equal) == count
