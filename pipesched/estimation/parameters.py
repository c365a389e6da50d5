"""The parameters of a model, part by part, and its floating-point operations.

Biases and norms count as parameters; the vocabulary is padded as it is stored. Operations are two for each
multiply-add; a backward takes twice those of its forward. Attention is causal: of the scores half are computed (as
Megatron counts now), unless the whole is asked for, as older papers count.
"""

from __future__ import annotations

from typing import NamedTuple

from pipesched.estimation.model import Latent, ModelShape


class LayerParameters(NamedTuple):
    """The parameters of a layer: what each tensor rank has a share of, what all of them hold, and what experts hold.

    `active` counts those that a token uses: of the experts the active part.
    """

    split: int
    whole: int
    expert: int
    active: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.split + self.whole + self.expert


def layer_parameters(model: ModelShape, *, experts: bool) -> LayerParameters:
    """Return the parameters of a layer of a model, with a mixture of experts or without."""
    attention_split, attention_whole = _attention(model)
    whole = attention_whole + 2 * _norm(model) + (2 * model.head if model.qk_norm else 0)
    if not experts or model.experts is None:
        split = attention_split + _mlp(model, model.ffn)
        whole += model.hidden if model.bias == "all" else 0  # of the second product
        return LayerParameters(split, whole, 0, split + whole)
    mixture = model.experts
    split = attention_split + _mlp(model, mixture.shared)
    last = model.hidden if model.bias == "all" else 0  # biases of the second product
    whole += model.hidden * mixture.count + (last if mixture.shared else 0)  # the router
    expert = mixture.count * (_mlp(model, mixture.width) + last)
    active = expert * mixture.active // mixture.count
    return LayerParameters(split, whole, expert, split + whole + active)


def _attention(model: ModelShape) -> tuple[int, int]:
    """Return the parameters of attention that tensor ranks share, and those that each holds whole."""
    if model.latent is not None:
        return _latent_attention(model, model.latent)
    h, q, k = model.hidden, model.query, model.key
    split = h * (q + 2 * k) + q * h + (q + 2 * k if model.bias != "none" else 0)
    return split, h if model.bias == "all" else 0


def _latent_attention(model: ModelShape, latent: Latent) -> tuple[int, int]:
    """Return the same of latent attention: down-projections and their norms are whole on each rank."""
    h, a = model.hidden, model.heads
    queries, rank = a * (latent.nope + latent.rope), latent.query_rank
    down = h * (latent.key_value_rank + latent.rope) + latent.key_value_rank
    up = latent.key_value_rank * a * (latent.nope + latent.value)
    out = a * latent.value * h
    if not rank:
        return h * queries + up + out, down
    return rank * queries + up + out, down + h * rank + rank


def _mlp(model: ModelShape, width: int) -> int:
    """Return the parameters of an MLP, with the biases that tensor ranks share."""
    bias = width * (model.products - 1) if model.bias == "all" else 0
    return model.hidden * width * model.products + bias


def _norm(model: ModelShape) -> int:
    return model.hidden * (2 if model.norm == "layer" else 1)


def embedding_parameters(model: ModelShape, tensor: int = 1, *, positions: bool = True) -> LayerParameters:
    """Return the parameters of the embedding; `positions`: with those of learned positions."""
    rows = model.padded(tensor) + (model.position_rows if positions and model.positions == "learned" else 0)
    return LayerParameters(model.hidden * rows, 0, 0, model.hidden * rows)


def head_parameters(model: ModelShape, tensor: int = 1, *, shared: bool) -> LayerParameters:
    """Return the parameters of the final norm and the output head; `shared`: the embedding is the head's weights."""
    own = 0 if shared else model.hidden * model.padded(tensor)
    return LayerParameters(own, _norm(model), 0, own + _norm(model))


def joining_parameters(model: ModelShape) -> LayerParameters:
    """Return what an MTP layer has beside a layer: a projection of two inputs, and three norms."""
    projection, norms = 2 * model.hidden**2, 3 * model.hidden
    return LayerParameters(projection, norms, 0, projection + norms)


class ParameterCounts(NamedTuple):
    """All parameters of a model, and those that a token uses."""

    total: int
    active: int


def parameters(model: ModelShape, tensor: int = 1) -> ParameterCounts:
    """Return the parameters of a model whose vocabulary is stored on `tensor` ranks, without its MTP layers."""
    parts = [layer_parameters(model, experts=model.has_experts(layer)) for layer in range(model.layers)]
    parts += [embedding_parameters(model, tensor), head_parameters(model, tensor, shared=model.tied)]
    return ParameterCounts(sum(part.total for part in parts), sum(part.active for part in parts))


class LayerFlops(NamedTuple):
    """The operations of a forward of one token: of products with weights, and of the core of attention."""

    linear: int
    core: int

    @property
    def forward(self) -> int:
        """All of them."""
        return self.linear + self.core


def layer_flops(model: ModelShape, sequence: int, *, experts: bool, whole: bool = False) -> LayerFlops:
    """Return the operations of a layer for one token in a sequence of that length; `whole`: all scores count."""
    h, latent, mixture = model.hidden, model.latent, model.experts if experts else None
    if latent is None:
        attention, score = 2 * h * (model.query + 2 * model.key) + 2 * model.query * h, 2 * model.query
    else:
        attention = _latent_flops(model, latent)
        score = model.heads * (latent.nope + latent.rope + latent.value)  # of a token against one other
    width = model.ffn if mixture is None else mixture.width * mixture.active + mixture.shared
    return LayerFlops(attention + 2 * h * model.products * width, (2 if whole else 1) * sequence * score)


def _latent_flops(model: ModelShape, latent: Latent) -> int:
    h, a, rank = model.hidden, model.heads, latent.query_rank
    width, up = a * (latent.nope + latent.rope), h + a * (latent.nope + latent.value) + 1
    queries = rank * (h + width + 1) if rank else h * width
    return 2 * (queries + latent.key_value_rank * up + h * latent.rope + a * latent.value * h)


def training_flops(model: ModelShape, sequence: int, tokens: int, tensor: int = 1, *, whole: bool = False) -> int:
    """Return the operations of a step over so many tokens: a forward and a backward, without recompute.

    MTP layers are included: each joins two inputs, and has a head of its own.
    """
    each = (
        layer_flops(model, sequence, experts=model.has_experts(min(layer, model.layers)), whole=whole).forward
        for layer in range(model.layers + model.mtp)
    )
    joining, head = 2 * 2 * model.hidden**2, 2 * model.hidden * model.padded(tensor)
    return 3 * tokens * (sum(each) + model.mtp * joining + (1 + model.mtp) * head)
