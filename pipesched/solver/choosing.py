"""The variant in which each backward runs whole or as its halves, whichever serves: the costs give both.

feasible.py makes a `ChoosingVariant`. It tries the schedules of two variants, of all `halves` and of all backwards
`whole`, and joins I and W of a plan to one B where that is shorter (`_better`).

The task graph has the operations F, I and W, each as short as either way lets it be, so that what it bounds from below
holds for all schedules. The exact model (`ChoiceModel`) chooses: I lasts as long as the whole backward, and then there
is no W. A local search keeps the choice that a schedule has made, as costs of each microbatch (`chosen`); what it finds
is joined anew (`free`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, islice
from typing import Any

from pipesched.core.arrays import Ints, ceil_div, np
from pipesched.core.clock import Clock, check_deadline
from pipesched.core.cpsat import Limits, TaskModel
from pipesched.core.tasks import Edges, TaskGraph
from pipesched.core.timing import UNTIMED
from pipesched.pipeline.bounds.bounds import Bound, PassBounds, problem_bounds, work_bounds
from pipesched.pipeline.bounds.memory import Residence, capacity_edges, least_capacity, least_held, order_edges
from pipesched.pipeline.layers.recut import one_way
from pipesched.pipeline.plan.lowering import lower
from pipesched.pipeline.plan.plan import Plan, without_step
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.pipeline.problem.costs import HALVES, entries_of
from pipesched.pipeline.problem.kinds import COMPUTATION_LETTERS, KEEP_ONLY, KINDS, MemorySavings
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.schedulers.plan_of import joined, with_joins
from pipesched.schedulers.side_work import side_schedule
from pipesched.solver import portfolio
from pipesched.solver.model import PipelineModel
from pipesched.solver.neighbourhood import improve
from pipesched.solver.portfolio import justify
from pipesched.solver.recompute_offload import PlainVariant
from pipesched.solver.variant import Candidate, Improvement, Variant

Searched = Callable[[Variant, Schedule, Limits, Clock], Iterator[Candidate]]


@dataclass(frozen=True, eq=False)
class ChoosingVariant(PlainVariant):
    """A variant whose backwards may each run whole or as halves; `kind` is that of a variant where all run one way."""

    kind: type[Variant] = PlainVariant
    allowed: MemorySavings = KEEP_ONLY

    def _alone(self, *, split: bool) -> Variant:
        more = [self.allowed] if any(self.allowed) else []
        return self.kind(one_way(self.problem, split=split), self.objective, *more, policy=self.policy)

    @cached_property
    def halves(self) -> Variant:
        return self._alone(split=True)

    @cached_property
    def whole(self) -> Variant:
        return self._alone(split=False)

    @property
    def letters(self) -> str:
        return COMPUTATION_LETTERS + self.allowed.letters

    @property
    def fine(self) -> OpIndex:
        return replace(self.index, letters=COMPUTATION_LETTERS)

    @property
    def keeps_activations(self) -> bool:  # type: ignore[override]
        return not any(self.allowed)

    @property
    def has_model(self) -> bool:
        """Whether the exact model knows all: of steps, and of activations that leave, it does not."""
        return self.keeps_activations and not self.problem.has_step

    @property
    def longest(self) -> int:
        return self.halves.longest * self.problem.ticks.per_unit // self.halves.problem.ticks.per_unit

    @cached_property
    def quantum(self) -> int:
        return PassBounds(self.problem, self.letters, paired=False).quantum

    @cached_property
    def lasts(self) -> dict[str, Ints]:
        """What B, I and W last, by stage and unit, one after another."""
        return {letter: self.problem.model.ticks[KINDS[letter].cost].ravel() for letter in "BIW"}

    @cached_property
    def graph(self) -> TaskGraph:
        """The rules of the problem alone, with operations as short as either way lets them be."""
        whole, own, rest = self.lasts.values()
        first, both = np.minimum(own, whole), np.minimum(own + rest, whole)
        graph = lower(least_held(self.problem), self.index)
        forwards = graph.duration[: len(whole)]
        return graph.changed(durations=np.concatenate([forwards, first, both - first]).tolist())

    @cached_property
    def alone(self) -> list[Variant]:
        """The variants of either way, as far as the budget allows them: halves may hold more."""
        capacities = [*enumerate(self.problem.capacity_grains)]
        needed = (least_capacity(self.halves.problem, device, self.allowed) for device, _ in capacities)
        fits = all(most is None or least <= most for (_, most), least in zip(capacities, needed, strict=True))
        return [self.halves, self.whole] if fits else [self.whole]

    @property
    def orders(self) -> Iterator[Edges]:
        """Rows of F, and of B or I, in the order of their microbatches, and what follows for them from the budget.

        Any W is there for some I alone, so that rows of W have no order.
        """
        yield from order_edges(self.problem, self.index, [*self.index.rows("F"), *self.index.rows("I")])
        for edges in capacity_edges(least_held(self.problem), self.index):
            yield edges.where(edges.before < self.index.of_kind("W").start)

    @cached_property
    def ordered(self) -> TaskGraph:
        return self.graph.changed(edges=[self.graph.edges, *self.orders])

    def bounds(self) -> Iterator[Bound]:
        if self.has_model:
            return super().bounds()
        bounds = problem_bounds if self.objective == "makespan" else work_bounds
        return iter(bounds(self.problem, self.letters, paired=self.problem.costs.overlap is not None))

    def named_candidates(self, *, slow: bool | None = None) -> Iterator[Candidate]:
        yield from portfolio.family_candidates(self, slow=slow)
        for own in self.alone:
            yield from self._taken(own.named_candidates() if any(self.allowed) else portfolio.plain_lists(own))

    def ruled_candidates(self) -> Iterator[Candidate]:
        for own in self.alone:
            yield from self._taken(own.ruled_candidates())

    def quick_ruled_candidates(self) -> Iterator[Candidate]:
        for own in self.alone:
            yield from self._taken(islice(own.quick_ruled_candidates(), 1))

    def _taken(self, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        """Yield candidates of a variant of one way as ones of this variant."""
        for candidate in candidates:
            schedule = candidate.schedule
            problem = replace(self.problem, shard=schedule.problem.shard)
            same = schedule_plan(problem, schedule.plan)
            yield candidate._replace(schedule=self._better([same], without_step(schedule.plan)))

    def _better(self, known: list[Schedule], plan: Plan) -> Schedule:
        """Return the best of known schedules, and of a plan of passes with I and W joined: more of them, or anew."""
        if not plan.lanes and "R" not in plan.index.letters:
            apart = portfolio.refined(plan, self.index) or plan
            others = (joined(self.problem, plan), joined(self.problem, apart))
            known += (side_schedule(self.problem, one) for one in others if one is not plan and one is not apart)
        return min(known, key=lambda one: (not one.fits, self.value(one)))

    def adopted(self, schedule: Schedule) -> Schedule | None:
        if not set(schedule.plan.index.letters) <= set(self.letters):
            return None
        plan = schedule.plan
        if plan.index.saves_memory:
            return schedule_plan(self.problem, plan) if plan.index.stages == self.problem.stages else None
        fine = portfolio.refined(without_step(plan), self.fine)
        return None if fine is None else side_schedule(self.problem, fine)

    @property
    def improvements(self) -> Sequence[Improvement]:
        """Local searches that keep the choice of a schedule; where there are none, the exact models of one way."""
        policy = self.policy.variants
        if self.has_model and self.problem.slices.count == 1:
            return (
                Improvement("justification", policy.justification_part, partial(_searched, justify)),
                Improvement("improvement", policy.neighbourhoods_part, partial(_searched, improve)),
            )
        return tuple(Improvement(name, 1 / 2, partial(_solved, name)) for name in ("halves", "whole"))

    def chosen(self, schedule: Schedule) -> tuple[PlainVariant, Schedule, list[int]]:
        """Return the variant in which the choice of a schedule is a cost, that schedule, and the I that run whole."""
        problem, plan, count = self.problem, schedule.plan, self.problem.microbatches
        wholes = [number for number in chain(*plan.orders) if plan.index.kind_of(number) == "B"]
        inputs = [self.index.counterpart(number, "I") for number in wholes]
        columns: dict[str, list[list[Any]]] = {
            key: [[*entries_of(entry, count)] for entry in getattr(problem.costs, key)] for key in HALVES
        }
        for number in inputs:
            stage, microbatch = self.index.stage_of(number), self.index.owner_of(number)
            columns["backward_input"][stage][microbatch] = entries_of(problem.costs.backward[stage], count)[microbatch]
            columns["backward_weight"][stage][microbatch] = 0
        tables: dict[str, Any] = {key: tuple(map(tuple, rows)) for key, rows in columns.items()}
        costs = replace(problem.costs, **tables, whole=None, resolution=problem.ticks.per_unit)
        own = PlainVariant(replace(problem, costs=costs, layers=None, cutter=None), self.objective, policy=self.policy)
        there = own.adopted(schedule)
        assert there is not None  # of the same stages
        return own, there, inputs

    def free(self, plan: Plan, inputs: Iterable[int]) -> Schedule:
        """Return the schedule of a plan of halves with these I whole, or with other joins where that is shorter."""
        made = with_joins(plan, {one: self.index.counterpart(one, "W") for one in inputs})
        return self._better([schedule_plan(self.problem, made)], made)

    def model(self, least: int, most: int) -> TaskModel:
        model = ChoiceModel(self, least, most)
        model.dependencies()
        model.devices()
        model.order()
        model.memory(beside_capacity=False)
        model.objective()
        return model

    def replay(self, starts: Sequence[int]) -> Schedule:
        """Return the schedule of an order; where no W is timed, its I is a whole backward."""
        gone = {number for number, start in enumerate(starts) if start < 0}
        inputs = {self.index.counterpart(number, "I"): number for number in gone}
        row = self.index.of_kind("I").start
        lengths = [*lower(self.problem, self.index).durations]
        for number in inputs:
            lengths[number] = int(self.lasts["B"][number - row])

        def key(task: int) -> tuple[int, int, int]:
            return starts[task], starts[task] + lengths[task], self.rank[task]

        order = sorted((task for task in range(len(starts)) if task not in gone), key=key)
        return self.free(Plan(self.index, self.graph.by_resource(order)), inputs)

    def hint(self, schedule: Schedule) -> list[int]:
        """Return the starts of a schedule, of which rows of F and of B or I are in order, UNTIMED for a W that is none.

        The choice goes along with its B or I; W that are left follow in order.
        """
        index, theirs, starts = self.index, schedule.plan.index, [UNTIMED] * self.index.size
        for number in chain(*schedule.plan.orders):
            kind = theirs.kind_of(number)
            starts[index.counterpart(number, "I" if kind == "B" else kind)] = schedule.start_ticks[number]
        for units in self.alike:
            for stage in range(index.stages):
                forwards, inputs, weights = ([index.row(kind, stage)[unit] for unit in units] for kind in "FIW")
                both = zip(inputs, weights, strict=True)
                slots = sorted((starts[own], starts[rest] != UNTIMED) for own, rest in both)
                left = iter(sorted(starts[one] for one in weights if starts[one] != UNTIMED))
                times = sorted(starts[one] for one in forwards)
                for place, (start, is_apart) in enumerate(slots):
                    starts[forwards[place]], starts[inputs[place]] = times[place], start
                    starts[weights[place]] = next(left) if is_apart else UNTIMED
        return starts


def _searched(
    search: Searched, variant: Variant, schedule: Schedule, limits: Limits, clock: Clock
) -> Iterator[Candidate]:
    """Yield what a local search finds that keeps the choice of a schedule, with other joins where these are better."""
    assert isinstance(variant, ChoosingVariant)
    own, there, inputs = variant.chosen(schedule)
    for candidate in search(own, there, limits, clock):
        yield candidate._replace(schedule=variant.free(candidate.schedule.plan, inputs))


def _solved(name: str, variant: Variant, schedule: Schedule, limits: Limits, clock: Clock) -> Iterator[Candidate]:
    """Yield what the exact model of one way finds."""
    own: Variant = getattr(variant, name)
    if own not in variant.alone:  # type: ignore[attr-defined]
        return
    ticks = variant.value(schedule) * own.problem.ticks.per_unit
    value = ceil_div(ticks, variant.problem.ticks.per_unit)  # of its own ticks
    least, most = own.bound().ticks, value - 1
    if not own.has_model or most < least or not own.can_begin(clock):
        return
    answer = own.model(least, most).solve(limits._replace(seconds=own.seconds_for(clock)))
    if answer.starts:
        found = Candidate("CP-SAT", own.replay([start * own.quantum for start in answer.starts]))
        yield from variant._taken([found])  # type: ignore[attr-defined]


class ChoiceModel(PipelineModel):
    """The model of a variant that chooses. A W left out makes its I a whole backward; both then end together."""

    variant: ChoosingVariant

    def tasks(self, latest: Sequence[int]) -> None:
        """Add F, then I of either length, then W, which may be left out."""
        index, quantum = self.variant.index, self.quantum
        self.ends: dict[int, Any] = {}
        self.wholes: dict[int, Any] = {}  # the interval of a whole backward, by its I
        whole, own, rest = ((lasts // quantum).tolist() for lasts in self.variant.lasts.values())
        earliest, starts = [head // quantum for head in self.variant.heads], [last // quantum for last in latest]
        forwards, inputs, weights = map(index.of_kind, "FIW")
        lengths = [self.variant.graph.durations[number] // quantum for number in forwards]
        self.horizon = max(starts) + max(*whole, *own, *rest, *lengths)
        for number in forwards:
            self.task(lengths[number], earliest[number], starts[number])
        for at, number in enumerate(inputs):
            check_deadline()
            weight, is_whole = weights[at], self.model.new_bool_var("")
            start = self.model.new_int_var(earliest[number], starts[number], "")
            end = self.model.new_int_var(0, self.horizon, "")
            self.model.add(end == start + own[at] + (whole[at] - own[at]) * is_whole)
            self.starts.append(start)
            self.durations.append(own[at])
            self.presences[weight] = ~is_whole
            self.ends[number] = end
            self.intervals.append(self.model.new_optional_fixed_size_interval_var(start, own[at], ~is_whole, ""))
            self.wholes[number] = self.model.new_optional_fixed_size_interval_var(start, whole[at], is_whole, "")
        for at, number in enumerate(weights):
            check_deadline()
            gradient, present = inputs[at], self.presences[number]
            windows = self.cp.Domain.from_intervals([[UNTIMED, UNTIMED], [0, max(starts[number], 0)]])
            start = self.model.new_int_var_from_domain(windows, "")
            end = self.model.new_int_var(0, self.horizon, "")
            self.model.add(start == UNTIMED).only_enforce_if(~present)
            self.model.add(end == self.ends[gradient]).only_enforce_if(~present)
            self.model.add(start >= self.ends[gradient]).only_enforce_if(present)
            self.model.add(end == start + rest[at]).only_enforce_if(present)
            self.starts.append(start)
            self.durations.append(rest[at])
            self.ends[number] = end
            self.intervals.append(self.model.new_optional_fixed_size_interval_var(start, rest[at], present, ""))

    def end(self, task: int) -> Any:
        return self.ends[task] if task in self.ends else super().end(task)

    def one_at_a_time(self, tasks: Iterable[int]) -> None:
        both = [[self.intervals[task], *([self.wholes[task]] if task in self.wholes else [])] for task in tasks]
        self.model.add_no_overlap([*chain.from_iterable(both)])

    def dependencies(self) -> None:
        """Start F, and B or I, after what they wait for; W have their I."""
        edges = self.variant.graph.edges
        self.edges(edges.where(edges.after < self.variant.index.of_kind("W").start))

    def order(self) -> None:
        self.edges(Edges.joined(self.variant.orders))

    def keep_within(self, stays: Sequence[Residence], capacity: int) -> None:
        """Keep residences within a capacity; gradients are caught at weights only for a W that runs."""
        intervals = []
        for stay in stays:
            is_caught = stay.first in self.wholes and not stay.from_end and stay.last in self.presences
            present = self.presences[stay.last] if is_caught else None
            intervals.append(self.between(self.begin(stay), self.end(stay.last), self.horizon, present))
        self.hold(intervals, [stay.size for stay in stays], capacity)
