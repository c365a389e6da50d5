"""List scheduling of task graphs by each priority with each tie is no worse than it was."""

from __future__ import annotations

from pipesched.core.listsched import PRIORITIES, TIES, length_of, list_schedule
from pipesched.core.optimum import lower_bound
from tests.quality_cases import graph_of
from tests.quality_problems import PROGRAMS, RANDOM_GRAPHS
from tests.quality_table import Table, golden_test


def reached(rule: str, case: str) -> int:
    """Return the length of the list schedule."""
    priority, _, tie = rule.partition(", ")
    return length_of(graph_of(case), list_schedule(graph_of(case), priority=priority, tie=tie).starts)


LISTED = Table(
    reached,
    lambda case: lower_bound(graph_of(case))[0],
    variants=[f"{priority}, {tie}" for priority in PRIORITIES for tie in TIES if tie not in ("lifo", "random")],
    cases=(*RANDOM_GRAPHS, *PROGRAMS),
    golden={
        "none, input": (71, 61, 53, 42, 47, 47, 20, 27, 21, 20),
        "none, reverse": (83, 57, 62, 49, 62, 53, 19, 28, 21, 22),
        "none, fifo": (77, 62, 55, 44, 51, 53, 20, 27, 21, 22),
        "none, dfs": (74, 62, 53, 42, 47, 51, 19, 28, 21, 21),
        "none, bfs": (77, 61, 55, 44, 51, 51, 20, 27, 21, 21),
        "none, most-descendants": (71, 57, 52, 38, 47, 41, 19, 27, 21, 20),
        "none, pairing": (71, 57, 56, 42, 47, 47, 20, 27, 21, 20),
        "asap, input": (77, 61, 55, 44, 55, 53, 20, 27, 21, 21),
        "asap, reverse": (80, 58, 57, 44, 55, 53, 20, 27, 21, 25),
        "asap, fifo": (77, 62, 55, 44, 55, 53, 20, 27, 21, 22),
        "asap, dfs": (77, 57, 55, 44, 55, 53, 20, 27, 21, 21),
        "asap, bfs": (77, 61, 55, 44, 55, 53, 20, 27, 21, 21),
        "asap, most-descendants": (77, 57, 54, 44, 55, 53, 19, 27, 21, 21),
        "asap, pairing": (77, 57, 53, 44, 55, 53, 20, 27, 21, 21),
        "alap, input": (71, 54, 52, 38, 44, 41, 19, 27, 21, 20),
        "alap, reverse": (71, 54, 52, 38, 44, 41, 19, 27, 21, 20),
        "alap, fifo": (71, 54, 52, 38, 44, 41, 19, 27, 21, 20),
        "alap, dfs": (71, 54, 52, 38, 44, 41, 19, 27, 21, 20),
        "alap, bfs": (71, 54, 52, 38, 44, 41, 19, 27, 21, 20),
        "alap, most-descendants": (71, 54, 52, 38, 44, 41, 19, 27, 21, 20),
        "alap, pairing": (71, 54, 52, 38, 44, 41, 19, 27, 21, 20),
        "mobility, input": (71, 54, 53, 38, 46, 41, 19, 27, 21, 20),
        "mobility, reverse": (71, 54, 53, 38, 46, 41, 19, 27, 21, 21),
        "mobility, fifo": (71, 54, 53, 38, 46, 41, 19, 27, 21, 20),
        "mobility, dfs": (71, 54, 53, 38, 46, 41, 19, 27, 21, 21),
        "mobility, bfs": (71, 54, 53, 38, 46, 41, 19, 27, 21, 20),
        "mobility, most-descendants": (71, 54, 53, 38, 46, 41, 19, 27, 21, 20),
        "mobility, pairing": (71, 54, 53, 38, 46, 41, 19, 27, 21, 20),
        "successors, input": (76, 57, 56, 42, 49, 47, 19, 27, 21, 20),
        "successors, reverse": (77, 61, 56, 37, 52, 41, 20, 27, 21, 21),
        "successors, fifo": (77, 59, 56, 44, 49, 47, 19, 27, 21, 20),
        "successors, dfs": (77, 61, 56, 42, 55, 51, 19, 27, 21, 21),
        "successors, bfs": (76, 57, 56, 44, 49, 47, 19, 27, 21, 20),
        "successors, most-descendants": (76, 57, 56, 38, 49, 41, 19, 27, 21, 20),
        "successors, pairing": (76, 57, 53, 42, 49, 47, 19, 27, 21, 20),
        "descendants, input": (71, 57, 52, 38, 47, 41, 19, 27, 21, 20),
        "descendants, reverse": (71, 58, 49, 37, 44, 41, 19, 27, 21, 20),
        "descendants, fifo": (71, 57, 53, 37, 45, 41, 19, 27, 21, 20),
        "descendants, dfs": (71, 57, 52, 38, 47, 41, 19, 27, 21, 20),
        "descendants, bfs": (71, 57, 53, 37, 45, 41, 19, 27, 21, 20),
        "descendants, most-descendants": (71, 57, 52, 38, 47, 41, 19, 27, 21, 20),
        "descendants, pairing": (71, 57, 52, 38, 47, 41, 19, 27, 21, 20),
    },
)

test_each_priority_with_each_tie = golden_test(LISTED)
