"""What each item of a model holds on a rank: states of its parameters, and what it keeps of a microbatch.

States are weights, gradients and the optimizer's numbers. In bytes, exact. What a microbatch leaves from its forward to
its backward is in 16 bits, after Korthikanti et al. (arXiv 2205.05198, section 4), for flash attention as well, for
gated MLPs, grouped keys, experts and latent attention.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from pipesched.estimation.model import Latent
from pipesched.estimation.parameters import (
    LayerParameters,
    embedding_parameters,
    head_parameters,
    joining_parameters,
    layer_parameters,
)
from pipesched.estimation.setup import BF16, FP16, FP32, FULL, SELECTIVE, Setup, TrainingSetup
from pipesched.estimation.terms import Term, Terms
from pipesched.pipeline.step import GRADIENTS, OPTIMIZER_STATES, WEIGHTS


def layer_activation(setup: Setup, *, experts: bool) -> Terms:
    """Return what a layer keeps of a microbatch where nothing of it is recomputed but what `selective` says."""
    scores = () if setup.training.recompute == SELECTIVE else _scores(setup)
    return (_residual(setup), *_attention(setup), *_mlp(setup, experts=experts), *scores)


def layer_checkpoint(setup: Setup) -> Terms:
    """Return what a fully recomputed layer keeps: its input."""
    return (_hidden(setup, "input of the layer", 2),)


def embedding_activation(setup: Setup) -> Terms:
    """Return what the embedding keeps: the mask of its dropout."""
    return (_hidden(setup, "mask of dropout", 1),) if setup.model.dropout else ()


def head_activation(setup: Setup) -> Terms:
    """Return what the final norm and the output head keep: their inputs."""
    return (_hidden(setup, "inputs of the final norm and the head", 4),)


def joining_activation(setup: Setup) -> Terms:
    """Return what an MTP layer keeps beside a layer: two inputs, and both joined."""
    return (_hidden(setup, "inputs that an MTP layer joins", 8),)


def logits(setup: Setup) -> Terms:
    """Return what the output head needs once, at its peak: logits in 16 bits and, unless fused, softmax in 32."""
    each, rows = 2 if setup.training.fused_loss else 6, setup.padded_vocabulary
    return (_kept(setup, "logits", each * rows, f"{each} x vocabulary {rows}", setup.parallel.tensor),)


def _kept(setup: Setup, name: str, width: int | Fraction, text: str, ranks: int) -> Term:
    """Return bytes of each token that ranks share."""
    over = f" / {ranks} ranks" if ranks > 1 else ""
    return Term(name, Fraction(setup.tokens * width) / ranks, f"{setup.tokens} tokens x {text}{over}")


def _hidden(setup: Setup, name: str, each: int) -> Term:
    """Return bytes of each number of a hidden state, which sequence parallelism splits."""
    h = setup.model.hidden
    return _kept(setup, name, each * h, f"{each} x hidden {h}" if each > 1 else f"hidden {h}", setup.parallel.spread)


def _residual(setup: Setup) -> Term:
    """Return inputs of both norms and of both products after them, and the masks of dropout behind them."""
    if setup.model.dropout:
        return _hidden(setup, "norms, residuals and masks of dropout", 10)
    return _hidden(setup, "norms and residuals", 8)


def _attention(setup: Setup) -> Iterable[Term]:
    model, t = setup.model, setup.parallel.tensor
    if model.latent is None:
        q, k = model.query, model.key
        text = f"(4 x {q} of queries + 4 x {k} of keys)"
        yield _kept(setup, "queries, keys, values and their result", 4 * q + 4 * k, text, t)
        return
    yield from _latent(setup, model.latent)


def _latent(setup: Setup, latent: Latent) -> Iterable[Term]:
    a, width, value = setup.model.heads, latent.nope + latent.rope, latent.value
    text = f"2 x {a} heads x (2 x {width} + {value} + {value})"
    size = 2 * a * (2 * width + value) + 2 * a * value
    yield _kept(setup, "queries, keys, values and their result", size, text, setup.parallel.tensor)
    ranks = latent.query_rank + latent.key_value_rank + latent.rope
    text = f"4 x ({latent.query_rank} + {latent.key_value_rank} + {latent.rope})"
    yield _kept(setup, "compressed queries, keys and values", 4 * ranks, text, setup.parallel.spread)


def _mlp(setup: Setup, *, experts: bool) -> Iterable[Term]:
    model, t = setup.model, setup.parallel.tensor
    each = 4 if model.mlp == "plain" else 6
    if not experts or model.experts is None:
        yield _kept(setup, "MLP", each * model.ffn, f"{each} x width {model.ffn}", t)
        return
    mixture = model.experts
    width = mixture.active * mixture.width + mixture.shared
    text = f"{each} x ({mixture.active} experts x width {mixture.width} + shared {mixture.shared})"
    yield _kept(setup, "experts", each * width, text, t)
    text = f"4 x hidden {model.hidden} x {mixture.active} experts"
    yield _kept(setup, "tokens sent to experts and back", 4 * model.hidden * mixture.active, text, t)


def _scores(setup: Setup) -> Iterable[Term]:
    """Yield the scores of attention where it is not fused, and their dropout."""
    model, s = setup.model, setup.batch.attended
    if setup.training.flash_attention:
        return
    each = 5 if model.dropout else 2
    text = f"{each} x {model.heads} heads x sequence {s}"
    yield _kept(setup, "scores of attention", each * model.heads * s, text, setup.parallel.tensor)


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

    Of states these are the bytes that stay: what ranks divide is there in part.
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
    data, divides = setup.shard_group().ranks, setup.training.divides
    parts = [
        _ParameterShare(*part)
        for part in (
            ("split over tensor ranks", held.split, parallel.tensor, data),
            ("whole on each tensor rank", held.whole, 1, data),
            (EXPERTS, held.expert, parallel.expert * parallel.expert_tensor, setup.shard_group(experts=True).ranks),
        )
        if part[1]
    ]
    return ItemMemory(
        parameters=tuple(Term(part.name, part.mine, part.text, part.name) for part in parts),
        weights=tuple(part.bytes(each.weight, part.data if divides(WEIGHTS) else 1) for part in parts),
        gradients=tuple(part.bytes(each.gradient, part.data if divides(GRADIENTS) else 1) for part in parts),
        optimizer=tuple(part.bytes(each.optimizer, part.data if divides(OPTIMIZER_STATES) else 1) for part in parts),
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
