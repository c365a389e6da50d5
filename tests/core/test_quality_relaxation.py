"""Bounds of task graphs, that of the linear relaxation among them, are no lower than they were."""

from __future__ import annotations

from pipesched.core.bounds import critical_path, energy, sharpened
from pipesched.core.listsched import back_and_forth, length_of
from pipesched.core.optimum import Impossible, Margins, Relaxation
from pipesched.core.timing import heads, tails
from tests.quality_cases import DEADLINE, graph_of
from tests.quality_problems import PROGRAMS, RANDOM_GRAPHS
from tests.quality_table import Table, golden_test


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


def reached(bound: str, case: str) -> int:
    """Return a bound on the length."""
    graph = graph_of(case)
    if bound == "relaxation":
        return by_relaxation(case)
    before, after = sharpened(graph) if bound.startswith("sharpened") else (heads(graph), tails(graph))
    if bound.endswith("energy"):
        return energy(graph, before, after)
    return max(map(sum, zip(before, graph.durations, after, strict=True)))


BOUNDS = Table(
    reached,
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
