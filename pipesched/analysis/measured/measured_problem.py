"""The problem of a measured step: its sizes and placement, the medians as costs, the memory of the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from pipesched.analysis.measured.quartiles import Quartiles
from pipesched.analysis.measured.steps import Steps
from pipesched.pipeline.arguments import make_problem
from pipesched.pipeline.kinds import KINDS
from pipesched.pipeline.placement import Placement
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import Exact, to_fraction

LETTER_OF = {kind.cost: letter for letter, kind in KINDS.items()}
TRANSFERS = ("offload", "reload")
Cost = list[Fraction | None]  # of each stage; None where nothing was measured


def measured_problem(
    lengths: Mapping[tuple[str, int], Quartiles], steps: Steps, placement: Placement, unit: str, plan: Problem | None
) -> Problem:
    """Return the problem. What was not measured is that of the plan, else nothing.

    A stage that ran its backward whole has half of it as each half.
    """
    medians = {kind: to_fraction(values.median) for kind, values in lengths.items()}
    stages = steps.stages

    def measured(cost: str) -> Cost:
        return [medians.get((LETTER_OF.get(cost, cost), stage)) for stage in range(stages)]

    def planned(key: str) -> Sequence[Exact] | None:
        return None if plan is None else getattr(plan.costs, key)

    forward, whole = measured("forward"), measured("backward")
    inputs, weights = measured("backward_input"), measured("backward_weight")
    pairs = measured("overlap")
    forwards = _filled(forward, planned("forward"), _halves(pairs))
    given = {
        "forward": forwards,
        "recompute": _filled(measured("recompute"), planned("recompute"), forwards),
        "p2p": [Fraction(0)] * (stages - 1),
    }
    if any(one is not None for one in (*inputs, *weights)):
        halves = [None if one is None else one / 2 for one in whole]
        given["backward_input"] = _filled(inputs, None, _filled(halves, planned("backward_input"), []))
        given["backward_weight"] = _filled(weights, None, _filled(halves, planned("backward_weight"), []))
        backwards = [sum(both, Fraction(0)) for both in zip(*[*given.values()][-2:], strict=True)]
    else:
        given["backward"] = backwards = _filled(whole, planned("backward"), _halves(pairs))
    if any(one is not None for one in pairs):
        given["overlap"] = _filled(pairs, None, [f + b for f, b in zip(forwards, backwards, strict=True)])
    if any(one is not None for key in TRANSFERS for one in measured(key)):
        given |= {key: _filled(measured(key), planned(key), []) for key in TRANSFERS}
    problem = make_problem(
        devices=placement.last + 1,
        stages=stages,
        microbatches=steps.microbatches,
        placement=placement,
        name="" if plan is None else plan.name,
        time_unit=unit,
        **given,  # type: ignore[arg-type]
    )
    if plan is None or plan.stages != stages or plan.devices != problem.devices:
        return problem
    return replace(problem, memory=plan.memory, lanes=plan.lanes)


def _filled(
    values: Sequence[Fraction | None], plan: Sequence[Exact] | None, others: Sequence[Fraction]
) -> list[Fraction]:
    """Return values, where there is none the plan's, else the other one, else nothing."""
    spare = [*map(to_fraction, plan)] if plan and len(plan) == len(values) else others or [Fraction(0)] * len(values)
    return [other if value is None else value for value, other in zip(values, spare, strict=True)]


def _halves(pairs: Cost) -> list[Fraction]:
    """Return half of what pairs took, for stages that run nothing alone."""
    return [Fraction(0) if one is None else one / 2 for one in pairs]
