"""The `parameters` of a model, part by part, and its floating-point operations, `training_flops`.

Biases and norms count as parameters; the vocabulary is padded as it is stored. Operations are two for each
multiply-add; a backward takes twice those of its forward. Attention is causal: of the scores half are computed (as
Megatron counts now), unless the whole is asked for, as older papers count. A layer is that of the model which is given:
where layers differ, `ModelShape.of` has each.
"""

from __future__ import annotations

from typing import NamedTuple

from pipesched.estimation.model import ModelShape, attended


class LayerParameters(NamedTuple):
    """The parameters of a layer: shared by tensor ranks, whole on each, of experts, and those that a token uses."""

    split: int
    whole: int
    expert: int
    active: int

    @property
    def total(self) -> int:
        return self.split + self.whole + self.expert


def layer_parameters(model: ModelShape, *, experts: bool) -> LayerParameters:
    """Return the parameters of a layer of a model, with a mixture of experts or without."""
    attention_split, attention_whole = _mixing(model)
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


class Matrix(NamedTuple):
    """Weights of a product of what mixes tokens; `whole` ones stand on each tensor rank, for its part of a sequence."""

    name: str
    rows: int
    columns: int
    whole: bool = False


def mixer_matrices(model: ModelShape) -> list[Matrix]:
    """Return the products of a state."""
    if (mixer := model.mixer) is None:
        return []
    sizes = {"into": (model.hidden, mixer.into), "inside": (1, mixer.inner), "out of": (mixer.out, model.hidden)}
    return [Matrix(f"{where} {mixer.name}", *size) for where, size in sizes.items() if all(size)]


def attention_matrices(model: ModelShape) -> list[Matrix]:
    """Return the products of attention, but those that a state has in their place. A head shares no values."""
    h, a, latent = model.hidden, model.heads, model.latent
    if not a or (model.mixer is not None and model.mixer.own):
        return []
    if latent is None:
        columns = model.query + model.gate + model.key + model.kv_heads * (model.value or model.head)
        return [Matrix("queries, keys and values", h, columns), Matrix("output of attention", model.values, h)]
    width, rank, keys = a * (latent.nope + latent.rope), latent.query_rank, latent.key_value_rank
    down = [Matrix("queries down", h, rank, whole=True)] * (rank > 0)
    return [
        *[Matrix("output gate", h, model.gate)] * (model.gate > 0),
        *down,
        Matrix("queries up", rank, width) if rank else Matrix("queries", h, width),
        Matrix("keys and values down", h, keys + latent.rope, whole=True),
        Matrix("keys and values up", keys, a * (latent.nope + latent.value)),
        Matrix("output of attention", a * latent.value, h),
    ]


def _mixing(model: ModelShape) -> tuple[int, int]:
    """Return the parameters of what mixes tokens that tensor ranks share, and those that each holds whole."""
    of_attention, latent, is_biased = attention_matrices(model), model.latent, model.bias in ("attention", "all")
    parts = [0 if model.mixer is None else model.mixer.vectors, 0]
    for one in (*mixer_matrices(model), *of_attention):
        parts[one.whole] += one.rows * one.columns
    if of_attention and latent is None:
        parts[0] += of_attention[0].columns if is_biased or model.bias == "qkv" else 0
        parts[1] += model.hidden if is_biased else 0
    elif of_attention and latent is not None:  # down-projections have norms
        norms = latent.query_rank + latent.key_value_rank
        parts[1] += norms + (model.hidden + norms + latent.rope if is_biased else 0)
    return parts[0], parts[1]


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


def layer_flops(model: ModelShape, sequence: int, *, experts: bool, whole: bool = False) -> tuple[int, int]:
    """Return the operations of a layer's forward for one token in a sequence of that length: of products, and scores.

    A state counts as a recurrence, whatever kernels compute; windows and selected keys count as they are. `whole`: all
    scores count.
    """
    h, mixer, of_attention = model.hidden, model.mixer, attention_matrices(model)
    core = int(attended(model.seen, [sequence]) * core_score(model)) * (2 if whole else 1)
    linear = model.beside + model.borrowed + sum(one.rows * one.columns for one in mixer_matrices(model))
    linear = 2 * (linear + sum(one.rows * one.columns for one in of_attention))
    if model.latent is not None and of_attention:  # norms between its products
        linear += 2 * (model.latent.query_rank + model.latent.key_value_rank)
    if mixer is not None:
        core += mixer.state + mixer.index * sequence // mixer.stride  # an indexer scores half of all keys
        linear += mixer.local
    mixture = model.experts if experts else None
    if mixture is None:
        return linear + 2 * h * model.products * model.ffn, core
    routed = (mixture.latent or h) * mixture.width * mixture.active
    linear += 2 * model.products * (routed + h * mixture.shared) + 4 * h * mixture.latent
    return linear, core


def core_score(model: ModelShape) -> int:
    """Return the multiply-adds of a token against one other in the core of attention."""
    latent = model.latent
    if latent is None or not model.heads:
        return model.query + model.values
    return model.heads * (latent.nope + latent.rope + latent.value)


def training_flops(model: ModelShape, sequence: int, tokens: int, tensor: int = 1, *, whole: bool = False) -> int:
    """Return the operations of a step over so many tokens, MTP layers included: forwards and backwards once."""
    each = [(model.of(layer), model.has_experts(min(layer, model.layers))) for layer in range(model.layers + model.mtp)]
    known = {pair: sum(layer_flops(pair[0], sequence, experts=pair[1], whole=whole)) for pair in {*each}}
    joining, head = 2 * 2 * model.hidden**2, 2 * model.hidden * model.padded(tensor)
    return 3 * tokens * (sum(known[pair] for pair in each) + model.mtp * joining + (1 + model.mtp) * head)
