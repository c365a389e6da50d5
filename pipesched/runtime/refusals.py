"""Modules that no schedule can train as the model without a pipeline."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from pipesched.checks import cut, shown
from pipesched.errors import ConfigError, ModelFailed
from pipesched.pipeline.ops import Op
from pipesched.runtime.channels import shapes_of
from pipesched.runtime.program import RUN, ProgramStep

_NORMS = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d, torch.nn.SyncBatchNorm)
LONGEST = 400  # letters of a message, and of shapes
IN_LOSS = "in the loss"
Norm = tuple[Any, str, Op]  # a batch normalization of a stage, its name there, and the first operation that runs it


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


def batch_norms(modules: Mapping[int, Any], program: Sequence[ProgramStep]) -> list[Norm]:
    """Return the batch normalizations that a list runs."""
    first: dict[int, Op] = {}
    for step in program:
        if step.action == RUN:
            first.setdefault(step.op.stage, step.op)
    return [
        (part, name, op)
        for stage, op in first.items()
        for name, part in modules[stage].named_modules()
        if isinstance(part, _NORMS)
    ]


def require_none_in_training(norms: Sequence[Norm], rank: int) -> None:
    """Raise ConfigError for a batch normalization that is training, and name its first operation."""
    for part, name, op in norms:
        if part.training:
            what = f"{op} on rank {rank} cannot run: {shown(name)} of stage {op.stage} is a {type(part).__name__}"
            why = "normalizes over a microbatch in place of the batch, and counts it again in its running statistics"
            way_out = "take LayerNorm or GroupNorm, or put it into evaluation mode"
            raise ConfigError(f"{what}, which {why} with every recomputation; {way_out}", "modules")


def add_place(error: BaseException, where: str) -> None:
    """Let an exception say where it was raised: in its text, or in its notes where that is no short line."""
    text = error.args[0] if len(error.args) == 1 and type(error).__str__ is BaseException.__str__ else None
    if isinstance(text, str) and len(text) <= LONGEST and "\n" not in text:
        error.args = (f"{text} ({where})",)
    else:
        vars(error)["__notes__"] = [*getattr(error, "__notes__", ()), where]  # add_note, on Python 3.10 too


def line_of(error: BaseException) -> str:
    """Return the type, the message and the places of an exception, in one line."""
    said = cut(str(error), 2 * LONGEST)
    notes = "".join(f" ({cut(note, LONGEST)})" for note in getattr(error, "__notes__", ()))
    return f"{type(error).__name__}{': ' if said else ''}{said}{notes}"


def failure_of(error: Exception, *, hint: str = "") -> ModelFailed:
    """Return an exception of the user's code as ours."""
    return ModelFailed(line_of(error), hint=hint, trace=trace_of(error))


def trace_of(error: BaseException) -> str:
    """Return the traceback of an exception."""
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def loss_place(output: Any, target: Any) -> str:
    """Return the place of what the loss raises, with what it was given."""
    given = f"output {shapes_text(output)}, target {shapes_text(target)}"
    return f"{IN_LOSS}: {cut(given, LONGEST - len(IN_LOSS) - 2)}"


def shapes_text(value: Any) -> str:
    """Return the shapes and types of tensors."""
    if isinstance(value, torch.Tensor):
        return str(shapes_of([value])[0])
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(shapes_text, value))})"
    return f"a {type(value).__name__}"
