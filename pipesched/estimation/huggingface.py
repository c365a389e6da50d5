"""Models by the keys of Hugging Face's config.json.

`read_model` is where one begins. `_nature` finds the entry of the `model_type` in the table presets/model_types.yaml:
how it calls keys, and what it is where they are silent. `_kinds` tells the kind of each layer, `_sparse` whether it has
experts (is routed), `_shape` its widths. They look keys up by `ModelKeys`. `model_notes` yields what does not count.
Six keys of ours may stand beside them and come first: mlp, norm, bias, positions, tie_word_embeddings, dropout.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from types import SimpleNamespace
from typing import Any, TypeVar

import yaml

from pipesched.checks import (
    joined,
    nearest_divisors,
    require_flag,
    require_mapping,
    require_name,
    require_number,
    require_whole,
    shown,
)
from pipesched.errors import ConfigError
from pipesched.estimation.model import BIASES, MLPS, NORMS, NOWHERE, POSITIONS, Experts, Latent, Mixer, ModelShape, Seen

TERM = re.compile(r"([+-]?)\s*([^+-]+)")
WORD = re.compile(r"[A-Za-z_]{3,}")
NO_KEYS = ("note", "like", "architecture", "read_as")
Sizes = Callable[[str], int]
T = TypeVar("T")
OURS = ("mlp", "norm", "bias", "positions", "tie_word_embeddings", "dropout")
MOST = 10_000_000  # of a width, or the size of a vocabulary
MOST_LAYERS = 10_000
FULL, SLIDING, CHUNKED = PLAIN = ("full_attention", "sliding_attention", "chunked_attention")
CALLED = {  # what files and patterns call kinds of layers
    **dict.fromkeys(("attention", "full", "*"), FULL),
    **dict.fromkeys(("mamba", "mamba2", "M"), "linear_attention"),
    **{"sliding": SLIDING, "E": "moe", "-": "mlp"},
}
LETTERS = {"linear_attention": "M", FULL: "*", "moe": "E", "mlp": "-"}  # of Megatron-LM's patterns
LISTS = ("layer_types", "layers_block_type")
PATTERNS = ("hybrid_override_pattern", "hybrid_layer_pattern")
FULL_AT = {"full_attn_idxs": 0, "attn_layer_indices": 0, "linear_attn_config.full_attn_layers": 1}  # first number
OF_LAYERS = "per_layer_config"  # keys of single layers, by their number
WIDE = "use_double_wide_mlp"
SHARED = "shared_selection"  # of keys, with a layer before it
OF_LAYER = ("mlp_layer_types", "moe_layer_freq")  # which may list whether a layer has experts
OF_MLP = {"dense": False, "sparse": True, "moe": True, "hash_moe": True, "0": False, "1": True}
OF_LATENT = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")  # beside the rank of queries
MOST_SAID = 400  # letters of a note of keys
SMELL = re.compile(r"(^|_)(moe|expert|experts|routed)(_|$)")


def read_model(config: Mapping[str, Any], name: str = "") -> ModelShape:
    """Return the model of a config.json. Raises ConfigError about the key at fault, and for an unknown model_type."""
    return read_config(config, name)[0]


def read_config(config: Mapping[str, Any], name: str = "") -> tuple[ModelShape, ModelKeys]:
    """Return the model of a config.json, and the keys that it was read from. Raises as `read_model` does."""
    content = decoder(require_mapping(config, "the keys of a config.json", "model"))
    kind, nature = _nature(content)
    keys = ModelKeys(content, nature)
    title = name or str(content.get("_name_or_path") or content.get("model_type") or kind)
    for key in ("hidden_size", *nature.required):
        if not keys.has(key):
            raise keys.error(key, "is missing")
    kinds = _kinds(keys, nature)
    layers, sparse = len(kinds), _sparse(keys, nature, kinds)
    first_borrower = layers - (keys.whole(nature.shares, 0, 0) if nature.shares else 0)
    known: dict[tuple[object, ...], ModelShape] = {}
    each = []
    for layer, (called, routed) in enumerate(zip(kinds, sparse, strict=True)):
        alike = (called, routed, layer >= first_borrower, *keys.listed(layer))
        if alike not in known:
            own = nature.kind(called)
            shape = _shape(keys.of(own, layer), own, title, kinds, called, routed=routed)
            if layer >= first_borrower:  # keys and values are those of a layer before it
                shape = replace(shape, kv_heads=0, gate=0, ffn=shape.ffn * (2 if keys.flag(WIDE, False) else 1))
            known[alike] = shape
        each.append(known[alike])
    # all layers alike, or dense ones first: one shape says it; else each kind is one, with experts in all layers (its
    # `dense_layers` are 0) or in none (NOWHERE)
    first = (*sparse, True).index(True)
    if each.count(each[0]) == layers and all(sparse[first:]):
        model = _routed_from(each[0], first)
    else:
        each = [_routed_from(one, 0 if has else NOWHERE) for one, has in zip(each, sparse, strict=True)]
        number = {shape: place for place, shape in enumerate(dict.fromkeys(each))}
        routed_ones = [shape for shape in number if shape.experts and not shape.experts.dense_layers]
        # as a whole it is like a layer with attention and experts
        typical = max(number, key=lambda shape: (shape.heads > 0, shape in routed_ones))
        experts, ffn = routed_ones[0].experts if routed_ones else None, max(shape.ffn for shape in number)
        order = tuple(number[one] for one in each)
        model = replace(typical, kinds=(*number,), order=order, experts=experts, ffn=ffn)
    letters = "".join(LETTERS[called] for called in kinds) if "moe" in nature.kinds else ""
    return replace(model, letters=letters), keys


def _routed_from(shape: ModelShape, first: int) -> ModelShape:
    return shape if shape.experts is None else replace(shape, experts=replace(shape.experts, dense_layers=first))


def _kinds(keys: ModelKeys, nature: ModelType) -> list[str]:
    """Return the kind of each layer, as the config lists them or by the rule of its type. Raises ConfigError."""
    pattern = next((text for key in PATTERNS if isinstance(text := keys.plain(key), str)), "")
    letters = [*pattern.replace("|", "").partition("/")[0]]  # M*E-, one a layer
    key = next((key for key in (*(PATTERNS if letters else ()), *LISTS, *nature.lists) if keys.has(key)), "")
    listed, at = letters or (keys.plain(key) if key else None), next((key for key in FULL_AT if keys.has(key)), "")
    layers = len(listed) if isinstance(listed, list) else 0
    if not layers or (keys.has("num_hidden_layers") and not letters):
        layers = keys.whole("num_hidden_layers", most=MOST_LAYERS)
    if listed is not None:
        own = {kind: kind for kind in (*PLAIN, *nature.kinds)}
        also = {called: kind for called, kind in CALLED.items() if kind in own}
        found = keys.each(key, layers, {**own, **also, **nature.lists.get(key, {})}, listed)
    elif at:
        found = [FULL if layer + FULL_AT[at] in keys.numbers(at) else nature.other for layer in range(layers)]
    elif nature.every < 0:
        raise keys.error(LISTS[0], f"is missing: the kind of each layer, of {', '.join(nature.kinds)}")
    else:
        every = keys.whole("every", nature.every, least=0)
        offset = keys.whole("offset", every - 1 if nature.offset is None else nature.offset, least=-1)
        found = [nature.other if not every or layer % every != offset else FULL for layer in range(layers)]
        if len(kinds := Counter(found)) > 1 and not keys.has("every"):
            keys.taken[LISTS[0]] = " and ".join(f"{count} {kind}" for kind, count in kinds.items())
    indexers = keys.numbers("indexer_types")
    return [SHARED if "shared" in indexers[layer : layer + 1] else one for layer, one in enumerate(found)]


def _sparse(keys: ModelKeys, nature: ModelType, kinds: Sequence[str]) -> list[bool]:
    """Return of each layer whether it has experts, by the first of five ways in which configs say it."""
    count, layers = len(kinds), range(len(kinds))
    if not _count(keys, nature):
        return [False for _ in layers]
    if nature.sparse is not None:
        return [bool(nature.kind(kind).sparse) for kind in kinds]
    listed = next((key for key in OF_LAYER if isinstance(keys.plain(key), list)), "")
    if listed:
        return keys.each(listed, count, OF_MLP, keys.plain(listed))
    if keys.has("moe_layers"):
        return [layer in keys.numbers("moe_layers") for layer in layers]
    first = keys.whole("first_k_dense_replace", 0, least=0, most=min(count, MOST_LAYERS))
    end, only = keys.whole("moe_layer_end_index", -1, least=-1), keys.numbers("mlp_only_layers")
    step, frequency = keys.whole("decoder_sparse_step", 1), keys.whole("moe_layer_freq", 1)
    period, offset = keys.whole("expert_layer_period", 1), keys.whole("expert_layer_offset", 0, least=0)
    chosen = {*range(first, count if end < 0 else end + 1)} - {*only}
    rules = ((step, step - 1), (frequency, 0), (period, offset))
    return [layer in chosen and all(layer % each == rest for each, rest in rules) for layer in layers]


def _shape(
    keys: ModelKeys, nature: ModelType, name: str, kinds: Sequence[str], kind: str, *, routed: bool
) -> ModelShape:
    """Return the model as if all its layers were of one kind."""
    hidden, count = keys.whole("hidden_size"), _count(keys, nature)
    heads = keys.whole("num_attention_heads") if nature.attends else 0
    positions = keys.word("positions", POSITIONS, nature.positions)
    bias = keys.word("bias", BIASES, _bias(keys, nature))
    biased = nature.bias != "none" or keys.has("bias") or bias not in ("mlp", "all")
    latent = None
    if heads and keys.has("kv_lora_rank"):
        latent = Latent(keys.whole("q_lora_rank", 0, least=0), *map(keys.whole, OF_LATENT))
    head = latent.nope if latent is not None else _head(keys, hidden, heads) if heads else 1
    kv_heads = _kv_heads(keys, nature, heads) if heads else 0
    ffn = _width(keys, nature, hidden, count, routed=routed) if nature.ffn else 0
    experts = None
    if count:  # flags of biases are not about them
        width = keys.whole("moe_intermediate_size", ffn or None)
        shared = keys.whole("n_shared_experts", 0, least=0) * width
        active = keys.whole("num_experts_per_tok", most=count)
        shared = keys.whole("shared_expert_intermediate_size", shared, least=0)
        inner = keys.whole("moe_latent_size", 0, least=0)
        experts = Experts(count, active, width, shared, latent=inner, biased=biased)

    a = keys.whole("num_attention_heads", 0, least=0)
    g, d = keys.whole("num_key_value_heads", a, least=0), keys.whole("head_dim", hidden // (a or 1))
    sizes = {"h": hidden, "a": a, "g": g, "d": d, "q": a * d, "k": g * d, "f": ffn, "E": count, "L": len(kinds)}
    sizes |= {"v": keys.whole("vocab_size"), "n_hybrid": kinds.count("hybrid")}

    def size(symbol: str) -> int:
        return sizes[symbol] if symbol in sizes else keys.number(symbol)

    mixer, seen = mixer_of(nature.mixer, size) if nature.mixer else (None, ())
    return ModelShape(
        name=name, layers=len(kinds), hidden=hidden, heads=heads, kv_heads=kv_heads, head=head, ffn=ffn,
        vocabulary=sizes["v"], mlp=keys.word("mlp", MLPS, nature.mlp), norm=keys.word("norm", NORMS, nature.norm),
        bias=bias, positions=positions, dropout=keys.share("dropout") > 0, qk_norm=nature.qk_norm, experts=experts,
        position_rows=keys.whole("max_position_embeddings") if positions == "learned" else 0,
        tied=keys.flag("tie_word_embeddings", nature.tied) and nature.ties, latent=latent, mtp=keys.mtp,
        value=keys.whole("value_head_dim", 0, least=0) if heads else 0, norms=nature.norms,
        gate=evaluate(nature.gate, size) if heads else 0, mixer=mixer, seen=seen or _seen(keys, nature, kind),
        vectors=evaluate(nature.vectors, size) * (heads > 0) + evaluate(nature.routed, size) * routed,
        beside=evaluate(nature.beside, size), borrowed=evaluate(nature.borrowed, size),
        ends=evaluate(nature.ends, size), streams=evaluate(nature.streams, size),
    )  # fmt: skip


def _seen(keys: ModelKeys, nature: ModelType, kind: str) -> tuple[Seen, ...]:
    if kind == CHUNKED:
        return (Seen(keys.whole("attention_chunk_size"), 1, chunked=True),)
    if (kind == SLIDING or nature.window) and keys.flag("use_sliding_window", True) and keys.has("sliding_window"):
        return (Seen(keys.whole("sliding_window")),)
    return (Seen(),)


def _kv_heads(keys: ModelKeys, nature: ModelType, heads: int) -> int:
    """Return the heads of keys and values: as many as of queries where nothing is said (multi-head attention)."""
    count = keys.whole("num_key_value_heads", heads)
    if heads % count and keys.name("num_key_value_heads") in keys.taken:
        raise keys.error("num_key_value_heads", f"is missing: the default of this type, {count}, is for other models")
    count *= int(nature.kv_times)
    if heads % count:
        near = nearest_divisors(count, heads)
        raise keys.error("num_key_value_heads", f"must divide the {heads} attention heads: {near}, not {count}")
    return count


def _head(keys: ModelKeys, hidden: int, heads: int) -> int:
    if not keys.has("head_dim") and hidden % heads:
        what = f"{keys.name('hidden_size')} {hidden} does not divide by {keys.name('num_attention_heads')} {heads}"
        raise keys.error("head_dim", f"is missing: {what}")
    size = keys.whole("head_dim", hidden // heads or None)
    if keys.has("model_type") and not keys.has("head_dim") and keys.name("hidden_size") == "hidden_size":
        keys.taken["head_dim"] = size  # types that rename it have no such key
    return size


def _bias(keys: ModelKeys, nature: ModelType) -> str:
    """Return which products have biases: as the type has them by nature, or as its flags say."""
    if nature.bias != "none":
        return str(nature.bias)
    attention, mlp = (keys.flag(key, False) for key in nature.bias_flags)
    if attention:
        return "all" if mlp else str(nature.biased)
    return "mlp" if mlp else "none"


def _width(keys: ModelKeys, nature: ModelType, hidden: int, count: int, *, routed: bool) -> int:
    """Return the width of an MLP without experts; of a layer with experts 0 where the config has none."""
    if not count and nature.shared_is_dense:
        return keys.whole("shared_expert_intermediate_size")
    default = 4 * hidden if keys.word("mlp", MLPS, nature.mlp) == "plain" else 0 if routed else None
    width = keys.whole("intermediate_size", default, least=int(not routed))
    if nature.rounded and keys.flag("block_auto_adjust_ff_dim", True):
        factor = keys.plain("block_ffn_dim_multiplier")
        width, unit = 2 * width // 3, keys.whole("block_multiple_of")
        width = int(width * (1 if factor is None else require_number(factor, "model.block_ffn_dim_multiplier")))
        width = -(-width // unit) * unit
    return width


def _count(keys: ModelKeys, nature: ModelType) -> int:
    """Return how many experts there are: none where no key says it, or a flag is not set."""
    return keys.whole("num_experts", 0, least=0) if keys.flag(nature.experts_if, not nature.experts_if) else 0


def model_notes(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a config.json says that does not count here, and what it leaves out. Raises as `read_model` does."""
    content, (model, keys) = decoder(config), read_config(config)
    kind, nature = _nature(content)
    if config.get("quantization_config") or content.get("quantization_config"):
        yield "quantization_config is a format of storage; training is estimated as `training.precision` says"
    window = content.get("sliding_window")
    is_seen = any(one.seen[0].limit for one in model.kinds or [model])
    if window and content.get("use_sliding_window", True) and not is_seen:
        yield f"sliding_window {window} does not count; attention is over the whole sequence"
    if nature.read_as or content.get("model_type") not in (None, kind):
        yield f"model_type {shown(content['model_type'])} is read as {nature.read_as or kind}"
    if nature.note:
        yield nature.note
    if keys.taken:
        said = joined([f"{key} {value}" for key, value in keys.taken.items()], MOST_SAID)
        yield f"left out, so as transformers has them: {said}"
    smell = [key for key, value in content.items() if SMELL.search(key) and value and not isinstance(value, str)]
    if model.experts is None and smell:
        yield f"{joined(smell)}: keys of experts, but none were read: all layers are dense"


def decoder(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the keys of the decoder, of `text_config` if there is one; our own keys beside that come first."""
    nested = config.get("text_config")
    if not isinstance(nested, Mapping):
        return config
    kind = config.get("model_type") if nested.get("model_type") is None else nested["model_type"]
    return {**nested, "model_type": kind, **{key: config[key] for key in OURS if config.get(key) is not None}}


def _nature(content: Mapping[str, Any]) -> tuple[str, ModelType]:
    """Return the model type: that which is given, or that of the architectures, or llama where neither is."""
    given, names = content.get("model_type"), table()["types"]
    if given is not None and not isinstance(given, str):
        raise ConfigError(f"must be a name, one of {', '.join(names)}; not {shown(given)}", "model.model_type")
    if given in names:
        return str(given), model_type(given)
    known, classes = {model_type(name).architecture: name for name in reversed(names)}, content.get("architectures")
    listed = classes if isinstance(classes, list) else []
    believed = next((known[name] for name in listed if isinstance(name, str) and name and name in known), "")
    if believed or given is None:
        return believed or "llama", model_type(believed)
    what = f"unknown model_type {shown(given)}, and `architectures` name none that is known; known are "
    what += ", ".join(names)
    way_out = "any other goes into a YAML config, with `model` as a mapping of its shapes (num_hidden_layers, .."
    ours = "hidden_size) without model_type, and what differs from a llama: mlp, norm, bias, positions"
    raise ConfigError(f"{what}; {way_out} {ours}", "model.model_type")


class ModelKeys:
    """The keys of a config.json, as a model type calls them. A key that is null is not there; neither is `auto`.

    For a key that is left out the type's own default counts, which `taken` then has. A list has a value of each layer.
    """

    def __init__(self, content: Mapping[str, Any], nature: ModelType, layer: int = 0, taken: Any = None) -> None:
        nested = [(key, value) for key, value in content.items() if isinstance(value, dict)]
        inner = {f"{key}.{sub}": one for key, value in nested for sub, one in value.items()}
        self._content, self._nature, self._layer = {**content, **inner}, nature, layer
        self.taken: dict[str, Any] = {} if taken is None else taken

    def of(self, nature: ModelType, layer: int) -> ModelKeys:
        """Return the keys of a layer, as its kind calls them."""
        given = self._content.get(f"{OF_LAYERS}.{layer}")
        own = given if isinstance(given, dict) else {}
        renamed = {nature.keys.get(key, key): value for key, value in own.items()}
        return ModelKeys({**self._content, **own, **renamed}, nature, layer, self.taken)

    def listed(self, layer: int) -> list[str]:
        """Return as text the values of a layer where there are lists of sizes, one of each layer."""
        named = {self.name(key) for key in table()["by_layer"]}
        lists = [self._content[key] for key in sorted(named) if isinstance(self._content.get(key), list)]
        own = str(self._content.get(f"{OF_LAYERS}.{layer}"))
        return [own, *(str(values[layer : layer + 1]) for values in lists)]

    def name(self, key: str) -> str:
        """Return what the config calls a key."""
        renamed = self._nature.keys.get(key)
        names = [renamed, key, *table()["synonyms"].get(key, ())]
        return next((name for name in names if name in self._content), renamed or key)

    def plain(self, key: str) -> Any:
        """Return the value of a key, the type's default where it is left out, None where there is neither."""
        name = self.name(key)
        value = self._content.get(name)
        renamed, defaults = self._nature.keys.get(key, ""), self._nature.defaults
        left_out, other = name not in self._content or value == "auto", renamed in defaults and name != renamed
        if other or (left_out and key in defaults):  # other: it stands only under a name that this type does not read
            value = defaults[renamed if other else key]
            value = evaluate(value, self.whole) if isinstance(value, str) else value
            if value and not isinstance(value, (bool, list)):
                self.taken[name] = value
        return None if value == "auto" else value

    def each(self, key: str, layers: int, known: Mapping[str, T], listed: Any) -> list[T]:
        """Return what a list of a value for each layer means, by what is known. Raises ConfigError."""
        if not isinstance(listed, list) or not 0 <= len(listed) - layers <= self.mtp:
            raise self.error(key, f"must list the {layers} layers, not {shown(listed)}")
        for layer, one in enumerate(listed[:layers]):
            if str(one) not in known:
                raise self.error(key, f"unknown kind {shown(one)} of layer {layer}; known here are {', '.join(known)}")
        return [known[str(one)] for one in listed[:layers]]

    def numbers(self, key: str) -> list[Any]:
        """Return a list of layers, none by default. Raises ConfigError."""
        value = self.plain(key)
        if value is not None and not (isinstance(value, list) and all(isinstance(one, (int, str)) for one in value)):
            raise self.error(key, f"must list layers, not {shown(value)}")
        return value or []

    def has(self, key: str) -> bool:
        return self.plain(key) is not None

    @property
    def mtp(self) -> int:
        return self.whole("num_nextn_predict_layers", 0, least=0, most=MOST_LAYERS)

    def error(self, key: str, message: str) -> ConfigError:
        return ConfigError(message, f"model.{self.name(key)}")

    def whole(self, key: str, default: int | None = None, least: int = 1, most: int = MOST) -> int:
        """Return a whole number; without a default the key must be there. Raises ConfigError."""
        value = self.plain(key)
        if isinstance(value, list) and key in table()["by_layer"] and self._layer < len(value):
            value = value[self._layer]
        value = default if value is None else value
        if value is None:
            raise self.error(key, "is missing")
        return require_whole(value, f"model.{self.name(key)}", least, most)

    def number(self, key: str) -> int:
        """Return a size of a formula: a flag counts as 1 or 0, and what is not there as 0."""
        value = self.plain(key)
        return int(value) if isinstance(value, bool) else self.whole(key, 0, least=0)

    def flag(self, key: str, default: bool) -> bool:
        value = self.plain(key)
        return default if value is None else require_flag(value, f"model.{self.name(key)}")

    def share(self, key: str) -> float:
        value = self.plain(key)
        return 0.0 if value is None else require_number(value, f"model.{self.name(key)}", 0, 1)

    def word(self, key: str, names: Sequence[str], default: str) -> str:
        value = self.plain(key)
        return default if value is None else require_name(names, value, key, f"model.{key}")


class ModelType(SimpleNamespace):
    """What a type of model is where its config does not say; the table explains each field. Formulas are texts."""

    def kind(self, name: str) -> ModelType:
        """Return what the layers of a kind are: the same with what `kinds` says on top."""
        own = {**self.kinds.get(name, {})}
        return ModelType(**{**vars(self), **own, "keys": {**self.keys, **own.get("keys", {})}})


@cache
def table() -> Mapping[str, Any]:
    """Return the table as it is written: `mixers` and `types`, by name, in its order."""
    text = (files("pipesched.estimation") / "presets" / "model_types.yaml").read_text(encoding="utf-8")
    found: Mapping[str, Any] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # 20 times as fast
    return found


@cache
def model_type(name: str) -> ModelType:
    """Return a type of the table, with what the type that it is like says."""
    own = table()["types"][name] if name else {}  # without a name: a llama of which nothing is left out
    base = vars(model_type(own["like"])) if "like" in own else table()["by_default"]
    merged = {key: {**base[key], **own.get(key, {})} for key in ("keys", "defaults", "kinds")}
    return ModelType(**{**base, "read_as": "", "note": "", **own, **merged})


@cache
def known_keys() -> frozenset[str]:
    """Return all keys of a config.json that the table speaks of: model_reader.py warns of others, and refuses slips.

    They are words of its formulas and lists, less the fields of the table itself (`ours`).
    """
    parts = table()
    found = {*WORD.findall(str(parts["synonyms"]))}
    for part in (*parts["mixers"].values(), *parts["types"].values()):
        found |= {*WORD.findall(str({key: value for key, value in part.items() if key not in NO_KEYS}))}
    ours = {*parts["by_default"], *Mixer.__dataclass_fields__, "sizes", "seen"}
    return frozenset((found - ours) | {*parts["silent"], *parts["usual"]})


def evaluate(formula: str, sizes: Sizes) -> int:
    """Return a sum of products of sizes and whole numbers: "2 h d + n"; "/n" divides."""
    total = 0
    for sign, term in TERM.findall(str(formula)):
        product = 1
        for factor in term.split():
            size = factor.removeprefix("/")
            number = int(size) if size.isdigit() else sizes(size)
            product = product // number if factor.startswith("/") else product * number
        total += -product if sign == "-" else product
    return total


def mixer_of(name: str, sizes: Sizes) -> tuple[Mixer, tuple[Seen, ...]]:
    """Return a mixer of the table with sizes of a model, and the keys that attention then sees; () where all."""
    own = table()["mixers"][name]
    found = {**table()["mixers"].get(own.get("like"), {}), **own}
    known: dict[str, int] = {}

    def size(symbol: str) -> int:
        return known[symbol] if symbol in known else sizes(symbol)

    for symbol, formula in found.get("sizes", {}).items():
        known[symbol] = evaluate(formula, size)
    fields = [key for key in Mixer.__dataclass_fields__ if key in found and key not in ("name", "own")]
    numbers = {key: evaluate(found[key], size) for key in fields}
    seen = tuple(Seen(evaluate(limit, size), evaluate(stride, size)) for limit, stride in found.get("seen", ()))
    return Mixer(name.replace("-", " "), **numbers, own=found.get("own", False)), seen
