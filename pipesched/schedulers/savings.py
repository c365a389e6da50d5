"""Recompute and offload as options of every family: the stages that each of them gets.

`full` is all stages, a number that many of the first, whose activations are held longest. Where the layers of the model
are known, a number of recompute is one of layers: so many of each stage run again (Megatron's method "block").
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from pipesched.errors import NotApplicable
from pipesched.pipeline.costs import entries_of
from pipesched.pipeline.layers import rows_of
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import canonical, to_fraction
from pipesched.pipeline.savable import require_offload, require_recompute
from pipesched.schedulers.family import Family
from pipesched.schedulers.options import FULL, OFFLOAD, RECOMPUTE


class Savings(NamedTuple):
    """The stages whose activations are recomputed, and those whose are offloaded: never the same."""

    recompute: range
    offload: range


def savings(problem: Problem, family: Family, recompute: Any, offload: Any) -> Savings:
    """Return which stages a family recomputes and offloads by these options; one of them is not None.

    `problem` is the one that the family runs, with its number of stages. Where both are given, the smaller number takes
    the first stages and the larger those behind them. Raises NotApplicable for more stages than there are, for the same
    number twice, and for a family that obeys a budget; or where the costs hold a recompute already;
    ConfigError where the problem has no cost of an offload.
    """
    _require_use(problem, family, OFFLOAD if recompute is None else RECOMPUTE)
    if offload is not None:
        require_offload(problem)
    if recompute is not None:
        require_recompute(problem)
    again = first_stages(problem, family, RECOMPUTE, recompute)
    away = first_stages(problem, family, OFFLOAD, offload)
    if again == away and counts_layers(problem, RECOMPUTE, recompute):
        raise NotApplicable(
            f"recompute {recompute} takes layers of every stage of {family.name}, so offload takes fewer than all"
            f" {away} stages: those are offloaded whole",
            OFFLOAD,
        )
    if again == away:
        raise NotApplicable(
            f"recompute and offload both take the first {again} stages of {family.name}; give different numbers: the"
            " smaller takes the first stages, the larger those behind them",
            OFFLOAD,
        )
    return Savings(range(away if away < again else 0, again), range(again if again < away else 0, away))


def first_stages(problem: Problem, family: Family, key: str, value: Any) -> int:
    """Return how many stages an option names: all of them for `full`, none where it is not given."""
    if value is None:
        return 0
    if value == FULL or counts_layers(problem, key, value):
        return problem.stages
    number: int = value
    if number > problem.stages:
        raise NotApplicable(
            f"{family.name} runs {problem.stages} stages here, so {key} takes {FULL} or at most {problem.stages}, not"
            f" {number}",
            key,
        )
    return number


def counts_layers(problem: Problem, key: str, value: Any) -> bool:
    """Return whether the value of an option is a number of layers of each stage."""
    return key == RECOMPUTE and problem.layers is not None and value is not None and value != FULL


def with_fewer_layers(problem: Problem, family: Family, recompute: Any) -> Problem:
    """Return `problem` as a number of layers to recompute leaves it; the same problem where that is no such number.

    A recompute of a stage then runs so many of its layers again, or all that it has; of the activation everything else
    stays. Raises NotApplicable for more layers than any stage has.
    """
    layers = problem.layers
    if layers is None or not counts_layers(problem, RECOMPUTE, recompute):
        return problem
    if recompute > max(layers.layout):
        raise NotApplicable(
            f"the stages of {family.name} have at most {max(layers.layout)} layers here, so recompute takes {FULL} or"
            f" at most {max(layers.layout)}, not {recompute}",
            RECOMPUTE,
        )
    spans = [(begin, min(begin + recompute, end)) for begin, end in layers.spans]
    each, rows = layers.layer.sums("activation", layers.count), rows_of(layers.layer.activation)
    own = layers.layer.checkpoint
    kept = own if own is None or isinstance(own, tuple) else (own,) * layers.count
    shares = []
    for (begin, end), size, part in zip(spans, problem.memory.activation, problem.memory.checkpoint, strict=True):
        parts = map(to_fraction, (part,) * (end - begin) if kept is None else kept[begin:end])
        freed = sum(((each[at + 1] - each[at]) * (1 - one) for at, one in enumerate(parts, begin)), Fraction(0))
        whole = sum(entries_of(size, rows), Fraction(0))
        shares.append(canonical(1 - freed / whole) if whole else part)
    return replace(
        problem,
        costs=replace(problem.costs, recompute=tuple(layers.of_span("recompute", *span) for span in spans)),
        memory=replace(problem.memory, checkpoint=tuple(shares)),
    )


def _require_use(problem: Problem, family: Family, key: str) -> None:
    """Raise NotApplicable for a family that has already fitted all activations into a budget."""
    if family.obeys_budget and problem.memory.budget is not None:
        raise NotApplicable(
            f"{family.name} fits its whole activations into the budget, so {key} would only take time; solve with"
            f" {key} decides both together",
            key,
        )
