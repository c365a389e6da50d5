"""The pieces of a model: what a function of the user's returns, in forward order, joined into stages."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import torch

from pipesched.checks import require_whole, shown
from pipesched.errors import ConfigError

ROWS, WIDTH = 8, 64  # of a microbatch of the small model
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


def named_function(name: str, key: str) -> Callable[..., Any]:
    """Return the function that `package.module:function` names, of an installed package or the current folder."""
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise ConfigError(f"must be package.module:function, not {shown(name)}", key)
    if os.getcwd() not in sys.path:  # noqa: PTH109  as `python -m` has it
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        found = import_module(module)
    except ImportError as error:
        raise ConfigError(f"cannot import {shown(module)}: {error}", key) from None
    value = getattr(found, function, None)
    if not callable(value):
        raise ConfigError(f"{shown(module)} has no function {shown(function)}", key)
    result: Callable[..., Any] = value
    return result


def pieces_of(name: str) -> list[Any]:
    """Return the modules that the function of that name returns. Raises ConfigError for anything else."""
    found = named_function(name, "model")()
    if not isinstance(found, Sequence) or not found or not all(isinstance(one, torch.nn.Module) for one in found):
        raise ConfigError(f"{name} must return the modules of the model in forward order, not {shown(found)}", "model")
    return list(found)


def joined(pieces: Sequence[Any], stages: int) -> list[Any]:
    """Return the pieces in `stages` equal groups. Raises ConfigError where they do not come out even."""
    size, rest = divmod(len(pieces), stages)
    if rest or not size:
        raise ConfigError(f"has {len(pieces)} pieces, which do not make {stages} equal stages", "model")
    if size == 1:
        return list(pieces)
    return [torch.nn.Sequential(*pieces[stage * size : (stage + 1) * size]) for stage in range(stages)]


def microbatch_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of a microbatch. Raises ConfigError for what is none."""
    if not shape:
        raise ConfigError("must hold the sizes of a microbatch, as in 8,64", "shape")
    return tuple(require_whole(size, "shape", least=1) for size in shape)


def dtype_named(name: str) -> Any:
    """Return the type of that name, `float32` say. Raises ConfigError."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise ConfigError(f"must be the name of a type of PyTorch, as in float32 or int64, not {shown(name)}", "dtype")
    return found


def random_microbatches(count: int, shape: Sequence[int], dtype: Any, seed: int) -> Any:
    """Return random numbers for `count` microbatches, the same on every rank; for a type of integers 0 and 1."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, *shape, generator=generator).mul(1 if dtype.is_floating_point else 2).to(dtype)


def default_loss(output: Any, target: Any) -> Any:
    """Return the mean squared error, of the mean over what the target lacks."""
    return torch.nn.functional.mse_loss(output.float(), target.float().expand_as(output))
