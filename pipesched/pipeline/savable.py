"""Which problems have activations to save: what of them may be recomputed, or offloaded to host memory."""

from __future__ import annotations

from pipesched.errors import ConfigError
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.units import FORWARD_ONLY


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
