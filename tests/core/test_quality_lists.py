"""The best of many list schedules, and what passes back and forth make of them, are no longer than they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pipesched.core.bounds import sharpened
from pipesched.core.listsched import (
    Listing,
    back_and_forth,
    backwards_in_time,
    by_middles,
    by_rules,
    by_tails,
    length_of,
)
from pipesched.core.optimum import lower_bound
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import heads, tails
from tests.quality_cases import graph_of
from tests.quality_problems import PROGRAMS, RANDOM_GRAPHS
from tests.quality_table import Table, golden_test


def by_sharpened_tails(graph: TaskGraph) -> Iterator[Listing]:
    """Yield list schedules by tails that count the resources."""
    return by_tails(graph, sharpened(graph)[1])


def along_windows(graph: TaskGraph) -> Iterator[Listing]:
    """Yield list schedules along the middles of the windows that the longest paths leave."""
    middles = [(head - tail) / 2 for head, tail in zip(heads(graph), tails(graph), strict=True)]
    return by_middles(graph, backwards_in_time(graph), middles)


LISTS: dict[str, Callable[[TaskGraph], Iterator[Listing]]] = {
    "by rules": by_rules,
    "back and forth": back_and_forth,
    "by sharpened tails": by_sharpened_tails,
    "along windows": along_windows,
}


def reached(way: str, case: str) -> int:
    """Return the least length."""
    return min(length_of(graph_of(case), listing.starts) for listing in LISTS[way](graph_of(case)))


BEST = Table(
    reached,
    lambda case: lower_bound(graph_of(case))[0],
    variants=tuple(LISTS),
    cases=(*RANDOM_GRAPHS, *PROGRAMS),
    golden={
        "by rules": (71, 54, 52, 38, 44, 41, 19, 27, 21, 20),
        "back and forth": (70, 51, 51, 37, 44, 41, 18, 27, 21, 20),
        "by sharpened tails": (71, 54, 52, 38, 44, 41, 19, 27, 21, 20),
        "along windows": (71, 51, 50, 37, 44, 41, 18, 27, 21, 20),
    },
)

test_the_best_of_many_list_schedules = golden_test(BEST)
