"""What of a step has a cost, for sensitivities: the operations of each cost, and the problem with one changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain

from pipesched.pipeline.kinds import STEP_KINDS
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import canonical, to_fraction
from pipesched.pipeline.step_plan import SIDE_KINDS

Row = tuple[int, str]  # a stage, or an item of side work, and a kind
TIED = "REDUCE_TIED"


def row_of_step(index: OpIndex, number: int) -> Row:
    """Return the cost of an operation of the step: both ends of tied gradients have one."""
    kind = index.kind_of(number)
    return (0 if kind == TIED else index.stage_of(number)), kind


def numbers_of(index: OpIndex, row: Row) -> Sequence[int]:
    """Return the operations of the step that have a cost."""
    stage, kind = row
    return [*chain(*index.rows(kind))] if kind == TIED else index.row(kind, stage)


def changed_step(problem: Problem, row: Row, factor: Fraction) -> Problem:
    """Return the problem with one cost of its step `factor` times as high; one that it does not have stays so."""
    stage, kind = row
    key, costs = STEP_KINDS[kind].cost, problem.costs
    if kind in SIDE_KINDS:
        times = getattr(problem.side[stage], key)
        item = replace(problem.side[stage], **{key: tuple(canonical(to_fraction(one) * factor) for one in times)})  # type: ignore[arg-type]
        return replace(problem, side=(*problem.side[:stage], item, *problem.side[stage + 1 :]))
    if getattr(costs, key) is None:
        return problem
    if kind == TIED:
        return replace(problem, costs=replace(costs, tied=canonical(to_fraction(costs.tied) * factor)))
    column = [*getattr(costs, key)]
    column[stage] = canonical(to_fraction(column[stage]) * factor)
    return replace(problem, costs=replace(costs, **{key: tuple(column)}))  # type: ignore[arg-type]
