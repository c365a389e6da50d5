"""What the tests of hardware share: the classics, units, and a naive check and a naive optimum of a schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pipesched.config.hls import load_hls
from pipesched.hls.graph import DataflowGraph
from pipesched.hls.schedule import HardwareSchedule, Units, make_units

CLASSICS = Path(__file__).parents[2] / "configs" / "hls"
Classic = Callable[..., DataflowGraph]
UnitsOf = Callable[..., Units]


@pytest.fixture
def classic() -> Classic:
    """A program of configs/hls by its name."""

    def load(name: str, *, loop: bool = False) -> DataflowGraph:
        return load_hls(str(CLASSICS / f"{name}.txt"), loop=loop).graph

    return load


@pytest.fixture
def units_of() -> UnitsOf:
    """Adders and multipliers."""

    def make(add: int, mul: int, latency: int = 1, *, pipelined: bool = False) -> Units:
        return make_units({"add": add, "mul": mul}, {"mul": latency}, ["mul"] if pipelined else [])

    return make


def broken_rules(schedule: HardwareSchedule, iterations: int = 1) -> list[str]:
    """Every rule that a schedule breaks, cycle by cycle: written from the conventions alone."""
    starts, _ = schedule.unrolled(iterations)
    graph, size = schedule.graph, len(schedule.graph)
    found = [f"{task} starts before 0" for task, start in enumerate(starts) if start < 0]
    for iteration in range(iterations):
        for before, after, distance in graph.dependences:
            if iteration >= distance:
                usable = starts[(iteration - distance) * size + before] + schedule.unit(before).latency
                if starts[iteration * size + after] < usable:
                    found.append(f"{after} of {iteration} starts before {before} is usable")
    for cycle in range(max(starts) + 1):
        for place, unit in enumerate(schedule.units):
            users = [
                task
                for task, start in enumerate(starts)
                if schedule.classes[task % size] == place and start <= cycle < start + unit.interval
            ]
            if len(users) > unit.count:
                found.append(f"cycle {cycle}: {users} on {unit.count} {unit.name}")
    return found


def least_latency(graph: DataflowGraph, units: Units, classes: Sequence[int], most: int) -> int:
    """The optimum of a tiny graph: every start of every operation is tried, in an order that respects dependences."""
    order: list[int] = []
    while len(order) < len(graph):
        done = set(order)
        order += [t for t in range(len(graph)) if t not in done and {e.before for e in graph.inputs(t)} <= done]

    def can_end_by(horizon: int, starts: dict[int, int]) -> bool:
        if len(starts) == len(graph):
            return True
        task = order[len(starts)]
        unit = units[classes[task]]
        ready = max((starts[e.before] + units[classes[e.before]].latency for e in graph.inputs(task)), default=0)
        for start in range(ready, horizon - unit.latency + 1):
            held = range(start, start + unit.interval)
            rivals = [starts[other] for other in starts if classes[other] == classes[task]]
            crowds = (sum(rival <= cycle < rival + unit.interval for rival in rivals) for cycle in held)
            if max(crowds) < unit.count and can_end_by(horizon, {**starts, task: start}):
                return True
        return False

    return next(horizon for horizon in range(1, most + 1) if can_end_by(horizon, {}))


def most_alive(schedule: HardwareSchedule, iterations: int) -> int:
    """The most values alive at a boundary, by listing them: in a loop, of all `iterations` in the steady state.

    An input is there from the start of the iteration after its own, for operations that need it of an earlier one.
    """
    starts, _ = schedule.unrolled(iterations)
    size = len(schedule.graph)
    spans = []
    for task in range(size):
        for iteration in range(iterations):
            uses = [
                starts[(iteration + edge.distance) * size + edge.after]
                for edge in schedule.graph.uses(task)
                if iteration + edge.distance < iterations
            ]
            if uses:
                spans.append((starts[iteration * size + task] + schedule.unit(task).latency, max(uses)))
    for name in {delay.input for delay in schedule.graph.delays}:
        for iteration in range(iterations):
            uses = [
                starts[(iteration + delay.distance) * size + delay.after]
                for delay in schedule.graph.delays
                if delay.input == name and iteration + delay.distance < iterations
            ]
            if uses:
                spans.append(((iteration + 1) * (schedule.interval or 0), max(uses)))
    return max((sum(a <= t <= b for a, b in spans) for t in range(max(starts) + 2)), default=0)
