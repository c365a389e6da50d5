"""How long a layer and the ends of a model take on a rank: forward, input gradient, weight gradient. In milliseconds.

`layer_times` is where one begins (`embedding_times`, `mtp_times`, `head_times`): each is the sum of matrix products,
attention core, elementwise work, exposed communication and kernels, as terms with formulas. Then `optimizer_terms`.

Ranks that share a sequence pass keys and values round a ring. A sequence lies in zigzag order, so that in each step all
ranks compute as many scores: in the first step those of a rank's own tokens, causal, in each other one all those of
half as many keys. Each other step merges its result with that of the steps before it, and waits for a message that
takes longer than the attention it hides behind. Or ranks gather all keys and values first, and compute in one step. In
layers with a state (Mamba) ranks deal out heads instead, as Megatron-LM does.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from math import log2
from typing import NamedTuple

from pipesched.estimation.communication import FORWARD, expert_terms, message_terms, tensor_terms
from pipesched.estimation.hardware import FULL_BYTES
from pipesched.estimation.memory import adam_bytes, state_bytes
from pipesched.estimation.model import attended
from pipesched.estimation.parameters import attention_matrices, core_score, mixer_matrices
from pipesched.estimation.setup import ADAM, FULL, GATHER, SELECTIVE, Setup
from pipesched.estimation.terms import (
    ATTENTION,
    COMMUNICATION,
    LAUNCHES,
    PRODUCTS,
    Term,
    Terms,
    collective_time,
    kernel_time,
    recomputed,
    ring_message_time,
    total,
    traffic_time,
)
from pipesched.pipeline.plan.step import OPTIMIZER_STATES

DRAWN = 1.25  # fused attention with dropout draws a random number for each score

# Keys that a kernel sees: the share of what long ones reach. Means of FlashAttention-2, FlashAttention-3 and cuDNN on
# H100, forward, heads of 128 (arXiv 2407.08608, figure 5; tests/data/measured_attention.json)
CAUSAL = ((512, 0.55), (1024, 0.75), (2048, 0.88), (4096, 0.95), (8192, 0.99), (16384, 1.0))
NOT_CAUSAL = ((512, 0.8), (1024, 0.92), (2048, 0.98), (4096, 1.0))

# Of a step of a ring that merges: bytes for each number of a result, and kernels; forward and in the input gradient
MERGED, BACK = (20, 6), (30, 8)


def kernel_share(keys: float, *, causal: bool) -> float:
    """Return the share of the rate of long sequences that fused attention reaches with so many keys."""
    table = CAUSAL if causal else NOT_CAUSAL
    if keys <= table[0][0]:
        return table[0][1]
    for (low, under), (high, over) in pairwise(table):
        if keys < high:
            return under + (over - under) * log2(keys / low) / log2(high / low)
    return table[-1][1]


def core_flops(setup: Setup) -> float:
    """Return the operations of the attention core, of a microbatch's forward: half of them where it is fused.

    Fused, it leaves out keys that are not seen. Selected keys of latent attention are read as latent vectors, which is
    more work a key: where that is no less than all keys take, all are.
    """
    model, tokens, tensor = setup.model, setup.tokens, setup.parallel.tensor
    score, batch = core_score(model), setup.batch
    if not setup.training.flash_attention:
        return float(2 * tokens * batch.attended * score / tensor)
    seen = attended(model.seen, batch.documents)
    if model.latent is not None and seen != batch.attended:
        latent = model.latent
        absorbed = model.heads * (2 * latent.key_value_rank + latent.rope)
        score, seen = min((score, batch.attended), (absorbed, seen), key=lambda both: both[0] * both[1])
    return float(2 * tokens * seen * score / tensor) / 2


def core_terms(setup: Setup, operation: str) -> Terms:
    """Return the attention core: one kernel, or one for each step of a ring; none of a layer without attention."""
    flash, tokens = setup.training.flash_attention, setup.batch.sequence
    if not setup.model.heads:
        return ()
    if flash:
        tokens = min([tokens, *(seen.limit for seen in setup.model.seen if seen.limit)])
    times = 1.0 if operation == FORWARD else 2.5 if flash else 2.0
    times *= DRAWN if flash and setup.model.dropout else 1.0
    flops, steps = times * core_flops(setup), 1 if setup.training.context == GATHER else setup.parallel.context
    if steps == 1:
        return (_core(setup, "attention core", flops, kernel_share(tokens, causal=True)),)
    each, own = flops / steps, tokens / steps
    return (
        _core(setup, "attention core, first step", each, kernel_share(own, causal=True)),
        _core(setup, "attention core, other steps", each, kernel_share(own / 2, causal=False), steps - 1),
    )


def _core(setup: Setup, name: str, flops: float, size: float, count: int = 1) -> Term:
    """Return the time of kernels of so many operations each; `size` is the share that their length lets them reach."""
    hardware, flash = setup.hardware, setup.training.flash_attention
    best = hardware.efficiency.core if flash else hardware.efficiency.unfused
    time = count * flops / (hardware.tflops * best * (size if flash else 1)) * 1e-9
    each, share = f"{count} x " if count > 1 else "", f"{best:.3g} x {size:.4g}" if flash else f"{best:.3g}"
    formula = f"{each}{flops / 1e9:.6g} GFLOP / ({hardware.tflops:g} TFLOP/s x {share})"
    return Term(name, time, formula, ATTENTION)


def mixer_terms(setup: Setup, operation: str) -> Iterable[Term]:
    """Yield what a state, its convolutions and an indexer take beside their products.

    Their kernels work in short chunks, at the rate of attention over the fewest keys; nobody has published better.
    """
    mixer, n, t = setup.model.mixer, setup.tokens, setup.parallel.tensor
    if mixer is None:
        return
    times, flops = 1 if operation == FORWARD else 2, mixer.chunked + mixer.local
    if flops:
        yield _core(setup, f"state of {mixer.name}", times * n * flops / t, CAUSAL[0][1])
    if mixer.index:
        scores = times * n * mixer.index * float(setup.batch.attended) / mixer.stride
        yield _core(setup, f"scores of {mixer.name}", scores, kernel_share(setup.batch.sequence, causal=True))
    yield traffic_time(setup, f"elementwise work of {mixer.name}", times * n * mixer.moved / t)
    yield kernel_time(setup, f"kernels of {mixer.name}", times * mixer.kernels)


def context_terms(setup: Setup, operation: str) -> Iterable[Term]:
    """Yield what ranks that share a sequence do beside the attention core."""
    model, latent, parallel, steps = setup.model, setup.model.latent, setup.parallel, setup.parallel.context - 1
    if not steps:
        return
    if model.mixer is not None and model.mixer.memory:
        columns, share = model.mixer.into + model.mixer.out, steps / parallel.context / parallel.tensor
        size = FULL_BYTES * setup.tokens * columns * share
        yield collective_time(setup, "heads of the state dealt out", size, parallel.context, apart=parallel.tensor)
    if not model.heads:
        return
    keys = model.key if latent is None else model.heads * (latent.nope + latent.rope)
    size = 2 * FULL_BYTES * setup.tokens * keys / parallel.tensor * (1 if operation == FORWARD else 2)
    if setup.training.context == GATHER:
        name = "gather of keys and values" if operation == FORWARD else "gather and reduce-scatter of keys and values"
        yield collective_time(setup, name, steps * size, parallel.context, apart=parallel.tensor)
        return
    width = model.values if latent is None else model.heads * latent.value
    each, count = MERGED if operation == FORWARD else BACK
    yield traffic_time(setup, "merging of partial results", steps * each * setup.tokens * width / parallel.tensor)
    yield kernel_time(setup, "kernels of merging", steps * count)
    # what messages take longer than attention; the last one of a gradient brings it home, behind all attention
    message, own = ring_message_time(setup, size), float(core_terms(setup, operation)[1].value) / steps
    alone = 0 if operation == FORWARD else 1
    parts = [f"{steps - alone} x max(0, {message.formula} - {own:.4g} ms of attention)"] * (steps > alone)
    parts += [message.formula] * alone
    value = (steps - alone) * max(float(message.value) - own, 0.0) + alone * float(message.value)
    yield Term("ring of keys and values", value, " + ".join(parts), COMMUNICATION)


CURVE_TFLOPS = 312  # an A100; a GPU of a higher peak needs larger products
CURVE = ((0.0, 0.1), (1.0, 0.6), (16.0, 0.9), (128.0, 0.99))  # billions of operations: share of the best rate
CURVE_END = 0.99
INPUT, WEIGHT = "backward_input", "backward_weight"
OPERATIONS = (FORWARD, INPUT, WEIGHT)
KERNELS = {FORWARD: 8, INPUT: 12, WEIGHT: 4}
LAUNCHED = {FORWARD: 230, INPUT: 300, WEIGHT: 100}  # of a layer of experts, by its host
ADAM_BYTES = 28  # read and written of a parameter: gradient, master weight, both moments, weight
NORM, RESIDUAL = 4, 8  # bytes of a number that a norm, or a layer's two additions to another residual, move
LAUNCH = 15.0  # microseconds of the host for each
QUANTIZED = "numbers in few bits"
SHARE = {FORWARD: "gemm_forward", INPUT: "gemm_input", WEIGHT: "gemm_weight"}  # of the peak, by Efficiency


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
    return (*_mixing(setup), *_mlp(setup, experts=experts))


def _mixing(setup: Setup) -> Iterable[Product]:
    """Yield the products of what mixes tokens: down-projections are whole on a rank, on its part of the sequence."""
    model, n, t, beside = setup.model, setup.tokens, setup.parallel.tensor, setup.model.beside + setup.model.borrowed
    local = n / setup.parallel.spread
    for one in mixer_matrices(model):
        yield Product(one.name, 2 * n * one.rows * one.columns / t)
    if beside:
        yield Product("further products", 2 * n * beside / setup.parallel.spread)
    for one in attention_matrices(model):
        flops = 2 * local * one.rows * one.columns if one.whole else 2 * n * one.rows * one.columns / t
        yield Product(one.name, flops)


def _mlp(setup: Setup, *, experts: bool) -> tuple[Product, ...]:
    """Return the products of an MLP, or of the experts of which a rank has some."""
    model, n, t = setup.model, setup.tokens, setup.parallel.tensor
    h, up = model.hidden, model.products - 1
    if not experts or model.experts is None:
        return _two("MLP", 2 * n * h * model.ffn / t, up) if model.ffn else ()
    mixture, parallel = model.experts, setup.parallel
    local = mixture.count // parallel.expert
    # every rank of an expert group sends its tokens to all: a rank computes the tokens of all t ranks over its experts
    tokens = n * parallel.expert_tensor * mixture.active / (parallel.tensor * local)
    own = _two("experts", 2 * tokens * (mixture.latent or h) * mixture.width / parallel.expert_tensor, up, local)
    shared = _two("shared experts", 2 * n * h * mixture.shared / t, up) if mixture.shared else ()
    latent = (Product("into and out of experts", 4 * n * h * mixture.latent / t),) if mixture.latent else ()
    return (*own, *shared, *latent)


def _two(name: str, flops: float, up: int, copies: float = 1) -> tuple[Product, ...]:
    return (Product(f"{name} up", flops * up, copies), Product(f"{name} down", flops, copies))


class ItemTimes(NamedTuple):
    """The terms of a forward, of an input gradient and of a weight gradient, of one microbatch; and of a recompute."""

    forward: Terms
    backward_input: Terms
    backward_weight: Terms
    recompute: Terms


def layer_times(setup: Setup, *, experts: bool) -> ItemTimes:
    """Return the times of a layer."""
    products, blocks = layer_products(setup, experts=experts), setup.model.blocks(experts=experts)
    forward, backward = (
        (
            *_products(setup, products, operation, low=True),
            *core_terms(setup, operation),
            *mixer_terms(setup, operation),
            *_elementwise(setup, experts=experts),
            *_quantized(setup, operation, experts=experts),
            *tensor_terms(setup, operation, experts=experts),
            *context_terms(setup, operation),
            *(expert_terms(setup, operation) if experts else ()),
            kernel_time(setup, "kernels", KERNELS[operation] * blocks // 2),
        )
        for operation in (FORWARD, INPUT)
    )
    launches = kernel_time(setup, "kernels", KERNELS[WEIGHT] * blocks // 2)
    weights: Terms = (*_products(setup, products, WEIGHT, low=True), launches)
    if experts:
        forward, backward = _launched(FORWARD, forward), _launched(INPUT, backward)
        weights = _launched(WEIGHT, weights)
    messages = tuple(message_terms(setup))
    forward, training = (*forward, *messages), setup.training
    again: Terms = ()
    if training.recompute == FULL and training.full_layers is None:  # of `full_layers` see the cut into stages
        again = recomputed(forward)
    elif training.recompute == SELECTIVE and not training.flash_attention and setup.model.heads:
        again = recomputed((*core_terms(setup, FORWARD), _unfused_bytes(setup)))
    return ItemTimes(forward, (*backward, *messages, *again), weights, forward)


def _products(setup: Setup, products: Iterable[Product], operation: str, *, low: bool = False) -> Iterable[Term]:
    """Yield the time of each product; `low`: in the precision of linear layers."""
    efficiency, peak = setup.hardware.efficiency, setup.hardware.tflops
    best: float = getattr(efficiency, SHARE[operation])
    factors = f"{best:.3g}"
    if low and setup.recipe is not None:
        peak, share = setup.peak, getattr(efficiency, setup.recipe.peak)
        best, factors = best * share, f"{factors} x {share:.3g} in {setup.training.precision}"
    for product in products:
        size = product.share(peak)
        time = product.copies * product.flops / (peak * best * size) * 1e-9
        each = f"{product.copies:g} x " if product.copies != 1 else ""
        formula = f"{each}{product.flops / 1e9:.6g} GFLOP / ({peak:g} TFLOP/s x {factors} x {size:.4g})"
        yield Term(product.name, time, formula, PRODUCTS)


def _quantized(setup: Setup, operation: str, *, experts: bool) -> Iterable[Term]:
    """Yield what turns inputs of linear layers, or the gradients of their results, into numbers of few bits."""
    model, recipe, split = setup.model, setup.recipe, setup.parallel.tensor
    if recipe is None:
        return
    width, hidden = model.ffn, 2 * model.hidden / setup.parallel.spread
    if experts and model.experts is not None:
        width = model.experts.active * model.experts.width + model.experts.shared
        hidden += 2 * model.hidden * (model.experts.active - 1) / split
    inputs, results = model.query, model.query + 2 * model.key
    if (latent := model.latent) is not None:
        inputs, results = (model.heads * size for size in (latent.value, 2 * latent.nope + latent.rope + latent.value))
        hidden += (latent.query_rank + latent.key_value_rank) / setup.parallel.spread
    inner = inputs + width if operation == FORWARD else results + (model.products - 1) * width
    each = FULL_BYTES * recipe.passes + recipe.copies_on(setup.hardware) * recipe.each  # read and written of a number
    yield traffic_time(setup, QUANTIZED, float(each) * setup.tokens * (hidden + inner / split))


def _elementwise(setup: Setup, *, experts: bool) -> Iterable[Term]:
    """Yield the time of norms, residuals, activation functions and rotary positions."""
    model, parallel = setup.model, setup.parallel
    blocks = model.blocks(experts=experts)
    each = (11 if model.dropout else 10) * blocks + NORM * (model.norms - blocks) + RESIDUAL * (model.streams - 1)
    norms = each * model.hidden / parallel.spread
    rope = 4 * (model.query + model.key) if model.positions == "rope" else 0
    width, routed, mixture = model.ffn, 0, model.experts
    if experts and mixture is not None:
        width = mixture.active * mixture.width + mixture.shared
        routed = 8 * (mixture.latent or model.hidden) * mixture.active
    inner = rope + (4 if model.mlp == "plain" else 6) * width + routed
    yield traffic_time(setup, "elementwise", setup.tokens * (norms + inner / parallel.tensor))
    if not setup.training.flash_attention and model.heads:
        yield _unfused_bytes(setup)


def _unfused_bytes(setup: Setup) -> Term:
    model = setup.model
    scores = model.heads * float(setup.batch.attended) / setup.parallel.tensor * (13 if model.dropout else 8)
    return traffic_time(setup, "softmax of attention", setup.tokens * scores, ATTENTION)


def _launched(operation: str, terms: Terms) -> Terms:
    """Return the terms of a layer of experts and what they wait for the host, which launches kernel after kernel."""
    floor, own = LAUNCHED[operation] * LAUNCH * 1e-3, float(total(terms))
    text = f"{LAUNCHED[operation]} launches x {LAUNCH:g} us - {own:.3f} ms, at least 0"
    waits = Term("waits for the host", floor - own, text, LAUNCHES)
    return (*terms, waits) if floor > own else terms


def head_times(setup: Setup) -> ItemTimes:
    """Return the times of the final norm, the output head and the loss."""
    model, rows, t = setup.model, setup.padded_vocabulary, setup.parallel.tensor
    product = (Product("head", 2 * setup.tokens * model.hidden * rows / t),)
    logits = setup.tokens * rows / t
    forward = (*_products(setup, product, FORWARD), traffic_time(setup, "loss", 12 * logits))
    backward = (*_products(setup, product, INPUT), traffic_time(setup, "loss", 5 * logits))
    return ItemTimes(forward, backward, tuple(_products(setup, product, WEIGHT)), forward)


def embedding_times(setup: Setup) -> ItemTimes:
    """Return the times of the embedding: memory traffic, and no input gradient."""
    size = 4 * setup.tokens * setup.model.hidden
    forward = (traffic_time(setup, "look-up", size),)
    return ItemTimes(forward, (), (traffic_time(setup, "gradient of the rows", size),), forward)


def mtp_times(setup: Setup) -> ItemTimes:
    """Return the times of an MTP layer: a layer, the product that joins its two inputs, and a head of its own."""
    model = setup.model
    layer = layer_times(setup.of_layer(model.layers), experts=model.has_experts(model.layers))
    head = head_times(setup)
    joining = (Product("joining", 4 * setup.tokens * model.hidden**2 / setup.parallel.spread),)
    joined = (tuple(_products(setup, joining, operation, low=True)) for operation in OPERATIONS)
    parts = zip(layer, joined, head, strict=False)
    forward, inputs, weights = (own + more + last for own, more, last in parts)
    return ItemTimes(forward, inputs, weights, forward)


def optimizer_terms(setup: Setup, dense: Fraction, experts: Fraction) -> Terms:
    """Return the milliseconds of the optimizer on a rank: what it keeps is read and written once."""
    training = setup.training
    each = ADAM_BYTES + 2 * float(state_bytes(training).optimizer - adam_bytes(training).optimizer)
    kind = "Adam" if training.optimizer == ADAM else "optimizer"
    hardware, shared, share = setup.hardware, setup.training.divides(OPTIMIZER_STATES), setup.hardware.efficiency.memory
    terms = []
    for name, count, group in setup.shard_parts(dense, experts):
        mine = float(count) / (group.ranks if shared else 1)
        of = f"{each:g} bytes x {mine / 1e6:.6g} M parameters"
        formula = f"{of} / ({hardware.bandwidth:g} GB/s x {share:.3g})"
        terms.append(Term(f"{kind}{name}", each * mine / (hardware.bandwidth * share) * 1e-6, formula))
    return tuple(terms)
