"""The matrix products of a forward on one rank, each with its operations."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from pipesched.estimation.model import Latent, ModelShape
from pipesched.estimation.setup import Setup

CURVE_TFLOPS = 312  # an A100; a GPU of a higher peak needs larger products
CURVE = ((0.0, 0.1), (1.0, 0.6), (16.0, 0.9), (128.0, 0.99))  # billions of operations: share of the best rate
CURVE_END = 0.99


class Product(NamedTuple):
    """A matrix product, run `copies` times: its name, and the operations (two a multiply-add) of one."""

    name: str
    flops: float
    copies: float = 1

    def share(self, tflops: float) -> float:
        """Return the share of the best rate that a product of this size reaches on a GPU with that peak."""
        size = self.flops / 1e9 * CURVE_TFLOPS / tflops
        for (low, under), (high, over) in pairwise(CURVE):
            if size < high:
                return under + (over - under) * (size - low) / (high - low)
        return CURVE_END


def layer_products(setup: Setup, *, experts: bool) -> tuple[Product, ...]:
    """Return the products with weights of a layer, for a microbatch."""
    return (*_attention(setup), *_mlp(setup, experts=experts))


def _attention(setup: Setup) -> tuple[Product, ...]:
    model, n, t = setup.model, setup.tokens, setup.parallel.tensor
    if model.latent is not None:
        return _latent_attention(setup, model, model.latent)
    return (
        Product("queries, keys and values", 2 * n * model.hidden * (model.query + 2 * model.key) / t),
        Product("output of attention", 2 * n * model.query * model.hidden / t),
    )


def _latent_attention(setup: Setup, model: ModelShape, latent: Latent) -> tuple[Product, ...]:
    n, t, h, a = setup.tokens, setup.parallel.tensor, model.hidden, model.heads
    local = n / setup.parallel.spread  # down-projections are whole on each rank, on its part of the sequence
    width = a * (latent.nope + latent.rope)
    rank = latent.query_rank
    queries = (
        (Product("queries down", 2 * local * h * rank), Product("queries up", 2 * n * rank * width / t))
        if rank
        else (Product("queries", 2 * n * h * width / t),)
    )
    return (
        *queries,
        Product("keys and values down", 2 * local * h * (latent.key_value_rank + latent.rope)),
        Product("keys and values up", 2 * n * latent.key_value_rank * a * (latent.nope + latent.value) / t),
        Product("output of attention", 2 * n * a * latent.value * h / t),
    )


def _mlp(setup: Setup, *, experts: bool) -> tuple[Product, ...]:
    model, n, t = setup.model, setup.tokens, setup.parallel.tensor
    h, up = model.hidden, model.products - 1
    if not experts or model.experts is None:
        return _two("MLP", 2 * n * h * model.ffn / t, up)
    mixture, parallel = model.experts, setup.parallel
    local = mixture.count // parallel.expert
    # every rank of an expert group sends its tokens to all: a rank computes the tokens of all t ranks over its experts
    words = n * parallel.expert_tensor * mixture.active / (parallel.tensor * local)
    own = _two("experts", 2 * words * h * mixture.width / parallel.expert_tensor, up, local)
    shared = _two("shared experts", 2 * n * h * mixture.shared / t, up) if mixture.shared else ()
    return (*own, *shared)


def _two(name: str, flops: float, up: int, copies: float = 1) -> tuple[Product, ...]:
    return (Product(f"{name} up", flops * up, copies), Product(f"{name} down", flops, copies))


def core_flops(setup: Setup) -> float:
    """Return the operations of the attention core, of a microbatch's forward: half of them where it is fused."""
    model, latent = setup.model, setup.model.latent
    score = 2 * model.query if latent is None else model.heads * (latent.nope + latent.rope + latent.value)
    whole = 2 * setup.tokens * setup.batch.sequence * score / setup.parallel.tensor
    return whole / 2 if setup.training.flash_attention else whole


def head_product(setup: Setup) -> Product:
    """Return the product of the output head."""
    return Product("head", 2 * setup.tokens * setup.model.hidden * setup.padded_vocabulary / setup.parallel.tensor)
