"""The parameters of a model, part by part, and its floating-point operations.

Biases and norms count as parameters; the vocabulary is padded as it is stored. Operations are two for each
multiply-add; a backward takes twice those of its forward. Attention is causal: of the scores half are computed (as
Megatron counts now), unless the whole is asked for, as older papers count. A layer is that of the model which is given:
where layers differ, `ModelShape.of` has each.
"""

from __future__ import annotations

from typing import NamedTuple

from pipesched.estimation.model import Latent, ModelShape, attended


class LayerParameters(NamedTuple):
    """The parameters of a layer: shared by tensor ranks, whole on each, of experts, and those that a token uses."""

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
    whole = attention_whole + model.norms * _norm(model) + (2 * model.head if model.qk_norm and model.heads else 0)
    whole += model.vectors + model.beside
    last = model.hidden if model.bias in ("mlp", "all") else 0  # biases of the second product
    if not experts or model.experts is None:
        split = attention_split + _mlp(model, model.ffn)
        whole += last if model.ffn else 0
        return LayerParameters(split, whole, 0, split + whole)
    mixture = model.experts
    split = attention_split + _mlp(model, mixture.shared)
    whole += model.hidden * mixture.count + (last if mixture.shared else 0)  # the router
    whole += 2 * model.hidden * mixture.latent
    width, inner = mixture.width, mixture.latent or model.hidden
    biases = width * (model.products - 1) + model.hidden if last and mixture.biased else 0
    expert = mixture.count * (inner * width * model.products + biases)
    active = expert * mixture.active // mixture.count
    return LayerParameters(split, whole, expert, split + whole + active)


def _attention(model: ModelShape) -> tuple[int, int]:
    """Return the parameters of what mixes tokens that tensor ranks share, and those that each holds whole."""
    mixer, split, whole, h = model.mixer, 0, 0, model.hidden
    if mixer is not None:
        split = h * (mixer.into + mixer.out) + mixer.inner + mixer.vectors
    if not model.heads or (mixer is not None and mixer.own):
        return split, whole
    if model.latent is not None:
        own_split, whole = _latent_attention(model, model.latent)
    else:
        into, out = attention_columns(model), model.hidden if model.bias in ("attention", "all") else 0
        own_split, whole = h * into + model.values * h, out
        own_split += into if model.bias in ("qkv", "attention", "all") else 0
    return split + own_split, whole


def attention_columns(model: ModelShape) -> int:
    """Return the columns of the product that makes queries, their gate, keys and values. A head shares no values."""
    return model.query + model.gate + model.key + model.kv_heads * (model.value or model.head)


def _latent_attention(model: ModelShape, latent: Latent) -> tuple[int, int]:
    """Return the same of latent attention: down-projections and their norms are whole on each rank."""
    h, a = model.hidden, model.heads
    queries, rank = a * (latent.nope + latent.rope), latent.query_rank
    down = h * (latent.key_value_rank + latent.rope) + latent.key_value_rank
    down += h + rank + latent.key_value_rank + latent.rope if model.bias in ("attention", "all") else 0
    up = latent.key_value_rank * a * (latent.nope + latent.value) + h * model.gate
    out = a * latent.value * h
    if not rank:
        return h * queries + up + out, down
    return rank * queries + up + out, down + h * rank + rank


def _mlp(model: ModelShape, width: int) -> int:
    """Return the parameters of an MLP, with the biases that tensor ranks share."""
    bias = width * (model.products - 1) if model.bias in ("mlp", "all") else 0
    return model.hidden * width * model.products + bias


def _norm(model: ModelShape) -> int:
    return model.hidden * (2 if model.norm == "layer" else 1)


def embedding_parameters(model: ModelShape, tensor: int = 1, *, positions: bool = True) -> LayerParameters:
    """Return the parameters of the embedding; `positions`: with those of positions and ends."""
    rows = model.padded(tensor) + (model.position_rows if positions and model.positions == "learned" else 0)
    ends = model.ends if positions else 0
    return LayerParameters(model.hidden * rows + ends, 0, 0, model.hidden * rows + ends)


def head_parameters(model: ModelShape, tensor: int = 1, *, shared: bool) -> LayerParameters:
    """Return the parameters of the final norm and the output head; `shared`: the embedding is the head's weights."""
    own = 0 if shared else model.hidden * model.padded(tensor)
    return LayerParameters(own, _norm(model), 0, own + _norm(model))


class ParameterCounts(NamedTuple):
    """All parameters of a model, and those that a token uses."""

    total: int
    active: int


def parameters(model: ModelShape, tensor: int = 1) -> ParameterCounts:
    """Return the parameters of a model whose vocabulary is stored on `tensor` ranks, without its MTP layers."""
    each = [(model.of(layer), model.has_experts(layer)) for layer in range(model.layers)]
    known = {pair: layer_parameters(pair[0], experts=pair[1]) for pair in {*each}}
    parts = [known[pair] for pair in each]
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
    """Return the operations of a layer for one token in a sequence of that length; `whole`: all scores count.

    A state counts as a recurrence, whatever kernels compute; windows and selected keys count as they are.
    """
    h, latent, mixer = model.hidden, model.latent, model.mixer
    linear, core = 2 * (model.beside + model.borrowed), int(attended(model.seen, [sequence]) * core_score(model))
    core *= 2 if whole else 1
    if mixer is not None:
        core += mixer.state + mixer.index * sequence // mixer.stride  # an indexer scores half of all keys
        linear += 2 * (h * (mixer.into + mixer.out) + mixer.inner) + mixer.local
    if not model.heads or (mixer is not None and mixer.own):
        pass
    elif latent is None:
        linear += 2 * h * attention_columns(model) + 2 * model.values * h
    else:
        linear += _latent_flops(model, latent) + 2 * h * model.gate
    mixture = model.experts if experts else None
    if mixture is None:
        return LayerFlops(linear + 2 * h * model.products * model.ffn, core)
    routed = (mixture.latent or h) * mixture.width * mixture.active
    linear += 2 * model.products * (routed + h * mixture.shared) + 4 * h * mixture.latent
    return LayerFlops(linear, core)


def core_score(model: ModelShape) -> int:
    """Return the multiply-adds of a token against one other in the core of attention."""
    latent = model.latent
    if latent is None or not model.heads:
        return model.query + model.values
    return model.heads * (latent.nope + latent.rope + latent.value)


def _latent_flops(model: ModelShape, latent: Latent) -> int:
    h, a, rank = model.hidden, model.heads, latent.query_rank
    width, up = a * (latent.nope + latent.rope), h + a * (latent.nope + latent.value) + 1
    queries = rank * (h + width + 1) if rank else h * width
    return 2 * (queries + latent.key_value_rank * up + h * latent.rope + a * latent.value * h)


def training_flops(model: ModelShape, sequence: int, tokens: int, tensor: int = 1, *, whole: bool = False) -> int:
    """Return the operations of a step over so many tokens, MTP layers included: forwards and backwards once."""
    each = [(model.of(layer), model.has_experts(min(layer, model.layers))) for layer in range(model.layers + model.mtp)]
    known = {pair: layer_flops(pair[0], sequence, experts=pair[1], whole=whole).forward for pair in {*each}}
    joining, head = 2 * 2 * model.hidden**2, 2 * model.hidden * model.padded(tensor)
    return 3 * tokens * (sum(known[pair] for pair in each) + model.mtp * joining + (1 + model.mtp) * head)
