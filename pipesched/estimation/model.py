"""A transformer as its shapes: layers, widths, heads, experts; and which ways of parallelism suit these.

They are read from the keys of a Hugging Face config.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

from pipesched.checks import require_flag, require_label, require_name, require_whole
from pipesched.errors import ConfigError

MLPS, NORMS, BIASES, POSITIONS = ("gated", "plain"), ("rms", "layer"), ("none", "qkv", "all"), ("rope", "learned")


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

    The first `dense_layers` layers have none.
    """

    count: int
    active: int
    width: int
    shared: int = 0
    dense_layers: int = 0

    def __post_init__(self) -> None:
        for key in ("count", "active", "width"):
            require_whole(getattr(self, key), key, least=1)
        require_whole(self.active, "active", least=1, most=self.count)
        for key in ("shared", "dense_layers"):
            require_whole(getattr(self, key), key)


@dataclass(frozen=True)
class ModelShape:
    """The shapes of a decoder: `layers` of width `hidden`, `heads` of `head` dimensions, of which `kv_heads` have keys.

    `ffn` is the width of the MLP of a layer without experts, `vocabulary` the number of tokens it knows. `mtp` is the
    number of layers that predict further tokens (DeepSeek-V3, section 2.2). Raises ConfigError, about the field at
    fault.
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

    def __post_init__(self) -> None:
        require_label(self.name, "name")
        for key in ("layers", "hidden", "heads", "kv_heads", "head", "ffn", "vocabulary"):
            require_whole(getattr(self, key), key, least=1)
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
    def products(self) -> int:
        """The matrix products of an MLP: three where it is gated, else two."""
        return 3 if self.mlp == "gated" else 2

    def padded(self, tensor: int = 1) -> int:
        """Return the vocabulary as it is stored: a multiple of 128 on each of `tensor` ranks."""
        unit = 128 * tensor
        return -(-self.vocabulary // unit) * unit

    def has_experts(self, layer: int) -> bool:
        """Return whether a layer has a mixture of experts."""
        return self.experts is not None and layer >= self.experts.dense_layers


def items_of(model: ModelShape) -> int:
    """Return how many things of a model can be cut into stages: its layers, MTP layers, the embedding and the head."""
    return model.layers + model.mtp + 2


def require_tensor(model: ModelShape, tensor: int) -> None:
    """Raise ConfigError where heads, or the width of the MLP, do not divide among the ranks."""
    sizes = {f"{model.heads} attention heads": model.heads, f"width {model.ffn} of the MLP": model.ffn}
    if model.latent is None and tensor % model.kv_heads:
        sizes[f"{model.kv_heads} heads of keys and values"] = model.kv_heads
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
    """Raise ConfigError, about a key of `parallel`, for a number that does not divide another."""
    if of % number:
        near = nearest_divisors(number, of)
        raise ConfigError(f"must divide the {what}: for instance {near}, not {number}", f"parallel.{key}")


def divisors(number: int) -> tuple[int, ...]:
    """Return the numbers that divide another, ascending."""
    small = [size for size in range(1, isqrt(number) + 1) if number % size == 0]
    return tuple(sorted({*small, *(number // size for size in small)}))


def nearest_divisors(number: int, of: int) -> str:
    """Return as text the divisors of a number that are nearest to another one, below and above it."""
    below = [size for size in divisors(of) if size <= number][-1:]
    above = [size for size in divisors(of) if size > number][:1]
    return " or ".join(map(str, below + above))


def nearest_multiples(number: int, of: int) -> str:
    """Return as text the multiples that are nearest to a number, below and above it."""
    low = number // of * of
    return f"{low} or {low + of}" if low else f"{of}"
