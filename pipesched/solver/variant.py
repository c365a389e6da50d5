"""Variants: a variant is one search, of a problem with its placement settled and an objective.

`Variant` is the interface that a solve works with. `PlainVariant` (all activations stay on their devices) and
`RecomputeOffloadVariant` (they may be recomputed or offloaded) implement it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import ClassVar, NamedTuple

from pipesched.core.arrays import np, round_up
from pipesched.core.clock import Clock, TimeIsUp
from pipesched.core.cpsat import Limits, TaskModel
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import heads, topological_order
from pipesched.pipeline.bounds.bounds import Bound, step_times
from pipesched.pipeline.plan.lowering import lower
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.placement import placement_name
from pipesched.pipeline.problem.problem import Problem, alike
from pipesched.solver.policy import DEFAULT, SolvePolicy

PERIODIC = "periodic"  # the search for blocks that repeat, as `Candidate.search` has it


class Candidate(NamedTuple):
    """A schedule, and what found it: in words, the family whose plan it is, if any, and the search that made it."""

    source: str
    schedule: Schedule
    family: str | None = None
    search: str = ""


class Origin(NamedTuple):
    """The time from which a device's time counts: the least start of `tasks`, which is `start` (ticks) if known."""

    tasks: tuple[int, ...]
    start: int | None


class Improvement(NamedTuple):
    """A local search: its name, the part of a variant's time that it may take, and the function that searches.

    `search(variant, schedule, limits, clock)` yields ever better schedules of the variant.
    """

    name: str
    part: float
    search: Callable[[Variant, Schedule, Limits, Clock], Iterator[Candidate]]


@dataclass(frozen=True, eq=False)
class Variant(ABC):
    """One search: a problem with its placement settled, and an objective of OBJECTIVES.

    A solve asks for bounds, for quick candidates, then for named, ruled and fed ones. It tries `improvements` of the
    best, then the exact `model`, with that as a `hint`; of what CP-SAT finds, `replay` makes a schedule.
    `problem.costs.split` says whether the backward is split, `policy` how much effort a search of it is worth.
    """

    keeps_activations: ClassVar[bool] = False  # whether all of them stay on their devices

    problem: Problem
    objective: str = "makespan"
    policy: SolvePolicy = field(default=DEFAULT, kw_only=True)

    # what it is about: operations, tasks, times

    @property
    def name(self) -> str:
        return placement_name(self.problem.settled_placement, self.problem.devices)

    @cached_property
    def index(self) -> OpIndex:
        """The operations of a plain step: F and B, or F, I and W; or of forwards alone."""
        problem = self.problem
        return OpIndex(problem.letters, problem.stages, problem.microbatches, problem.slices.count)

    @property
    def letters(self) -> str:
        """The kinds of operations of its schedules: of a ChoosingVariant B, I and W, of all others those of `index`."""
        return self.index.letters

    @property
    def fine(self) -> OpIndex:
        """The operations of which plans of families are made: `index`, with kinds as in `letters`."""
        return self.index

    @property
    def most_operations(self) -> int:
        """The number of operations of which the exact model has a task each."""
        return self.index.size

    @cached_property
    def graph(self) -> TaskGraph:
        """The rules of the problem alone, in ticks."""
        return lower(self.problem, self.index)

    @property
    def is_countable(self) -> bool:
        """Whether times are small enough for searches in machine words, of CP-SAT and numpy."""
        time = sum(self.graph.durations) + len(self.graph) * max(self.problem.largest_hops, default=0)
        return time // (self.quantum or 1) <= 2**50

    @property
    def longest(self) -> int:
        """What all operations take one after another, with all latencies, in ticks: some schedule is no longer."""
        step = sum(step_times(self.problem)) * self.problem.microbatches if self.problem.has_step else 0
        lags = sum(self.graph.edges.lag.tolist())
        return round_up(sum(self.graph.durations) + lags + 2 * step, self.quantum or 1)

    @property
    def has_model(self) -> bool:
        """Whether the exact model knows the objective: of a span with a step it does not."""
        return self.objective == "makespan" or not self.problem.has_step

    def can_begin(self, clock: Clock) -> bool:
        """Return whether the model can be made, and CP-SAT begin to search and end, before `clock` is over.

        It looks at its limit after `before` seconds an operation, and ends in an eighth of that.
        """
        return clock.left > 9 / 8 * self.policy.exact.before * self.most_operations

    def seconds_for(self, clock: Clock) -> float:
        """Return the time limit of CP-SAT with which it ends before `clock` is over."""
        return max(clock.left - self.policy.exact.before / 8 * self.most_operations, 0.0)

    @cached_property
    def tasks_on(self) -> list[list[int]]:
        return self.graph.by_resource(range(len(self.graph)))

    @property
    @abstractmethod
    def ordered(self) -> TaskGraph:
        """The rules, and all else that is known about the order of the tasks, in ticks."""

    @cached_property
    def quantum(self) -> int:
        """The greatest common divisor of all times in ticks, of which starts without needless pauses are multiples."""
        return self.graph.quantum

    # what a solve asks for, in its order

    def bound(self) -> Bound:
        """Return the best bound on the objective that costs no search, of those found before time is up."""
        best = Bound(0, "")
        with suppress(TimeIsUp):
            for bound in self.bounds():
                best = max(best, bound, key=lambda one: one.ticks)
        return Bound(round_up(best.ticks, self.quantum), best.reason)

    @abstractmethod
    def bounds(self) -> Iterator[Bound]:
        """Yield bounds on the objective that cost no search."""

    def quick_ruled_candidates(self) -> Iterator[Candidate]:
        """Yield a list schedule that is made quickly, if there is one."""
        return islice(self.ruled_candidates(), 1)

    @abstractmethod
    def quick_named_candidates(self) -> Iterator[Candidate]:
        """Yield the schedules of named algorithms that are made quickly."""

    @abstractmethod
    def named_candidates(self) -> Iterator[Candidate]:
        """Yield the schedules of the named algorithms."""

    @abstractmethod
    def ruled_candidates(self) -> Iterator[Candidate]:
        """Yield list schedules by rules, among them one that fits the budget, if any order does."""

    @abstractmethod
    def fed_candidates(self) -> Iterator[Candidate]:
        """Yield the schedules of the named algorithms in the best order of their microbatches, where they differ."""

    @property
    def improvements(self) -> Sequence[Improvement]:
        """The local searches for this variant, in the order of trial. They know only kept activations."""
        return ()

    @abstractmethod
    def most_sought(self, value: int, bound: int, *, is_own: bool) -> int:
        """Return the largest objective worth modelling, in ticks: below the best `value`, or that if it `is_own`."""

    @abstractmethod
    def model(self, least: int, most: int) -> TaskModel:
        """Return the exact model for an objective in [least, most] ticks."""

    @abstractmethod
    def hint(self, schedule: Schedule) -> list[int]:
        """Return the starts of a schedule of this variant, in ticks, by the task numbers of the model."""

    @abstractmethod
    def replay(self, starts: Sequence[int]) -> Schedule:
        """Return the schedule of the order that `starts` (ticks) has on each device, with its own times."""

    @abstractmethod
    def adopted(self, schedule: Schedule) -> Schedule | None:
        """Return a schedule from elsewhere, on the same placement, as one of this variant; None if it is impossible."""

    # what models and searches ask

    @cached_property
    def heads(self) -> list[int]:
        """The earliest start of each task in ticks, by its longest path in the ordered graph."""
        return heads(self.ordered)

    @cached_property
    def rank(self) -> list[int]:
        """A number for each task, greater than the numbers of all that it waits for."""
        return ranks_of(self.ordered)

    @cached_property
    def alike(self) -> list[Sequence[int]]:
        """The units of each slice of microbatches that are alike and go the same way: exchanging two breaks no rule.

        That holds where activations are kept, and so all that is done with them is alike too.
        """
        count, groups = self.index.slices, list[Sequence[int]]()
        for group in alike(self.problem):
            if isinstance(group, range):
                groups += (range(group[0] * count + part, (group[-1] + 1) * count, count) for part in range(count))
            else:
                groups += ([microbatch * count + part for microbatch in group] for part in range(count))
        return groups

    @cached_property
    def origins(self) -> list[Origin]:
        """The origin of each device: for the makespan time 0, for the span the device's first forward.

        Its start is known on the device of stage 0. Any other may begin with another microbatch than the device before
        it did, and so later, which may make its span shorter; a single microbatch comes as early as possible.
        """
        if self.objective == "makespan":
            return [Origin((), 0)] * self.problem.devices
        index, placement, count = self.index, self.problem.settled_placement, self.index.microbatches
        first_alike = [group[0] for group in alike(self.problem)]
        firsts: list[list[int]] = [[] for _ in range(self.problem.devices)]
        # which tasks may be the first of a device: on its first stage each way, of microbatches alike the first F
        for way in placement.directions(count):
            stages = range(self.problem.stages if way else 0)
            begins = {placement.device(stage, way[0], count): stage for stage in reversed(stages)}
            for device, stage in begins.items():
                firsts[device] += (index.row("F", stage)[one * index.slices] for one in first_alike if one in way)
        # of which of them the start is known: nothing comes before, or, of one microbatch, known starts alone
        known: set[int] = set()
        alone = {tasks[0] for tasks in firsts if len(tasks) == 1}
        for task in sorted(alone, key=self.rank.__getitem__):
            before = self.graph.predecessors[task]
            if not before or (self.index.microbatches == 1 and all(other in known for other, _ in before)):
                known.add(task)
        return [Origin(tuple(tasks), self.heads[tasks[0]] if tasks[0] in known else None) for tasks in firsts]

    def value(self, schedule: Schedule) -> int:
        return schedule.makespan_ticks if self.objective == "makespan" else schedule.span_ticks


def ranks_of(graph: TaskGraph) -> list[int]:
    """Return the place of each task in an order in which all that it waits for comes before it."""
    ranks: list[int] = np.argsort(topological_order(graph)).tolist()
    return ranks
