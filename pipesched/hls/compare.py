"""Every priority with every tie on one graph, beside the optimum; and what decides, said about this very case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from pipesched.core.cpsat import Limits
from pipesched.core.lists import length_of
from pipesched.core.listsched import list_schedule
from pipesched.core.priorities import PRIORITIES
from pipesched.core.tasks import TaskGraph, arrow
from pipesched.core.ties import TIES
from pipesched.hls.graph import DataflowGraph
from pipesched.hls.lowering import lower
from pipesched.hls.outcome import HardwareOutcome, list_outcome, solve
from pipesched.hls.units import Units, assign_classes

COMPARED = tuple(tie for tie in TIES if tie != "dfs")  # another name of lifo
ORDERS = 20  # random orders of the operations
MOST_PERMUTED = 2_000  # operations times orders that are worth the wait, for each tie
SHOWN = 6  # names in a remark


class Cell(NamedTuple):
    """One list schedule: its latency in cycles and its registers."""

    latency: int
    registers: int


@dataclass(frozen=True)
class RuleTable:
    """Latency and registers of every rule (priority, tie), and the optimum."""

    cells: dict[tuple[str, str], Cell]
    optimum: HardwareOutcome
    remarks: tuple[str, ...]


def compare_rules(graph: DataflowGraph, units: Units, limits: Limits) -> RuleTable:
    """The whole table. Raises ConfigError for an operation without a unit."""
    cells = {}
    for priority in PRIORITIES:
        for tie in COMPARED:
            schedule = list_outcome(graph, units, priority=priority, tie=tie, seed=limits.seed).schedule
            cells[priority, tie] = Cell(schedule.latency, schedule.registers)
    optimum = solve(graph, units, limits)
    tasks = lower(graph, units, assign_classes(graph, units))
    return RuleTable(cells, optimum, tuple(_remarks(graph, tasks, cells, optimum, limits.seed)))


def _remarks(
    graph: DataflowGraph, tasks: TaskGraph, cells: dict[tuple[str, str], Cell], optimum: HardwareOutcome, seed: int
) -> Iterator[str]:
    latencies = [cell.latency for cell in cells.values()]
    found = optimum.schedule.latency
    if min(latencies) > found:
        yield f"No list schedule of these rules reaches {found} cycles; the best takes {min(latencies)}."
    undecided = _undecided(tasks)
    if undecided:
        names = ", ".join(graph.operations[task].text or graph.operations[task].name for task in undecided[:SHOWN])
        more = f" and {len(undecided) - SHOWN} more" if len(undecided) > SHOWN else ""
        yield f"Every priority ranks {names}{more} equal: which of them go first, only the tie decides."
    if len(tasks) * ORDERS <= MOST_PERMUTED:
        yield from _by_luck(tasks, seed)
    best = [cell.registers for cell in cells.values() if cell.latency == min(latencies)]
    if min(best) < max(best):
        yield f"Of the schedules of {min(latencies)} cycles, one needs {min(best)} registers and another {max(best)}."


def _undecided(tasks: TaskGraph) -> list[int]:
    """Operations of one class, ready at once, that every priority ranks equal; more of them than units."""
    ranks = [rule(tasks) for rule in PRIORITIES.values()]
    groups: dict[tuple[int, ...], list[int]] = {}
    for task, before in enumerate(tasks.predecessors):
        if not before:
            groups.setdefault((tasks.resources[task], *(rank[task] for rank in ranks)), []).append(task)
    crowded = [group for key, group in groups.items() if len(group) > tasks.capacities[key[0]]]
    return max(crowded, key=len, default=[])


def _by_luck(tasks: TaskGraph, seed: int) -> Iterator[str]:
    """What `input` and `pairing` give when the operations stand in other orders; nothing where that changes nothing."""
    random = Random(seed)
    orders = [random.sample(range(len(tasks)), len(tasks)) for _ in range(ORDERS)]
    spans = {}
    for tie in ("input", "pairing"):
        lengths = []
        for order in orders:
            mixed = permuted(tasks, order)
            lengths.append(length_of(mixed, list_schedule(mixed, priority="alap", tie=tie).starts))
        spans[tie] = (min(lengths), max(lengths))
    if spans["input"] != spans["pairing"] or spans["input"][0] != spans["input"][1]:
        texts = [f"{tie} {low}" if low == high else f"{tie} {low} to {high}" for tie, (low, high) in spans.items()]
        yield f"With the operations in {ORDERS} random orders (priority alap): {', '.join(texts)} cycles."


def permuted(graph: TaskGraph, order: Sequence[int]) -> TaskGraph:
    """The same graph with its tasks renumbered: new task i is old task order[i]."""
    place = {task: number for number, task in enumerate(order)}
    return TaskGraph(
        [graph.durations[task] for task in order],
        [graph.resources[task] for task in order],
        graph.capacities,
        [arrow(place[before], place[after], lag) for before, after, lag in graph.arrows()],
        deliveries=[graph.deliveries[task] for task in order],
    )
