"""All orders of microbatches of which some may be equal, without those that exchange equal ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import factorial, prod
from typing import TYPE_CHECKING, Any

from pipesched.schedulers.feeding.rules import Order

if TYPE_CHECKING:
    from numpy.typing import NDArray


def count_orders(equals: Sequence[int]) -> int:
    """Return how many orders there are; of each microbatch `equals` has the first one that equals it."""
    return factorial(len(equals)) // prod(map(factorial, Counter(equals).values()))


def every_order(equals: Sequence[int]) -> NDArray[Any]:
    """Return all orders as rows, in lexicographical order; equal microbatches keep the order of their numbers."""
    import numpy as np

    kinds = sorted(set(equals))
    count = len(equals)
    members = [[one for one, first in enumerate(equals) if first == kind] for kind in kinds]
    width = max(map(len, members)) + 1
    table = np.array([[*row, *[count] * (width - len(row))] for row in members])  # `count`: none is left
    orders, used = np.empty((1, 0), np.intp), np.zeros((1, len(kinds)), np.intp)
    for _ in range(count):
        following = table[np.arange(len(kinds)), used]
        sequence = np.argsort(following, axis=1, kind="stable")
        prefix, place = np.nonzero(np.take_along_axis(following, sequence, axis=1) < count)
        kind = sequence[prefix, place]
        orders = np.hstack([orders[prefix], following[prefix, kind][:, None]])
        used = used[prefix]
        used[np.arange(len(used)), kind] += 1
    return orders


def in_turn(order: Sequence[int], equals: Sequence[int]) -> Order:
    """Return an order in which equal microbatches stand by their numbers, in the places that they have in `order`."""
    left = {kind: iter([one for one, first in enumerate(equals) if first == kind]) for kind in set(equals)}
    return tuple(next(left[equals[one]]) for one in order)
