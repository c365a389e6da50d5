"""Modules that no schedule can train as the model without a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from pipesched.checks import shown
from pipesched.errors import ConfigError
from pipesched.pipeline.ops import Op
from pipesched.runtime.program import RUN, ProgramStep

_NORMS = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d, torch.nn.SyncBatchNorm)


def require_modules(modules: object, stages: Sequence[int], rank: int) -> Mapping[int, Any]:
    """Return `modules` if they are a module for each of `stages`. Raises ConfigError."""
    if not isinstance(modules, Mapping):
        raise ConfigError(f"must map stages to their modules, not {shown(modules)}", "modules")
    missing = [stage for stage in stages if stage not in modules]
    if missing:
        raise ConfigError(f"rank {rank} runs the stages {shown(list(stages))}; {missing[0]} has no module", "modules")
    for stage in stages:
        if not isinstance(modules[stage], torch.nn.Module):
            raise ConfigError(f"must be a torch.nn.Module, not {shown(modules[stage])}", "modules", entry=str(stage))
    return modules


class Norm(NamedTuple):
    """A batch normalization of a stage, its name there, and the first operation that runs it."""

    part: Any
    name: str
    op: Op


def batch_norms(modules: Mapping[int, Any], program: Sequence[ProgramStep]) -> list[Norm]:
    """Return the batch normalizations that a list runs."""
    first: dict[int, Op] = {}
    for step in program:
        if step.action == RUN:
            first.setdefault(step.op.stage, step.op)
    return [
        Norm(part, name, op)
        for stage, op in first.items()
        for name, part in modules[stage].named_modules()
        if isinstance(part, _NORMS)
    ]


def require_none_in_training(norms: Sequence[Norm], rank: int) -> None:
    """Raise ConfigError for a batch normalization that is training, and name its first operation."""
    for part, name, op in norms:
        if part.training:
            raise ConfigError(
                f"{op} on rank {rank} cannot run: {shown(name)} of stage {op.stage} is a {type(part).__name__}, which"
                " normalizes over a microbatch in place of the batch, and counts it again in its running statistics"
                " with every recomputation; take LayerNorm or GroupNorm, or put it into evaluation mode",
                "modules",
            )
