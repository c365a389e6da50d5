"""The independent check, against a judge that looks at every tick."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, strategies as st

from pipesched.core.tasks import TaskGraph, arrow, violations
from tests.core.graphs import random_graphs


def is_valid(graph: TaskGraph, starts: Sequence[int], capacities: Sequence[int | None]) -> bool:
    """The rules, read tick by tick: arrows, units in use, memory in use after all that happens at that tick."""
    ends = [start + time for start, time in zip(starts, graph.durations, strict=True)]
    if min(starts) < 0 or any(starts[after] < ends[before] + lag for before, after, lag in graph.arrows()):
        return False
    tasks = range(len(graph))
    for now in range(max(ends) + 1):
        for resource, capacity in enumerate(graph.unit_counts):
            running = [task for task in tasks if graph.resources[task] == resource and starts[task] <= now < ends[task]]
            if len(running) > capacity:
                return False
        for pool, cap in enumerate(capacities):
            taken = sum(graph.takes[task] for task in tasks if graph.pools[task] == pool and starts[task] <= now)
            given_back = sum(graph.gives[task] for task in tasks if graph.pools[task] == pool and ends[task] <= now)
            if cap is not None and taken - given_back > cap:
                return False
    return True


@given(data=st.data())
def test_silent_exactly_on_valid_schedules(data: st.DataObject) -> None:
    """Random starts, of good and bad schedules alike: something is said exactly when the tick by tick judge says no."""
    graph = data.draw(random_graphs(most=5, nowhere=True, memory=True, own_pools=True))
    ticks = st.lists(st.integers(0, 12), min_size=len(graph), max_size=len(graph))
    starts = data.draw(ticks)
    if data.draw(st.booleans()):  # push them apart, so that precedences hold and valid ones are common
        for task in sorted(range(len(graph)), key=lambda task: len(ancestors(graph, task))):
            floor = [starts[a] + graph.durations[a] + lag for a, lag in graph.predecessors[task]]
            starts[task] = max([starts[task], *floor])
    capacities = data.draw(st.lists(st.none() | st.integers(1, 6), min_size=2, max_size=2))
    assert (not list(violations(graph, starts, capacities))) == is_valid(graph, starts, capacities)


def ancestors(graph: TaskGraph, task: int) -> set[int]:
    """All that `task` waits for, directly or not."""
    found: set[int] = set()
    todo = [task]
    while todo:
        for before, _ in graph.predecessors[todo.pop()]:
            if before not in found:
                found.add(before)
                todo.append(before)
    return found


def test_a_missing_task_is_named() -> None:
    """A task that never starts is said, and no nonsense is derived from its start."""
    graph = TaskGraph([2, 2, 2], [0, 0, 0], [1], [arrow(0, 1)])
    assert list(violations(graph, [0, -1, 2])) == ["task 1 never starts"]
    assert len(list(violations(graph, [-1, -1, -1]))) == 3


def test_a_broken_precedence_is_named() -> None:
    """One sentence for each arrow that does not hold, with the lag counted; equality holds."""
    graph = TaskGraph([2, 2, 2], [0, 1, 2], [1, 1, 1], [arrow(0, 1, 3), arrow(0, 2)])
    assert list(violations(graph, [0, 5, 2])) == []
    assert list(violations(graph, [0, 4, 2])) == ["task 1 starts at 4, before task 0 lets it at 5"]
    assert len(list(violations(graph, [0, 4, 1]))) == 2


def test_an_overfull_machine_is_named() -> None:
    """Two tasks at once on one machine: both are named, and the time; back to back is no overlap."""
    graph = TaskGraph([3, 2], [0, 0], [1])
    assert list(violations(graph, [0, 3])) == []
    assert list(violations(graph, [2, 0])) == []
    assert list(violations(graph, [0, 2])) == ["resource 0: task 1 starts at 2 while task 0 is running"]


def test_an_overfull_pool_is_named_with_its_peak() -> None:
    """The peak of a pool above its cap is said; a cap of None, and a pool without a cap, are no limit."""
    graph = TaskGraph([4, 4, 4], [0, 1, 2], [1, 1, 1], (), [2, 3, 9], [2, 3, 9], [0, 0, 1])
    assert list(violations(graph, [0, 3, 0], [4, None])) == ["memory pool 0 reaches 5, over its capacity of 4"]
    assert list(violations(graph, [0, 3, 0], [5, None])) == []
    assert list(violations(graph, [0, 3, 0], [5])) == []
    assert list(violations(graph, [0, 3, 0])) == []
    assert list(violations(graph, [0, 3, 0], [None, 8])) == ["memory pool 1 reaches 9, over its capacity of 8"]


def test_front_ends_name_the_tasks() -> None:
    """Every sentence speaks of tasks by the name that the caller gives them."""
    graph = TaskGraph([2, 2], [0, 0], [1], [arrow(0, 1)])
    for starts in ([0, 1], [-1, -1]):
        for sentence in violations(graph, starts, name=lambda task: "ab"[task]):
            assert "task" not in sentence
            assert {"a", "b"} & set(sentence.split())
