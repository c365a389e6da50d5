"""The same global batch in another number of microbatches: what their operations then take, and hold.

A microbatch of half the size takes half the time and half the memory, which is exact where time is in proportion to
size. The latency between devices is a part that depends on the size and a part that does not, in shares that are not
known. So it is taken at its largest: as it is for smaller microbatches, in proportion for larger ones. Static memory
does not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pipesched.pipeline.costs import PER_STAGE, Costs
from pipesched.pipeline.layers import OPTIONAL, TIMES, LayerCosts, Layers
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import Exact, canonical, to_fraction
from pipesched.pipeline.recut import balanced_for


def with_microbatches(problem: Problem, count: int) -> Problem:
    """Return `problem` with its global batch in `count` microbatches. Raises ConfigError where that is too large."""
    factor = Fraction(problem.microbatches, count)
    layers = None if problem.layers is None else _scaled_layers(problem.layers, factor)
    costs = _scaled_costs(problem.costs, factor)
    changed = replace(
        problem,
        microbatches=count,
        costs=costs if layers is None else replace(costs, resolution=layers.resolution),
        memory=replace(problem.memory, activation=_scaled(problem.memory.activation, factor)),
        layers=layers,
    )
    return balanced_for(changed)


def _scaled(values: Sequence[Exact], factor: Fraction) -> tuple[Exact, ...]:
    return tuple(canonical(to_fraction(value) * factor) for value in values)


def _scaled_costs(costs: Costs, factor: Fraction) -> Costs:
    given = {key: times for key in PER_STAGE if (times := getattr(costs, key)) is not None}
    scaled: dict[str, Any] = {key: _scaled(times, factor) for key, times in given.items()}
    return replace(costs, **scaled, p2p=_scaled(costs.p2p, max(factor, Fraction(1))))


def _scaled_layers(layers: Layers, factor: Fraction) -> Layers:
    parts = {key: _scaled_part(getattr(layers, key), factor) for key in ("layer", "first", "last")}
    return replace(layers, **parts)  # type: ignore[arg-type]


def _scaled_part(part: LayerCosts, factor: Fraction) -> LayerCosts:
    keys = [key for key in (*TIMES, "activation") if key not in OPTIONAL or getattr(part, key) is not None]
    return replace(part, **{key: canonical(part.amount(key) * factor) for key in keys})
