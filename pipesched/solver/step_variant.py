"""The variant of a training step with more than passes: gathers, reductions, optimizers, side work.

feasible.py makes a `StepVariant`, or where activations may leave a `StepRecomputeOffloadVariant`. Their `index` and
`graph` are those of the passes. Heuristics order these, and `completed` adds the step by the rule of families
(`side_schedule`). The exact model has all operations; `replay` makes its answer slots of devices, and a program for
each network lane. Last come moves of slots, as a local search (`_by_moves`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partialmethod
from itertools import islice
from math import gcd
from random import Random

from pipesched.core.clock import Clock
from pipesched.core.cpsat import Limits
from pipesched.core.timing import UNTIMED
from pipesched.errors import InvalidSchedule
from pipesched.pipeline.bounds.bounds import Bound, step_times
from pipesched.pipeline.bounds.memory import least_capacity
from pipesched.pipeline.plan.lowering import plan_of_times
from pipesched.pipeline.plan.plan import SIDE_KINDS, plan_from_slots, without_step
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.pipeline.plan.step import WEIGHTS, SideItem
from pipesched.pipeline.problem.ops import Op, Pair
from pipesched.pipeline.problem.problem import Problem
from pipesched.schedulers.plan_of import of_passes
from pipesched.schedulers.side_work import side_schedule
from pipesched.solver.bounds import step_bounds
from pipesched.solver.portfolio import refined
from pipesched.solver.recompute_offload import PlainVariant, RecomputeOffloadVariant
from pipesched.solver.step_model import StepRules, WholeStepModel
from pipesched.solver.variant import Candidate, Improvement, Variant, ranks_of

Rows = list[list[Op]]  # the slots of each device


def passes_of(problem: Problem) -> Problem:
    """Return the passes of a problem with a step under its whole budget."""
    return of_passes(problem, [0] * problem.devices)


def problems_of_passes(problem: Problem, parts: Sequence[float]) -> Iterator[Problem]:
    """Yield the passes of a problem with a step; of its budget these parts of what the step holds at most stay free."""
    bare = passes_of(problem)
    less = (
        tuple(
            max(min(int(_held(problem, device) * part), (capacity or 0) - least_capacity(bare, device)), 0)
            for device, capacity in enumerate(bare.capacity_grains)
        )
        for part in parts
    )
    yield from [bare] if problem.memory.budget is None else (of_passes(problem, one) for one in dict.fromkeys(less))


def _held(problem: Problem, device: int) -> int:
    """Return what the step may hold on a device over time, in grains, with one output of each item of side work."""
    grains, there = problem.step_grains, problem.settled_placement.devices
    stages = sum(grains.weights[s] + grains.gradients[s] for s in problem.settled_placement.stages_on(device))
    side = 0
    for item, activation, output in zip(problem.side, grains.side_activation, grains.side_output, strict=True):
        side += (activation if device in item.devices else 0) + (output if there[item.into] == device else 0)
    return stages + side


def completed(variant: StepRecomputeOffloadVariant | StepVariant, search: str) -> Iterator[Candidate]:
    """Yield what a method finds for the passes of a variant, each order once, with the step by the rule of families."""
    problem, known = variant.problem, set[tuple[object, ...]]()
    for bare in [*map(variant._of, problems_of_passes(problem, variant.policy.portfolio.held))]:
        for candidate in getattr(bare, search)():
            plan = candidate.schedule.plan
            orders = plan.index.letters, *map(tuple, plan.orders)
            if not plan.pairs and (plan.lanes or orders not in known):
                known.add(orders)
                yield candidate._replace(schedule=side_schedule(problem, plan))


@dataclass(frozen=True, eq=False)
class StepRecomputeOffloadVariant(RecomputeOffloadVariant):
    """A variant with a step whose activations may be recomputed or offloaded: its model knows the passes alone.

    So it bounds the makespan from below, and the schedules that it finds get their step by the rule.
    """

    @cached_property
    def quantum(self) -> int:
        return gcd(super().quantum, *step_times(self.problem)) or 1

    def _of(self, bare: Problem) -> Variant:
        return RecomputeOffloadVariant(bare, self.objective, self.allowed, policy=self.policy)

    def quick_ruled_candidates(self) -> Iterator[Candidate]:
        return islice(completed(self, "quick_ruled_candidates"), 1)

    named_candidates = partialmethod(completed, "named_candidates")
    fed_candidates = partialmethod(completed, "fed_candidates")
    ruled_candidates = partialmethod(completed, "ruled_candidates")
    quick_named_candidates = partialmethod(completed, "quick_named_candidates")

    def adopted(self, schedule: Schedule) -> Schedule | None:
        known = schedule_plan(passes_of(schedule.problem), without_step(schedule.plan))
        found = self._of(passes_of(self.problem)).adopted(known)
        return None if found is None else schedule_plan(self.problem, found.plan)

    def replay(self, starts: Sequence[int]) -> Schedule:
        return schedule_plan(self.problem, plan_of_times(self.problem, self.full, self._sorted_rows(starts)))


MOVES = "moves"

Slots = Sequence[Sequence[Op]]
Issued = list[tuple[Op, Op | None]]  # a lane's program: operations, each with the slot behind which it is issued


@dataclass(frozen=True, eq=False)
class StepVariant(PlainVariant):
    """A variant with a step, whose activations are all kept."""

    @cached_property
    def rules(self) -> StepRules:
        """The tasks of the exact model, and what is known of their order."""
        return StepRules(self.problem, self.index, self.graph)

    @cached_property
    def quantum(self) -> int:
        return gcd(self.graph.quantum, *step_times(self.problem)) or 1

    @property
    def improvements(self) -> Sequence[Improvement]:
        parts = self.policy.variants.justification_part, self.policy.variants.neighbourhoods_part
        return tuple(Improvement(MOVES, part, _by_moves) for part in parts)

    ruled_candidates = partialmethod(completed, "ruled_candidates")

    def _of(self, bare: Problem) -> Variant:
        return PlainVariant(bare, self.objective, policy=self.policy)

    def bounds(self) -> Iterator[Bound]:
        return step_bounds(self, self.rules)

    def adopted(self, schedule: Schedule) -> Schedule | None:
        plan = schedule.plan
        if plan.index.saves_memory:
            return None
        if not plan.pairs and replace(schedule.problem, shard=self.problem.shard) == self.problem:
            return schedule
        fine = refined(without_step(plan), self.index)
        return None if fine is None else schedule_plan(self.problem, fine)

    def model(self, least: int, most: int) -> WholeStepModel:
        model = WholeStepModel(self, self.rules, least, most)
        model.dependencies()
        model.side_work()
        model.lanes()
        model.machines()
        model.memory()
        model.prompt_starts()
        model.objective()
        return model

    def hint(self, schedule: Schedule) -> list[int]:
        plan, index = schedule.plan, schedule.plan.index
        found = {
            index.op(number): (machine, schedule.start_ticks[number])
            for machine, row in enumerate([*plan.orders, *plan.network_lanes])
            for number in row
        }
        starts = [found[self.index.op(number)][1] for number in range(self.index.size)]
        for task in self.rules.step.tasks:
            machine, start = found.get(task.op, (UNTIMED, UNTIMED))
            starts.append(start if machine in task.machines else UNTIMED)
        return starts

    def replay(self, starts: Sequence[int]) -> Schedule:
        """Return the schedule of an order of slots and lanes; at level weights the rule makes the lanes."""
        step, devices = self.rules.step, self.problem.devices
        rows = [[*own, *step.on_machine(device)] for device, own in enumerate(self.tasks_on[:devices])]
        lanes = [[*step.on_machine(devices + device)] for device in range(devices)]
        lasts, ranks, plain = self.rules.graph.durations, self._ranks, self.index.size

        def in_time(row: Sequence[int]) -> list[Op]:
            running = [task for task in row if starts[task] >= 0]
            running.sort(key=lambda task: (starts[task], starts[task] + lasts[task], ranks[task]))
            return [self.index.op(task) if task < plain else step.tasks[task - plain].op for task in running]

        slots, moves = ([*map(in_time, part)] for part in (rows, lanes))
        if self.problem.sharding.divides(WEIGHTS):
            return self.timed(slots)
        return self.timed(slots, [self._program(device, slots[device], lane) for device, lane in enumerate(moves)])

    @cached_property
    def _ranks(self) -> list[int]:
        return ranks_of(self.rules.graph)

    def timed(self, slots: Slots, programs: Sequence[Issued] = ()) -> Schedule:
        """Return the schedule of slots, whose lanes follow the rule without programs. Raises InvalidSchedule."""
        problem = self.problem
        count, sides = problem.microbatches, len(problem.side)
        slices = problem.slices.count
        plan = plan_from_slots(slots, problem.stages, count, slices=slices, network=programs, sides=sides)
        return schedule_plan(problem, plan)

    def _program(self, device: int, slots: Sequence[Op], lane: Sequence[Op]) -> Issued:
        """Return a lane's program in this order: each reduction, and what follows, behind the last backward needed."""
        last: dict[tuple[int, int], int] = {}
        for place, op in enumerate(slots):
            if op.kind == self.index.last and self.index.gradients:
                last[op.stage, -1] = last[op.stage, op.microbatch] = place
        program: Issued = []
        behind = -1
        for op in lane:
            if op.kind == "REDUCE_TIED":
                first = self.problem.settled_placement.devices[0]
                program.append((op if device == first else op._replace(stage=self.problem.stages - 1), None))
                continue
            if op.kind == "REDUCE_GRAD":
                behind = max(behind, last[op.stage, op.microbatch])
            program.append((op, slots[behind] if behind >= 0 else None))
        return program


def _moved(side: tuple[SideItem, ...], rows: Rows, random: Random) -> Rows:
    """Return the rows with one slot at another place, side work perhaps on another device."""
    rows = [[*row] for row in rows]
    row = random.choice([row for row in rows if row])
    place = random.randrange(len(row))
    op = row[place]
    if op.kind in SIDE_KINDS and len(side[op.stage].devices) > 1 and random.random() < 1 / 2:
        device = random.choice(side[op.stage].devices)
        both = [one for row in rows for one in row if one.kind in SIDE_KINDS and one[0] == op[0] and one[2] == op[2]]
        rows = [[one for one in row if one not in both] for row in rows]
        place = 0
        for one in sorted(both, key=lambda one: SIDE_KINDS.index(one.kind)):  # its backward behind its forward
            place = random.randint(place, len(rows[device]))
            rows[device].insert(place, one)
            place += 1
        return rows
    row.insert(max(place + random.choice((-1, 1)) * random.randint(1, 6), 0), row.pop(place))
    return rows


def _by_moves(variant: Variant, schedule: Schedule, limits: Limits, clock: Clock) -> Iterator[Candidate]:
    """Yield ever better schedules of a variant until many moves of slots gain nothing in turn, or the time is up."""
    assert isinstance(variant, StepVariant)
    random, problem = Random(limits.seed), schedule.problem
    rows = [[op for op in schedule.plan.slots(device) if not isinstance(op, Pair)] for device in range(problem.devices)]
    least = value = variant.value(schedule)
    most, fruitless = 200 + 4 * sum(map(len, rows)), 0
    while fruitless < most and not clock.is_over:
        fruitless += 1
        moved = _moved(problem.side, rows, random)
        try:
            found = variant.timed(moved)
        except InvalidSchedule:  # some slots wait for ever
            continue
        if variant.value(found) > value or not found.fits:
            continue
        rows, value = moved, variant.value(found)
        if value < least:
            least, fruitless = value, 0
            yield Candidate(MOVES, found)
