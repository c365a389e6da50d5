"""When each operation may start, in a schedule whose objective is at most so much.

A device's span counts from its first start. In a schedule without needless pauses that start is known where the
forwards before it are the first on their devices too: as early as possible.
"""

from __future__ import annotations

from typing import NamedTuple

from pipesched.core.paths import topological_order
from pipesched.solver.case import Case


class Origin(NamedTuple):
    """From when a device's time counts: the least start of `tasks`, which is `start` if that is known."""

    tasks: tuple[int, ...]
    start: int | None


def origins(case: Case) -> list[Origin]:
    """One a device. The makespan counts from time 0; the span from the device's first forward."""
    problem = case.problem
    if case.objective == "makespan":
        return [Origin((), 0)] * problem.devices
    firsts = [case.first_forwards(device) for device in range(problem.devices)]
    known = _known(case, firsts)
    return [Origin(tasks, case.heads[tasks[0]] if tasks[0] in known else None) for tasks in firsts]


def _known(case: Case, firsts: list[tuple[int, ...]]) -> set[int]:
    """The first tasks that start at their heads: what comes before them is the first of its own device."""
    known: set[int] = set()
    candidates = {tasks[0] for tasks in firsts if len(tasks) == 1}
    for task in topological_order(case.graph):
        if task in candidates and all(before in known for before, _ in case.graph.predecessors[task]):
            known.add(task)
    return known


def latest_starts(case: Case, origin: list[Origin], most: int) -> list[int]:
    """The latest start of each task in ticks when the objective is at most `most`."""
    graph, count = case.ordered, case.problem.devices
    far = most * (count - 1) + sum(case.problem.costs.p2p)  # devices start one after another at the latest
    ends = [most + (far if one.start is None else one.start) for one in origin]
    latest = [ends[device] - time for device, time in zip(graph.pools, graph.durations, strict=True)]
    for task in reversed(topological_order(graph)):
        for after, lag in graph.successors[task]:
            latest[task] = min(latest[task], latest[after] - lag - graph.durations[task])
    for one in origin:
        if one.start is not None and one.tasks:
            latest[one.tasks[0]] = one.start
    return latest
