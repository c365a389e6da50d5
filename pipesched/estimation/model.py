"""A transformer as its shapes: layers, widths, heads, experts; read from the keys of a Hugging Face config.json."""

from __future__ import annotations

from dataclasses import dataclass

from pipesched.checks import require_flag, require_label, require_name, require_whole

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
