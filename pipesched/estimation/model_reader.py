"""Reading a model: the name of a preset, the path of a config.json, or a mapping with the same keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from pipesched.checks import shown
from pipesched.errors import ConfigError
from pipesched.estimation.huggingface import model_notes, read_model
from pipesched.estimation.model import ModelShape
from pipesched.estimation.presets import MODELS, preset, preset_names
from pipesched.text.sections import Section
from pipesched.text.text_files import read_text

CONFIG = "config.json"
OTHERWISE = "; or the path of a config.json, or a mapping of its keys"
ALIKE = 0.85  # how near a key must be to a known one to be a slip
KNOWN = (
    "model_type", "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim",
    "intermediate_size", "vocab_size", "max_position_embeddings", "mlp", "norm", "bias", "positions", "dropout",
    "tie_word_embeddings", "attention_bias", "mlp_bias", "num_local_experts", "num_experts", "n_routed_experts",
    "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts", "shared_expert_intermediate_size",
    "first_k_dense_replace", "decoder_sparse_step", "moe_layer_freq", "mlp_only_layers", "num_nextn_predict_layers",
    "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "n_layer", "n_embd", "n_head",
    "n_inner", "n_positions", "text_config",
)  # fmt: skip


class ReadModel(NamedTuple):
    """A model, and what of its config does not count."""

    model: ModelShape
    notes: tuple[str, ...] = ()


def read_model_section(section: Section) -> ReadModel:
    """Return the model that the section `model` describes. Raises ConfigError about the key at fault."""
    value = section.value
    if isinstance(value.data, dict):
        keys = value.plain()
        _require_no_slip(keys)
        return _read(keys, "")
    name = value.data
    if (
        isinstance(name, str)
        and name
        and name not in preset_names(MODELS)
        and _is_path(section.folder(value) / name, name)
    ):
        return _of_file(section.folder(value) / name)
    found = preset(MODELS, value.plain(), "model", OTHERWISE)
    return _read(found.keys, found.name)


def _read(keys: Mapping[str, Any], name: str) -> ReadModel:
    return ReadModel(read_model(keys, name), tuple(model_notes(keys)))


def _is_path(path: Path, name: str) -> bool:
    """Return whether a name is that of a file, or of a folder that holds a config.json."""
    try:
        return name.endswith(".json") or "/" in name or "\\" in name or path.exists()
    except (OSError, ValueError):  # too long for the name of a file, or a NUL
        return False


def _of_file(path: Path) -> ReadModel:
    """Return the model of a config.json, named like its folder. Raises ConfigError about `model`."""
    try:
        file = path / CONFIG if path.is_dir() else path
        keys = _parsed(file)
        return _read(keys, _title(file))
    except ConfigError as error:
        key = (error.key or "").removeprefix("model").removeprefix(".")
        about = f"{key}: " if key else ""
        place = f"{path}: " if error.key else ""  # an error about no key names the file
        raise ConfigError(f"{place}{about}{error.message}", "model") from None


def _title(file: Path) -> str:
    """Return what to call the model of a file."""
    folder = file.absolute().parent.name
    title = folder if file.name == CONFIG and folder else file.name.removesuffix(".json")
    return "".join(letter for letter in title if letter.isprintable())


def _parsed(file: Path) -> Mapping[str, Any]:
    """Return the mapping in a JSON file. Raises ConfigError, about no key, that names the file."""
    text = read_text(file)
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{file}:{error.lineno}: no JSON: {error.msg}") from None
    except (RecursionError, ValueError):  # the latter: a number of thousands of digits
        raise ConfigError(f"{file}: nested too deeply, or a number of thousands of digits") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{file}: must be a mapping, as Hugging Face writes it, not {shown(content)}")
    return content


def _require_no_slip(keys: Mapping[str, Any]) -> None:
    """Raise ConfigError for a key that is written by hand and nearly a known one; others are Hugging Face's too."""
    for key in keys:
        near = [] if key in KNOWN else get_close_matches(key, KNOWN, n=1, cutoff=ALIKE)
        if near:
            raise ConfigError(f"unknown key; did you mean {near[0]!r}?", f"model.{key}")
