"""The pieces of a model: what a function of the user's returns, in forward order, joined into stages."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from importlib import import_module
from itertools import accumulate
from typing import Any

import torch

from pipesched.checks import require_whole, shown
from pipesched.errors import ConfigError
from pipesched.pipeline.problem import Problem
from pipesched.runtime.refusals import add_place, failure_of

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
        """Return what the last piece does."""
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
