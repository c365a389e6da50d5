"""From a dataflow graph and units to the core's task graph.

Initiation intervals are durations; what a latency lasts beyond them is a lag to the consumers and a delivery at the
end.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipesched.core.tasks import TaskGraph, arrow
from pipesched.hls.graph import DataflowGraph
from pipesched.hls.units import Units


def lower(graph: DataflowGraph, units: Units, classes: Sequence[int]) -> TaskGraph:
    """Return the task graph of one iteration: task i is operation i, resource c the units of class c."""
    waits = [units[number].latency - units[number].interval for number in classes]
    return TaskGraph(
        durations=[units[number].interval for number in classes],
        resources=classes,
        unit_counts=[unit.count for unit in units],
        edges=[arrow(edge.before, edge.after, waits[edge.before]) for edge in graph.dependences if not edge.distance],
        deliveries=waits,
    )


def bind(
    graph: DataflowGraph, units: Units, classes: Sequence[int], instances: Sequence[int], iterations: int = 1
) -> TaskGraph:
    """Return the task graph of so many iterations, each operation bound to its unit: every unit is a resource.

    Task k * n + i is operation i of iteration k, on unit `instances[k * n + i]` of its class.
    """
    size, waits = len(graph), [units[number].latency - units[number].interval for number in classes]
    bound_to = list(zip([*classes] * iterations, instances, strict=True))
    resources = {unit: resource for resource, unit in enumerate(sorted(set(bound_to)))}
    return TaskGraph(
        durations=[units[number].interval for number in classes] * iterations,
        resources=[resources[unit] for unit in bound_to],
        unit_counts=[1] * len(resources),
        edges=[
            arrow((later - edge.distance) * size + edge.before, later * size + edge.after, waits[edge.before])
            for edge in graph.dependences
            for later in range(edge.distance, iterations)
        ],
    )
