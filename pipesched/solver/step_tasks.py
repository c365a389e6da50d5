"""The tasks of a step in the exact model: what runs beside the passes, where, how long, and after what.

Side work that several devices may run is a task for each of them, of which one runs. At level weights each stage has
its first gather here; those that follow depend on the order of the slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipesched.core.tasks import Edges, arrow
from pipesched.pipeline.ops import NO_NUMBER, Op, OpIndex, StepOp
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.step_ends import gathers, reduces, tied_stages, updates


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
        problem, index = self.problem, self.index
        each = problem.sharding.reduces_each
        for stage in range(problem.stages if reduces(problem) else 0):
            row, ticks = index.row(index.last, stage), problem.step_ticks.reduce[stage]
            parts = [index.in_units(range(m, m + 1)) for m in range(index.microbatches)] if each else [slice(None)]
            for number, part in enumerate(parts):
                task = self._task(stage, "REDUCE_GRAD", number if each else NO_NUMBER, (self._lane(stage),), ticks)
                self._follow(row[part], task)
                self.reductions.setdefault(stage, []).append(task)
        ends = tied_stages(problem)
        if ends:
            lanes = tuple(map(self._lane, ends))
            self.tied = self._task(ends[0], "REDUCE_TIED", NO_NUMBER, lanes, problem.step_ticks.tied)
            for stage in ends:
                self._follow(self.gradients(stage), self.tied)

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
