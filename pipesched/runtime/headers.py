"""Shapes of tensors as a message of fixed length, which goes ahead of what a stage sends for the first time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

LENGTH = 256  # numbers in a header
_DTYPES = sorted({value for value in vars(torch).values() if isinstance(value, torch.dtype)}, key=str)


class Shape(NamedTuple):
    """The size and the type of a tensor."""

    size: tuple[int, ...]
    dtype: Any

    def __str__(self) -> str:
        return f"{list(self.size)} {str(self.dtype).removeprefix('torch.')}"


def shapes_of(tensors: Sequence[Any]) -> list[Shape]:
    """Return the shapes of tensors."""
    return [Shape(tuple(tensor.shape), tensor.dtype) for tensor in tensors]


def header_of(shapes: Sequence[Shape]) -> Any:
    """Return the header of tensors. Raises ValueError for more than fit in."""
    numbers = [len(shapes)]
    for shape in shapes:
        numbers += [_DTYPES.index(shape.dtype), len(shape.size), *shape.size]
    if len(numbers) > LENGTH:
        raise ValueError(f"a stage returned {len(shapes)} tensors; their shapes do not fit in a header")
    return torch.tensor(numbers + [0] * (LENGTH - len(numbers)), dtype=torch.int64)


def shapes_in(header: Any) -> list[Shape]:
    """Return the shapes in a header."""
    numbers = iter(header.tolist())
    return [
        Shape(size=tuple(next(numbers) for _ in range(dimensions)), dtype=_DTYPES[dtype])
        for dtype, dimensions in ((next(numbers), next(numbers)) for _ in range(next(numbers)))
    ]
