"""Fusing stages: the same model as fewer, larger stages, so that every algorithm of a comparison trains the same
model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from pipesched.errors import NotApplicable
from pipesched.pipeline.problem import Costs, Memory, Problem


def fuse(problem: Problem, stages: int) -> Problem:
    """`problem` with its stages merged into `stages` equal contiguous groups, placement left open.

    Costs, activations and static memory add up; the p2p boundaries inside a group go away. Raises NotApplicable when
    the groups cannot be equal.
    """
    if stages == problem.stages:
        return problem
    if problem.stages % stages:
        raise NotApplicable(
            f"needs a multiple of {stages} stages to fuse into {stages}; the config has {problem.stages}"
        )
    size = problem.stages // stages
    return replace(
        problem,
        stages=stages,
        placement=None,
        costs=_fuse_costs(problem.costs, size),
        memory=_fuse_memory(problem.memory, size),
    )


def _sums(values: Sequence[int], size: int) -> tuple[int, ...]:
    return tuple(sum(values[start : start + size]) for start in range(0, len(values), size))


def _fuse_costs(costs: Costs, size: int) -> Costs:
    return replace(
        costs,
        forward=_sums(costs.forward, size),
        backward_input=_sums(costs.backward_input, size),
        backward_weight=_sums(costs.backward_weight, size),
        recompute=_sums(costs.recompute, size),
        overlap=costs.overlap and _sums(costs.overlap, size),
        p2p=costs.p2p[size - 1 :: size],
        offload=costs.offload and _sums(costs.offload, size),
        reload=costs.reload and _sums(costs.reload, size),
    )


def _fuse_memory(memory: Memory, size: int) -> Memory:
    return replace(
        memory,
        activation=_sums(memory.activation, size),
        retain=_mean(memory.retain, memory.activation, size),
        checkpoint=_mean(memory.checkpoint, memory.activation, size),
        static=_sums(memory.static, size),
    )


def _mean(fractions: Sequence[Fraction], weights: Sequence[int], size: int) -> tuple[Fraction, ...]:
    """The fraction of each group's whole: weighted by the activations (by their number where those are all zero)."""
    means = []
    for start in range(0, len(fractions), size):
        group = slice(start, start + size)
        total = sum(weights[group])
        parts = [part * weight for part, weight in zip(fractions[group], weights[group], strict=True)]
        means.append(Fraction(sum(parts), total) if total else Fraction(sum(fractions[group]), size))
    return tuple(means)
