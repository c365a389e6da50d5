"""Operations on functional units as a board that the editor changes: every unit is a row.

A `UnitBoard` answers to all names of a `PipelineBoard`, which explains them; `UnitPlanner` plans anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Event

from pipesched.core.cpsat import Limits
from pipesched.core.listsched import PRIORITIES, TIES
from pipesched.core.reasons import NOTHING, Gap, TimedTasks, candidate_moves, idle_gaps, moved, users_of
from pipesched.core.timing import earliest_times
from pipesched.documents.explanation import hardware_document
from pipesched.documents.json_text import dump
from pipesched.errors import ConfigError
from pipesched.explore.board import SECONDS, Amounts, Choice, FormField, PlaceLimits, Planned, Tell
from pipesched.file_formats.files import refuse_existing, write_file
from pipesched.file_formats.registry import format_of
from pipesched.hls.explanation import timed_units
from pipesched.hls.graph import DataflowGraph, Dependence
from pipesched.hls.outcome import PRIORITY, TIE, HardwareOutcome, list_outcome, shortest_outcome
from pipesched.hls.schedule import HardwareSchedule, Units, checked, lower

Loader = Callable[[Mapping[str, int]], tuple[DataflowGraph, Units]]  # takes how many units some classes have


@dataclass(frozen=True, eq=False)
class UnitBoard:
    """A schedule of operations on units; `bound` is that on its latency.

    Where only some operations are placed, `placed` holds them in the orders of units, and those of `schedule` that are
    not placed have no times.
    """

    schedule: HardwareSchedule
    bound: int
    placed: Sequence[Sequence[int]] | None = None
    first = 0

    @cached_property
    def tasks(self) -> TimedTasks:
        tasks = timed_units(self.schedule)
        return tasks if self.placed is None else replace(tasks, orders=self.placed)

    @cached_property
    def running(self) -> HardwareSchedule | None:
        """The schedule of what is placed, as if there was nothing else; None if nothing is."""
        schedule = self.schedule
        if self.placed is None:
            return schedule
        kept = sorted(task for order in self.placed for task in order)
        if not kept:
            return None
        graph, number = schedule.graph, {task: place for place, task in enumerate(kept)}
        inside = (edge for edge in graph.dependences if edge.before in number and edge.after in number)
        edges = tuple(Dependence(number[edge.before], number[edge.after]) for edge in inside)
        part = DataflowGraph(tuple(graph.operations[task] for task in kept), edges, graph.name)
        columns = (schedule.classes, schedule.starts, schedule.instances)
        classes, starts, instances = ([numbers[task] for task in kept] for numbers in columns)
        return HardwareSchedule(part, schedule.units, classes, starts, instances)

    @cached_property
    def users(self) -> Sequence[Sequence[int]]:
        return users_of(self.tasks)

    @property
    def limits(self) -> tuple[TimedTasks, Sequence[Sequence[int]]]:
        return self.tasks, self.users

    @cached_property
    def amounts(self) -> Amounts:
        schedule, tasks = self.schedule, self.tasks
        units = ", ".join(f"{unit.count} {unit.name}" for unit in schedule.units)
        busy = sum(tasks.durations[task] for order in tasks.orders for task in order)
        whole = tasks.devices * tasks.makespan
        bubble = 1 - busy / whole if whole else 0.0
        registers = 0 if self.running is None else self.running.registers
        return Amounts(units, tasks.makespan, self.bound, bubble, f"{registers} registers", ())

    @cached_property
    def gaps(self) -> Sequence[Gap]:
        return [*idle_gaps(self.tasks, [0] * len(self.tasks.durations), lambda _task, _time: True)]

    @cached_property
    def is_late(self) -> bool:
        tasks = self.tasks
        return any(tasks.starts[task] != tasks.allowed[task] for task in tasks.topological)

    @property
    def missing(self) -> int:
        return 0 if self.placed is None else len(self.schedule.graph) - sum(map(len, self.placed))

    def name(self, task: int) -> str:
        return self.schedule.graph.operations[task].name

    def find(self, text: str) -> int | None:
        wanted = "".join(text.split())
        names = {operation.name: task for task, operation in enumerate(self.schedule.graph.operations)}
        found = names.get(wanted, names.get(wanted.upper()))
        return None if found is None or self.tasks.machine[found] == NOTHING else found

    def row_name(self, row: int) -> str:
        number, instance = self._rows[row]
        return f"{self.schedule.units[number].name} {instance}"

    def drawn_with(self, row: int) -> int:
        return row

    def why_fixed(self, task: int) -> str:
        return ""

    def narrowed(self, task: int, limits: PlaceLimits) -> PlaceLimits:
        return limits

    def what_costs_do(self, task: int) -> str:
        return ""

    def likely_after(self, task: int) -> int:
        return NOTHING

    def reordered(self, row: int, order: Sequence[int]) -> UnitBoard:
        orders = [*self.tasks.orders]
        orders[row] = order
        return self._ordered(orders)

    def _ordered(self, orders: Sequence[Sequence[int]]) -> UnitBoard:
        schedule = self.schedule
        placed = {task: instance for order, (_, instance) in zip(orders, self._rows, strict=True) for task in order}
        instances = [placed.get(task, 0) for task in range(len(schedule.graph))]
        graph = lower(schedule.graph, schedule.units, schedule.classes, instances)
        starts, _ = earliest_times(graph, orders)
        after = HardwareSchedule(schedule.graph, schedule.units, schedule.classes, starts, instances)
        return UnitBoard(after, self.bound, orders if sum(map(len, orders)) < len(instances) else None)

    @cached_property
    def _rows(self) -> list[tuple[int, int]]:
        units = self.schedule.units
        return [(number, instance) for number, unit in enumerate(units) for instance in range(unit.count)]

    def emptied(self) -> UnitBoard:
        return self._ordered([[] for _ in self._rows])

    def homes(self, task: int) -> Sequence[int]:
        return [row for row, (number, _) in enumerate(self._rows) if number == self.schedule.classes[task]]

    def home_name(self, task: int) -> str:
        return self.schedule.unit(task).name

    def why_not_on(self, task: int, row: int) -> str:
        return f"{self.name(task)} runs on {self.home_name(task)}, not on {self.row_name(row)}"

    def code(self) -> str:
        """Return classes, starts and units as code; what is not placed has the start -1."""
        schedule = self.schedule
        lists = ", ".join(f"{[*numbers]}" for numbers in (schedule.classes, schedule.starts, schedule.instances))
        return f"hls.HardwareSchedule(graph, units, {lists})"

    def gap_words(self, gap: Gap) -> str:
        culprit = self.name(gap.culprit)
        if gap.waiting == NOTHING:
            return f"all done here; {culprit} still runs"
        return f"{self.name(gap.waiting)} waits for {culprit}"

    def through(self, chain: Sequence[int]) -> str:
        between = [self.name(task) for task in chain[1:-1]]
        return f" through {', '.join(between)}" if between else ""

    def number(self, ticks: int) -> str:
        return str(ticks)

    def save(self, path: str, name: str, *, force: bool) -> str:
        """Write a JSON document, checked before. Raises ConfigError and InvalidSchedule."""
        format_of(path, ["json"])
        target = Path(path).expanduser()
        refuse_existing(target, force)
        checked(self.schedule)
        status = "optimal" if self.schedule.latency == self.bound else "heuristic"
        outcome = HardwareOutcome(self.schedule, name, self.bound, "known before the edits", status)
        write_file(target, [dump(hardware_document(outcome, None))], force)
        return f"saved {path}: checked, every rule holds"


def unit_board(outcome: HardwareOutcome) -> UnitBoard:
    """Return the board of a schedule. Raises ConfigError for one of a loop."""
    if outcome.schedule.interval is not None:
        raise ConfigError("is of a loop, whose iterations overlap; only one that runs once is edited", "schedule")
    return UnitBoard(outcome.schedule, outcome.bound)


def rule_name(priority: str | None, tie: str | None) -> str:
    """Return the name of a rule of the list scheduler: `alap/pairing`, which is also what None stands for."""
    return f"{priority or PRIORITY}/{tie or TIE}"


class UnitPlanner:
    """Plans operations on units: rules of the list scheduler, named `alap/pairing`, and the search."""

    presets = ("none/input", "asap/fifo", rule_name(None, None))

    def __init__(self, load: Loader, units: Units) -> None:
        self._load = load
        self._counts = {unit.name: unit.count for unit in units}

    def choices(self) -> Sequence[Choice]:
        return [Choice(f"{priority}/{tie}", "list scheduler") for priority in PRIORITIES for tie in TIES]

    def fields(self, board: object, parameters: Mapping[str, str]) -> Sequence[FormField]:
        assert isinstance(board, UnitBoard)
        return [FormField(unit.name, f"{unit.name} units", str(unit.count)) for unit in board.schedule.units]

    def plan(self, algorithm: str | None, parameters: Mapping[str, str]) -> Planned:
        priority, _, tie = (algorithm or "").partition("/")
        if priority not in PRIORITIES or tie not in TIES:
            priority, tie = PRIORITY, TIE
        counts = dict(self._counts)
        for name, text in parameters.items():
            if not text.isdecimal() or len(text) > 6:
                raise ConfigError(f"{name}: must be a number of units, not {text!r}")
            counts[name] = int(text)
        graph, units = self._load(counts)
        outcome = list_outcome(graph, units, priority=priority, tie=tie)
        return Planned(unit_board(outcome), rule_name(priority, tie))

    def solve(self, board: object, stop: Event, tell: Tell) -> Planned:
        """Search for the least latency until it is proved, stopped, or 60 s are over."""
        assert isinstance(board, UnitBoard)
        tell("solving")
        outcome = shortest_outcome(board.schedule.graph, board.schedule.units, Limits(SECONDS, stop=stop))
        found = unit_board(outcome)
        kept = board if not board.missing and found.amounts.makespan >= board.amounts.makespan else found
        least, bound = kept.amounts.makespan, found.bound
        note = "proved" if least <= bound else f"at most {(least - bound) / bound:.1%} from the best"
        return Planned(kept, "solve", note)

    def best_move(self, board: object, stop: Event) -> tuple[int, int] | None:
        assert isinstance(board, UnitBoard)
        tasks, best, least = board.tasks, None, board.amounts.makespan
        for task, start, to in candidate_moves(tasks):
            if stop.is_set():
                break
            row = tasks.machine[task]
            after = board.reordered(row, moved(tasks.orders[row], start, to)).amounts.makespan
            if after < least:
                best, least = (task, to), after
        return best
