"""The pieces of a model: what a function of the user's returns (`pieces_of`), in forward order, `joined` into stages.

Also modules that no schedule can train as the model without a pipeline, and what code of users raises, as ours.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from importlib import import_module
from itertools import accumulate
from typing import Any

import torch

from pipesched.checks import cut, require_whole, shown
from pipesched.errors import ConfigError, ModelFailed
from pipesched.pipeline.problem.ops import Op
from pipesched.pipeline.problem.problem import Problem
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
    return ModelFailed(line_of(error), hint=hint, trace="".join(traceback.format_exception(error)))


def shapes_text(value: Any) -> str:
    """Return the shapes and types of tensors."""
    if isinstance(value, torch.Tensor):
        return str(shapes_of([value])[0])
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(shapes_text, value))})"
    return f"a {type(value).__name__}"


SHAPE = (8, 64)  # of a microbatch of the small model
WIDTH = SHAPE[1]
SMALL = "pipesched.runtime.model_source:small_model"


def small_model() -> list[Any]:
    """Return eight pieces of a perceptron, for a first try; a microbatch has the shape 8,64."""
    torch.manual_seed(0)
    return [
        torch.nn.Sequential(
            torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Tanh(), torch.nn.Linear(4 * WIDTH, WIDTH), torch.nn.Tanh()
        )
        for _ in range(8)
    ]


def named_function(name: str | Callable[..., Any], key: str) -> Callable[..., Any]:
    """Return the function that `package.module:function` names, of an installed package or the current folder.

    A function itself is returned as it is. Raises ConfigError, and ModelFailed for what the module raises.
    """
    if callable(name):
        return name
    module, colon, function = str(name).partition(":")
    if not (module and colon and function):
        raise ConfigError(f"must be package.module:function, not {shown(name)}", key)
    if os.getcwd() not in sys.path:  # noqa: PTH109  as `python -m` has it
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        found = import_module(module)
    except ImportError as error:
        raise ConfigError(f"cannot import {shown(module)}: {error}", key) from None
    except Exception as error:
        add_place(error, f"in the import of {module}")
        raise failure_of(error) from error
    value = getattr(found, function, None)
    if not callable(value):
        raise ConfigError(f"{shown(module)} has no function {shown(function)}", key)
    result: Callable[..., Any] = value
    return result


def pieces_of(name: str) -> list[Any]:
    """Return the modules that the function of that name returns.

    Raises ConfigError for anything else, and ModelFailed for what the function raises.
    """
    function = named_function(name, "model")
    try:
        found = function()
    except Exception as error:
        add_place(error, "in the making of the model")
        raise failure_of(error) from error
    if not isinstance(found, Sequence) or not found or not all(isinstance(one, torch.nn.Module) for one in found):
        raise ConfigError(f"{name} must return the modules of the model in forward order, not {shown(found)}", "model")
    return list(found)


class PieceChain(torch.nn.Sequential):  # type: ignore[misc]  # torch is untyped here
    """Pieces of a model one after the other; what one returns as a tuple the next takes as its arguments."""

    def forward(self, *data: Any) -> Any:
        for piece in self:
            found = piece(*data)
            data = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        return found


def joined(pieces: Sequence[Any], problem: Problem) -> list[Any]:
    """Return a module for each stage: several pieces where these are the layers that a stage has, else equally many.

    Raises ConfigError where they do not come out even.
    """
    stages, counts = problem.stages, list[int]()
    size, rest = divmod(len(pieces), stages)
    if problem.layers is not None and len(problem.layers.layout) == stages:
        counts = list(problem.layers.layout)  # and one for what stands before them or behind them
        counts[0] += not problem.layers.first.is_nothing
        counts[-1] += not problem.layers.last.is_nothing
    if sum(counts) != len(pieces) or not all(counts):
        if rest or not size:
            raise ConfigError(f"has {len(pieces)} pieces, which do not make {stages} equal stages", "model")
        counts = [size] * stages
    ends = [*accumulate(counts)]
    parts = [pieces[end - count : end] for count, end in zip(counts, ends, strict=True)]
    return [part[0] if len(part) == 1 else PieceChain(*part) for part in parts]


@contextmanager
def seeded(seed: int, step: int, stage: int, microbatch: int) -> Iterator[None]:
    """Draw PyTorch's random numbers from generators that are seeded by these four; the caller's are restored behind.

    The runtime runs the forward of a stage, and its recomputation, in this context, with the steps counted from 0. To
    compare with a model that is not pipelined, run each of its stages on each microbatch in the same context. The
    generators are those of the CPU and of the current CUDA device. Raises ConfigError for what is no whole number of
    at least 0.
    """
    given = {"seed": seed, "step": step, "stage": stage, "microbatch": microbatch}
    text = ",".join(str(require_whole(value, key)) for key, value in given.items())
    number = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1  # neighbours have nothing alike
    generators = [torch.default_generator]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        generators.append(torch.cuda.default_generators[torch.cuda.current_device()])
    states = [generator.get_state() for generator in generators]
    try:
        for generator in generators:
            generator.manual_seed(number)
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
