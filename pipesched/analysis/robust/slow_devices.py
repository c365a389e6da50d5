"""Slow devices: the exact makespan when one device takes so many times as long for everything that it runs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from pipesched.core.tasks import Edge
from pipesched.core.timing import earliest_times
from pipesched.pipeline.quantities import plain
from pipesched.pipeline.schedule import Schedule, timed_schedule


def straggler_makespans(schedule: Schedule, slowness: Fraction) -> list[int | float]:
    """Return for each device the makespan, in the user's time unit, when its operations take `slowness` times as long.

    Transfers keep their durations, and latencies too. Everything is computed in integers.
    """
    problem, plan, graph = schedule.problem, schedule.plan, schedule.graph
    up, down = slowness.as_integer_ratio()
    even = [ticks * down for ticks in graph.durations]
    edges = [Edge(edge.before, edge.after, edge.lag * down) for edge in graph.edges]
    makespans = []
    for order in plan.orders:
        durations = even.copy()
        for task in order:
            durations[task] = graph.durations[task] * up
        slowed = replace(graph, durations=durations, edges=edges)
        timed = timed_schedule(problem, plan, *earliest_times(slowed, plan.machines), slowed)
        makespans.append(plain(Fraction(timed.makespan_ticks, down * problem.ticks.per_unit)))
    return makespans
