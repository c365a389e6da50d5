"""Small graphs in windows of time, and every schedule there by brute force."""

from __future__ import annotations

from itertools import product
from math import prod

from hypothesis import assume, strategies as st

from pipesched.core.bounds import critical_path
from pipesched.core.optimum import Bounds, Margins
from pipesched.core.tasks import TaskGraph, arrow, violations
from pipesched.core.timing import heads, tails
from tests.core.graphs import random_graphs

THREE_ON_TWO = TaskGraph([1, 1, 1], [0, 0, 0], [2])  # needs two ticks
PAIRS = [(1, 2), (1, 4), (3, 4), (1, 5), (3, 5), (3, 7)]
# Two units for six tasks, one unit for two: 13 ticks, by brute force; the first relaxation does not refute 12.
STUBBORN = TaskGraph([4, 4, 4, 3, 3, 3, 4, 4], [0, 1, 0, 1, 0, 0, 0, 0], [2, 1], [arrow(*pair) for pair in PAIRS])


def within(graph: TaskGraph, horizon: int) -> Bounds:
    return Margins(graph, heads(graph), tails(graph)).within(horizon)


def schedules(graph: TaskGraph, bounds: Bounds) -> list[tuple[int, ...]]:
    """Every schedule within the bounds."""
    windows = [range(first, last + 1) for first, last in zip(*bounds, strict=True)]
    return [starts for starts in product(*windows) if not any(violations(graph, starts))]


def draw_small(data: st.DataObject) -> tuple[TaskGraph, Bounds]:
    """A graph, and bounds that leave it a little room; at most 2,000 starts to try."""
    graph = data.draw(random_graphs(most=6, nowhere=True))
    longest = critical_path(graph)
    bounds = within(graph, longest + data.draw(st.integers(0, 3)))
    assume(prod(last - first + 1 for first, last in zip(*bounds, strict=True)) <= 2000)
    return graph, bounds
