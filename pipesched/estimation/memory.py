"""What each item of a model holds on a rank: states of its parameters, and what it keeps of a microbatch. In bytes."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from pipesched.estimation.activations import (
    embedding_activation,
    head_activation,
    joining_activation,
    layer_activation,
    layer_checkpoint,
    logits,
)
from pipesched.estimation.parameters import (
    LayerParameters,
    embedding_parameters,
    head_parameters,
    joining_parameters,
    layer_parameters,
)
from pipesched.estimation.setup import FULL, Setup
from pipesched.estimation.states import states
from pipesched.estimation.terms import Term, Terms

__all__ = [
    "ItemMemory",
    "embedding_memory",
    "fixed",
    "head_memory",
    "layer_memory",
    "logits",
    "mtp_memory",
]

CONTEXT = 750_000_000
FRAGMENTATION = Fraction(4, 100)


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
    held = layer_parameters(setup.model, experts=experts)
    checkpoint = layer_checkpoint(setup)
    activation = checkpoint if _is_recomputed(setup) else layer_activation(setup, experts=experts)
    return ItemMemory(*states(setup, held), activation, checkpoint)


def embedding_memory(setup: Setup) -> ItemMemory:
    """Return what the embedding holds: the vocabulary, and learned positions."""
    kept = embedding_activation(setup)
    return ItemMemory(*states(setup, embedding_parameters(setup.model, setup.parallel.tensor)), kept, kept)


def head_memory(setup: Setup) -> ItemMemory:
    """Return what the final norm and the output head hold; tied to the embedding, a copy where that is elsewhere."""
    is_shared = setup.model.tied and setup.parallel.pipeline == 1
    held = head_parameters(setup.model, setup.parallel.tensor, shared=is_shared)
    kept = head_activation(setup)
    return ItemMemory(*states(setup, held), kept, kept)


def mtp_memory(setup: Setup, *, first: bool = True) -> ItemMemory:
    """Return what an MTP layer holds: a layer, what joins its two inputs, and a vocabulary to look up.

    The `first` of a stage brings a copy of the embedding, unless that is there: as the head, or with one stage.
    """
    model = setup.model
    parts = [layer_parameters(model, experts=model.has_experts(model.layers)), joining_parameters(model)]
    if first and not model.tied and setup.parallel.pipeline > 1:
        parts.append(embedding_parameters(model, setup.parallel.tensor, positions=False))
    held = LayerParameters(*(sum(counts) for counts in zip(*parts, strict=True)))
    layer = layer_memory(setup, experts=model.has_experts(model.layers))
    joining = joining_activation(setup)
    return ItemMemory(*states(setup, held), (*layer.activation, *joining), (*layer.checkpoint, *joining))


def _is_recomputed(setup: Setup) -> bool:
    return setup.training.recompute == FULL and setup.training.full_layers is None


def fixed(rest: Fraction) -> tuple[Term, Term]:
    """Return what is held whatever the model: the context of the GPU, and the fragmentation of the rest."""
    return (
        Term("context", Fraction(CONTEXT), f"{CONTEXT / 1e9:g} GB"),
        Term("fragmentation", FRAGMENTATION * rest, f"{float(FRAGMENTATION):.0%} of {float(rest) / 1e9:.3f} GB"),
    )
