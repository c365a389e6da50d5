"""Fusing of stages: the same model as fewer, larger stages, so that all algorithms of a comparison train it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pipesched.errors import NotApplicable
from pipesched.pipeline.costs import PER_STAGE, Costs
from pipesched.pipeline.layers import Layers
from pipesched.pipeline.memory import Memory
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import Exact, canonical, to_fraction


def fuse(problem: Problem, stages: int) -> Problem:
    """Return `problem` with its stages merged into `stages` equal contiguous groups, and its placement left open.

    Costs, activations and static memory add up; the p2p latencies inside a group are dropped. Raises NotApplicable when
    the groups cannot be equal.
    """
    if stages == problem.stages:
        return problem
    if problem.stages % stages:
        raise NotApplicable(
            f"needs a multiple of {stages} stages to fuse into {stages}; the config has {problem.stages}", "stages"
        )
    size = problem.stages // stages
    return replace(
        problem,
        stages=stages,
        placement=None,
        costs=_fuse_costs(problem.costs, size),
        memory=_fuse_memory(problem.memory, size),
        layers=None if problem.layers is None else _fuse_layers(problem.layers, size),
    )


def _fuse_layers(layers: Layers, size: int) -> Layers:
    groups = (layers.layout[start : start + size] for start in range(0, len(layers.layout), size))
    return replace(layers, layout=tuple(map(sum, groups)))


def _sums(values: Sequence[Exact], size: int) -> tuple[Exact, ...]:
    groups = (values[start : start + size] for start in range(0, len(values), size))
    return tuple(canonical(sum(map(to_fraction, group), Fraction(0))) for group in groups)


def _fuse_costs(costs: Costs, size: int) -> Costs:
    sums: dict[str, Any] = {key: _sums(times, size) for key in PER_STAGE if (times := getattr(costs, key)) is not None}
    return replace(costs, **sums, p2p=costs.p2p[size - 1 :: size], resolution=costs.ticks.per_unit)


def _fuse_memory(memory: Memory, size: int) -> Memory:
    return replace(
        memory,
        activation=_sums(memory.activation, size),
        retain=_means(memory.retain, memory.activation, size),
        checkpoint=_means(memory.checkpoint, memory.activation, size),
        static=_sums(memory.static, size),
    )


def _means(shares: Sequence[Exact], sizes: Sequence[Exact], size: int) -> tuple[Exact, ...]:
    """Return the mean part of each group, weighted by the activations (equally where those are all zero)."""
    means = []
    for start in range(0, len(shares), size):
        group = slice(start, start + size)
        parts, weights = [*map(to_fraction, shares[group])], [*map(to_fraction, sizes[group])]
        if not any(weights):
            weights = [Fraction(1)] * size
        whole = sum((part * weight for part, weight in zip(parts, weights, strict=True)), Fraction(0))
        means.append(canonical(whole / sum(weights)))
    return tuple(means)
