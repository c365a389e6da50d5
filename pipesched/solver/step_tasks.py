"""The tasks of a step in the exact model: what runs beside the passes, and what every order has.

Side work that several devices may run is a task for each of them, of which one runs. At level weights each stage has
its first gather here; those that follow depend on the order of the slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from pipesched.core.arrays import ceil_div
from pipesched.core.bounds import Job, jackson_preemptive
from pipesched.core.clock import look
from pipesched.core.tasks import Edges, TaskGraph, arrow
from pipesched.core.timing import UNREACHED, heads, tails, topological_order
from pipesched.pipeline.bounds import Bound
from pipesched.pipeline.capacity import capacity_edges, order_edges
from pipesched.pipeline.ops import NO_NUMBER, Op, OpIndex, StepOp
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.step import AUTO, WEIGHTS
from pipesched.pipeline.step_jobs import gathers, reduces, step_ends, tied_stages, updates
from pipesched.pipeline.step_rule import ahead_of
from pipesched.solver.case import Case
from pipesched.solver.model import TunedModel


class StepTask(NamedTuple):
    """An operation of a step with its ticks on the machines that it occupies: devices, and behind them their lanes."""

    op: Op
    machines: tuple[int, ...]
    ticks: int


class SideTasks(NamedTuple):
    """Side work of an item for a microbatch: its forward, and its backward if it has one, as tasks by device."""

    item: int
    microbatch: int
    forwards: dict[int, int]
    backwards: dict[int, int]


class StepTasks:
    """The tasks of the step of a problem, numbered behind the operations of `index`, its passes."""

    def __init__(self, problem: Problem, index: OpIndex) -> None:
        self.problem, self.index = problem, index
        self.tasks: list[StepTask] = []
        self.edges: list[Edges] = []
        self.gathers: dict[int, int] = {}  # by stage
        self.reductions: dict[int, list[int]] = {}  # by stage; one, or one for each microbatch
        self.tied: int | None = None
        self.optimizers: dict[int, int] = {}  # by stage
        self.side: list[SideTasks] = []
        self._there = problem.settled_placement.devices
        self._add_gathers()
        self._add_reductions()
        self._add_optimizers()
        self._add_side()

    @property
    def first(self) -> int:
        """The number of the first task of the step."""
        return self.index.size

    def _task(self, stage: int, kind: str, number: int, machines: tuple[int, ...], ticks: int) -> int:
        self.tasks.append(StepTask(StepOp._make((stage, kind, number, 0)), machines, ticks))
        return self.first + len(self.tasks) - 1

    def _lane(self, stage: int) -> int:
        return self.problem.devices + self._there[stage]

    def _follow(self, before: Sequence[int], after: int) -> None:
        self.edges += (arrow(one, after) for one in before)

    def _add_gathers(self) -> None:
        for stage in range(self.problem.stages if gathers(self.problem) else 0):
            ticks = self.problem.step_ticks.gather[stage]
            task = self.gathers[stage] = self._task(stage, "UNSHARD", 0, (self._lane(stage),), ticks)
            self.edges += (arrow(task, forward) for forward in self.index.row("F", stage))

    def _add_reductions(self) -> None:
        problem, each = self.problem, self.problem.sharding.reduces_each
        for stage in range(problem.stages if reduces(problem) else 0):
            ticks = problem.step_ticks.reduce[stage]
            for number in range(self.index.microbatches if each else 1):
                task = self._task(stage, "REDUCE_GRAD", number if each else NO_NUMBER, (self._lane(stage),), ticks)
                self._follow(self.reduced(stage, number), task)
                self.reductions.setdefault(stage, []).append(task)
        ends = tied_stages(problem)
        if ends:
            lanes = tuple(map(self._lane, ends))
            self.tied = self._task(ends[0], "REDUCE_TIED", NO_NUMBER, lanes, problem.step_ticks.tied)
            for stage in ends:
                self._follow(self.gradients(stage), self.tied)

    def reduced(self, stage: int, number: int) -> Sequence[int]:
        """Return the backwards whose gradients a reduction of a stage adds up."""
        row = self.index.row(self.index.last, stage)
        return row[self.index.in_units(range(number, number + 1))] if self.problem.sharding.reduces_each else row

    def gradients(self, stage: int) -> Sequence[int]:
        """Return the tasks after which the gradients of a stage are there, tied ones apart."""
        return self.reductions[stage] if stage in self.reductions else self.index.row(self.index.last, stage)

    def _add_optimizers(self) -> None:
        problem, ends = self.problem, tied_stages(self.problem)
        for stage in range(problem.stages if updates(problem) else 0):
            ticks = problem.step_ticks.optimizer[stage]
            task = self._task(stage, "OPTIMIZER", NO_NUMBER, (self._there[stage],), ticks)
            self.optimizers[stage] = task
            for other in range(problem.stages) if problem.clip else (stage,):
                self._follow(self.gradients(other), task)
            if self.tied is not None and (problem.clip or stage in ends):
                self._follow([self.tied], task)

    def _add_side(self) -> None:
        for item, work in enumerate(self.problem.side):
            for microbatch in range(self.problem.microbatches):
                forwards = self._by_device(item, "E", "forward", microbatch)
                has_backward = work.backward is not None
                backwards = self._by_device(item, "G", "backward", microbatch) if has_backward else {}
                self.side.append(SideTasks(item, microbatch, forwards, backwards))

    def _by_device(self, item: int, kind: str, key: str, microbatch: int) -> dict[int, int]:
        ticks = self.problem.step_ticks
        return {
            device: self._task(item, kind, microbatch, (device,), ticks.side_lasts(key, item, microbatch, device))
            for device in self.problem.side[item].devices
        }

    def lag(self, item: int, device: int) -> int:
        """Return the latency between an item on a device and the stage that it goes into, in ticks."""
        return 0 if device == self._there[self.problem.side[item].into] else self.problem.step_ticks.side_p2p[item]

    def used_by(self, side: SideTasks) -> int:
        """Return the forward that needs side work: that of the first slice."""
        return self.index.row("F", self.problem.side[side.item].into)[side.microbatch * self.index.slices]

    def gradients_for(self, side: SideTasks) -> Sequence[int]:
        """Return the backwards whose input gradients the backward of side work needs."""
        index, into = self.index, self.problem.side[side.item].into
        part = index.in_units(range(side.microbatch, side.microbatch + 1))
        return [number for kind in index.gradients for number in index.row(kind, into)[part]]

    def on_machine(self, machine: int) -> Iterator[int]:
        """Yield the tasks of the step on a machine."""
        yield from (self.first + number for number, task in enumerate(self.tasks) if machine in task.machines)


class StepRules:
    """The tasks of a case with a step and their precedences; `passes` is the task graph of its passes.

    Side work with a backward on a device of choice couples the forwards and backwards of its microbatch, and side work
    may differ between microbatches: then not all rows of operations have microbatches in order (`is_sorted`).
    """

    def __init__(self, problem: Problem, index: OpIndex, passes: TaskGraph) -> None:
        self.problem, self.index, self.passes = problem, index, passes
        self.step = StepTasks(problem, index)
        times = [times for item in problem.side for times in (item.forward, item.backward) if times is not None]
        self._is_alike = all(len({*one}) == 1 for one in times)
        couples = any(item.backward is not None and len(item.devices) > 1 for item in problem.side)
        self.is_sorted = self._is_alike and (not couples or problem.microbatches == 1)

    @cached_property
    def graph(self) -> TaskGraph:
        """The passes and what the step has beside them, with the precedences that hold in every order searched."""
        durations = [*self.passes.durations, *(task.ticks for task in self.step.tasks)]
        edges = [self.passes.edges, *self.step.edges, *self._orders(), *self._lanes()]
        return TaskGraph(durations, [0] * len(durations), (1,), edges)

    @cached_property
    def heads(self) -> list[int]:
        """The earliest start of each task, in ticks."""
        return heads(self.graph, self._of_kind("F", step_ends(self.problem).released))

    @cached_property
    def tails(self) -> list[int]:
        """The ticks between the end of each task and the end of the schedule."""
        kind = self.index.gradient if self.index.gradients else ""
        return tails(self.graph, self._of_kind(kind, step_ends(self.problem).behind_gradient))

    @cached_property
    def _behind(self) -> list[int]:
        """Of each task those that come behind it in every order, as the bits of a number."""
        behind = [0] * len(self.graph)
        for task in reversed(topological_order(self.graph)):
            for after, _ in self.graph.successors[task]:
                behind[task] |= behind[after] | 1 << after
        return behind

    def reaches(self, one: int, other: int) -> bool:
        """Return whether a task comes before another one in every order."""
        return bool(self._behind[one] >> other & 1)

    def _of_kind(self, kind: str, ticks: Sequence[int]) -> list[int]:
        """Return for each task of a kind the ticks of its stage, 0 for others."""
        found = [0] * len(self.graph)
        for stage in range(self.index.stages if kind else 0):
            for number in self.index.row(kind, stage):
                found[number] = ticks[stage]
        return found

    def _orders(self) -> Iterator[Edges]:
        """Yield the order of microbatches that are alike, and what then follows from the budget.

        Where operations are coupled one row alone has them in order: it gives them their numbers.
        """
        problem, index = self.problem, self.index
        if not self._is_alike:
            return
        if not self.is_sorted:
            yield from order_edges(problem, index, [index.row("F", 0)])
            return
        yield from order_edges(problem, index)
        yield from capacity_edges(problem, index)
        if problem.sharding.reduces_each and not problem.has_units:
            for tasks in self.step.reductions.values():
                yield from map(arrow, tasks, tasks[1:])

    def ahead(self, device: int) -> int:
        """Return how many stages of a device are whole at once, at level weights; 0 where that is left to a choice."""
        return 0 if self.problem.sharding.ahead == AUTO else ahead_of(self.problem, device)

    def is_whole(self, device: int) -> bool:
        """Return whether all stages of a device are whole at once."""
        count = len(self.problem.settled_placement.stages_on(device))
        return not self.problem.sharding.gathers_each and (count == 1 or self.ahead(device) >= count)

    def _lanes(self) -> Iterator[Edges]:
        """Yield what the rule of level weights says of every order: gathers by stage, before reductions; tied last."""
        if not self.problem.sharding.divides(WEIGHTS):
            return
        tied = self.step.tied
        for device in range(self.problem.devices):
            stages = self.problem.settled_placement.stages_on(device)
            gathers = [self.step.gathers[stage] for stage in stages]
            reductions = [task for stage in stages for task in self.step.reductions.get(stage, ())]
            yield from map(arrow, gathers, gathers[1:])
            if self.is_whole(device):
                yield from (arrow(gathers[-1], task) for task in reductions)
            if tied is not None and tied in self.step.on_machine(self.problem.devices + device):
                yield from (arrow(task, tied) for task in (*gathers, *reductions))

    def bounds(self) -> Iterator[Bound]:
        """Yield bounds on the makespan by the longest paths, and of each device and network lane by Jackson."""
        columns = self.heads, self.graph.durations, self.tails
        yield Bound(max(map(sum, zip(*columns, strict=True))), "residences one after another under the budget")
        jobs = [Job(*column) for column in zip(*columns, strict=True)]
        optional = {task for side in self.step.side for task in (*side.forwards.values(), *side.backwards.values())}
        machines = self.passes.by_resource(range(len(self.passes)))
        for machine in range(2 * self.problem.devices):
            tasks = machines[machine] if machine < self.problem.devices else []
            own = [jobs[task] for task in (*tasks, *self.step.on_machine(machine)) if task not in optional]
            lane = machine - self.problem.devices
            what = f"device {machine}" if lane < 0 else f"the network of device {lane}"
            yield Bound(jackson_preemptive(own), f"Jackson's preemptive schedule of {what} under the budget")

    def span_bounds(self) -> Iterator[Bound]:
        """Yield bounds on the span, where microbatches are in order: of each device and stage from its first forward.

        The first gather of a stage ends before that, however late it stands.
        """
        step, index, there = self.step, self.index, self.problem.settled_placement
        for device in range(self.problem.devices if self.is_sorted else 0):
            slots: list[int] = []
            for stage in there.stages_on(device):
                own = [number for kind in index.letters for number in index.row(kind, stage)]
                own += [step.optimizers[stage]] if stage in step.optimizers else []
                slots += own
                ends = [*own, *step.reductions.get(stage, ())]
                ends += [step.tied] if step.tied is not None and stage in tied_stages(self.problem) else []
                gather = self.graph.durations[step.gathers[stage]] if stage in step.gathers else 0
                yield Bound(gather + self._alone(own, ends), f"stage {stage} from its first to its last operation")
            if slots:
                yield Bound(self._alone(slots, slots), f"Jackson's preemptive schedule of device {device} alone")

    def _alone(self, slots: Sequence[int], last: Sequence[int]) -> int:
        """Return the least time from the start of the first of some slots of a device to the end of all `last`."""
        begun, ends = [UNREACHED] * len(self.graph), [UNREACHED] * len(self.graph)
        begun[slots[0]] = 0
        for task in last:
            ends[task] = 0
        since, after = heads(self.graph, begun), tails(self.graph, ends)
        return jackson_preemptive([Job(since[task], self.graph.durations[task], after[task]) for task in slots])


class StepTaskModel(TunedModel):
    """The tasks of a case with a step whose makespan lies in [least, most] ticks."""

    def __init__(self, case: Case, rules: StepRules, least: int, most: int) -> None:
        super().__init__(case)
        self.rules, self.step, self.quantum = rules, rules.step, case.quantum
        self.problem, self.index = case.problem, case.index
        self.least, self.horizon = ceil_div(least, self.quantum), most // self.quantum
        optional = {*chain.from_iterable((*one.forwards.values(), *one.backwards.values()) for one in self.step.side)}
        columns = rules.graph.durations, rules.heads, rules.tails
        for number, (ticks, head, tail) in enumerate(zip(*columns, strict=True)):
            lasts, last = ticks // self.quantum, (most - tail - ticks) // self.quantum
            if number in optional:
                self.optional(lasts, last)
            else:
                self.task(lasts, head // self.quantum, last)

    def is_one_of(self, start: Any, causes: Sequence[Any]) -> list[Any]:
        """Return a literal of each time that a start is this one."""
        found = []
        for cause in causes:
            look()
            found.append(self.model.new_bool_var(""))
            self.model.add(start == cause).only_enforce_if(found[-1])
        return found
