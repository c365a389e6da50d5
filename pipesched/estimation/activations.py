"""What a microbatch leaves on a rank from its forward to its backward, in 16 bits. In bytes, exact.

After Korthikanti et al. (arXiv 2205.05198, section 4), for flash attention as well, for gated MLPs, grouped keys,
experts and latent attention.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from pipesched.estimation.model import Latent
from pipesched.estimation.setup import SELECTIVE, Setup
from pipesched.estimation.terms import Term, Terms


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


def _kept(setup: Setup, name: str, width: int, text: str, ranks: int) -> Term:
    """Return bytes of each token that ranks share."""
    over = f" / {ranks} ranks" if ranks > 1 else ""
    return Term(name, Fraction(setup.tokens * width, ranks), f"{setup.tokens} tokens x {text}{over}")


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
    model, s = setup.model, setup.batch.sequence
    if setup.training.flash_attention:
        return
    each = 5 if model.dropout else 2
    text = f"{each} x {model.heads} heads x sequence {s}"
    yield _kept(setup, "scores of attention", each * model.heads * s, text, setup.parallel.tensor)
