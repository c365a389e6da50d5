"""The exact model with offload and recompute: each activation is kept, offloaded or recomputed.

Microbatches are no longer alike once different actions are taken with them, so only one row of operations has them in
order, and gives them their numbers: the last row, the backwards of stage 0. (Three devices, four microbatches, f=1,
B=2, budget 2, offload 3: the best makespan is 20, but 21 with every row in order. Numbers by the first row are as
sound, but proofs take up to 30 times as long.)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple

from pipesched.core.cpsat import Limits, TaskModel
from pipesched.core.integers import ceil_div
from pipesched.core.paths import heads, tails
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import UNTIMED
from pipesched.pipeline.bounds import windows
from pipesched.pipeline.capacity import edges_in_order
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.residences import held, late_residences
from pipesched.solver.case import Case


def numbering_row(index: OpIndex) -> range:
    """Return the operations that give the microbatches their numbers: the backwards of stage 0."""
    return index.row(index.gradient, 0)


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


class SavingModel(TaskModel):
    """The model of a case whose objective lies in [least, most] ticks; `full` numbers its tasks."""

    def __init__(self, case: Case, full: OpIndex, least: int, most: int) -> None:
        super().__init__()
        self.case, self.full, self.quantum = case, full, case.quantum
        self.least, self.most = ceil_div(least, self.quantum), most // self.quantum
        devices = case.problem.devices
        wait = 0 if case.objective == "makespan" else most * (devices - 1) + sum(case.problem.largest_hops)
        self.horizon = (most + wait) // self.quantum
        graph = self.graph = _numbered(case)
        for duration, head, tail in zip(graph.durations, heads(graph), tails(graph), strict=True):
            self.task(duration // self.quantum, head // self.quantum, (most + wait - tail - duration) // self.quantum)
        durations = lower(case.problem, full).durations
        for duration in durations[len(self.starts) :]:
            lasts = duration // self.quantum
            self.optional(lasts, self.horizon - lasts)
        self.activations = list(self._choices())

    def tune(self, parameters: Any, limits: Limits) -> None:
        """Propagate precedences among residences that exclude each other: proofs take a fifth of the time."""
        is_large = len(self.starts) > self.case.policy.exact.probed
        parameters.use_hard_precedences_in_cumulative = True
        parameters.exploit_all_precedences = not is_large
        if is_large:
            parameters.cp_model_probing_level = 0

    def _choices(self) -> Iterator[ActivationChoice]:
        index, pools = self.full, self.case.graph.pools
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
        for before, after, lag in self.graph.arrows():
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
        """Run `tasks` one after another, if `present`."""
        for before, after in pairwise(tasks):
            self.model.add(self.starts[after] >= self.end(before)).only_enforce_if(present)

    def devices(self) -> None:
        """Run one operation at a time on each device, recomputes among them, and one transfer on each lane."""
        graph = lower(self.case.problem, self.full)
        for tasks in graph.by_resource(range(len(graph))):
            self.one_at_a_time(tasks)

    def memory(self) -> None:
        """Keep what a device holds at any time within its capacity."""
        for device, capacity in enumerate(self.case.problem.capacity_grains):
            if capacity is None:
                continue
            choices = (choice for choice in self.activations if choice.device == device)
            residences = [stay for choice in choices for stay in self._residences(choice) if stay[1]]
            self.hold([interval for interval, _ in residences], [size for _, size in residences], capacity)

    def _residences(self, choice: ActivationChoice) -> Iterator[tuple[Any, int]]:
        """Yield the intervals in which an activation, or a part of it, is on its device, with their sizes in grains."""
        sizes = held(self.case.problem, choice.stage, self.full.owner_of(choice.forward))
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
        alone = self.case.objective == "span"
        for window in windows(self.case.problem, self.full.letters, alone=alone):
            for slots in islice(window.slots(window.views()[0]), 1):
                if slots.most == 1 and slots.takes_time:
                    own = [choice for choice in self.activations if choice.device == window.device]
                    sized = {chunk.stage for chunk in slots.chunks}
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
        goal = self.model.new_int_var(self.least, self.most, self.case.objective)
        first: list[Any] = [0] * self.case.problem.devices
        if self.case.objective == "span":
            first = [self.model.new_int_var(0, self.horizon, "") for _ in first]
            for choice in self.activations:
                self.model.add(first[choice.device] <= self.starts[choice.forward])
        for choice in self.activations:
            self.model.add(self.end(choice.weight) - first[choice.device] <= goal)
        self.model.minimize(goal)


def _numbered(case: Case) -> TaskGraph:
    """Return the rules of a case, and the backwards of stage 0 in the order of the numbers of alike microbatches.

    Its longest paths bound the starts closely, for which CP-SAT would need a step for each microbatch.
    """
    order = edges_in_order(case.problem, case.index, [numbering_row(case.index)])
    return case.graph.changed(edges=[case.graph.edges, *order])


def saving_model(case: Case, full: OpIndex, least: int, most: int) -> SavingModel:
    """Return the model with every rule of a case with offload or recompute; [least, most] are in ticks."""
    model = SavingModel(case, full, least, most)
    model.dependencies()
    model.choices()
    model.devices()
    model.memory()
    model.slots()
    model.objective()
    return model
