"""Models by the keys of Hugging Face's config.json.

Each `model_type` has an entry in a table: which keys its shapes have, and what it is by nature. Six keys of ours may
stand beside them and come first: mlp, norm, bias, positions, tie_word_embeddings, dropout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipesched.checks import look_up, require_flag, require_mapping, require_name, require_number, require_whole, shown
from pipesched.errors import ConfigError
from pipesched.estimation.model import BIASES, MLPS, NORMS, POSITIONS, Experts, Latent, ModelShape, nearest_divisors

OURS = ("mlp", "norm", "bias", "positions", "tie_word_embeddings", "dropout")
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")  # how many there are
STEPS = ("decoder_sparse_step", "moe_layer_freq")
MOST = 10_000_000  # of a width, or the size of a vocabulary
MOST_LAYERS = 10_000


class ModelType(NamedTuple):
    """What a model type is where its config does not say: MLP, norms, biases, positions; `keys` rename its shapes."""

    mlp: str = "gated"
    norm: str = "rms"
    bias: str = "none"
    positions: str = "rope"
    tied: bool = False
    qk_norm: bool = False
    keys: Mapping[str, str] = {}


_GPT2 = {
    "num_hidden_layers": "n_layer",
    "hidden_size": "n_embd",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
    "max_position_embeddings": "n_positions",
}
MODEL_TYPES: Mapping[str, ModelType] = {
    **dict.fromkeys(("llama", "mistral", "mixtral"), ModelType()),
    **dict.fromkeys(("qwen2", "qwen2_moe"), ModelType(bias="qkv")),
    **dict.fromkeys(("qwen3", "qwen3_moe"), ModelType(qk_norm=True)),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3"), ModelType()),
    "gpt2": ModelType("plain", "layer", "all", "learned", True, False, _GPT2),
}


def read_model(config: Mapping[str, Any], name: str = "") -> ModelShape:
    """Return the model of a config.json. Raises ConfigError about the key at fault, and for an unknown model_type."""
    content = _decoder(require_mapping(config, "the keys of a config.json", "model"))
    kind, nature = _nature(content)
    keys = ModelKeys(content, nature.keys)
    hidden, heads = keys.whole("hidden_size"), keys.whole("num_attention_heads")
    mlp, positions = keys.word("mlp", MLPS, nature.mlp), keys.word("positions", POSITIONS, nature.positions)
    ffn = keys.whole("intermediate_size", 4 * hidden if mlp == "plain" else None)
    layers, latent = keys.whole("num_hidden_layers", most=MOST_LAYERS), _latent(keys)
    return ModelShape(
        name=name or str(content.get("_name_or_path") or kind),
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=_kv_heads(keys, heads),
        head=_head(keys, hidden, heads) if latent is None else latent.nope,
        ffn=ffn,
        vocabulary=keys.whole("vocab_size"),
        mlp=mlp,
        norm=keys.word("norm", NORMS, nature.norm),
        bias=keys.word("bias", BIASES, _bias(keys, nature)),
        positions=positions,
        position_rows=keys.whole("max_position_embeddings") if positions == "learned" else 0,
        tied=keys.flag("tie_word_embeddings", nature.tied),
        qk_norm=nature.qk_norm,
        dropout=keys.share("dropout") > 0,
        experts=_experts(keys, ffn, layers),
        latent=latent,
        mtp=keys.whole("num_nextn_predict_layers", 0, least=0, most=MOST_LAYERS),
    )


def model_notes(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a config.json says that does not count here."""
    content = _decoder(config)
    if config.get("quantization_config") or content.get("quantization_config"):
        yield "quantization_config is a format of storage; training is estimated as `training.precision` says"
    window = content.get("sliding_window")
    if window and content.get("use_sliding_window", True):
        yield f"sliding_window {window} does not count; attention is over the whole sequence"


def _decoder(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the keys of the decoder, which may stand in `text_config`; our own keys beside that come first.

    A decoder without a `model_type` is of the whole model's: no llama by default.
    """
    nested = config.get("text_config")
    if not isinstance(nested, Mapping):
        return config
    kind = config.get("model_type") if nested.get("model_type") is None else nested["model_type"]
    return {**nested, "model_type": kind, **{key: config[key] for key in OURS if config.get(key) is not None}}


def _nature(content: Mapping[str, Any]) -> tuple[str, ModelType]:
    """Return the model type, llama where none is given. Raises ConfigError with the way out for an unknown one."""
    kind = "llama" if content.get("model_type") is None else content["model_type"]
    try:
        return str(kind), look_up(MODEL_TYPES, kind, "model_type", "model.model_type")
    except ConfigError as error:
        way_out = "for any other give `model` as a mapping of its shapes (num_hidden_layers, hidden_size, ..) without"
        ours = "model_type, and what differs from a llama: mlp, norm, bias, positions"
        raise ConfigError(f"{error.message}; {way_out} {ours}", error.key) from None


def _kv_heads(keys: ModelKeys, heads: int) -> int:
    """Return the heads of keys and values: as many as of queries where nothing is said (multi-head attention)."""
    count = keys.whole("num_key_value_heads", heads)
    if heads % count:
        near = nearest_divisors(count, heads)
        raise keys.error("num_key_value_heads", f"must divide the {heads} attention heads: {near}, not {count}")
    return count


def _head(keys: ModelKeys, hidden: int, heads: int) -> int:
    if not keys.has("head_dim") and hidden % heads:
        what = f"{keys.name('hidden_size')} {hidden} does not divide by {keys.name('num_attention_heads')} {heads}"
        raise keys.error("head_dim", f"is missing: {what}")
    return keys.whole("head_dim", hidden // heads or None)


def _bias(keys: ModelKeys, nature: ModelType) -> str:
    """Return which products have biases: those of attention, or all, where `attention_bias` and `mlp_bias` say so."""
    if nature.bias != "none" or not keys.flag("attention_bias", False):
        return nature.bias
    return "all" if keys.flag("mlp_bias", False) else "qkv"


def _latent(keys: ModelKeys) -> Latent | None:
    if not keys.has("kv_lora_rank"):
        return None
    return Latent(
        query_rank=keys.whole("q_lora_rank", 0, least=0),
        key_value_rank=keys.whole("kv_lora_rank"),
        nope=keys.whole("qk_nope_head_dim"),
        rope=keys.whole("qk_rope_head_dim"),
        value=keys.whole("v_head_dim"),
    )


def _experts(keys: ModelKeys, ffn: int, layers: int) -> Experts | None:
    """Return the mixture of experts where there are its keys. Raises ConfigError about the key at fault."""
    given = next((name for name in EXPERTS if keys.has(name)), "")
    if not given or keys.whole(given, least=0) == 0:
        return None
    count, width = keys.whole(given), keys.whole("moe_intermediate_size", ffn)
    shared = keys.whole("n_shared_experts", 0, least=0) * width
    return Experts(
        count=count,
        active=keys.whole("num_experts_per_tok", most=count),
        width=width,
        shared=keys.whole("shared_expert_intermediate_size", shared, least=0),
        dense_layers=_dense_layers(keys, layers),
    )


def _dense_layers(keys: ModelKeys, layers: int) -> int:
    """Return how many of the first layers have no experts. Raises ConfigError where others have none."""
    for step in STEPS:
        if keys.has(step) and keys.plain(step) != 1:
            value = shown(keys.plain(step))
            raise keys.error(step, f"must be 1: only the first layers may have no experts, not {value}")
    first = keys.whole("first_k_dense_replace", 0, least=0, most=min(layers, MOST_LAYERS))
    if not keys.has("mlp_only_layers") or keys.plain("mlp_only_layers") == []:
        return first
    listed = keys.plain("mlp_only_layers")
    if not isinstance(listed, list) or listed != list(range(len(listed))) or len(listed) > layers:
        raise keys.error("mlp_only_layers", f"must be the first layers, [0, 1, ..] or [], not {shown(listed)}")
    return max(first, len(listed))


class ModelKeys:
    """The keys of a config.json. `renamed` says what a model type calls them. A key that is null is not there."""

    def __init__(self, content: Mapping[str, Any], renamed: Mapping[str, str]) -> None:
        self._content, self._renamed = content, renamed

    def name(self, key: str) -> str:
        """Return what the config calls a key."""
        return key if key in self._content else self._renamed.get(key, key)

    def plain(self, key: str) -> Any:
        """Return the value of a key, None where it is not there."""
        return self._content.get(self.name(key))

    def has(self, key: str) -> bool:
        """Return whether a key is given."""
        return self.plain(key) is not None

    def error(self, key: str, message: str) -> ConfigError:
        """Return an error about a key."""
        return ConfigError(message, f"model.{self.name(key)}")

    def whole(self, key: str, default: int | None = None, least: int = 1, most: int = MOST) -> int:
        """Return a whole number; without a default the key must be there. Raises ConfigError."""
        value = self.plain(key)
        value = default if value is None else value
        if value is None:
            raise self.error(key, "is missing")
        return require_whole(value, f"model.{self.name(key)}", least, most)

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self.plain(key)
        return default if value is None else require_flag(value, f"model.{self.name(key)}")

    def share(self, key: str) -> float:
        """Return a number from 0 to 1, by default 0."""
        value = self.plain(key)
        return 0.0 if value is None else require_number(value, f"model.{self.name(key)}", 0, 1)

    def word(self, key: str, names: Sequence[str], default: str) -> str:
        """Return one of `names`."""
        value = self.plain(key)
        return default if value is None else require_name(names, value, key, f"model.{key}")
