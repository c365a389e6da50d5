"""The floating-point operations of a model: two for each multiply-add; a backward takes twice those of its forward.

Attention is causal: of the scores half are computed (as Megatron counts now), unless the whole is asked for, as older
papers count.
"""

from __future__ import annotations

from typing import NamedTuple

from pipesched.estimation.model import Latent, ModelShape


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
    linear, score = _attention(model)
    core = 2 * sequence * score if whole else sequence * score
    return LayerFlops(linear + _mlp(model, experts=experts), core)


def _attention(model: ModelShape) -> tuple[int, int]:
    """Return the operations of the products with weights, and those of one token's scores against one other word."""
    h, latent = model.hidden, model.latent
    if latent is None:
        return 2 * h * (model.query + 2 * model.key) + 2 * model.query * h, 2 * model.query
    width = latent.nope + latent.rope
    return 2 * (_queries(model, latent) + _keys(model, latent)), model.heads * (width + latent.value)


def _queries(model: ModelShape, latent: Latent) -> int:
    width = model.heads * (latent.nope + latent.rope)
    return latent.query_rank * (model.hidden + width + 1) if latent.query_rank else model.hidden * width


def _keys(model: ModelShape, latent: Latent) -> int:
    up = model.hidden + model.heads * (latent.nope + latent.value) + 1
    out = model.heads * latent.value * model.hidden
    return latent.key_value_rank * up + model.hidden * latent.rope + out


def _mlp(model: ModelShape, *, experts: bool) -> int:
    each = 2 * model.hidden * model.products
    if not experts or model.experts is None:
        return each * model.ffn
    return each * (model.experts.width * model.experts.active + model.experts.shared)


def head_flops(model: ModelShape, tensor: int = 1) -> int:
    """Return the operations of the output head for one token, with a head for each MTP layer."""
    return 2 * model.hidden * model.padded(tensor) * (1 + model.mtp)


def forward_flops(model: ModelShape, sequence: int, tensor: int = 1, *, whole: bool = False) -> int:
    """Return the operations of a forward of one token, MTP layers included."""
    layers = model.layers + model.mtp
    each = (
        layer_flops(model, sequence, experts=model.has_experts(min(layer, model.layers)), whole=whole).forward
        for layer in range(layers)
    )
    joining = 2 * model.mtp * 2 * model.hidden**2  # each MTP layer joins two inputs
    return sum(each) + joining + head_flops(model, tensor)


def training_flops(model: ModelShape, sequence: int, tokens: int, tensor: int = 1, *, whole: bool = False) -> int:
    """Return the operations of a step over so many tokens: a forward and a backward, without recompute."""
    return 3 * tokens * forward_flops(model, sequence, tensor, whole=whole)
