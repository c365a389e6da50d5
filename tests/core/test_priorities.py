"""Priorities, against their definitions and the published latencies of two classic benchmarks."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pipesched.core.listsched import MOST_TASKS_WITH_DESCENDANTS, PRIORITIES, TIES, descendant_counts, list_schedule
from pipesched.core.tasks import Edges, TaskGraph, arrow
from pipesched.errors import ConfigError
from tests.core.graphs import dataflow, random_graphs

Units = tuple[int, int, int, int]
none, asap, alap, mobility, successors, descendants = PRIORITIES.values()

# Types and operands, for the fixture `dataflow`.
# HAL (Paulin and Knight 1989): x1 = x+dx; u1 = u - (3x)(u dx) - (3y)dx; y1 = y + u dx; c = x1 < a. Eleven operations.
HAL = ("+**+****+++", [(0, 3), (1, 4), (2, 4), (4, 8), (5, 6), (6, 9), (8, 9), (7, 10)])
# The fifth-order elliptic wave filter: 26 additions and 8 multiplications, as operands of t1 .. t34.
EWF_OPERANDS = """
+ -; + -; + 1; + 3; + 2 4; * 5; * 5; + 3 6; + 2 7; + 3 8; + 5 8; + 2 9; * 10; + 9 11; * 12; + 1 13; + 15; + 1 16;
+ 8 16; + 9 17; + 17; * 18; + 19; + 20; * 21; + 22; * 23; * 24; + 17 25; + 16 26; + 27; + 28; + 23 31; + 24 32
"""
EWF_ROWS = [row.split() for row in EWF_OPERANDS.split(";")]
EWF = (
    "".join(row[0] for row in EWF_ROWS),
    [(int(operand) - 1, task) for task, row in enumerate(EWF_ROWS) for operand in row[1:] if operand != "-"],
)

# Proven optima: (adders, multipliers, cycles of a multiplication, initiation interval) -> latency.
HAL_OPTIMA = {
    (2, 2, 1, 1): 4, (1, 2, 1, 1): 5, (1, 1, 1, 1): 7, (1, 3, 1, 1): 5, (1, 1, 2, 2): 13, (1, 2, 2, 2): 8,
    (1, 3, 2, 2): 7, (2, 2, 2, 2): 7, (1, 4, 2, 2): 6, (2, 3, 2, 2): 6, (1, 1, 2, 1): 8, (1, 2, 2, 1): 6,
}  # fmt: skip
EWF_OPTIMA = {
    (3, 3, 2, 2): 17, (2, 2, 2, 2): 18, (2, 1, 2, 2): 21, (1, 1, 2, 2): 28, (1, 2, 2, 2): 28, (3, 1, 2, 2): 21,
    (3, 2, 2, 1): 17, (3, 1, 2, 1): 18, (2, 1, 2, 1): 19, (1, 1, 1, 1): 27, (2, 1, 1, 1): 16, (3, 3, 1, 1): 14,
    (4, 3, 2, 2): 17,
}  # fmt: skip


def latency(text: tuple[str, list[tuple[int, int]]], units: Units, priority: str, tie: str) -> int:
    """The cycles that a rule takes for a benchmark."""
    adders, multipliers, cycles, interval = units
    graph, latencies = dataflow(*text, multipliers, adders, cycles, interval)
    starts = list_schedule(graph, priority=priority, tie=tie).starts
    return max(start + time for start, time in zip(starts, latencies, strict=True))


@pytest.mark.parametrize("units", HAL_OPTIMA)
def test_alap_reaches_every_proven_latency_of_hal(units: Units) -> None:
    """HAL: the critical path first is optimal with every tie, and no other rule is better than the optimum."""
    for priority in PRIORITIES:
        for tie in TIES:
            found = latency(HAL, units, priority, tie)
            assert found >= HAL_OPTIMA[units]
            assert found == HAL_OPTIMA[units] or priority != "alap"


@pytest.mark.parametrize("units", EWF_OPTIMA)
def test_no_rule_beats_a_proven_latency_of_ewf(units: Units) -> None:
    """EWF: alap with input order is optimal but for two rows, and no rule is better than the optimum."""
    found = {(priority, tie): latency(EWF, units, priority, tie) for priority in PRIORITIES for tie in TIES}
    missed = 1 if units in {(2, 2, 2, 2), (4, 3, 2, 2)} else 0
    assert min(found.values()) == found["alap", "input"] == EWF_OPTIMA[units] + missed


def by_relaxing(graph: TaskGraph, forward: bool) -> list[int]:
    """The longest path before (or after) each task, by going over all arrows until nothing changes."""
    best = [0] * len(graph)
    for _ in range(len(graph)):
        for before, after, lag in graph.arrows():
            if forward:
                best[after] = max(best[after], best[before] + graph.durations[before] + lag)
            else:
                best[before] = max(best[before], best[after] + graph.durations[after] + lag)
    return best


@given(data=st.data())
def test_asap_alap_and_mobility_are_their_definitions(data: st.DataObject) -> None:
    """asap is the earliest start, alap the latest less the makespan, mobility their difference less the same."""
    graph = data.draw(random_graphs(nowhere=True))
    earliest, after = by_relaxing(graph, forward=True), by_relaxing(graph, forward=False)
    makespan = max(start + time for start, time in zip(earliest, graph.durations, strict=True))
    latest = [makespan - tail - time for tail, time in zip(after, graph.durations, strict=True)]
    assert none(graph) == [0] * len(graph)
    assert asap(graph) == earliest
    assert alap(graph) == [start - makespan for start in latest]
    slack = [late - early for late, early in zip(latest, earliest, strict=True)]
    assert mobility(graph) == [ticks - makespan for ticks in slack]
    assert min(slack) == 0


@given(data=st.data())
def test_successors_and_descendants_are_counted_once_each(data: st.DataObject) -> None:
    """A task that depends on another along several arrows or paths counts as one."""
    graph = data.draw(random_graphs())
    arrows = {(before, after) for before, after, _ in graph.arrows()}
    below = {task: {after for before, after in arrows if before == task} for task in range(len(graph))}
    reached = {task: set(direct) for task, direct in below.items()}
    for _ in range(len(graph)):
        for found in reached.values():
            found |= {deeper for task in found for deeper in below[task]}
    assert successors(graph) == [-len(below[task]) for task in range(len(graph))]
    assert descendant_counts(graph) == [len(reached[task]) for task in range(len(graph))]
    assert descendants(graph) == [-len(reached[task]) for task in range(len(graph))]


def test_a_square_has_one_operand() -> None:
    """x*x: two arrows between the same two tasks are one successor and one descendant."""
    graph = TaskGraph([1, 1, 1], [0] * 3, [1], [arrow(0, 1), arrow(0, 1), arrow(1, 2)])
    assert successors(graph) == [-1, -1, 0]
    assert descendants(graph) == [-2, -1, 0]


def test_too_many_tasks_for_descendants_are_refused() -> None:
    """Their sets would fill the memory: a ConfigError that names another priority, for the tie as well."""
    size = MOST_TASKS_WITH_DESCENDANTS + 1
    graph = TaskGraph([1] * size, [0] * size, [1], [Edges(range(size - 1), range(1, size))])
    for priority, tie in (("descendants", "input"), ("none", "most-descendants")):
        with pytest.raises(ConfigError, match=r"20,001.*alap"):
            list_schedule(graph, priority=priority, tie=tie)
