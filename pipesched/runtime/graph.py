"""Where a stage's graph begins and ends: without a leaf or a root that holds an activation.

The input enters through a function whose gradient goes to a hollow tensor: one of the input's shape, with the storage
of a single element. The output leaves through another, whose result is hollow too. So the storages of inputs and
outputs are held only by what autograd saved of them, and PyTorch's three functions for B, I and W run unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch

from pipesched.runtime.activation import SavedTensor
from pipesched.runtime.torch_internals import packed_by


def hollow(tensor: Any) -> Any:
    """Return a tensor of the same shape, type and device over one element of storage; it is no view of another."""
    one = torch.empty(1, dtype=tensor.dtype, device=tensor.device).untyped_storage()
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(one, 0, tensor.shape, (0,) * tensor.dim())


class _Enter(torch.autograd.Function):  # type: ignore[misc]  # torch is untyped here
    """The identity on its second argument; the gradient goes to the first."""

    @staticmethod
    def forward(_ctx: Any, _token: Any, data: Any) -> Any:
        return data.detach()

    @staticmethod
    def backward(_ctx: Any, *gradients: Any) -> Any:
        return gradients[0], None


class _Leave(torch.autograd.Function):  # type: ignore[misc]
    """A hollow tensor in place of its argument; the gradient passes."""

    @staticmethod
    def forward(_ctx: Any, output: Any) -> Any:
        return hollow(output)

    @staticmethod
    def backward(_ctx: Any, *gradients: Any) -> Any:
        return gradients[0]


def enter(data: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return hollow leaves for the tensors that have gradients, and the tensors as parts of a graph of these leaves."""
    tokens, inside = [], []
    for tensor in data:
        if has_gradient(tensor):
            token = hollow(tensor).requires_grad_()
            tokens.append(token)
            inside.append(_Enter.apply(token, tensor))
        else:
            inside.append(tensor)
    return tokens, inside


def leave(outputs: Sequence[Any]) -> list[Any]:
    """Return a hollow root for each output that is no integer; None where it does not depend on any weight or input."""
    return [_Leave.apply(output) if output.requires_grad else None for output in outputs if has_gradient(output)]


def has_gradient(tensor: Any) -> bool:
    """Return whether gradients of a tensor between stages are sent: of all that are no integers."""
    return bool(tensor.is_floating_point() or tensor.is_complex())


class Split(NamedTuple):
    """How a backward splits into I and W.

    `possible` is false where weights act on the output without the input: PyTorch's split loses their gradients.
    `needed` and `seen` are the ids of the saved tensors of the nodes that W runs, and of all nodes.
    """

    possible: bool
    needed: set[int]
    seen: set[int]


def split_of(roots: Sequence[Any], tokens: Sequence[Any]) -> Split:
    """Return the split of the graph between `tokens` and `roots`.

    A main node leads to a token. W runs the nodes that lead to weights and to no token, and the main nodes that these
    hang on: it starts there, from the gradients that I caught.
    """
    leaves = {id(token) for token in tokens}
    nodes, is_main, has_weights = _walk([root.grad_fn for root in roots], leaves)
    needed, seen = set[int](), set[int]()
    for node in nodes:
        views = [id(packed) for packed in packed_by(node) if isinstance(packed, SavedTensor)]
        seen.update(views)
        mine = id(node)
        if (has_weights[mine] and not is_main[mine]) or any(
            child is not None and has_weights[id(child)] and not is_main[id(child)] for child, _ in node.next_functions
        ):
            needed.update(views)
    possible = all(is_main[id(root.grad_fn)] or not has_weights[id(root.grad_fn)] for root in roots)
    return Split(possible, needed, seen)


def _walk(roots: Iterable[Any], leaves: set[int]) -> tuple[list[Any], dict[int, bool], dict[int, bool]]:
    """Return the nodes behind `roots`, children first, and by their ids which lead to a leaf, and which to a weight."""
    nodes: list[Any] = []
    is_main: dict[int, bool] = {}
    has_weights: dict[int, bool] = {}
    stack = [(node, False) for node in roots]
    while stack:
        node, children_done = stack.pop()
        mine = id(node)
        if children_done:
            variable = getattr(node, "variable", None)
            children = [id(child) for child, _ in node.next_functions if child is not None]
            is_main[mine] = id(variable) in leaves or any(is_main[child] for child in children)
            has_weights[mine] = (variable is not None and id(variable) not in leaves) or any(
                has_weights[child] for child in children
            )
            nodes.append(node)
        elif mine not in is_main:
            is_main[mine] = has_weights[mine] = False  # found; set when its children are done
            stack.append((node, True))
            stack += [
                (child, False) for child, _ in node.next_functions if child is not None and id(child) not in is_main
            ]
    return nodes, is_main, has_weights
