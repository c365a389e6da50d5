"""The exact model of a variant with a step: passes as in `model`, and beside them the tasks of the step.

`StepVariant.model` makes a `WholeStepModel` and adds its rules one by one. `StepTasks` numbers the tasks: gathers of
weights, reductions of gradients, optimizers, side work. `StepRules` adds what is known of their order, and bounds.

Gathers and reductions run on their device's network lane, one at a time. Below level weights (`Shard.level`) a lane has
any order. At level weights each stage has its first gather as a task; those that follow depend on the order of the
slots. Where all stages of a device are whole (gathered) at once, its lane follows the rule. Where one is, gathers stand
between its passes; elsewhere later ones are left out, and bounds hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, combinations, permutations, product
from typing import Any, NamedTuple

from pipesched.core.arrays import ceil_div
from pipesched.core.bounds import Job, jackson_preemptive
from pipesched.core.clock import check_deadline
from pipesched.core.tasks import Edges, TaskGraph, arrow
from pipesched.core.timing import UNREACHED, UNTIMED, heads, tails
from pipesched.pipeline.bounds.bounds import Bound, step_ends
from pipesched.pipeline.bounds.memory import capacity_edges, order_edges, residences
from pipesched.pipeline.plan.step import AUTO, GRADIENTS, WEIGHTS
from pipesched.pipeline.plan.step_plan import ahead_of, gathers, reduces, tied_stages
from pipesched.pipeline.problem.ops import NO_NUMBER, Op, OpIndex, StepOp
from pipesched.pipeline.problem.problem import Problem
from pipesched.solver.model import TunedModel
from pipesched.solver.variant import Variant


class StepTask(NamedTuple):
    """An operation of a step with its ticks on the machines that it occupies: devices, and behind them their lanes."""

    op: Op
    machines: tuple[int, ...]
    ticks: int


class SideTasks(NamedTuple):
    """Side work of an item for a microbatch: its forward, and its backward if it has one, as tasks by device.

    Where several devices may run it, it is a task for each of them, of which one runs.
    """

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
        self.tied: int | None = None  # the reduction of gradients that two stages share
        self.optimizers: dict[int, int] = {}  # by stage
        self.side: list[SideTasks] = []
        self._there = problem.settled_placement.devices
        for stage in range(problem.stages if gathers(problem) else 0):
            ticks = problem.step_ticks.gather[stage]
            task = self.gathers[stage] = self._task(stage, "UNSHARD", 0, (self._lane(stage),), ticks)
            self.edges += (arrow(task, forward) for forward in index.row("F", stage))
        each, ends = problem.sharding.reduces_each, tied_stages(problem)
        for stage in range(problem.stages if reduces(problem) else 0):
            ticks = problem.step_ticks.reduce[stage]
            for number in range(index.microbatches if each else 1):
                task = self._task(stage, "REDUCE_GRAD", number if each else NO_NUMBER, (self._lane(stage),), ticks)
                self._follow(self.reduced(stage, number), task)
                self.reductions.setdefault(stage, []).append(task)
        if ends:
            lanes = tuple(map(self._lane, ends))
            self.tied = self._task(ends[0], "REDUCE_TIED", NO_NUMBER, lanes, problem.step_ticks.tied)
            for stage in ends:
                self._follow(self.gradients(stage), self.tied)
        for stage in range(0 if problem.costs.optimizer is None else problem.stages):
            ticks = problem.step_ticks.optimizer[stage]
            task = self.optimizers[stage] = self._task(stage, "OPTIMIZER", NO_NUMBER, (self._there[stage],), ticks)
            for other in range(problem.stages) if problem.clip else (stage,):  # behind all gradients that it needs
                self._follow(self.gradients(other), task)
            if self.tied is not None and (problem.clip or stage in ends):
                self._follow([self.tied], task)
        for (item, work), microbatch in product(enumerate(problem.side), range(problem.microbatches)):
            forwards = self._by_device(item, "E", "forward", microbatch)
            backwards = {} if work.backward is None else self._by_device(item, "G", "backward", microbatch)
            self.side.append(SideTasks(item, microbatch, forwards, backwards))

    def _task(self, stage: int, kind: str, number: int, machines: tuple[int, ...], ticks: int) -> int:
        self.tasks.append(StepTask(StepOp._make((stage, kind, number, 0)), machines, ticks))
        return self.index.size + len(self.tasks) - 1

    def _lane(self, stage: int) -> int:
        return self.problem.devices + self._there[stage]

    def _follow(self, before: Sequence[int], after: int) -> None:
        self.edges += (arrow(one, after) for one in before)

    def reduced(self, stage: int, number: int) -> Sequence[int]:
        """Return the backwards whose gradients a reduction of a stage adds up."""
        row = self.index.row(self.index.last, stage)
        return row[self.index.in_units(range(number, number + 1))] if self.problem.sharding.reduces_each else row

    def gradients(self, stage: int) -> Sequence[int]:
        """Return the tasks after which the gradients of a stage are there, tied ones apart."""
        return self.reductions[stage] if stage in self.reductions else self.index.row(self.index.last, stage)

    def _by_device(self, item: int, kind: str, key: str, microbatch: int) -> dict[int, int]:
        ticks = self.problem.step_ticks
        return {
            device: self._task(item, kind, microbatch, (device,), ticks.side_lasts(key, item, microbatch, device))
            for device in self.problem.side[item].devices
        }

    @cached_property
    def optional(self) -> set[int]:
        """The tasks of side work, which one of several devices runs."""
        return {task for side in self.side for task in (*side.forwards.values(), *side.backwards.values())}

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
        yield from (self.index.size + number for number, task in enumerate(self.tasks) if machine in task.machines)


class StepRules:
    """The tasks of a variant with a step and their precedences; `passes` is the task graph of its passes.

    Side work with a backward on a device of choice couples the forwards and backwards of its microbatch, and side work
    may differ between microbatches. Then not all rows of operations have microbatches in order (`is_sorted`).
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
        return heads(self.graph, self._of_kind("F", step_ends(self.problem).released))

    @cached_property
    def tails(self) -> list[int]:
        """The ticks between the end of each task and the end of the schedule."""
        kind = self.index.gradient if self.index.gradients else ""
        return tails(self.graph, self._of_kind(kind, step_ends(self.problem).behind_gradient))

    def _of_kind(self, kind: str, ticks: Sequence[int]) -> list[int]:
        """Return for each task of a kind the ticks of its stage, 0 for others."""
        found = [0] * len(self.graph)
        for stage in range(self.index.stages if kind else 0):
            for number in self.index.row(kind, stage):
                found[number] = ticks[stage]
        return found

    def _orders(self) -> Iterator[Edges]:
        """Yield the order of microbatches that are alike (coupled: of one row alone), and what the budget adds."""
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
        count = len(self.problem.settled_placement.stages_on(device))
        return not self.problem.sharding.gathers_each and (count == 1 or self.ahead(device) >= count)

    def gathers_between(self, device: int) -> bool:
        """Return whether the exact model has the gathers between the passes of a device: one stage whole at a time."""
        passes = self.passes.by_resource(range(len(self.passes)))[device]
        is_alone = self.ahead(device) == 1 and not self.problem.sharding.gathers_each
        return is_alone and self.is_sorted and len(passes) <= 36 and all(self.passes.durations[one] for one in passes)

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
        machines = self.passes.by_resource(range(len(self.passes)))
        for machine in range(2 * self.problem.devices):
            tasks = machines[machine] if machine < self.problem.devices else []
            own = [jobs[task] for task in (*tasks, *self.step.on_machine(machine)) if task not in self.step.optional]
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


Residency = tuple[Any, int]  # an interval, and the grains that are held in it


class WholeStepModel(TunedModel):
    """The model of a variant with a step whose makespan lies in [least, most] ticks."""

    def __init__(self, variant: Variant, rules: StepRules, least: int, most: int) -> None:
        super().__init__(variant)
        self.rules, self.step, self.quantum = rules, rules.step, variant.quantum
        self.problem, self.index = variant.problem, variant.index
        self.least, self.horizon = ceil_div(least, self.quantum), most // self.quantum
        self.later: dict[int, list[Any]] = {}  # by device: gathers behind the first of a stage
        self.holds_more = False  # whether a budget counts more than activations
        columns = rules.graph.durations, rules.heads, rules.tails
        for number, (ticks, head, tail) in enumerate(zip(*columns, strict=True)):
            lasts, last = ticks // self.quantum, (most - tail - ticks) // self.quantum
            if number in self.step.optional:
                self.optional(lasts, last)
            else:
                self.task(lasts, head // self.quantum, last)

    def dependencies(self) -> None:
        for before, after, lag in self.rules.graph.edges:
            self.after(before, after, lag // self.quantum)

    def machines(self) -> None:
        """Run one operation at a time on each device and on each network lane."""
        for machine in range(2 * self.problem.devices):
            own = [self.intervals[task] for task in self._on_machine(machine)]
            self.model.add_no_overlap([*own, *self.later.get(machine - self.problem.devices, ())])

    def _on_machine(self, machine: int) -> list[int]:
        """Return the tasks of a device, or, behind all devices, of its lane."""
        passes = self.variant.tasks_on[machine] if machine < self.problem.devices else ()
        return [*passes, *self.step.on_machine(machine)]

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
            elif self.rules.gathers_between(device):
                self.later[device] = [*self._gather_between(stages, done)]

    def _gather_between(self, stages: Sequence[int], done: Sequence[tuple[int, Any]]) -> Iterator[Any]:
        """Gather between passes of different stages where one is whole at a time, in turn with reductions.

        A circuit (`arcs`) says which pass follows which; UNTIMED stands before the first and behind the last. Behind a
        pass of another stage comes a gather: after the reductions `issued` by then, before all others. Yield the
        intervals of gathers behind the first of a stage. `done` has reductions, and when gradients are there.
        """
        index, gathers, switches_to = self.index, self.step.gathers, dict[int, list[Any]]()
        passes = {task: stage for stage in stages for kind in index.letters for task in index.row(kind, stage)}
        place = {task: place for place, task in enumerate((UNTIMED, *passes))}  # the nodes of the circuit
        firsts = {index.row("F", stage)[0] for stage in stages}
        begins = {  # of the gather before each pass
            task: self.starts[gathers[stage]] if task in firsts else self.model.new_int_var(0, self.horizon, "")
            for task, stage in passes.items()
        }
        issued = {(one, task): self.model.new_bool_var("") for one in passes for task, _ in done}
        for (one, task), is_earlier in issued.items():
            ready = dict(done)[task]
            self.model.add(ready <= self.end(one)).only_enforce_if(is_earlier)
            self.model.add(ready > self.end(one)).only_enforce_if(~is_earlier)
        arcs = {pair: self.model.new_bool_var("") for pair in permutations(place, 2)}
        self.model.add_circuit((place[one], place[other], follows) for (one, other), follows in arcs.items())
        for (one, other), follows in arcs.items():
            if UNTIMED in (one, other):
                continue
            self.model.add(self.end(one) <= self.starts[other]).only_enforce_if(follows)
            if passes[one] != passes[other]:
                switches_to.setdefault(other, []).append(follows)
                begin, lasts = begins[other], self.durations[gathers[passes[other]]]
                self.model.add(begin >= self.end(one)).only_enforce_if(follows)
                for task, _ in done:
                    is_earlier = issued[one, task]
                    self.model.add(self.end(task) <= begin).only_enforce_if(follows, is_earlier)
                    self.model.add(begin + lasts <= self.starts[task]).only_enforce_if(follows, ~is_earlier)
        for task, switches in switches_to.items():
            if task not in firsts:
                is_due, lasts = self.model.new_bool_var(""), self.durations[gathers[passes[task]]]
                self.model.add(sum(switches) == is_due)
                self.model.add(begins[task] + lasts <= self.starts[task]).only_enforce_if(is_due)
                yield self.model.new_optional_fixed_size_interval_var(begins[task], lasts, is_due, "")

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
        for device, capacity in enumerate(self.problem.capacity_grains):
            if capacity is not None:
                of_step = [one for one in (*self._of_stages(device), *self._of_side(device)) if one[1]]
                passes = residences(self.problem, self.index, device)
                own = [(self.between(self.begin(one), self.end(one.last), self.horizon), one.size) for one in passes]
                held = [*(one for one in own if one[1]), *of_step]
                self.holds_more |= bool(of_step)
                if held:
                    intervals, sizes = zip(*held, strict=True)
                    self.hold(intervals, sizes, capacity)

    def _of_stages(self, device: int) -> Iterator[Residency]:
        """Yield the residencies of whole weights and whole gradients."""
        shard, grains, index = self.problem.sharding, self.problem.step_grains, self.index
        for stage in self.problem.settled_placement.stages_on(device):
            if shard.divides(WEIGHTS):
                passes = [*chain.from_iterable(index.row(kind, stage) for kind in index.letters)]
                if self.rules.is_whole(device):
                    end = self._latest(index.row(index.letters[-1], stage))
                    start = self.starts[self.step.gathers[stage]]
                    yield self.between(start, end, self.horizon), grains.weights[stage]
                else:
                    yield from ((self.intervals[task], grains.weights[stage]) for task in passes)
            sums = self.step.reductions.get(stage, ()) if shard.divides(GRADIENTS) else ()
            for number, task in enumerate(sums):
                first = self.model.new_int_var(0, self.horizon, "")
                self.model.add_min_equality(first, [self.starts[one] for one in self.step.reduced(stage, number)])
                yield self.between(first, self.end(task), self.horizon), grains.gradients[stage]

    def _of_side(self, device: int) -> Iterator[Residency]:
        """Yield the residencies of activations of side work, and of its outputs and their gradients."""
        grains, there = self.problem.step_grains, self.problem.settled_placement.devices
        for side in self.step.side:
            if device in side.forwards:
                forward, backward = side.forwards[device], side.backwards.get(device)
                end = self.end(forward if backward is None else backward)
                here = self.presences[forward]
                yield self.between(self.starts[forward], end, self.horizon, here), grains.side_activation[side.item]
            if there[self.problem.side[side.item].into] == device:
                used, size = self.starts[self.step.used_by(side)], grains.side_output[side.item]
                for one in side.forwards.values():
                    yield self.between(self.end(one), used, self.horizon, self.presences[one]), size
                for one in side.backwards.values():
                    ready = self._latest(self.step.gradients_for(side))
                    yield self.between(ready, self.starts[one], self.horizon, self.presences[one]), size

    def prompt_starts(self) -> None:
        """Start all as early as possible, where the memory of the step depends on times, not on orders alone."""
        devices, step = self.problem.devices, self.step
        is_known = not self.problem.sharding.divides(WEIGHTS) or all(map(self.rules.is_whole, range(devices)))
        if not (self.holds_more and self.is_small and is_known):
            return
        machines = [*map(self._on_machine, range(2 * devices))]
        for task, start in enumerate(self.starts):
            waits = self.rules.graph.predecessors[task]
            causes = [0, *(self.end(before) + lag // self.quantum for before, lag in waits)]
            for machine, tasks in enumerate(machines):
                if task in tasks:
                    causes += (self.end(other) for other in tasks if other != task)
                    if task in step.gathers.values():  # behind side work before all passes
                        causes += map(self.end, step.on_machine(machine - devices))
            for side in step.side:  # there for a pass, and for the backward of side work its input
                for device, forward in side.forwards.items():
                    lag = step.lag(side.item, device) // self.quantum
                    causes += [self.end(forward) + lag] if task == step.used_by(side) else []
                    if task == side.backwards.get(device):
                        causes += (self.end(one) + lag for one in step.gradients_for(side))
            is_cause = []
            for cause in causes:
                check_deadline()
                is_cause.append(self.model.new_bool_var(""))
                self.model.add(start == cause).only_enforce_if(is_cause[-1])
            there = [self.presences[task]] if task in self.presences else []
            self.model.add_bool_or(is_cause).only_enforce_if(*there)

    def objective(self) -> None:
        goal = self.model.new_int_var(self.least, self.horizon, self.variant.objective)
        for task in range(len(self.starts)):
            last = self.model.add(self.end(task) <= goal)
            if task in self.presences:
                last.only_enforce_if(self.presences[task])
        self.model.minimize(goal)
