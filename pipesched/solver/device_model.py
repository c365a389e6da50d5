"""The exact model of one device of a case: all others run as many operations at once as they like, and hold them all.

What is left of them is the time that they take between the operations of the device, before and after them. So the
model has a part of the operations of the case, and its least makespan is a bound on that of the case.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import add

from pipesched.core.clock import look
from pipesched.core.integers import ceil_div
from pipesched.core.paths import tails
from pipesched.core.tasks import NOWHERE
from pipesched.pipeline.capacity import capacity_edges, order_edges
from pipesched.pipeline.residences import residences
from pipesched.solver.case import Case
from pipesched.solver.model import TunedModel, latest_starts


class DeviceModel(TunedModel):
    """The model of the operations of one device, with a makespan in [least, most] ticks; times are in quanta.

    Take a schedule of the case whose makespan is in that range, its microbatches in order, and leave out all operations
    of other devices: it keeps every rule here. Each operation starts no earlier than its head and ends no later than
    its tail demands, both longest paths in the ordered graph of the case; two of them are as far apart as the longest
    path between them through other devices; and the device runs one at a time and holds no more than its capacity. So
    the least makespan of the model is at most that of the case.
    """

    def __init__(self, case: Case, device: int, least: int, most: int) -> None:
        super().__init__(case)
        self.device = device
        self.own = [task for task, there in enumerate(case.graph.pools) if there == device]
        self.number = {task: number for number, task in enumerate(self.own)}
        quantum, graph, latest = case.quantum, case.graph, latest_starts(case, most)
        for task in self.own:
            self.task(graph.durations[task] // quantum, case.heads[task] // quantum, latest[task] // quantum)
        self.horizon = max(map(add, latest, graph.durations)) // quantum
        self._distances()
        self._orders()
        self._memory()
        self.one_at_a_time([self.number[task] for task in self.own if graph.resources[task] != NOWHERE])
        after = tails(case.ordered)
        self.shortest([after[task] // quantum for task in self.own], ceil_div(least, quantum), most // quantum)

    def _distances(self) -> None:
        """Start each operation as long after others of the device as the way through other devices takes."""
        for task in self.own:
            look()
            for after, ticks in self._ways(task):
                before, behind = self.starts[self.number[task]], self.starts[self.number[after]]
                self.model.add(behind >= before + ticks // self.case.quantum)

    def _ways(self, task: int) -> Iterator[tuple[int, int]]:
        """Yield the operations of the device that a task leads to, and the ticks from start to start."""
        graph, longest, pending = self.case.graph, {task: 0}, [task]
        found: dict[int, int] = {}
        while pending:
            here = pending.pop()
            for after, lag in graph.successors[here]:
                ticks = longest[here] + graph.durations[here] + lag
                if after in self.number:
                    found[after] = max(ticks, found.get(after, 0))
                elif ticks > longest.get(after, -1):
                    longest[after] = ticks
                    pending.append(after)
        yield from found.items()

    def _orders(self) -> None:
        """Run microbatches in order, and add the precedences that follow from the budget."""
        problem, index = self.case.problem, self.case.index
        for edge in (*order_edges(problem, index), *capacity_edges(problem, index)):
            for before, after in zip(edge.before, edge.after, strict=True):
                if before in self.number and after in self.number:
                    self.after(self.number[before], self.number[after], edge.lag // self.case.quantum)

    def _memory(self) -> None:
        """Keep what the device holds at any time within its capacity."""
        problem, index = self.case.problem, self.case.index
        capacity, held = problem.capacity_grains[self.device], residences(problem, index, self.device)
        if capacity is None or not held:
            return
        intervals = []
        for stay in held:
            first, last = self.number[stay.first], self.end(self.number[stay.last])
            start = self.end(first) if stay.from_end else self.starts[first]
            intervals.append(self.between(start, last, self.horizon))
        self.hold(intervals, [stay.size for stay in held], capacity)
