"""What a model is trained on, its `data_source`: random numbers, or what a function of the user's returns; its loss.

A step is given inputs, targets and weights: one entry of each for a microbatch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from pipesched.checks import require_whole, shown
from pipesched.errors import ConfigError
from pipesched.runtime.model_source import IN_LOSS, add_place, line_of, named_function, seeded, shapes_text

MSE, CROSS_ENTROPY = "mse", "cross-entropy"
DTYPE, VOCAB = "float32", 2  # where none is given
MOST = 2**31 - 1  # of random integers
_FLOATS_AS_INDICES = re.compile("indices.* scalar types")  # PyTorch's words, as in the next line
_OUT_OF_RANGE = re.compile("index out of range|out of bounds|smaller than num_classes|device-side assert")
Named = str | Callable[..., Any]  # a function, or package.module:function


class Microbatches(NamedTuple):
    """The inputs and the targets of a step, one of each for a microbatch, and the weights of their losses."""

    inputs: Any
    targets: Any
    weights: Sequence[float] | None = None


class DataSource(NamedTuple):
    """A function, or the shape and the type of random numbers; integers are less than `vocab`. And a loss.

    `rows` are those of each microbatch, in place of the first size of the shape; without them all are alike.
    """

    data: Named | None
    loss: Named | None
    shape: tuple[int, ...]
    dtype: Any
    vocab: int
    rows: tuple[int, ...] | None = None

    def microbatches(self, step: int, count: int, seed: int) -> Microbatches:
        """Return what a step trains on, the same on every rank. Raises what the user's function does."""
        if self.data is None:
            return Microbatches(*(_random(count, self, seed + part) for part in (0, 1)))
        try:
            with seeded(seed, step, 0, count):  # numbers of no stage, as microbatches end before `count`
                found = named_function(self.data, "data")(step, count)
            if not _holds(found, 2) or not all(_holds(part, count) for part in found):
                raise TypeError(f"must return (inputs, targets), {count} microbatches each, not {shapes_text(found)}")
        except Exception as error:
            add_place(error, f"in the data of step {step}")
            raise
        return Microbatches(*found)

    def loss_for(self, inputs: Any) -> Callable[..., Any]:
        """Return the loss; by default for inputs of integers another than for others."""
        if self.loss is not None:
            return loss_named(self.loss)
        first = inputs[0]
        while isinstance(first, (tuple, list)) and first:
            first = first[0]
        is_whole = isinstance(first, torch.Tensor) and not (first.is_floating_point() or first.is_complex())
        return cross_entropy if is_whole else mse


def data_source(
    data: Named | None,
    loss: Named | None,
    shape: Sequence[int] | None,
    dtype: str | None,
    vocab: int | None,
    usual: Sequence[int] = (),
) -> DataSource:
    """Return what to train on; the shape is the `usual` one where none is given. Raises ConfigError."""
    if loss is not None:
        loss_named(loss)
    if data is not None:
        named_function(data, "data")
        for key, value in (("shape", shape), ("dtype", dtype), ("vocab", vocab)):
            if value is not None:
                raise ConfigError("has no effect beside `data`, which returns inputs and targets", key)
        return DataSource(data, loss, (), None, 0)
    number = dtype_named(dtype or DTYPE)
    if number.is_floating_point or number.is_complex:
        if vocab is not None:
            raise ConfigError(f"is for inputs of integers; these are {dtype or DTYPE}", "vocab")
    elif vocab is not None:
        most = 1 if number is torch.bool else torch.iinfo(number).max
        require_whole(vocab, "vocab", least=1, most=min(most, MOST) + 1)
    sizes = usual if shape is None else shape
    if not sizes:
        raise ConfigError("is missing: the sizes of a microbatch, as in 8,64; or give `data`", "shape")
    whole = tuple(require_whole(size, "shape", least=1) for size in sizes)
    return DataSource(None, loss, whole, number, vocab or VOCAB)


def loss_named(loss: Named) -> Callable[..., Any]:
    """Return a loss by its name, or the function. Raises ConfigError."""
    known = {MSE: mse, CROSS_ENTROPY: cross_entropy}
    if isinstance(loss, str) and ":" not in loss and loss not in known:
        raise ConfigError(f"must be {', '.join(known)} or package.module:function, not {shown(loss)}", "loss")
    return known[loss] if isinstance(loss, str) and loss in known else named_function(loss, "loss")


def mse(output: Any, target: Any) -> Any:
    """Return the mean squared error of an output and a target of its shape."""
    if output.shape != target.shape:
        raise ValueError("output and target do not fit: mse takes two of one shape")
    return functional.mse_loss(output, target.to(output.dtype))


def cross_entropy(output: Any, target: Any) -> Any:
    """Return the cross entropy of an output (.., classes) and a target (..) of integers."""
    if target.is_floating_point() or output.shape[:-1] != target.shape:
        raise ValueError("output and target do not fit: cross-entropy takes (.., classes) and integers (..)")
    return functional.cross_entropy(output.reshape(-1, output.shape[-1]), target.reshape(-1).long())


def moved(value: Any, device: Any) -> Any:
    """Return tensors, also in tuples, lists and dicts, on a device; a list comes back as a tuple."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, (tuple, list)):
        return tuple(moved(one, device) for one in value)
    return {key: moved(one, device) for key, one in value.items()} if isinstance(value, dict) else value


def _holds(value: Any, count: int) -> bool:
    return hasattr(value, "__getitem__") and hasattr(value, "__len__") and len(value) == count


def _random(count: int, source: DataSource, seed: int) -> Any:
    """Return random numbers for `count` microbatches: from 0 to 1, or integers from 0 to `vocab` - 1."""
    generator, dtype = torch.Generator().manual_seed(seed), source.dtype

    def drawn(*sizes: int) -> Any:
        if dtype.is_floating_point or dtype.is_complex:
            return torch.rand(sizes, generator=generator).to(dtype)
        return torch.randint(source.vocab, sizes, generator=generator).to(dtype)

    if source.rows is None:
        return drawn(count, *source.shape)
    return [drawn(rows, *source.shape[1:]) for rows in source.rows]


def dtype_named(name: str) -> Any:
    """Return the type of that name, `float32` say. Raises ConfigError."""
    found = getattr(torch, str(name), None)
    if not isinstance(found, torch.dtype):
        raise ConfigError(f"must be the name of a type of PyTorch, as in float32 or int64, not {shown(name)}", "dtype")
    return found


def hint_for(error: Exception, source: DataSource) -> str:
    """Return what may help against what a model or its loss raised; "" where that is not known."""
    text = line_of(error)
    if source.data is None and _FLOATS_AS_INDICES.search(text):
        return "`dtype` int64"
    if source.data is None and _OUT_OF_RANGE.search(text):
        return "`vocab` N"
    fits_not = source.loss in (None, MSE, CROSS_ENTROPY) or isinstance(error, (RuntimeError, ValueError, IndexError))
    return "`loss` or `data`" if f"({IN_LOSS}:" in text and fits_not else ""


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
    at, found = given.get if isinstance(given, Mapping) else given.__getitem__, list[float]()
    for entry, value in enumerate(map(at, range(count))):
        one = value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value
        try:
            number = float("nan") if isinstance(one, (str, bool)) else float(one)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            number = float("nan")
        if not isfinite(number):
            raise ConfigError(f"must be a finite number, not {shown(one)}", "weights", entry=entry)
        found.append(number)
    return found


def shapes_in(value: Any) -> Any:
    """Return the shapes and types of the tensors in what a microbatch is given."""
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype
    return [shapes_in(one) for one in value] if isinstance(value, (tuple, list)) else None
