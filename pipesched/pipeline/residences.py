"""Residences: how long activations, or parts of them, stay in a device's memory.

An activation is there from the start of F to the end of B, or of I; what is retained then, to the end of W. Where that
is more than the activation, the rest is there from the start of I. Recompute and offload change what lies between F and
B (or I). The gradients of the keys and values of a slice are there from the start of the last slice's B (or I) to the
end of its own. Of forwards alone, all but keys and values is there during F, and these to the end of the last slice's,
in the last round.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pipesched.core.arrays import np
from pipesched.errors import ConfigError
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.units import FORWARD_ONLY


class Residence(NamedTuple):
    """A stay of `size` grains on a device, from the start (or end) of the task `first` to the end of task `last`."""

    first: int
    from_end: bool
    last: int
    size: int


class Held(NamedTuple):
    """What is held of the activation of a unit, in grains: all of it, then what I leaves, or with R what F leaves.

    `cached` is the part that keys and values are.
    """

    activation: int
    retained: int
    checkpointed: int
    cached: int


def held(problem: Problem, stage: int, unit: int) -> Held:
    """Return what a stage holds of a unit."""
    sizes = problem.model.sizes
    return Held(*(int(sizes[name][stage, unit]) for name in Held._fields))


def late_residences(sizes: Held, gradient: int, last: int) -> list[Residence]:
    """Return the residences of an activation from the start of `gradient` on: its B or I. `last` is its B, or W."""
    size, retained = sizes.activation, sizes.retained
    if last == gradient or retained >= size:
        return [Residence(gradient, False, last, size if last == gradient else retained)]
    return [Residence(gradient, False, gradient, size), Residence(gradient, True, last, retained)]


def residences(problem: Problem, index: OpIndex, device: int) -> list[Residence]:
    """Return the residences on a device where activations are kept."""
    model, slices = problem.model, index.slices
    found: list[Residence] = []
    for stage in problem.settled_placement.stages_on(device):
        sizes = np.stack([model.sizes[name][stage] for name in Held._fields], axis=-1).tolist()
        for unit in np.flatnonzero(model.where[stage] == device).tolist():
            forward, own = index.row("F", stage)[unit], Held(*sizes[unit])
            if problem.mode == FORWARD_ONLY:
                found.append(Residence(forward, False, forward, own.activation - own.cached))
                later = model.rounds - 1 - unit // slices // problem.batches
                last = forward - unit % slices + slices - 1 + later * problem.batches * slices
                found.append(Residence(forward, False, last, own.cached))
            else:
                found += _kept(index, forward, own)
    return [stay for stay in found if stay.size]


def _kept(index: OpIndex, forward: int, sizes: Held) -> Iterator[Residence]:
    gradient, last = (index.counterpart(forward, kind) for kind in (index.gradient, index.last))
    whole, *others = late_residences(sizes, gradient, last)
    yield Residence(forward, False, whole.last, sizes.activation)
    yield whole._replace(size=whole.size - sizes.activation)  # what I takes beside the activation
    yield from others
    last_slice = gradient - index.owner_of(gradient) % index.slices + index.slices - 1
    if gradient != last_slice:
        yield Residence(last_slice, False, gradient, sizes.cached)


def require_recompute(problem: Problem) -> None:
    """Raise ConfigError about `recompute` for a problem in which no activation can be recomputed.

    Raises NotApplicable where its costs hold a recompute already, by what it was derived from.
    """
    require_kept(problem, "recompute")
    if problem.cutter is not None:
        problem.cutter.require_recompute()


def require_offload(problem: Problem) -> None:
    """Raise ConfigError about `offload` for a problem in which no activation can be offloaded."""
    require_kept(problem, "offload")
    if problem.costs.offload is None:
        section = "costs" if problem.layers is None else "layer"
        raise ConfigError(f"needs `{section}.offload`, which says what one transfer takes", "offload")


def require_kept(problem: Problem, key: str) -> None:
    """Raise ConfigError, about `key`, for a problem whose activations are of slices, or of forward passes alone."""
    if problem.slices.are_several:
        raise ConfigError("goes with whole microbatches, not with `slices`", key)
    if problem.mode == FORWARD_ONLY:
        raise ConfigError("has no effect with `mode` forward, in which no activation waits for its backward", key)
