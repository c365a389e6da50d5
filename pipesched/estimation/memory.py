"""What each item of a model holds on a rank: states of its parameters, and what it keeps of a microbatch.

States are weights, gradients and the optimizer's numbers. In bytes, exact.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from pipesched.estimation.activations import (
    embedding_activation,
    head_activation,
    joining_activation,
    layer_activation,
    layer_checkpoint,
)
from pipesched.estimation.parameters import (
    LayerParameters,
    embedding_parameters,
    head_parameters,
    joining_parameters,
    layer_parameters,
)
from pipesched.estimation.setup import BF16, FP16, FP32, FULL, Setup, TrainingSetup
from pipesched.estimation.terms import Term, Terms

CONTEXT = 750_000_000
FRAGMENTATION = Fraction(4, 100)
EXPERTS = "experts"  # the kind of the parameters that expert parallelism divides


class StateBytes(NamedTuple):
    """Bytes of a parameter with Adam: weights and gradients, and the optimizer's, which ranks may share."""

    weight: int
    gradient: int
    optimizer: int


STATES = {  # (precision, main gradients): mixed precision keeps a 32-bit copy of the weights with the optimizer
    (BF16, FP32): StateBytes(2, 4, 12),
    (BF16, BF16): StateBytes(2, 2, 12),
    (FP16, FP16): StateBytes(2, 2, 16),
    (FP32, FP32): StateBytes(4, 4, 8),
}


class ItemMemory(NamedTuple):
    """The parameters of an item on a rank, the bytes of their states, and those that it keeps of a microbatch.

    `checkpoint` is what it keeps where it is fully recomputed: then `activation` is there again for its backward.
    """

    parameters: Terms
    weights: Terms
    gradients: Terms
    optimizer: Terms
    activation: Terms
    checkpoint: Terms


def layer_memory(setup: Setup, *, experts: bool) -> ItemMemory:
    """Return what a layer holds, with a mixture of experts or without."""
    checkpoint = layer_checkpoint(setup)
    is_recomputed = setup.training.recompute == FULL and setup.training.full_layers is None
    activation = checkpoint if is_recomputed else layer_activation(setup, experts=experts)
    return _item_memory(setup, layer_parameters(setup.model, experts=experts), activation, checkpoint)


def embedding_memory(setup: Setup) -> ItemMemory:
    """Return what the embedding holds: the vocabulary, and learned positions."""
    kept = embedding_activation(setup)
    return _item_memory(setup, embedding_parameters(setup.model, setup.parallel.tensor), kept, kept)


def head_memory(setup: Setup) -> ItemMemory:
    """Return what the final norm and the output head hold; tied to the embedding, a copy where that is elsewhere."""
    is_shared = setup.model.tied and setup.parallel.pipeline == 1
    kept = head_activation(setup)
    return _item_memory(setup, head_parameters(setup.model, setup.parallel.tensor, shared=is_shared), kept, kept)


def mtp_memory(setup: Setup, *, first: bool = True) -> ItemMemory:
    """Return what an MTP layer holds: a layer, what joins its two inputs, and a vocabulary to look up.

    The `first` of a stage brings a copy of the embedding, unless that is there: as the head, or with one stage.
    """
    model = setup.model
    experts = model.has_experts(model.layers)
    parts = [layer_parameters(model, experts=experts), joining_parameters(model)]
    if first and not model.tied and setup.parallel.pipeline > 1:
        parts.append(embedding_parameters(model, setup.parallel.tensor, positions=False))
    held = LayerParameters(*(sum(counts) for counts in zip(*parts, strict=True)))
    layer, joining = layer_memory(setup, experts=experts), joining_activation(setup)
    return _item_memory(setup, held, (*layer.activation, *joining), (*layer.checkpoint, *joining))


def fixed(rest: Fraction) -> tuple[Term, Term]:
    """Return what is held whatever the model: the context of the GPU, and the fragmentation of the rest."""
    return (
        Term("context", Fraction(CONTEXT), f"{CONTEXT / 1e9:g} GB"),
        Term("fragmentation", FRAGMENTATION * rest, f"{float(FRAGMENTATION):.0%} of {float(rest) / 1e9:.3f} GB"),
    )


def state_bytes(training: TrainingSetup) -> StateBytes:
    """Return the bytes of a parameter's states; main gradients may have a precision of their own beside bf16."""
    return STATES[training.precision, training.gradients if training.precision == BF16 else training.precision]


def _item_memory(setup: Setup, held: LayerParameters, activation: Terms, checkpoint: Terms) -> ItemMemory:
    """Return what a rank holds of an item, its parameters part by part: split, whole and of experts."""
    each, parallel = state_bytes(setup.training), setup.parallel
    data = parallel.data * parallel.context
    parts = [
        _ParameterShare(*part)
        for part in (
            ("split over tensor ranks", held.split, parallel.tensor, data),
            ("whole on each tensor rank", held.whole, 1, data),
            (EXPERTS, held.expert, parallel.expert * parallel.expert_tensor, parallel.expert_data),
        )
        if part[1]
    ]
    shared = setup.training.distributed_optimizer
    return ItemMemory(
        parameters=tuple(Term(part.name, part.mine, part.text, part.name) for part in parts),
        weights=tuple(part.bytes(each.weight) for part in parts),
        gradients=tuple(part.bytes(each.gradient) for part in parts),
        optimizer=tuple(part.bytes(each.optimizer, part.data if shared else 1) for part in parts),
        activation=activation,
        checkpoint=checkpoint,
    )


class _ParameterShare(NamedTuple):
    """Parameters of which so many ranks have a part each, and so many others the same."""

    name: str
    all: int
    ranks: int
    data: int

    @property
    def mine(self) -> Fraction:
        return Fraction(self.all, self.ranks)

    @property
    def text(self) -> str:
        return f"{self.all}" if self.ranks == 1 else f"{self.all} / {self.ranks} ranks"

    def bytes(self, each: int, ranks: int = 1) -> Term:
        """Return the bytes of these, `each` of a parameter, that so many ranks divide among them."""
        text = f"{self.text} x {each} bytes" + (f" / {ranks} data-parallel ranks" if ranks > 1 else "")
        return Term(self.name, self.mine * each / ranks, text)
