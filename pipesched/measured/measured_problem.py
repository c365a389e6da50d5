"""The problem of a measured step: its sizes and placement, the medians as costs, the memory of the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from pipesched.measured.clocks import Kind
from pipesched.measured.quartiles import Quartiles
from pipesched.measured.ranges import PER_UNIT
from pipesched.measured.steps import Steps
from pipesched.pipeline.arguments import make_problem
from pipesched.pipeline.placement import Placement
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import to_fraction

Cost = list[Fraction | None]  # of each stage; None where nothing was measured


def measured_problem(
    lengths: Mapping[Kind, Quartiles], steps: Steps, placement: Placement, unit: str, plan: Problem | None
) -> Problem:
    """Return the problem. What was not measured is that of the plan, else nothing.

    A stage that ran its backward whole has half of it as each half; of a kind whose pairs differ, the median of all
    forwards' stages stands.
    """
    medians = {kind: to_fraction(values.median) for kind, values in lengths.items()}
    stages = steps.stages

    def measured(letter: str) -> Cost:
        return [medians.get((letter, stage, -1)) for stage in range(stages)]

    forward, whole, recompute = measured("F"), measured("B"), measured("R")
    inputs, weights = measured("I"), measured("W")
    pairs = _pairs(medians, stages)
    given = {
        "forward": _filled(forward, plan and plan.costs.forward, _halves(pairs)),
        "recompute": _filled(recompute, plan and plan.costs.recompute, [one or Fraction(0) for one in forward]),
        "p2p": 0,
    }
    halves = [None if one is None else one / 2 for one in whole]
    if any(one is not None for one in (*inputs, *weights)):
        given["backward_input"] = _filled(inputs, None, _filled(halves, plan and plan.costs.backward_input, []))
        given["backward_weight"] = _filled(weights, None, _filled(halves, plan and plan.costs.backward_weight, []))
    else:
        own = plan and plan.costs.backward
        given["backward"] = _filled(whole, own, _halves(pairs))
    if any(one is not None for one in pairs):
        sums = [to_fraction(f) + b for f, b in zip(given["forward"], _backwards(given), strict=True)]
        given["overlap"] = _filled(pairs, None, sums)
    for key, letter in (("offload", "O"), ("reload", "L")):
        if any(one is not None for one in (*measured("O"), *measured("L"))):
            given[key] = _filled(measured(letter), plan and getattr(plan.costs, key), [])
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


def _filled(values: Sequence[Fraction | None], plan: Sequence[object] | None, others: Sequence[Fraction]) -> list[Fraction]:
    """Return values, where there is none the plan's, else the other one, else nothing."""
    spare = [*map(to_fraction, plan)] if plan and len(plan) == len(values) else others or [Fraction(0)] * len(values)
    return [other if value is None else value for value, other in zip(values, spare, strict=True)]


def _pairs(medians: Mapping[Kind, Fraction], stages: int) -> Cost:
    """Return what pairs took, by the stage of their forward: the mean of the medians, where their backwards differ."""
    found: Cost = []
    for stage in range(stages):
        own = [length for (letter, forward, _), length in medians.items() if (letter, forward) == ("overlap", stage)]
        found.append(Fraction(round(sum(own) * PER_UNIT / len(own)), PER_UNIT) if own else None)
    return found


def _halves(pairs: Cost) -> list[Fraction]:
    """Return half of what pairs took, for stages that run nothing alone."""
    return [Fraction(0) if one is None else one / 2 for one in pairs]


def _backwards(given: Mapping[str, list[Fraction]]) -> list[Fraction]:
    if "backward" in given:
        return given["backward"]
    return [sum(both, Fraction(0)) for both in zip(given["backward_input"], given["backward_weight"], strict=True)]
