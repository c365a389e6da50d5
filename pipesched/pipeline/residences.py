"""Residences: how long activations, or parts of them, stay in a device's memory.

An activation is there from the start of F to the end of B, or of I; what is retained then, to the end of W. Where that
is more than the activation, the rest is there from the start of I. Recompute and offload change what lies between F and
B (or I).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem


class Residence(NamedTuple):
    """A stay of `size` grains on a device, from the start (or end) of the task `first` to the end of task `last`."""

    first: int
    from_end: bool
    last: int
    size: int


def late_residences(problem: Problem, stage: int, gradient: int, last: int) -> list[Residence]:
    """Return the residences of an activation of a stage from the start of `gradient` on: its B or I.

    `last` is its B, or W.
    """
    size, retained = problem.grains.activation[stage], problem.grains.retained[stage]
    if last == gradient or retained >= size:
        return [Residence(gradient, False, last, size if last == gradient else retained)]
    return [Residence(gradient, False, gradient, size), Residence(gradient, True, last, retained)]


def residences(problem: Problem, index: OpIndex, device: int) -> list[Residence]:
    """Return the residences on a device where activations are kept."""
    placement = problem.settled_placement
    return [
        residence
        for stage in placement.stages_on(device)
        for microbatch, forward in enumerate(index.row("F", stage))
        if placement.device(stage, microbatch, index.microbatches) == device
        for residence in _kept(problem, index, stage, forward)
        if residence.size
    ]


def _kept(problem: Problem, index: OpIndex, stage: int, forward: int) -> Iterator[Residence]:
    size = problem.grains.activation[stage]
    gradient, last = (index.counterpart(forward, kind) for kind in (index.gradient, index.last))
    whole, *others = late_residences(problem, stage, gradient, last)
    yield Residence(forward, False, whole.last, size)
    yield whole._replace(size=whole.size - size)  # what I takes beside the activation
    yield from others
