"""Heuristics and bounds on task graphs alone: on random instances they are no worse than they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from pipesched.core.bounds import critical_path, energy, sharpened
from pipesched.core.listsched import (
    Listing,
    back_and_forth,
    backwards_in_time,
    by_middles,
    by_rules,
    by_tails,
    length_of,
)
from pipesched.core.optimum import Bounds, Branching, Impossible, Margins, Relaxation, Windows, lower_bound
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import heads, tails
from tests.quality_table import DEADLINE, PROGRAMS, RANDOM_GRAPHS, Table, golden_test, graph_of


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


# Bounds of task graphs, that of the linear relaxation among them, are no lower than they were.


def by_relaxation(case: str) -> int:
    """Return the first horizon that the linear relaxation does not refute."""
    graph = graph_of(case)
    margins, horizon = Margins(graph, heads(graph), tails(graph)), critical_path(graph)
    while True:
        try:
            Relaxation(graph, *margins.within(horizon), DEADLINE).check()
        except Impossible:
            horizon += 1
        else:
            return horizon


def reached_relaxation(bound: str, case: str) -> int:
    """Return a bound on the length."""
    graph = graph_of(case)
    if bound == "relaxation":
        return by_relaxation(case)
    before, after = sharpened(graph) if bound.startswith("sharpened") else (heads(graph), tails(graph))
    if bound.endswith("energy"):
        return energy(graph, before, after)
    return max(map(sum, zip(before, graph.durations, after, strict=True)))


BOUNDS = Table(
    reached_relaxation,
    lambda case: min(length_of(graph_of(case), listing.starts) for listing in back_and_forth(graph_of(case))),
    variants=("path", "energy", "sharpened path", "sharpened energy", "relaxation"),
    cases=(*RANDOM_GRAPHS, *PROGRAMS),
    golden={
        "path": (50, 43, 49, 31, 38, 34, 17, 14, 14, 8),
        "energy": (61, 46, 48, 35, 38, 37, 18, 26, 18, 18),
        "sharpened path": (61, 48, 49, 31, 38, 39, 18, 27, 15, 11),
        "sharpened energy": (61, 48, 48, 35, 39, 39, 18, 27, 18, 18),
        "relaxation": (64, 49, 49, 36, 41, 40, 18, 27, 20, 20),
    },
    rising=True,
)

test_each_bound_of_a_task_graph = golden_test(BOUNDS)


# Shaving leaves no more of the windows than it did, and branch and bound takes no more list schedules.

OPTIMA = {"one and one": 66, "three": 50, "mixed": 36, "half": 42, "small": 41, "auto-regression": 21}
MOST_LISTS = 400


def within(graph: TaskGraph, horizon: int) -> Bounds:
    """Return the windows of a horizon."""
    return Margins(graph, heads(graph), tails(graph)).within(horizon)


def left_by_shaving(graph: TaskGraph, horizon: int) -> int:
    """Return the ticks that one pass leaves in all windows together."""
    windows = Windows(graph, within(graph, horizon), DEADLINE)
    for _ in windows.shave():
        pass
    return sum(map(windows.slack, range(len(graph))))


def lists_to_refute(graph: TaskGraph, horizon: int) -> int | None:
    """Return the list schedules until the horizon is refuted."""
    branching = Branching(graph, within(graph, horizon), DEADLINE)
    count = sum(1 for _ in islice(branching.run(), MOST_LISTS))
    return count if branching.is_refuted else None


def reached_shaving(way: str, case: str) -> int | None:
    """Return what is left of the windows of the optimum, or what it takes to refute a tick less."""
    graph, optimum = graph_of(case), OPTIMA[case]
    if way == "ticks left":
        return left_by_shaving(graph, optimum)
    with pytest.MonkeyPatch.context() as patch:
        if way == "lists to refute without shaving":
            patch.setattr("pipesched.core.optimum.MOST_SHAVED", 0)
        return lists_to_refute(graph, optimum - 1)


SHAVED = Table(
    reached_shaving,
    lambda _: 0,
    variants=("ticks left", "lists to refute", "lists to refute without shaving"),
    cases=tuple(OPTIMA),
    golden={
        "ticks left": (211, 188, 404, 86, 141, 196),
        "lists to refute": (141, 18, 0, 15, 18, None),
        "lists to refute without shaving": (276, 9, 0, 18, 21, None),
    },
)

test_shaving_and_branching = golden_test(SHAVED, nightly=True)
