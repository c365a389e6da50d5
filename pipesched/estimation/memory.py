"""What each item of a model holds on a rank: states of its parameters, and what it keeps of a microbatch.

`layer_memory` is where one begins; `embedding_memory`, `head_memory` and `mtp_memory` are the same of other items.
States are weights, gradients and the optimizer's numbers. In bytes, exact. What a microbatch leaves from its forward to
its backward is in 16 bits, after Korthikanti et al. (arXiv 2205.05198, section 4), for flash attention as well, for
gated MLPs, grouped keys, experts and latent attention.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from pipesched.estimation.hardware import BF16, FP16, FP32, FULL_BYTES, RECIPES
from pipesched.estimation.parameters import LayerParameters, embedding_parameters, head_parameters, layer_parameters
from pipesched.estimation.setup import ADAM, ADAM_BF16, FULL, MUON, SELECTIVE, SGD, Setup, TrainingSetup
from pipesched.estimation.terms import Term, Terms
from pipesched.pipeline.plan.step import GRADIENTS, OPTIMIZER_STATES, WEIGHTS
from pipesched.pipeline.problem.quantities import to_fraction

CONTEXT = 750_000_000  # bytes of a CUDA context
FRAGMENTATION = Fraction(4, 100)  # of all other bytes
EXPERTS = "experts"  # the kind of the parameters that expert parallelism divides
LOW = "split over tensor ranks, in low precision"  # the kind of parameters that a recipe (fp8, say) keeps in few bits


def logits(setup: Setup) -> Terms:
    """Return what the head needs at its peak: logits, unless fused softmax in 32 bits, and its gathered input."""
    each, rows, h = 2 if setup.training.fused_loss else 6, setup.padded_vocabulary, setup.model.hidden
    logits = _kept(setup, "logits", each * rows, f"{each} x vocabulary {rows}", setup.parallel.tensor)
    gathered = _kept(setup, "gathered input of the head", 2 * h, f"2 x hidden {h}", 1)
    return (logits, gathered) if setup.parallel.spread > 1 else (logits,)


def _kept(setup: Setup, name: str, width: int | Fraction, text: str, ranks: int) -> Term:
    """Return the bytes kept of all tokens of a microbatch: `width` bytes a token, divided among `ranks`."""
    over = f" / {ranks} ranks" if ranks > 1 else ""
    return Term(name, Fraction(setup.tokens * width) / ranks, f"{setup.tokens} tokens x {text}{over}")


def _linear(setup: Setup) -> Fraction:
    """Return the bytes of each number that a linear layer keeps for its gradient: 2, or fewer by a recipe."""
    return Fraction(FULL_BYTES) if setup.recipe is None else setup.recipe.each


def _hidden(setup: Setup, name: str, each: int | Fraction) -> Term:
    """Return the same for hidden states, of `each` bytes a number, which sequence parallelism splits."""
    h = setup.model.hidden
    text = f"{float(each):g} x hidden {h}" if each > 1 else f"hidden {h}"
    return _kept(setup, name, each * h, text, setup.parallel.spread)


def _attention(setup: Setup) -> Iterable[Term]:
    model, t, latent, mixer = setup.model, setup.parallel.tensor, setup.model.latent, setup.model.mixer
    name = "queries, keys, values and their result"
    again = 0 if setup.recipe is None else setup.recipe.each  # the result is kept for the next product as well
    if mixer is not None:
        yield _kept(setup, mixer.name, mixer.kept, f"{mixer.kept} of {mixer.name}", t)
    if model.gate and model.heads:
        yield _kept(setup, "output gate", 2 * model.gate, f"2 x {model.gate} of the gate", t)
    if not model.heads:
        return
    if latent is None:
        q, k = model.query, model.key
        size, text = (4 + again) * q + 4 * k, f"({float(4 + again):g} x {q} of queries + 4 x {k} of keys)"
        if model.value:
            v, each = model.kv_heads * model.value, 2 + again
            size, text = 2 * (q + k + v) + each * model.values, f"2 x ({q} + {k} + {v})"
            text += f" + {float(each):g} x {model.values}"
        yield _kept(setup, name, size, text, t)
        return
    a, width, value = model.heads, latent.nope + latent.rope, latent.value
    result = f"{value}" if not again else f"{float(1 + again / 2):g} x {value}"
    text = f"2 x {a} heads x (2 x {width} + {value} + {result})"
    yield _kept(setup, name, 2 * a * (2 * width + value) + (2 + again) * a * value, text, t)
    ranks = latent.query_rank + latent.key_value_rank + latent.rope
    each = FULL_BYTES + _linear(setup)
    text = f"{float(each):g} x ({latent.query_rank} + {latent.key_value_rank} + {latent.rope})"
    yield _kept(setup, "compressed queries, keys and values", each * ranks, text, setup.parallel.spread)


def _mlp(setup: Setup, *, experts: bool) -> Iterable[Term]:
    model, t = setup.model, setup.parallel.tensor
    linear = _linear(setup)
    each = (2 if model.mlp == "plain" else 4) + linear
    if not experts or model.experts is None:
        if model.ffn:
            yield _kept(setup, "MLP", each * model.ffn, f"{float(each):g} x width {model.ffn}", t)
        return
    mixture = model.experts
    width = mixture.active * mixture.width + mixture.shared
    text = f"{float(each):g} x ({mixture.active} experts x width {mixture.width} + shared {mixture.shared})"
    yield _kept(setup, "experts", each * width, text, t)
    both, sent, of = 2 + linear, mixture.latent or model.hidden, "latent" if mixture.latent else "hidden"
    text = f"{float(both):g} x {of} {sent} x {mixture.active} experts"
    yield _kept(setup, "tokens sent to experts and back", both * sent * mixture.active, text, t)


class StateBytes(NamedTuple):
    """Bytes of a parameter in 16 bits or more: weights and gradients, and the optimizer's, which ranks may share."""

    weight: int
    gradient: int
    optimizer: int | Fraction


MOMENTS = {ADAM: 8, ADAM_BF16: 4, MUON: 4, SGD: 4}  # two or one of 32 bits, or two of 16
STATES = {  # (precision, main gradients), with Adam: mixed precision has a 32-bit copy of the weights beside moments
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
    model, training = setup.model, setup.training
    activation: Terms = (_hidden(setup, "input of the layer", 2 * model.streams),)
    checkpoint = activation
    if training.recompute != FULL or training.full_layers is not None:
        # inputs of both norms and of both products after them, and the masks of dropout behind them
        name = "norms, residuals and masks of dropout" if model.dropout else "norms and residuals"
        blocks = model.blocks(experts=experts)
        each = (2 + bool(model.dropout) + _linear(setup)) * blocks
        each += 4 * (model.streams - 1) + 2 * max(model.norms - blocks, 0)
        activation = (_hidden(setup, name, each), *_attention(setup), *_mlp(setup, experts=experts))
        if training.recompute != SELECTIVE and not training.flash_attention and model.heads:
            score, s = 5 if model.dropout else 2, setup.batch.attended  # and its dropout
            text = f"{score} x {model.heads} heads x sequence {s}"
            scores = _kept(setup, "scores of attention", score * model.heads * s, text, setup.parallel.tensor)
            activation = (*activation, scores)
    held = layer_parameters(setup.model, experts=experts)
    return _item_memory(setup, held, activation, checkpoint, wide=0)


def embedding_memory(setup: Setup) -> ItemMemory:
    """Return what the embedding holds: the vocabulary, and learned positions."""
    kept = (_hidden(setup, "mask of dropout", 1),) if setup.model.dropout else ()
    return _item_memory(setup, embedding_parameters(setup.model, setup.parallel.tensor), kept, kept)


def head_memory(setup: Setup) -> ItemMemory:
    """Return what the final norm and the output head hold; tied to the embedding, a copy where that is elsewhere."""
    is_shared = setup.model.tied and setup.parallel.pipeline == 1
    kept = (_hidden(setup, "inputs of the final norm and the head", 4),)
    return _item_memory(setup, head_parameters(setup.model, setup.parallel.tensor, shared=is_shared), kept, kept)


def mtp_memory(setup: Setup, *, first: bool = True) -> ItemMemory:
    """Return what an MTP layer holds: a layer, what joins its two inputs, and a vocabulary to look up.

    The `first` of a stage brings a copy of the embedding, unless that is there: as the head, or with one stage.
    """
    model = setup.model
    experts, wide = model.has_experts(model.layers), 0
    joined = LayerParameters(2 * model.hidden**2, 3 * model.hidden, 0, 0)  # a projection of two inputs, and three norms
    parts = [layer_parameters(model.of(model.layers), experts=experts), joined]
    if first and not model.tied and setup.parallel.pipeline > 1:
        parts.append(embedding_parameters(model, setup.parallel.tensor, positions=False))
        wide = parts[-1].split
    held = LayerParameters(*(sum(counts) for counts in zip(*parts, strict=True)))
    layer = layer_memory(setup.of_layer(model.layers), experts=experts)
    joining = _hidden(setup, "inputs that an MTP layer joins", 4 + 2 * _linear(setup))
    return _item_memory(setup, held, (*layer.activation, joining), (*layer.checkpoint, joining), wide=wide)


def overhead_terms(rest: Fraction) -> tuple[Term, Term]:
    """Return what is held beside all else (`rest`): the context of the GPU, and the fragmentation of the rest."""
    return (
        Term("context", Fraction(CONTEXT), f"{CONTEXT / 1e9:g} GB"),
        Term("fragmentation", FRAGMENTATION * rest, f"{float(FRAGMENTATION):.0%} of {float(rest) / 1e9:.3f} GB"),
    )


def state_bytes(training: TrainingSetup) -> StateBytes:
    """Return the bytes of a parameter's states; main gradients may have a precision of their own beside bf16."""
    adam, optimizer = adam_bytes(training), training.optimizer
    if isinstance(optimizer, str):
        return adam._replace(optimizer=adam.optimizer - MOMENTS[ADAM] + MOMENTS[optimizer])
    return adam._replace(optimizer=to_fraction(optimizer))


def adam_bytes(training: TrainingSetup) -> StateBytes:
    """Return the same with Adam, whose moments have 32 bits."""
    precision = BF16 if training.precision in RECIPES else training.precision
    return STATES[precision, training.gradients if precision == BF16 else precision]


def _item_memory(
    setup: Setup, held: LayerParameters, activation: Terms, checkpoint: Terms, *, wide: int | None = None
) -> ItemMemory:
    """Return what a rank holds of an item; `held` counts its parameters by kind: split, whole and of experts.

    Where a recipe trains in few bits, `wide` of the split ones keep 16 or more; None: all parameters do.
    """
    recipe = None if wide is None else setup.recipe
    in_low = 0 if recipe is None else held.split - (wide or 0)
    each, parallel, groups = state_bytes(setup.training), setup.parallel, []
    for name, count, ranks in (
        (LOW, in_low, parallel.tensor),
        ("split over tensor ranks", held.split - in_low, parallel.tensor),
        ("whole on each tensor rank", held.whole, 1),
        (EXPERTS, held.expert, parallel.expert * parallel.expert_tensor),
    ):
        text = f"{count}" if ranks == 1 else f"{count} / {ranks} ranks"
        if count:
            data = setup.shard_group(experts=name == EXPERTS).ranks  # data-parallel ranks: they hold the same
            groups.append((Term(name, Fraction(count, ranks), text, name), data))

    def states(usual: int | Fraction, level: str, low: int | Fraction | None = None) -> Terms:
        """Return bytes of states: `usual` of each parameter, `low` of each in few bits; ranks may divide a `level`."""
        found = []
        for part, data in groups:
            size = usual if low is None or part.name not in (LOW, EXPERTS) else low
            ranks = data if setup.training.divides(level) else 1
            over = f" / {ranks} data-parallel ranks" if ranks > 1 else ""
            found.append(Term(part.name, part.value * size / ranks, f"{part.formula} x {float(size):g} bytes{over}"))
        return tuple(found)

    weights = states(each.weight, WEIGHTS, recipe and recipe.weight_bytes(setup.hardware))
    gradients = states(each.gradient, GRADIENTS)
    optimizer = states(each.optimizer, OPTIMIZER_STATES)
    return ItemMemory(tuple(part for part, _ in groups), weights, gradients, optimizer, activation, checkpoint)
