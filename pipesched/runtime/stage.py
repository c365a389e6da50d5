"""One stage on one rank: what each kind of operation does with its module, in PyTorch's graphs.

`StageRunner` is where one begins: `forward`, `backward`, `input_gradient` (I), `weight_gradient` (W), `recompute`.
A graph begins and ends without a leaf or a root that holds an activation. The input enters through a function whose
gradient goes to a hollow tensor: one of the input's shape, with the storage of a single element. The output leaves
through another, whose result is hollow too. So only what autograd saved of inputs and outputs holds their storages, and
PyTorch's three functions for B, I and W run unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from pipesched.checks import cut
from pipesched.runtime.activation import Activation, SavedTensor, Saving, unpack
from pipesched.runtime.devices import device_of
from pipesched.runtime.model_source import IN_LOSS, LONGEST, add_place, seeded, shapes_text
from pipesched.runtime.torch_internals import (
    packed_by,
    stage_backward,
    stage_backward_input,
    stage_backward_weight,
    version_of,
)


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
    tokens = [hollow(tensor).requires_grad_() if has_gradient(tensor) else None for tensor in data]
    pairs = zip(tokens, data, strict=True)
    inside = [tensor if token is None else _Enter.apply(token, tensor) for token, tensor in pairs]
    return [token for token in tokens if token is not None], inside


def leave(outputs: Sequence[Any]) -> list[Any]:
    """Return a hollow root for each output that is no integer; None where it does not depend on any weight or input."""
    return [_Leave.apply(output) if output.requires_grad else None for output in outputs if has_gradient(output)]


def has_gradient(tensor: Any) -> bool:
    """Return whether gradients of a tensor between stages are sent: of all that are no integers."""
    return bool(tensor.is_floating_point() or tensor.is_complex())


def split_of(roots: Sequence[Any], tokens: Sequence[Any]) -> tuple[set[int], set[int]] | None:
    """Return the ids of the saved tensors of the nodes between `tokens` and `roots` that W runs, and of all of them.

    None where weights act on the output without the input: PyTorch's split loses their gradients. A main node leads to
    a token. W runs the nodes that lead to weights and to no token, and the main nodes that these
    hang on: it starts there, from the gradients that I caught.
    """
    leaves = {id(token) for token in tokens}
    nodes, is_main, has_weights = _walk([root.grad_fn for root in roots], leaves)
    beside = {one for one, has in has_weights.items() if has and not is_main[one]}  # which lead to weights, to no token
    if not beside.isdisjoint(id(root.grad_fn) for root in roots):
        return None
    needed, seen = set[int](), set[int]()
    for node in nodes:
        views = [id(packed) for packed in packed_by(node) if isinstance(packed, SavedTensor)]
        seen.update(views)
        if not beside.isdisjoint((id(node), *(id(child) for child, _ in node.next_functions))):
            needed.update(views)
    return needed, seen


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
            is_weight = variable is not None and id(variable) not in leaves
            has_weights[mine] = is_weight or any(has_weights[child] for child in children)
            nodes.append(node)
        elif mine not in is_main:
            is_main[mine] = has_weights[mine] = False  # found; set when its children are done
            stack.append((node, True))
            children_of = (child for child, _ in node.next_functions if child is not None)
            stack += [(child, False) for child in children_of if id(child) not in is_main]
    return nodes, is_main, has_weights


@dataclass(slots=True, eq=False)
class _Held:
    """What a microbatch leaves on a stage between its forward and the end of its backward."""

    loss_weight: float | None  # None: 1
    data: Sequence[Any] | None = None  # the input, where the forward will run again
    target: Any = None
    activation: Activation | None = None
    tokens: list[Any] = field(default_factory=list)
    roots: list[Any] = field(default_factory=list)
    gradients: list[Any] | None = None  # of the roots, where the weights still need them
    groups: list[Any] | None = None  # PyTorch's, from I to W


class StageRunner:
    """Runs the operations of one of so many stages. `begin_step` comes before those of a step."""

    def __init__(self, stage: int, stages: int, module: Any, loss_fn: Callable[..., Any], seed: int) -> None:
        self.stage, self._module, self._loss_fn, self._seed = stage, module, loss_fn, seed
        self.is_first, self.is_last = stage == 0, stage == stages - 1
        self.device = device_of(module)
        self.held: dict[int, _Held] = {}  # by microbatch
        self._step = -1
        self._weights: list[Any] = []
        self._own: set[int] = set()
        self._loss_weights: Sequence[float] | None = None

    def begin_step(self, step: int, loss_weights: Sequence[float] | None = None) -> None:
        """Note which weights have gradients, where they lie, and by what the loss of each microbatch counts."""
        modules = [self._module, *([self._loss_fn] if self.is_last else [])]
        modules = [module for module in modules if isinstance(module, torch.nn.Module)]
        tensors = [*(weight for module in modules for weight in module.parameters())]
        self._weights = [weight for weight in tensors if weight.requires_grad]
        tensors += [buffer for module in modules for buffer in module.buffers()]
        self._own = {_address(tensor) for tensor in tensors}
        self._step, self._loss_weights = step, loss_weights

    def forward(self, microbatch: int, data: Sequence[Any], target: Any, *, again: bool) -> tuple[list[Any], Any]:
        """Run F, and return outputs and loss (of the last stage); where R follows (`again`), only inputs stay."""
        held = _Held(None if self._loss_weights is None else self._loss_weights[microbatch])
        self.held[microbatch] = held
        if again:
            versions = [version_of(tensor) for tensor in (*data, *self._module.buffers())]
            with seeded(self._seed, self._step, self.stage, microbatch), torch.no_grad():
                outputs, loss = self._call(data, target)
            if torch.is_autocast_enabled(self.device.type):
                torch.clear_autocast_cache()  # weights that were cast without a graph
            if [version_of(tensor) for tensor in (*data, *self._module.buffers())] != versions:
                raise RuntimeError("the forward changes its input or a buffer in place, so it cannot run a second time")
            held.data, held.target = data, target
        else:
            outputs, loss = self._graph(held, microbatch, data, target)
        return [output.detach() for output in outputs], loss if loss is None else loss.detach()

    def recompute(self, microbatch: int) -> None:
        """Run R: the forward again, with the same random numbers, from the input that was kept."""
        held = self.held[microbatch]
        if held.data is None:
            raise RuntimeError("its forward kept no input")
        data, held.data = held.data, None
        self._graph(held, microbatch, data, held.target)
        held.target = None

    def _graph(self, held: _Held, microbatch: int, data: Sequence[Any], target: Any) -> tuple[Sequence[Any], Any]:
        given = {_address(tensor) for tensor in (target, *(data if self.is_first else ())) if _is_tensor(tensor)}
        saving = Saving(self.device, (self._own, given))
        random = seeded(self._seed, self._step, self.stage, microbatch)
        with random, torch.enable_grad(), saved_tensors_hooks(saving.pack, unpack):
            held.tokens, inside = ([], data) if self.is_first else enter(data)
            outputs, loss = self._call(inside, target)
            held.roots = [loss if loss.requires_grad else None] if loss is not None else leave(outputs)
        held.activation = saving.finish()
        return outputs, loss

    def _call(self, data: Sequence[Any], target: Any) -> tuple[Sequence[Any], Any]:
        """Run the module, and in the last stage the loss; return outputs, or () and the loss."""
        outputs = self._module(*data)
        if self.is_last:
            try:
                loss = self._loss_fn(outputs, target)
                if not _is_tensor(loss) or loss.numel() != 1:
                    raise TypeError("the loss function must return a tensor with one element")
            except Exception as error:
                shapes = f"output {shapes_text(outputs)}, target {shapes_text(target)}"
                add_place(error, f"{IN_LOSS}: {cut(shapes, LONGEST - len(IN_LOSS) - 2)}")
                raise
            return (), loss
        outputs = (outputs,) if _is_tensor(outputs) else outputs
        if not isinstance(outputs, (tuple, list)) or not outputs or not all(map(_is_tensor, outputs)):
            raise TypeError("a stage must return a tensor, or a tuple of tensors")
        return outputs, None

    def backward(self, microbatch: int, gradients: list[Any]) -> list[Any]:
        held = self.held.pop(microbatch)
        return _or_zeros(self._whole(held, gradients), held.tokens)

    def input_gradient(self, microbatch: int, gradients: list[Any]) -> list[Any]:
        """Run I, and return the gradients of the input; the first stage has none, and runs its whole backward at W."""
        held = self.held[microbatch]
        roots, given = self._with_gradients(held, gradients)
        if not held.tokens or not roots:
            held.gradients = gradients
            return _or_zeros([], held.tokens)
        split = split_of(roots, held.tokens)
        if split is None:
            held.gradients = gradients
            found = torch.autograd.grad(roots, held.tokens, given, retain_graph=True, allow_unused=True)
            return _or_zeros(found, held.tokens)
        with _own_errors():
            found, held.groups = stage_backward_input(roots, given, held.tokens, iter(self._weights))
        held.roots = []
        for token in held.tokens:
            token.grad = None
        if held.activation is not None:
            held.activation.keep_only(*split)
        return _or_zeros(found, held.tokens)

    def weight_gradient(self, microbatch: int) -> None:
        """Run W: the gradients of the weights, from what I caught."""
        held = self.held.pop(microbatch)
        if held.groups is not None:
            with _own_errors():
                stage_backward_weight(iter(self._weights), held.groups)
            return
        gradients = held.gradients or []  # its I caught nothing: from the outputs on
        if not held.tokens:
            self._whole(held, gradients)
            return
        roots, given = self._with_gradients(held, gradients)
        if not roots or not self._weights:
            return
        every = torch.autograd.grad(roots, self._weights, given, allow_unused=True)
        for weight, found in zip(self._weights, every, strict=True):
            if found is not None:
                weight.grad = found if weight.grad is None else weight.grad.add_(found)

    def _whole(self, held: _Held, gradients: list[Any]) -> Sequence[Any]:
        roots, given = self._with_gradients(held, gradients)
        held.roots = []
        if not roots:
            return []
        with _own_errors():
            found: Sequence[Any] = stage_backward(roots[0] if given is None else roots, given, held.tokens)
        return found

    def _with_gradients(self, held: _Held, gradients: list[Any]) -> tuple[list[Any], list[Any] | None]:
        """Return the roots of the graph with their gradients: of the loss its weight, or none, which is 1."""
        if self.is_last:
            roots, weight = [root for root in held.roots if root is not None], held.loss_weight
            return roots, None if weight is None else [torch.full_like(root, weight) for root in roots]
        pairs = [pair for pair in zip(held.roots, gradients, strict=True) if pair[0] is not None]
        return [root for root, _ in pairs], [gradient for _, gradient in pairs]

    def live_bytes(self, microbatch: int) -> int:
        """Return what a microbatch holds on the device: its activation, or its input, and gradients caught for W."""
        held = self.held.get(microbatch)
        if held is None:
            return 0
        found: int = 0 if held.activation is None else held.activation.live_bytes
        if held.data is not None and not self.is_first:
            found += sum(tensor.nbytes for tensor in held.data)
        caught = [grad for group in held.groups or () for grads in group.get("grads", ()) for grad in grads]
        held_back: int = sum(grad.nbytes for grad in caught if grad is not None)
        return found + held_back


@contextmanager
def _own_errors() -> Iterator[None]:
    """Raise what the graph raised, which PyTorch's functions wrap into a RuntimeError with many tensors."""
    try:
        yield
    except RuntimeError as error:
        if error.__cause__ is None:
            raise
        raise error.__cause__ from None


def _or_zeros(found: Sequence[Any], tokens: Sequence[Any]) -> list[Any]:
    whole = [*found, *[None] * (len(tokens) - len(found))]
    return [
        torch.zeros(token.shape, dtype=token.dtype, device=token.device) if gradient is None else gradient
        for gradient, token in zip(whole, tokens, strict=True)
    ]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _address(tensor: Any) -> int:
    address: int = tensor.untyped_storage().data_ptr()
    return address
