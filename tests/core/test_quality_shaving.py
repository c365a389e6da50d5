"""Shaving leaves no more of the windows than it did, and branch and bound takes no more list schedules."""

from __future__ import annotations

from itertools import islice

import pytest

from pipesched.core.optimum import Bounds, Branching, Margins, Windows
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import heads, tails
from tests.quality_cases import DEADLINE, graph_of
from tests.quality_table import Table, golden_test

pytestmark = pytest.mark.slow

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


def reached(way: str, case: str) -> int | None:
    """Return what is left of the windows of the optimum, or what it takes to refute a tick less."""
    graph, optimum = graph_of(case), OPTIMA[case]
    if way == "ticks left":
        return left_by_shaving(graph, optimum)
    with pytest.MonkeyPatch.context() as patch:
        if way == "lists to refute without shaving":
            patch.setattr("pipesched.core.optimum.MOST_SHAVED", 0)
        return lists_to_refute(graph, optimum - 1)


SHAVED = Table(
    reached,
    lambda _: 0,
    variants=("ticks left", "lists to refute", "lists to refute without shaving"),
    cases=tuple(OPTIMA),
    golden={
        "ticks left": (211, 188, 404, 86, 141, 196),
        "lists to refute": (141, 18, 0, 15, 18, None),
        "lists to refute without shaving": (276, 9, 0, 18, 21, None),
    },
)

test_shaving_and_branching = golden_test(SHAVED)
