"""What PyTorch's CSV says of sharded weights: UNSHARD, RESHARD and REDUCE_GRAD, as programs of network lanes.

They count on a problem whose weights are sharded; for any other only the order of computations does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipesched.errors import InvalidSchedule
from pipesched.file_formats.pytorch_cells import COMPUTATIONS, Cell, Sheet
from pipesched.pipeline.costs import fields_of
from pipesched.pipeline.ops import Op
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.step import WEIGHTS
from pipesched.pipeline.step_plan import NOTHING_BEFORE
from pipesched.pipeline.step_rule import Issued, with_step


@dataclass(frozen=True, eq=False, repr=False)
class ShardedPlan(Plan):
    """A plan of a file that has UNSHARD, with the program of each device; turns of a stage are counted from 0.

    `mistakes` says what computes on sharded weights, and what else of the programs PyTorch would refuse.
    """

    programs: Sequence[Sequence[Issued]] = ()
    mistakes: Sequence[str] = ()


def with_programs(sheet: Sheet, plan: Plan) -> Plan:
    """Return the plan of a sheet with its programs, where it has any UNSHARD."""
    if all(action.kind != "UNSHARD" for action in sheet.cells_of):
        return plan
    programs = [[*_program(row, plan)] for row in sheet.rows]
    mistakes = [mistake for row in sheet.rows for mistake in _mistakes(row)]
    return ShardedPlan(**fields_of(plan), programs=programs, mistakes=mistakes)


def planned(problem: Problem, plan: Plan) -> Plan:
    """Return a plan of a file for a problem: with the programs of the file where the problem shards weights.

    Reductions of each microbatch, which no file has, are by the rule, and so is that of a stage without one. Raises
    InvalidSchedule, naming operations and devices, for programs that leave a stage sharded where it computes.
    """
    if not isinstance(plan, ShardedPlan) or not problem.sharding.divides(WEIGHTS):
        return plan
    if plan.mistakes:
        raise InvalidSchedule("; ".join(plan.mistakes[:3]), plan.mistakes)
    each = problem.sharding.reduces_each
    given = [[(op, after) for op, after in row if not each or op.kind != "REDUCE_GRAD"] for row in plan.programs]
    return with_step(problem, plan, given)


def _program(row: Sequence[Cell], plan: Plan) -> Iterator[Issued]:
    """Yield the operations of a row that are of whole stages, each with the slot behind which it stands."""
    after, turns = NOTHING_BEFORE, Counter[int]()
    for cell in row:
        for stage, kind, microbatch in cell.actions[:1]:  # of a pair its forward
            if kind in COMPUTATIONS:
                after = plan.index.number(Op(stage, kind, microbatch))
            elif kind == "UNSHARD":
                yield Op(stage, kind, turns[stage]), after
                turns[stage] += 1
            elif kind == "RESHARD":
                yield Op(stage, kind, max(turns[stage] - 1, 0)), after
            elif kind == "REDUCE_GRAD":
                yield Op(stage, kind, None), after


def _mistakes(row: Sequence[Cell]) -> Iterator[str]:
    """Yield what of a row PyTorch refuses where stages are sharded."""
    whole: set[int] = set()
    for cell in row:
        for action in cell.actions:
            stage, said = action.stage, f"{cell.where}: {action} on device {cell.rank}"
            if action.kind in COMPUTATIONS and stage not in whole:
                yield f"{said}, but stage {stage} is sharded there: {stage}UNSHARD is missing before it"
            elif action.kind == "UNSHARD":
                if stage in whole:
                    yield f"{said}, but stage {stage} is unsharded there already"
                whole.add(stage)
            elif action.kind == "RESHARD":
                if stage not in whole:
                    yield f"{said}, but stage {stage} is sharded there already"
                whole.discard(stage)
    for stage in sorted(whole):
        yield f"row {row[0].rank + 1}: {stage}RESHARD is missing on device {row[0].rank} at the end of the step"
