"""The exact model of a case with a step: passes as in `model`, and beside them what `step_tasks` lists.

Below level weights lanes have any order. At level weights they follow the rule of the slots, and are timed by it; of
devices with many passes the gathers of later turns are left out, so that bounds hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from typing import Any

from pipesched.pipeline.residences import residences
from pipesched.pipeline.step import GRADIENTS, WEIGHTS
from pipesched.solver.case import Case
from pipesched.solver.step_gathers import RuledGathers, start_promptly
from pipesched.solver.step_tasks import StepRules, StepTaskModel

Stay = tuple[Any, int]  # an interval, and the grains that are held in it


class WholeStepModel(StepTaskModel):
    """The model of a case with a step whose makespan lies in [least, most] ticks."""

    def __init__(self, case: Case, rules: StepRules, least: int, most: int) -> None:
        super().__init__(case, rules, least, most)
        self.holds_more = False  # whether a budget counts more than activations
        self.gathers: dict[int, RuledGathers] = {}  # by device, where not all stages are whole at once

    def dependencies(self) -> None:
        """Start each operation after what it waits for, with the latency between devices."""
        for before, after, lag in self.rules.graph.edges:
            self.after(before, after, lag // self.quantum)

    def machines(self) -> None:
        """Run one operation at a time on each device and on each network lane."""
        for device, tasks in enumerate(self.case.tasks_on):
            self.one_at_a_time([*tasks, *self.step.on_machine(device)])
            lane = [self.intervals[task] for task in self.step.on_machine(self.problem.devices + device)]
            self.model.add_no_overlap([*lane, *(self.gathers[device].intervals if device in self.gathers else ())])

    def side_work(self) -> None:
        """Run side work on one device, forward and backward on the same, between the passes that it serves."""
        for side in self.step.side:
            present = {device: self.presences[task] for device, task in side.forwards.items()}
            self.model.add_exactly_one(present.values())
            used, needed = self.step.used_by(side), self.step.gradients_for(side)
            for device, forward in side.forwards.items():
                lag = self.step.lag(side.item, device) // self.quantum
                here = present[device]
                self.model.add(self.starts[used] >= self.end(forward) + lag).only_enforce_if(here)
                if side.backwards:
                    backward = side.backwards[device]
                    self.model.add(here == self.presences[backward])
                    self.model.add(self.starts[backward] >= self.end(forward)).only_enforce_if(here)
                    for one in needed:
                        self.model.add(self.starts[backward] >= self.end(one) + lag).only_enforce_if(here)

    def lanes(self) -> None:
        """At level weights reduce gradients in the order in which they are there, and gather what was not kept."""
        if not self.problem.sharding.divides(WEIGHTS):
            return
        most = self.case.policy.exact.most_ruled // len(self.index.row("F", 0)) // len(self.index.letters)
        for device in range(self.problem.devices):
            stages = self.problem.settled_placement.stages_on(device)
            done = [(task, self._latest(self.step.reduced(stage, number))) for stage in stages
                    for number, task in enumerate(self.step.reductions.get(stage, ()))]  # fmt: skip
            for (one, before), (other, after) in combinations(done, 2):
                first = self.model.new_bool_var("")
                for this, that, here, there, holds in ((one, other, before, after, first),
                                                       (other, one, after, before, ~first)):  # fmt: skip
                    self.model.add(self.end(this) <= self.starts[that]).only_enforce_if(holds)
                    self.model.add(here <= there).only_enforce_if(holds)
            if self.rules.is_whole(device):
                self._gather_behind(device, stages[0])
            elif len(stages) <= most:
                self.gathers[device] = RuledGathers(self, device, self.rules.ahead(device))

    def _gather_behind(self, device: int, stage: int) -> None:
        """Gather first once all side work before the first pass of a device has ended, as the rule issues it there."""
        gather = self.step.gathers[stage]
        for side in self.step.side:
            for task in (one[device] for one in (side.forwards, side.backwards) if device in one):
                before = self.model.new_bool_var("")
                self.model.add(self.end(task) <= self.starts[gather]).only_enforce_if(before)
                literals = [before, ~self.presences[task]]
                for forward in self.index.row("F", stage):
                    literals.append(self.model.new_bool_var(""))
                    self.model.add(self.starts[task] >= self.end(forward)).only_enforce_if(literals[-1])
                self.model.add_bool_or(literals)

    def _latest(self, tasks: Sequence[int]) -> Any:
        if len(tasks) == 1:
            return self.end(tasks[0])
        latest = self.model.new_int_var(0, self.horizon, "")
        self.model.add_max_equality(latest, [self.end(task) for task in tasks])
        return latest

    def memory(self) -> None:
        """Keep what devices hold over time within their capacity."""
        for device, capacity in enumerate(self.problem.capacity_grains):
            if capacity is not None:
                of_step = [stay for stay in (*self._of_stages(device), *self._of_side(device)) if stay[1]]
                stays = residences(self.problem, self.index, device)
                own = [(self.between(self.begin(one), self.end(one.last), self.horizon), one.size) for one in stays]
                held = [*(stay for stay in own if stay[1]), *of_step]
                self.holds_more |= bool(of_step)
                if held:
                    intervals, sizes = zip(*held, strict=True)
                    self.hold(intervals, sizes, capacity)

    def _of_stages(self, device: int) -> Iterator[Stay]:
        """Yield the stays of whole weights and whole gradients."""
        shard, grains, index = self.problem.sharding, self.problem.step_grains, self.index
        for stage in self.problem.settled_placement.stages_on(device):
            if shard.divides(WEIGHTS):
                passes = [*chain.from_iterable(index.row(kind, stage) for kind in index.letters)]
                if self.rules.is_whole(device):
                    end = self._latest(index.row(index.letters[-1], stage))
                    start = self.starts[self.step.gathers[stage]]
                    yield self.between(start, end, self.horizon), grains.weights[stage]
                else:
                    whole_from = self.gathers[device].whole_from if device in self.gathers else self.starts
                    for task in passes:
                        stay = self.between(whole_from[task], self.end(task), self.horizon)
                        yield stay, grains.weights[stage]
            if shard.divides(GRADIENTS) and self.step.reductions:
                yield from self._gradients(stage, grains.gradients[stage])

    def _gradients(self, stage: int, size: int) -> Iterator[Stay]:
        for number, task in enumerate(self.step.reductions[stage]):
            first = self.model.new_int_var(0, self.horizon, "")
            self.model.add_min_equality(first, [self.starts[one] for one in self.step.reduced(stage, number)])
            yield self.between(first, self.end(task), self.horizon), size

    def _of_side(self, device: int) -> Iterator[Stay]:
        """Yield the stays of activations of side work, and of its outputs and their gradients."""
        grains, there = self.problem.step_grains, self.problem.settled_placement.devices
        for side in self.step.side:
            if device in side.forwards:
                forward, backward = side.forwards[device], side.backwards.get(device)
                end = self.end(forward if backward is None else backward)
                here = self.presences[forward]
                stay = self.between(self.starts[forward], end, self.horizon, here)
                yield stay, grains.side_activation[side.item]
            if there[self.problem.side[side.item].into] == device:
                used, size = self.starts[self.step.used_by(side)], grains.side_output[side.item]
                for one in side.forwards.values():
                    yield self.between(self.end(one), used, self.horizon, self.presences[one]), size
                for one in side.backwards.values():
                    ready = self._latest(self.step.gradients_for(side))
                    yield self.between(ready, self.starts[one], self.horizon, self.presences[one]), size

    def prompt_starts(self) -> None:
        """Start all as early as possible, where the memory of the step depends on times, not on orders alone."""
        if self.holds_more and self.is_small:
            lanes = [()] * self.problem.devices
            slots = [*self.case.tasks_on[: self.problem.devices], *lanes]
            start_promptly(
                self, self.gathers, [[*own, *self.step.on_machine(machine)] for machine, own in enumerate(slots)]
            )

    def objective(self) -> None:
        """Minimize the makespan, network lanes included."""
        goal = self.model.new_int_var(self.least, self.horizon, self.case.objective)
        for task in range(len(self.starts)):
            last = self.model.add(self.end(task) <= goal)
            if task in self.presences:
                last.only_enforce_if(self.presences[task])
        self.model.minimize(goal)


def step_model(case: Case, rules: StepRules, least: int, most: int) -> WholeStepModel:
    """Return the model with every rule of a case with a step; [least, most] are in ticks."""
    model = WholeStepModel(case, rules, least, most)
    before = (model.dependencies, model.side_work, model.lanes, model.machines, model.memory, model.prompt_starts)
    for rule in (*before, model.objective):
        rule()
    return model
