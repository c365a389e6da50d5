"""Attention between queries, keys and values: its kernels, and what ranks do that share a sequence. In milliseconds.

Such ranks pass keys and values round a ring. A sequence lies in zigzag order, so that in each step all ranks compute as
many scores: in the first step those of a rank's own tokens, causal, in each other one all those of half as many keys.
Each other step merges its result with that of the steps before it, and waits for a message that takes longer than the
attention it hides behind. Or ranks gather all keys and values first, and compute in one step. Of layers with a state
they deal out heads instead, as Megatron-LM does.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import log2

from pipesched.estimation.communication import FORWARD, HALF, across_ranks, kernels, moved, next_rank
from pipesched.estimation.model import attended
from pipesched.estimation.parameters import core_score
from pipesched.estimation.setup import GATHER, Setup
from pipesched.estimation.terms import ATTENTION, COMMUNICATION, Term, Terms

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
    yield moved(setup, f"elementwise work of {mixer.name}", times * n * mixer.moved / t)
    yield kernels(setup, f"kernels of {mixer.name}", times * mixer.kernels)


def context_terms(setup: Setup, operation: str) -> Iterable[Term]:
    """Yield what ranks that share a sequence do beside the attention core."""
    model, latent, parallel, steps = setup.model, setup.model.latent, setup.parallel, setup.parallel.context - 1
    if not steps:
        return
    if model.mixer is not None and model.mixer.memory:
        columns, share = model.mixer.into + model.mixer.out, steps / parallel.context / parallel.tensor
        size = HALF * setup.tokens * columns * share
        yield across_ranks(setup, "heads of the state dealt out", size, parallel.context, apart=parallel.tensor)
    if not model.heads:
        return
    keys = model.key if latent is None else model.heads * (latent.nope + latent.rope)
    size = 2 * HALF * setup.tokens * keys / parallel.tensor * (1 if operation == FORWARD else 2)
    if setup.training.context == GATHER:
        name = "gather of keys and values" if operation == FORWARD else "gather and reduce-scatter of keys and values"
        yield across_ranks(setup, name, steps * size, parallel.context, apart=parallel.tensor)
        return
    width = model.values if latent is None else model.heads * latent.value
    each, count = MERGED if operation == FORWARD else BACK
    yield moved(setup, "merging of partial results", steps * each * setup.tokens * width / parallel.tensor)
    yield kernels(setup, "kernels of merging", steps * count)
    yield _waits(setup, operation, size)


def _waits(setup: Setup, operation: str, size: float) -> Term:
    """Return what messages of a ring, of so many bytes, take longer than attention; a gradient's last, whole."""
    steps, message = setup.parallel.context - 1, next_rank(setup, size)
    own = float(core_terms(setup, operation)[1].value) / steps
    alone = 0 if operation == FORWARD else 1  # it brings the gradients of keys and values home, behind all attention
    longer = max(float(message.value) - own, 0.0)
    parts = [f"{steps - alone} x max(0, {message.formula} - {own:.4g} ms of attention)"] * (steps > alone)
    parts += [message.formula] * alone
    value = (steps - alone) * longer + alone * float(message.value)
    return Term("ring of keys and values", value, " + ".join(parts), COMMUNICATION)
