"""A transformer as its shapes, `ModelShape`: layers, widths, heads, experts; and which ways of parallelism suit these.

`huggingface.py` reads them from the keys of a config.json.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from pipesched.checks import nearest_divisors, require_flag, require_label, require_name, require_whole
from pipesched.errors import ConfigError

MLPS, NORMS, POSITIONS = ("gated", "plain"), ("rms", "layer"), ("rope", "learned")
BIASES = ("none", "qkv", "attention", "mlp", "all")  # of which products; attention is qkv and its output
NOWHERE = 10**9  # `dense_layers` of a kind of layer without experts


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2, section 2.1): ranks of the compressed queries, keys and values.

    `query_rank` is 0 where queries are not compressed. A head has `nope` dimensions without and `rope` with position,
    and `value` dimensions of values.
    """

    query_rank: int
    key_value_rank: int
    nope: int
    rope: int
    value: int

    def __post_init__(self) -> None:
        for key in ("query_rank", "key_value_rank", "nope", "rope", "value"):
            require_whole(getattr(self, key), key, least=int(key != "query_rank"))


@dataclass(frozen=True)
class Experts:
    """A mixture of experts: of `count` experts of a width, each token runs `active`, and all run the `shared` width.

    The first `dense_layers` layers have none. Experts may work on fewer numbers of a token than all, its `latent`, and
    have no biases (not `biased`) beside an MLP that has some.
    """

    count: int
    active: int
    width: int
    shared: int = 0
    dense_layers: int = 0
    latent: int = 0
    biased: bool = True

    def __post_init__(self) -> None:
        for key in ("count", "active", "width"):
            require_whole(getattr(self, key), key, least=1)
        require_whole(self.active, "active", least=1, most=self.count)
        for key in ("shared", "dense_layers"):
            require_whole(getattr(self, key), key)


class Seen(NamedTuple):
    """Keys that a token attends to: one in `stride` of the last `limit` tokens (0: all), or of its own chunk."""

    limit: int = 0
    stride: int = 1
    chunked: bool = False

    def pairs(self, length: int) -> Fraction:
        """Return twice the pairs of tokens and keys in a causal sequence of that length."""
        limit = min(self.limit or length, length)
        whole, rest = divmod(length, limit) if self.chunked else (0, 0)
        both = whole * limit**2 + rest**2 if self.chunked else 2 * length * limit - limit**2
        return Fraction(both, self.stride)


@dataclass(frozen=True)
class Mixer:
    """What mixes tokens in a layer, in place of attention or beside it: convolutions, a state, an indexer.

    Its products have `into` columns from the hidden width, `out` rows to it and `inner` weights between; `vectors` are
    its other parameters. Operations of a token forward: `local` of convolutions, `state` as a recurrence, `chunked` as
    kernels do it, and `index` for each key, of which there is one in `stride` tokens. Bytes of a token: `kept` to the
    backward, `moved` forward. `memory` numbers go on to the next tokens. `heads` divide among tensor ranks. `own`: its
    products are those of attention, whose core stays.
    """

    name: str
    heads: int = 0
    into: int = 0
    out: int = 0
    inner: int = 0
    vectors: int = 0
    local: int = 0
    state: int = 0
    chunked: int = 0
    index: int = 0
    stride: int = 1
    kept: int = 0
    moved: int = 0
    memory: int = 0
    kernels: int = 0
    own: bool = False


@dataclass(frozen=True)
class ModelShape:
    """The shapes of a decoder: `layers` of width `hidden`, `heads` of `head` dimensions, of which `kv_heads` have keys.

    `ffn` is the width of the MLP of a layer without experts, `vocabulary` the number of tokens it knows. `mtp` is the
    number of layers that predict further tokens (DeepSeek-V3, section 2.2). A layer without attention has 0 heads, one
    without MLP the width 0; `value` is the width of a head's values where it is another (0: none).

    A layer has `norms`, `gate` columns beside its queries, `vectors` and `beside` weights of further products; it uses
    `borrowed` weights that stand in the `ends` beside the embedding. `streams` residuals run side by side. Where layers
    differ, each is like one of `kinds`, by its number in `order`. Raises ConfigError, about the field at fault.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head: int
    ffn: int
    vocabulary: int
    mlp: str = "gated"
    norm: str = "rms"
    bias: str = "none"
    positions: str = "rope"
    position_rows: int = 0
    tied: bool = False
    qk_norm: bool = False
    dropout: bool = False
    experts: Experts | None = None
    latent: Latent | None = None
    mtp: int = 0
    value: int = 0
    norms: int = 2
    gate: int = 0
    vectors: int = 0
    beside: int = 0
    borrowed: int = 0
    ends: int = 0
    streams: int = 1
    seen: tuple[Seen, ...] = (Seen(),)
    mixer: Mixer | None = None
    kinds: tuple[ModelShape, ...] = ()
    order: tuple[int, ...] = ()
    letters: str = ""

    def __post_init__(self) -> None:
        require_label(self.name, "name")
        for key in ("layers", "hidden", "head", "vocabulary"):
            require_whole(getattr(self, key), key, least=1)
        for key in ("heads", "kv_heads", "ffn"):
            require_whole(getattr(self, key), key)
        for key, names in (("mlp", MLPS), ("norm", NORMS), ("bias", BIASES), ("positions", POSITIONS)):
            require_name(names, getattr(self, key), key, key)
        for key in ("position_rows", "mtp"):
            require_whole(getattr(self, key), key)
        for key in ("tied", "qk_norm", "dropout"):
            require_flag(getattr(self, key), key)

    @property
    def query(self) -> int:
        """The width of all queries: heads times the dimensions of a head."""
        return self.heads * self.head

    @property
    def key(self) -> int:
        """The width of all keys, and of all values."""
        return self.kv_heads * self.head

    @property
    def values(self) -> int:
        """The width of all values that attention mixes: of each head of queries its own."""
        return self.heads * (self.value or self.head)

    @property
    def products(self) -> int:
        """The matrix products of an MLP: three where it is gated, else two."""
        return 3 if self.mlp == "gated" else 2

    def padded(self, tensor: int = 1) -> int:
        """Return the vocabulary as it is stored: a multiple of 128 on each of `tensor` ranks."""
        unit = 128 * tensor
        return -(-self.vocabulary // unit) * unit

    def of(self, layer: int) -> ModelShape:
        """Return the model as if all its layers were like that one; an MTP layer is like the last."""
        return self.kinds[self.order[min(layer, self.layers - 1)]] if self.kinds else self

    def has_experts(self, layer: int) -> bool:
        experts = self.of(layer).experts
        return experts is not None and layer >= experts.dense_layers

    def blocks(self, *, experts: bool) -> int:
        """Return how many blocks a layer has, of two: what mixes tokens, and an MLP or experts."""
        return bool(self.heads or self.mixer) + bool(self.ffn or experts)


def attended(seen: Iterable[Seen], lengths: Sequence[int]) -> int | Fraction:
    """Return twice the keys that a token of sequences of these lengths attends to, in the mean."""
    found = sum((one.pairs(length) for one in seen for length in lengths), Fraction(0)) / sum(lengths)
    return int(found) if found.denominator == 1 else found


def items_of(model: ModelShape) -> int:
    """Return how many things of a model can be cut into stages: its layers, MTP layers, the embedding and the head."""
    return model.layers + model.mtp + 2


def require_tensor(model: ModelShape, tensor: int) -> None:
    """Raise ConfigError where heads, or the width of the MLP, do not divide among the ranks."""
    sizes = dict[str, int]()
    for one in model.kinds or [model]:
        sizes |= {f"{one.heads} attention heads": one.heads, f"width {one.ffn} of the MLP": one.ffn}
        if one.latent is None and one.kv_heads and tensor % one.kv_heads:
            sizes[f"{one.kv_heads} heads of keys and values"] = one.kv_heads
        if one.mixer is not None:
            sizes[f"{one.mixer.heads} heads of {one.mixer.name}"] = one.mixer.heads
    for what, size in sizes.items():
        _require_divisor("tensor", tensor, size, what)


def require_experts(model: ModelShape, expert: int, expert_tensor: int) -> None:
    """Raise ConfigError where experts do not divide among the ranks."""
    experts = model.experts
    for key, size in (("expert", expert), ("expert_tensor", expert_tensor)):
        if experts is None and size > 1:
            raise ConfigError(f"must be 1: {model.name} has no experts", f"parallel.{key}")
    if experts is not None:
        _require_divisor("expert", expert, experts.count, f"{experts.count} experts")
        _require_divisor("expert_tensor", expert_tensor, experts.width, f"width {experts.width} of an expert")


def require_stages(model: ModelShape, pipeline: int, chunks: int) -> None:
    """Raise ConfigError for more stages than there is to hold; the embedding or the head may be a stage."""
    most = items_of(model)
    if pipeline * chunks <= most:
        return
    has = f"{model.name} has {model.layers} layers, an embedding and a head" + (" and MTP layers" if model.mtp else "")
    if pipeline > most or chunks == 1:
        raise ConfigError(f"must be at most {most // min(chunks, most)}, not {pipeline}: {has}", "parallel.pipeline")
    key, found = "parallel.chunks", f"{pipeline} x {chunks} = {pipeline * chunks} stages"
    raise ConfigError(f"must be at most {most // pipeline}, not {chunks}: {has}, not the {found}", key)


def _require_divisor(key: str, number: int, of: int, what: str) -> None:
    if of % number:
        near = nearest_divisors(number, of)
        raise ConfigError(f"must divide the {what}: for instance {near}, not {number}", f"parallel.{key}")
