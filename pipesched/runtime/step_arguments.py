"""What a step is given: inputs, targets and weights, one entry of each for a microbatch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import torch

from pipesched.checks import require_whole, shown
from pipesched.errors import ConfigError


def require_entries(value: Any, key: str, count: int) -> Any:
    """Return a sequence of one entry for each of `count` microbatches. Raises ConfigError for anything else."""
    try:
        length = len(value)
    except TypeError:  # of a tensor of no dimension too
        length = None
    if length != count or not hasattr(value, "__getitem__"):
        what = "nothing" if value is None else shown(value) if length in (None, count) else str(length)
        raise ConfigError(f"must hold one entry for each of the {count} microbatches, not {what}", key)
    return value


def loss_weights(weights: Any, count: int) -> list[float]:
    """Return by what the loss of each microbatch counts: any finite number, also below 0 or in a tensor.

    Raises ConfigError for another length, and for what is no such number.
    """
    given = require_entries(weights, "weights", count)
    at = given.get if isinstance(given, Mapping) else given.__getitem__
    return [_finite(at(entry), entry) for entry in range(count)]


def _finite(value: Any, entry: int) -> float:
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    try:
        number = float("nan") if isinstance(value, (str, bool)) else float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        number = float("nan")
    if not isfinite(number):
        raise ConfigError(f"must be a finite number, not {shown(value)}", "weights", entry=entry)
    return number


def rows_of_microbatches(rows: Sequence[int], count: int) -> tuple[int, ...]:
    """Return how many rows each of `count` microbatches has. Raises ConfigError."""
    require_entries(rows, "rows", count)
    return tuple(require_whole(rows[entry], "rows", least=1, entry=entry) for entry in range(count))


def shapes_given(inputs: Any) -> list[Any]:
    """Return the shapes of the tensors in the inputs of each microbatch."""
    return [_shapes(inputs[microbatch]) for microbatch in range(len(inputs))]


def _shapes(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype
    return [_shapes(one) for one in value] if isinstance(value, (tuple, list)) else None
