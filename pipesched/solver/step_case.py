"""The case of a training step with more than passes: gathers, reductions, optimizers, side work.

`index` and `graph` are those of the passes. Heuristics order these, and the rule of families completes their plans; the
exact model has all operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, product
from math import gcd, prod

from pipesched.core.clock import Clock
from pipesched.core.cpsat import Limits
from pipesched.core.paths import topological_order
from pipesched.core.timing import UNTIMED
from pipesched.errors import InvalidSchedule
from pipesched.pipeline.bounds import Bound, highest
from pipesched.pipeline.ops import Op
from pipesched.pipeline.plan import Plan, plan_from_slots, without_step
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.pipeline.step import AUTO, WEIGHTS
from pipesched.pipeline.step_ends import step_times
from pipesched.solver.bounds import step_bounds
from pipesched.solver.case import Candidate, Case, Improvement
from pipesched.solver.keeping import KeepingCase
from pipesched.solver.portfolio import refined
from pipesched.solver.step_model import WholeStepModel, step_model
from pipesched.solver.step_moves import moved_schedules
from pipesched.solver.step_rules import StepRules
from pipesched.solver.step_saving import completed

MOVES = "moves"

Slots = Sequence[Sequence[Op]]
Issued = list[tuple[Op, Op | None]]


@dataclass(frozen=True, eq=False)
class StepCase(KeepingCase):
    """A case with a step, whose activations are all kept."""

    @cached_property
    def rules(self) -> StepRules:
        """The tasks of the exact model, and what is known of their order."""
        return StepRules(self.problem, self.index, self.graph)

    @cached_property
    def quantum(self) -> int:
        return gcd(self.graph.quantum, *step_times(self.problem)) or 1

    @property
    def improvements(self) -> Sequence[Improvement]:
        """Moves of slots, timed by the rule."""
        parts = self.policy.cases.justification_part, self.policy.cases.windows_part
        return tuple(Improvement(MOVES, part, _by_moves) for part in parts)

    def ruled_candidates(self) -> Iterator[Candidate]:
        parts = self.policy.portfolio.held
        return completed(self.problem, parts, self._of, lambda case: case.ruled_candidates())

    def quick_ruled_candidates(self) -> Iterator[Candidate]:
        return islice(self.ruled_candidates(), 1)

    def _of(self, bare: Problem) -> Case:
        return KeepingCase(bare, self.objective, policy=self.policy)

    def bound(self) -> Bound:
        return highest(step_bounds(self, self.rules), self.quantum)

    def adopted(self, schedule: Schedule) -> Schedule | None:
        plan = schedule.plan
        if plan.index.saves_memory:
            return None
        if not plan.pairs and replace(schedule.problem, shard=self.problem.shard) == self.problem:
            return schedule
        fine = refined(without_step(plan), self.index)
        return None if fine is None else schedule_plan(self.problem, fine)

    def model(self, least: int, most: int) -> WholeStepModel:
        return step_model(self, self.rules, least, most)

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
        slots, moves = ([[*map(self._op, self._in_time(row, starts))] for row in part] for part in (rows, lanes))
        if self.problem.sharding.divides(WEIGHTS):
            return self.by_rule(slots)
        programs = [self._program(device, slots[device], lane) for device, lane in enumerate(moves)]
        return schedule_plan(self.problem, self._plan(slots, programs))

    @cached_property
    def _ranks(self) -> list[int]:
        ranks = [0] * len(self.rules.graph)
        for rank, task in enumerate(topological_order(self.rules.graph)):
            ranks[task] = rank
        return ranks

    def _in_time(self, tasks: Sequence[int], starts: Sequence[int]) -> list[int]:
        """Return those of the tasks that run, by their starts."""
        lasts, ranks = self.rules.graph.durations, self._ranks
        return sorted(
            (task for task in tasks if starts[task] >= 0),
            key=lambda task: (starts[task], starts[task] + lasts[task], ranks[task]),
        )

    def _op(self, task: int) -> Op:
        return self.index.op(task) if task < self.index.size else self.rules.step.tasks[task - self.index.size].op

    def _plan(self, slots: Slots, programs: Sequence[Issued] = ()) -> Plan:
        problem = self.problem
        count, sides = problem.microbatches, len(problem.side)
        return plan_from_slots(slots, problem.stages, count, slices=problem.slices.count, network=programs, sides=sides)

    def _program(self, device: int, slots: Sequence[Op], lane: Sequence[Op]) -> Issued:
        """Return the program of a lane in this order: each reduction stands behind the last backward that it needs.

        What follows it on the lane stands no earlier. A reduction of tied gradients bears the stage of its own device.
        """
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

    def by_rule(self, slots: Slots) -> Schedule:
        """Return the schedule of slots whose lanes follow the rule, with the best number of stages ahead if it is open.

        Of many choices each device is looked at by itself. Raises InvalidSchedule for an order that waits for ever.
        """
        plan = self._plan(slots)
        best = schedule_plan(self.problem, plan)
        if self.problem.sharding.ahead != AUTO:
            return best
        stages_on = self.problem.settled_placement.stages_on
        numbers = [range(1, max(len(stages_on(device)), 1) + 1) for device in range(self.problem.devices)]
        if prod(map(len, numbers)) <= self.policy.moves.most_aheads:
            return min([best, *(self._with_ahead(plan, ahead) for ahead in product(*numbers))], key=_rank)
        for device in range(self.problem.devices):
            for ahead in self._choices(best, device):
                best = min(best, self._with_ahead(plan, ahead), key=_rank)
        return best

    def _with_ahead(self, plan: Plan, ahead: tuple[int, ...]) -> Schedule:
        return schedule_plan(replace(self.problem, shard=replace(self.problem.sharding, ahead=ahead)), plan)

    def _choices(self, schedule: Schedule, device: int) -> Iterator[tuple[int, ...]]:
        """Yield the numbers of stages ahead of a schedule with others for one device."""
        settled, placement = schedule.problem.sharding.ahead, self.problem.settled_placement
        known = settled if isinstance(settled, tuple) else (int(settled),) * self.problem.devices
        for ahead in range(1, len(placement.stages_on(device)) + 1):
            if ahead != known[device]:
                yield (*known[:device], ahead, *known[device + 1 :])

    def timed(self, slots: Slots) -> Schedule | None:
        """Return the schedule of slots by the rule; None where some wait for ever."""
        try:
            return self.by_rule(slots)
        except InvalidSchedule:
            return None


def _by_moves(case: Case, schedule: Schedule, limits: Limits, clock: Clock) -> Iterator[Candidate]:
    """Yield ever better schedules of a case by moves of slots."""
    if isinstance(case, StepCase):
        found = moved_schedules(schedule, case.timed, case.value, case.policy.moves, limits.seed, clock)
        yield from (Candidate(MOVES, one) for one in found)


def _rank(schedule: Schedule) -> tuple[bool, int, int]:
    """Return what makes one schedule better than another: that it fits, its makespan, its largest memory."""
    return not schedule.fits, schedule.makespan_ticks, max(schedule.memory_grains)
