"""From a dataflow graph and units to a checked schedule: by a rule (`list_outcome`), or the shortest one (`solve`).

`compare_rules` makes the table of every priority with every tie on one graph, beside the optimum, and of remarks on
what decides there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from pipesched.checks import (
    MOST_SECONDS,
    MOST_WORKERS,
    require_label,
    require_name,
    require_number,
    require_type,
    require_whole,
)
from pipesched.core.cpsat import Limits
from pipesched.core.listsched import PRIORITIES, TIES, length_of, list_schedule
from pipesched.core.optimum import lower_bound, shortest
from pipesched.core.tasks import TaskGraph, arrow
from pipesched.hls.graph import DataflowGraph
from pipesched.hls.schedule import HardwareSchedule, Units, assign_classes, checked, lower, place_on_units

PRIORITY, TIE = "alap", "pairing"
MOST_SEED = 2**31 - 1


@dataclass(frozen=True, repr=False)
class HardwareOutcome:
    """A schedule with a lower bound on its latency, or of a loop (hls/modulo.py) on its interval, in cycles.

    Raises ConfigError, about the field at fault, for a value of another type.
    """

    schedule: HardwareSchedule
    method: str
    bound: int
    proof: str  # what gave the bound
    status: str  # optimal, feasible (a search left a gap) or heuristic
    stopped_by: str = ""  # time or interrupt, when a search left a gap

    def __post_init__(self) -> None:
        require_type(self.schedule, HardwareSchedule, "a HardwareSchedule", "schedule")
        require_whole(self.bound, "bound")
        for key in ("method", "proof", "status", "stopped_by"):
            require_label(getattr(self, key), key)

    def __repr__(self) -> str:
        return f"HardwareOutcome({self.schedule}, bound {self.bound}, {self.status})"

    @property
    def objective(self) -> int:
        """The value that is bounded: the interval of a loop, else the latency, in cycles."""
        return self.schedule.interval or self.schedule.latency

    @property
    def gap(self) -> float:
        """(objective - bound) / bound."""
        return (self.objective - self.bound) / self.bound


def list_outcome(
    graph: DataflowGraph, units: Units, *, priority: str = PRIORITY, tie: str = TIE, seed: int = 0
) -> HardwareOutcome:
    """Return the list schedule by a priority and a tie (names of the core's PRIORITIES and TIES); `seed` repeats it.

    Raises ConfigError for an unknown name, a bad value, or an operation without a unit.
    """
    require_name(PRIORITIES, priority, "priority", "priority")
    require_name(TIES, tie, "tie", "tie")
    require_whole(seed, "seed", most=MOST_SEED)
    classes = assign_classes(graph, units)
    tasks = lower(graph, units, classes)
    listed = list_schedule(tasks, priority=priority, tie=tie, seed=seed)
    schedule = checked(HardwareSchedule(graph, units, classes, listed.starts, listed.units))
    bound, proof = lower_bound(tasks)
    status = "optimal" if schedule.latency == bound else "heuristic"
    return HardwareOutcome(schedule, f"list ({priority}, {tie})", bound, proof, status)


def search_limits(time_limit: float, workers: int, seed: int) -> Limits:
    """Return the limits of a search. Raises ConfigError for a bad one."""
    return Limits(
        seconds=require_number(time_limit, "time_limit", most=MOST_SECONDS, above=True),
        workers=require_whole(workers, "workers", most=MOST_WORKERS),
        seed=require_whole(seed, "seed", most=MOST_SEED),
    )


def solve(
    graph: DataflowGraph, units: Units, *, time_limit: float = 60.0, workers: int = 0, seed: int = 0
) -> HardwareOutcome:
    """Find the schedule of the least latency. Dependences on earlier iterations do not count.

    Args:
        graph: What to schedule.
        units: What it runs on.
        time_limit: Seconds until the best so far is taken.
        workers: Threads of CP-SAT; 0: one a core. One worker and a seed repeat the answer, unless the time ends it.
        seed: Seed of the search.

    Raises:
        ConfigError: A bad argument, or an operation without a unit.
    """
    return shortest_outcome(graph, units, search_limits(time_limit, workers, seed))


def shortest_outcome(graph: DataflowGraph, units: Units, limits: Limits) -> HardwareOutcome:
    """Return what `solve` finds within limits, which hold an event that may stop it."""
    classes = assign_classes(graph, units)
    best = shortest(lower(graph, units, classes), limits)
    instances = place_on_units(best.starts, classes, units)
    schedule = checked(HardwareSchedule(graph, units, classes, best.starts, instances))
    status = "optimal" if best.is_proved else "feasible"
    return HardwareOutcome(schedule, best.method, best.bound, best.proof, status, best.stopped_by)


COMPARED = tuple(tie for tie in TIES if tie != "dfs")  # dfs is another name of lifo
ORDERS = 20  # random orders of the operations
MOST_PERMUTED = 2_000  # operations times orders that are worth the wait, for each tie
SHOWN = 6  # names in a remark


class RuleResult(NamedTuple):
    """One list schedule: its latency in cycles and its registers."""

    latency: int
    registers: int


@dataclass(frozen=True, repr=False)
class RuleTable:
    """Latency and registers of every rule (priority, tie), the optimum, and remarks: one sentence each."""

    results: dict[tuple[str, str], RuleResult]
    optimum: HardwareOutcome
    remarks: tuple[str, ...]

    def __repr__(self) -> str:
        return f"RuleTable({len(self.results)} rules, {self.optimum})"


def compare_rules(
    graph: DataflowGraph, units: Units, *, time_limit: float = 60.0, workers: int = 0, seed: int = 0
) -> RuleTable:
    """Return the table of every priority with every tie, beside the optimum.

    Args:
        graph: What to schedule.
        units: What it runs on.
        time_limit: As for `solve`, like `workers`: of the search for the optimum.
        seed: Seed of the search, of the random tie, and of the orders that the remarks speak of.

    Raises:
        ConfigError: A bad argument, or an operation without a unit.
    """
    limits = search_limits(time_limit, workers, seed)
    results = {}
    for priority in PRIORITIES:
        for tie in COMPARED:
            schedule = list_outcome(graph, units, priority=priority, tie=tie, seed=seed).schedule
            results[priority, tie] = RuleResult(schedule.latency, schedule.registers)
    optimum = shortest_outcome(graph, units, limits)
    tasks = lower(graph, units, assign_classes(graph, units))
    return RuleTable(results, optimum, tuple(_remarks(tasks, [*results.values()], optimum, seed)))


def _remarks(tasks: TaskGraph, found: Sequence[RuleResult], optimum: HardwareOutcome, seed: int) -> Iterator[str]:
    latencies = [result.latency for result in found]
    least = optimum.schedule.latency
    if min(latencies) > least:
        yield f"No list schedule of these rules reaches {least} cycles; the best takes {min(latencies)}."
    ranks = [rule(tasks) for rule in PRIORITIES.values()]
    groups: dict[tuple[int, ...], list[int]] = {}  # tasks of a class that are ready at once and rank equal
    for task, before in enumerate(tasks.predecessors):
        if not before:
            groups.setdefault((tasks.resources[task], *(rank[task] for rank in ranks)), []).append(task)
    crowded = [group for key, group in groups.items() if len(group) > tasks.unit_counts[key[0]]]
    undecided = max(crowded, key=len, default=[])
    if undecided:
        operations = [optimum.schedule.graph.operations[task] for task in undecided[:SHOWN]]
        names = ", ".join(operation.text or operation.name for operation in operations)
        more = f" and {len(undecided) - SHOWN} more" if len(undecided) > SHOWN else ""
        yield f"Every priority ranks {names}{more} equal: which of them go first, only the tie decides."
    if len(tasks) * ORDERS <= MOST_PERMUTED:
        yield from _order_remark(tasks, seed)
    best = [result.registers for result in found if result.latency == min(latencies)]
    if min(best) < max(best):
        yield f"Of the schedules of {min(latencies)} cycles, one needs {min(best)} registers and another {max(best)}."


def _order_remark(tasks: TaskGraph, seed: int) -> Iterator[str]:
    """Yield what `input` and `pairing` give with the operations in other orders, if that makes a difference."""
    random, lengths = Random(seed), dict[str, list[int]](input=[], pairing=[])
    for _ in range(ORDERS):
        order = random.sample(range(len(tasks)), len(tasks))  # new task i is old task order[i]
        number = {task: new for new, task in enumerate(order)}
        columns = (tasks.durations, tasks.resources, tasks.deliveries)
        durations, resources, deliveries = ([column[task] for task in order] for column in columns)
        edges = [arrow(number[before], number[after], lag) for before, after, lag in tasks.edges]
        mixed = TaskGraph(durations, resources, tasks.unit_counts, edges, deliveries=deliveries)
        for tie, found in lengths.items():
            found.append(length_of(mixed, list_schedule(mixed, priority="alap", tie=tie).starts))
    ranges = {tie: (min(found), max(found)) for tie, found in lengths.items()}
    if ranges["input"] != ranges["pairing"] or ranges["input"][0] != ranges["input"][1]:
        texts = [f"{tie} {low}" if low == high else f"{tie} {low} to {high}" for tie, (low, high) in ranges.items()]
        yield f"With the operations in {ORDERS} random orders (priority alap): {', '.join(texts)} cycles."
