"""The exact model of a variant in CP-SAT. Each rule of a training step is a method, which may be left out or replaced.

`full_model` is that where activations are kept, `recompute_offload_model` that where they may leave.

Times are in quanta (`Variant.quantum` ticks), so that domains are as small as they can be. Task numbers are the numbers
of the operations. `memory`, `order` and `capacity` are right where activations are kept, and so all microbatches alike;
with offload and recompute `recompute_offload_model` has other rules.

Exchanging equal operations breaks no rule, so a schedule may be renamed until each row of equal operations runs its
microbatches in order. Models demand that, which leaves them far fewer schedules to search. Renamed, a device may pause
before its first operation, so under the span that start is free but where nothing comes before it (`Variant.origins`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise
from operator import add
from typing import Any, NamedTuple

from pipesched.core.arrays import ceil_div
from pipesched.core.clock import check_deadline
from pipesched.core.cpsat import Limits, TaskModel
from pipesched.core.tasks import Edges
from pipesched.core.timing import UNTIMED, heads, tails, topological_order
from pipesched.pipeline.bounds.bounds import PassBounds
from pipesched.pipeline.bounds.memory import (
    Residence,
    capacity_edges,
    held,
    late_residences,
    order_edges,
    residences,
    says_all,
)
from pipesched.pipeline.plan.lowering import lower
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.solver.variant import Variant

PROVING, REFUTING, REFUTING_LARGE = "no_lp", "objective_lb_search", "objective_lb_search_no_lp"
WITH_RELAXATIONS = (
    "default_lp", "max_lp", "reduced_costs", "pseudo_costs", "lb_tree_search", "objective_lb_search",
    "objective_lb_search_max_lp", "objective_shaving", "objective_shaving_max_lp", "probing", "probing_max_lp",
    "quick_restart", "feasibility_pump", "core", "core_default_lp", "core_max_lp",
)  # fmt: skip


def latest_starts(variant: Variant, most: int) -> list[int]:
    """Return the latest start of each task in ticks when the objective is at most `most`."""
    graph, count, origins = variant.ordered, variant.problem.devices, variant.origins
    far = most * (count - 1) + sum(variant.problem.largest_hops)  # devices start one after another at the latest
    ends = [most + (far if origin.start is None else origin.start) for origin in origins]
    latest = [ends[device] - time for device, time in zip(graph.pools, graph.durations, strict=True)]
    for task in reversed(topological_order(graph)):
        for after, lag in graph.successors[task]:
            latest[task] = min(latest[task], latest[after] - lag - graph.durations[task])
    for origin in origins:
        if origin.start is not None and origin.tasks:
            latest[origin.tasks[0]] = origin.start
    return latest


class TunedModel(TaskModel):
    """A model with the search strategies that measure best on pipelines.

    Of two workers CP-SAT gives one to a full search and one to neighbourhoods. On small models the full search is best
    without linear relaxations; on larger ones it closes more of the gap by refuting ever larger objectives. Large
    models have none: CP-SAT derives that of NoOverlap from all paths between operations before it looks at its limit.
    """

    horizon: int  # no task ends later

    def __init__(self, variant: Variant) -> None:
        super().__init__()
        self.variant = variant

    @property
    def is_small(self) -> bool:
        """Whether the full search may do without linear relaxations."""
        return len(self.starts) <= self.variant.policy.variants.easy

    def tune(self, parameters: Any, limits: Limits) -> None:
        workers, is_large = limits.workers or os.cpu_count() or 1, len(self.starts) > self.variant.policy.exact.relaxed
        if self.is_small or is_large:
            parameters.linearization_level = 0
        if is_large:
            parameters.ignore_subsolvers.extend(WITH_RELAXATIONS)
        if workers == 2:
            parameters.subsolvers.append(PROVING if self.is_small else REFUTING_LARGE if is_large else REFUTING)

    def begin(self, stay: Residence) -> Any:
        """Return when a residence begins, whose operations have the numbers of tasks."""
        return self.end(stay.first) if stay.from_end else self.starts[stay.first]

    def keep_within(self, stays: Sequence[Residence], capacity: int) -> None:
        """Keep residences, whose operations have the numbers of tasks, within a capacity at any time."""
        intervals = [self.between(self.begin(stay), self.end(stay.last), self.horizon) for stay in stays]
        self.hold(intervals, [stay.size for stay in stays], capacity)


class PipelineModel(TunedModel):
    """The model of a variant whose objective lies in [least, most] ticks."""

    def __init__(self, variant: Variant, least: int, most: int) -> None:
        super().__init__(variant)
        self.quantum = variant.quantum
        self.least, self.most = ceil_div(least, self.quantum), most // self.quantum
        self.tasks(latest_starts(variant, most))

    def tasks(self, latest: Sequence[int]) -> None:
        """Add the operations, which start no later than `latest`, in ticks."""
        variant = self.variant
        self.horizon = max(map(add, latest, variant.graph.durations)) // self.quantum
        for duration, first, last in zip(variant.graph.durations, variant.heads, latest, strict=True):
            self.task(duration // self.quantum, first // self.quantum, last // self.quantum)

    def tune(self, parameters: Any, limits: Limits) -> None:
        """Leave precedences out of the reasons of NoOverlap on small models: they take more time than they save."""
        super().tune(parameters, limits)
        if self.is_small:
            parameters.use_precedences_in_disjunctive_constraint = False

    def edges(self, edges: Edges) -> None:
        for before, after, lag in edges:
            self.after(before, after, lag // self.quantum)

    def dependencies(self) -> None:
        self.edges(self.variant.graph.edges)

    def devices(self) -> None:
        for tasks in self.variant.tasks_on:
            self.one_at_a_time(tasks)

    def order(self) -> None:
        """Run microbatches, which are alike, in order for each stage and kind."""
        self.edges(Edges.joined(order_edges(self.variant.problem, self.variant.index)))

    def capacity(self) -> None:
        self.edges(Edges.joined(capacity_edges(self.variant.problem, self.variant.index)))

    def memory(self, *, beside_capacity: bool = True) -> None:
        """Keep what devices hold within their capacity; if `beside_capacity`, where `capacity` does not imply it."""
        problem, index = self.variant.problem, self.variant.index
        for device, capacity in enumerate(problem.capacity_grains):
            if capacity is not None and not (beside_capacity and says_all(problem, device, index)):
                self.keep_within(residences(problem, index, device), capacity)

    def anchor(self) -> None:
        """Under the span, begin at 0 on the device of stage 0, with any microbatch: all times may move together."""
        problem = self.variant.problem
        origin = self.variant.origins[problem.settled_placement.devices[0]]
        if origin.start is None and not problem.has_step and len(problem.settled_placement.ways) == 1:
            begins = [self.model.new_bool_var("") for _ in origin.tasks]
            self.model.add_bool_or(begins)
            for first, begin in zip(origin.tasks, begins, strict=True):
                self.model.add(self.starts[first] == 0).only_enforce_if(begin)

    def objective(self) -> None:
        """Minimize the makespan, or the span: the largest, over devices, of last end less first start."""
        self.anchor()
        goal = self.model.new_int_var(self.least, self.most, self.variant.objective)
        for task, device in enumerate(self.variant.graph.resources):
            check_deadline()
            firsts = self.variant.origins[device].tasks
            if not self.variant.graph.successors[task]:
                for first in firsts or [None]:
                    self.model.add(self.end(task) - (0 if first is None else self.starts[first]) <= goal)
        self.model.minimize(goal)


def full_model(variant: Variant, least: int, most: int) -> PipelineModel:
    """Return the model with every rule of a variant without offload and recompute; [least, most] are in ticks."""
    model = PipelineModel(variant, least, most)
    model.dependencies()
    model.devices()
    model.order()
    model.capacity()
    model.memory()
    model.objective()
    return model


def sorted_rows(variant: Variant, starts: Sequence[int]) -> list[int]:
    """Return `starts` with each row of equal operations in order of time."""
    times = list(starts)
    groups = [units for units in variant.alike if len(units) > 1]
    for kind in variant.index.letters:
        for row in variant.index.rows(kind):
            for units in groups:
                if isinstance(units, range):
                    part = slice(row[units.start], row[units[-1]] + 1, units.step)
                    times[part] = sorted(times[part])
                    continue
                numbers = [row[unit] for unit in units]
                for number, start in zip(numbers, sorted(times[number] for number in numbers), strict=True):
                    times[number] = start
    return times


class ActivationChoice(NamedTuple):
    """What may be done to one activation: its operations, and the literal of each action (None: not allowed)."""

    stage: int
    device: int
    forward: int
    backward: int  # B or I
    weight: int  # W, or B again
    keep: Any
    recompute: Any
    recompute_task: int  # R
    offload: Any
    offload_task: int  # O
    reload_task: int  # L


class RecomputeOffloadModel(TaskModel):
    """The model of a variant whose objective lies in [least, most] ticks; `full` numbers its tasks."""

    def __init__(self, variant: Variant, full: OpIndex, least: int, most: int) -> None:
        super().__init__()
        self.variant, self.full, self.quantum = variant, full, variant.quantum
        self.least, self.most = ceil_div(least, self.quantum), most // self.quantum
        devices = variant.problem.devices
        wait = 0 if variant.objective == "makespan" else most * (devices - 1) + sum(variant.problem.largest_hops)
        self.horizon = (most + wait) // self.quantum
        # By their numbers the backwards of stage 0 are in order. Longest paths then bound the starts closely, for which
        # CP-SAT would need a step for each microbatch.
        order = order_edges(variant.problem, variant.index, [variant.index.row(variant.index.gradient, 0)])
        graph = self.graph = variant.graph.changed(edges=[variant.graph.edges, *order])
        for duration, head, tail in zip(graph.durations, heads(graph), tails(graph), strict=True):
            self.task(duration // self.quantum, head // self.quantum, (most + wait - tail - duration) // self.quantum)
        for duration in lower(variant.problem, full).durations[len(self.starts) :]:
            lasts = duration // self.quantum
            self.optional(lasts, self.horizon - lasts)
        self.activations = list(self._choices())

    def tune(self, parameters: Any, limits: Limits) -> None:
        """Propagate precedences among residences that exclude each other: proofs take a fifth of the time."""
        is_large = len(self.starts) > 2 * self.variant.policy.exact.relaxed
        parameters.use_hard_precedences_in_cumulative = True
        parameters.exploit_all_precedences = not is_large
        if is_large:
            parameters.cp_model_probing_level = 0

    def _choices(self) -> Iterator[ActivationChoice]:
        index, pools = self.full, self.variant.graph.pools
        for stage in range(index.stages):
            for forward in index.row("F", stage):
                number = {kind: index.counterpart(forward, kind) for kind in index.letters}
                recompute, offload, reload = (number.get(kind, UNTIMED) for kind in "ROL")
                yield ActivationChoice(
                    stage=stage,
                    device=pools[forward],
                    forward=forward,
                    backward=number[index.gradient],
                    weight=number[index.last],
                    keep=self.model.new_bool_var(""),
                    recompute=self.presences.get(recompute),
                    recompute_task=recompute,
                    offload=self.presences.get(offload),
                    offload_task=offload,
                    reload_task=reload,
                )

    def dependencies(self) -> None:
        """Start F, B, I and W after what they wait for, with the latency between devices, and number microbatches."""
        for before, after, lag in self.graph.edges:
            self.after(before, after, lag // self.quantum)

    def choices(self) -> None:
        """Take exactly one of keep, recompute and offload with each activation, and order its operations."""
        for choice in self.activations:
            actions = (choice.keep, choice.recompute, choice.offload)
            self.model.add_exactly_one(action for action in actions if action is not None)
            if choice.recompute is not None:
                self._chain(choice.recompute, choice.forward, choice.recompute_task, choice.backward)
            if choice.offload is not None:
                reload = self.presences[choice.reload_task]
                self.model.add_implication(choice.offload, reload)
                self.model.add_implication(reload, choice.offload)
                self._chain(choice.offload, choice.forward, choice.offload_task, choice.reload_task, choice.backward)

    def _chain(self, present: Any, *tasks: int) -> None:
        for before, after in pairwise(tasks):
            self.model.add(self.starts[after] >= self.end(before)).only_enforce_if(present)

    def devices(self) -> None:
        """Run one operation at a time on each device, recomputes among them, and one transfer on each lane."""
        graph = lower(self.variant.problem, self.full)
        for tasks in graph.by_resource(range(len(graph))):
            self.one_at_a_time(tasks)

    def memory(self) -> None:
        for device, capacity in enumerate(self.variant.problem.capacity_grains):
            if capacity is None:
                continue
            choices = (choice for choice in self.activations if choice.device == device)
            residences = [stay for choice in choices for stay in self._residences(choice) if stay[1]]
            self.hold([interval for interval, _ in residences], [size for _, size in residences], capacity)

    def _residences(self, choice: ActivationChoice) -> Iterator[tuple[Any, int]]:
        """Yield the intervals in which an activation, or a part of it, is on its device, with their sizes in grains."""
        sizes = held(self.variant.problem, choice.stage, self.full.owner_of(choice.forward))
        size, kept = sizes.activation, sizes.checkpointed
        ran, needed = self.end(choice.forward), self.starts[choice.backward]
        yield self.intervals[choice.forward], size
        for stay in late_residences(sizes, choice.backward, choice.weight):
            start, is_alone = self.end(stay.first) if stay.from_end else needed, stay.first == stay.last
            yield self.intervals[stay.last] if is_alone else self._interval(start, self.end(stay.last), None), stay.size
        if choice.offload is not None:
            yield self._interval(ran, self.end(choice.offload_task), choice.offload), size
            yield self._interval(self.starts[choice.reload_task], needed, choice.offload), size
        if choice.recompute is not None:
            yield self._interval(ran, needed, None if choice.offload is None else ~choice.offload), kept
            yield self._interval(self.starts[choice.recompute_task], needed, choice.recompute), size - kept
            yield self._interval(ran, needed, choice.keep), size - kept
        else:
            yield self._interval(ran, needed, choice.keep), size

    def _interval(self, start: Any, end: Any, present: Any) -> Any:
        return self.between(start, end, self.horizon, present)

    def slots(self) -> None:
        """Let activations that never fit side by side take turns: `memory` implies it, but through many small sizes."""
        alone = self.variant.objective == "span"
        for window in PassBounds(self.variant.problem, self.full.letters, paired=False).windows(alone=alone):
            for slots in islice(window.slots(window.stays(with_weight=False)), 1):
                chunks = [one.chunk for one in slots.stays]
                if slots.most == 1 and all(chunk.forward and chunk.gradient for chunk in chunks):
                    own = [choice for choice in self.activations if choice.device == window.device]
                    sized = {chunk.stage for chunk in chunks}
                    stays = (self._stays(choice) for choice in own if choice.stage in sized)
                    self.model.add_no_overlap([*chain.from_iterable(stays)])

    def _stays(self, choice: ActivationChoice) -> Iterator[Any]:
        """Yield when an activation, or its checkpoint, is on its device, up to the end of B or I."""
        start, end = self.starts[choice.forward], self.end(choice.backward)
        if choice.offload is None:
            yield self._interval(start, end, None)
            return
        yield self._interval(start, end, ~choice.offload)
        yield self._interval(start, self.end(choice.offload_task), choice.offload)
        yield self._interval(self.starts[choice.reload_task], end, choice.offload)

    def objective(self) -> None:
        """Minimize the makespan, or the span: the largest, over devices, of last end less first start."""
        goal = self.model.new_int_var(self.least, self.most, self.variant.objective)
        first: list[Any] = [0] * self.variant.problem.devices
        if self.variant.objective == "span":
            first = [self.model.new_int_var(0, self.horizon, "") for _ in first]
            for choice in self.activations:
                self.model.add(first[choice.device] <= self.starts[choice.forward])
        for choice in self.activations:
            self.model.add(self.end(choice.weight) - first[choice.device] <= goal)
        self.model.minimize(goal)


def recompute_offload_model(variant: Variant, full: OpIndex, least: int, most: int) -> RecomputeOffloadModel:
    """Return the model with every rule of a variant with offload or recompute; [least, most] are in ticks."""
    model = RecomputeOffloadModel(variant, full, least, most)
    for rule in (model.dependencies, model.choices, model.devices, model.memory, model.slots, model.objective):
        rule()
    return model
