"""Models by their config.json: files as they are published, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipesched.errors import ConfigError
from pipesched.estimation.huggingface import model_notes, read_model, type_names
from pipesched.estimation.model import Experts, Latent, ModelShape
from pipesched.estimation.model_reader import preset_model, preset_names
from pipesched.estimation.parameters import parameters

FILES = {path.stem: path for path in sorted((Path(__file__).parents[1] / "data" / "models").glob("*.json"))}
LLAMA: dict[str, Any] = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 256,
}
MOE = {**LLAMA, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}


def content_of(name: str) -> dict[str, Any]:
    """What a file holds."""
    content: dict[str, Any] = json.loads(FILES[name].read_text(encoding="utf-8"))
    return content


@pytest.mark.parametrize("name", sorted(set(FILES) & set(preset_names("models"))))
def test_a_published_file_is_the_preset(name: str) -> None:
    """A config.json as it is published has the shapes of the preset of that name."""
    assert read_model(content_of(name), name) == preset_model(name)


@pytest.mark.parametrize(("name", "total"), [("qwen3-8b", 8.19), ("deepseek-v2-lite", 15.71), ("llava-1.5-7b", 6.74)])
def test_published_files_without_a_preset(name: str, total: float) -> None:
    """In billions of parameters: a dense Qwen3, latent attention of uncompressed queries, and a nested decoder."""
    assert round(parameters(read_model(content_of(name))).total / 1e9, 2) == total


def test_every_file_is_read() -> None:
    """All files but the one of an unknown family are models, named by their own name where they have one."""
    models = {name: read_model(content_of(name)) for name in FILES}
    assert models["llama-2-7b"].name == "meta-llama/Llama-2-7b-hf"
    assert models["mixtral-8x7b"].name == "mixtral"
    assert {name for name, model in models.items() if model.experts} >= {"deepseek-v3", "qwen3-30b-a3b"}


def test_an_unknown_family_names_the_way_out() -> None:
    """The message lists the families that are known, and how to describe any other."""
    with pytest.raises(ConfigError) as caught:
        read_model({**content_of("llama-2-7b"), "model_type": "longcat_flash", "architectures": ["LongcatFlash"]})
    for part in (
        "unknown model_type 'longcat_flash'",
        "llama",
        "deepseek_v3",
        "`model` as a mapping",
        "without model_type",
    ):
        assert part in caught.value.message


def test_shapes_of_experts_and_latent_attention() -> None:
    """DeepSeek's keys, and the width that all tokens run by either of its spellings."""
    model = read_model(content_of("deepseek-v3"))
    assert model.latent == Latent(query_rank=1536, key_value_rank=512, nope=128, rope=64, value=128)
    assert model.experts == Experts(count=256, active=8, width=2048, shared=2048, dense_layers=3)
    assert (model.mtp, model.layers, model.tied) == (1, 61, False)
    shared = read_model({**MOE, "shared_expert_intermediate_size": 48}).experts
    assert shared == Experts(count=8, active=2, width=32, shared=48)
    assert read_model({**MOE, "mlp_only_layers": [0]}).experts == Experts(8, 2, 32, 0, 1)
    assert read_model({**LLAMA, "num_experts": 0}).experts is None


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ({}, ("gated", "rms", "none", "rope", False, False)),
        ({"mlp": "plain", "norm": "layer", "bias": "all"}, ("plain", "layer", "all", "rope", False, False)),
        (
            {"model_type": "qwen2", "num_key_value_heads": 2, "bias": "none"},
            ("gated", "rms", "none", "rope", False, False),
        ),
        ({"positions": "learned", "max_position_embeddings": 8}, ("gated", "rms", "none", "learned", False, False)),
        ({"tie_word_embeddings": True, "dropout": 0.1}, ("gated", "rms", "none", "rope", True, True)),
        ({"attention_bias": True}, ("gated", "rms", "attention", "rope", False, False)),
        ({"attention_bias": True, "mlp_bias": True}, ("gated", "rms", "all", "rope", False, False)),
        ({"model_type": "gpt2"}, ("plain", "layer", "all", "learned", True, False)),
    ],
)
def test_our_own_keys_come_first(keys: dict[str, Any], found: tuple[object, ...]) -> None:
    """MLP, norms, biases, positions, tied words and dropout, as the family has them or as our keys say."""
    model = read_model({**LLAMA, "max_position_embeddings": 8, **keys})
    assert (model.mlp, model.norm, model.bias, model.positions, model.tied, model.dropout) == found
    nested = read_model({"text_config": {**LLAMA, "max_position_embeddings": 8, "model_type": "llama"}, "bias": "all"})
    assert nested.bias == "all"


def test_a_decoder_without_a_type_is_of_the_whole_models() -> None:
    """A nested decoder that does not say what it is is refused with its model, and not taken for a llama."""
    with pytest.raises(ConfigError, match="unknown model_type 'gemma3'"):
        read_model({"model_type": "gemma3", "text_config": LLAMA})
    assert read_model({"text_config": LLAMA}) == read_model(LLAMA)


def test_the_size_of_a_head_that_is_left_out_is_told() -> None:
    """The type's own, or what hidden size and heads make, in a note; not where it is given, or no type is named."""
    sizes = {**LLAMA, "num_key_value_heads": 2}
    told = {
        kind: [*model_notes({**sizes, "model_type": kind, **more})]
        for kind, more in (("llama", {}), ("qwen3", {}), ("qwen2", {"head_dim": 16}), ("olmo2", {"head_dim": None}))
    }
    of_head = {kind: [note for note in notes if "head_dim" in note] for kind, notes in told.items()}
    said = "left out, so as transformers has them: head_dim {}"
    assert of_head == {"llama": [said.format(16)], "qwen3": [said.format(128)], "qwen2": [], "olmo2": [said.format(16)]}
    assert not any("head_dim" in note for note in model_notes(sizes))


def test_kinds_of_layers_that_are_left_out_are_told() -> None:
    """Those by turns as the type has them, with how many of each; not where the file lists them or says how often."""
    content = {**LLAMA, "num_hidden_layers": 6, "num_key_value_heads": 2, "head_dim": 16, "model_type": "gemma2"}
    said = "layer_types 3 sliding_attention and 3 full_attention"
    assert any(said in note for note in model_notes(content))
    given = {"layer_types": ["sliding_attention", "full_attention"] * 3}
    assert not any("layer_types" in note for note in model_notes({**content, **given}))


def test_what_is_null_is_missing() -> None:
    """Null stands for the default: every head has keys, four times the width for GPT-2's MLP."""
    model: ModelShape = read_model({**LLAMA, "num_key_value_heads": None, "head_dim": None})
    assert (model.kv_heads, model.head) == (4, 16)
    gpt = read_model(content_of("gpt2-xl"))
    assert (gpt.ffn, gpt.position_rows, gpt.dropout) == (6400, 1024, False)
    assert read_model({**LLAMA, "head_dim": 128}).query == 512


def test_notes() -> None:
    """What a config says that does not count is told: the format of storage, a sliding window that is in use."""
    assert [note.split()[0] for note in model_notes(content_of("deepseek-v3"))] == ["quantization_config"]
    assert list(model_notes({**content_of("qwen2.5-72b"), "head_dim": 128})) == []
    assert "sliding_window 4096" in next(iter(model_notes({**LLAMA, "sliding_window": 4096})))


COUNTS: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data" / "model_counts.json").read_text())


@pytest.mark.parametrize("record", COUNTS, ids=lambda record: str(record["name"]))
def test_parameters_are_those_that_transformers_builds(record: dict[str, Any]) -> None:
    """Published and random small models of every type have the parameters of transformers 5.24.0, to 0.1 %."""
    model = read_model(record["config"])
    found = parameters(model)
    beside = model.padded() - model.vocabulary  # rows that no model of transformers has
    rows = beside * model.hidden * (1 if model.tied else 2)
    assert found.total - rows == pytest.approx(record["parameters"], rel=1e-3)
    if "active" in record:
        assert found.active - rows == pytest.approx(record["active"], rel=1e-3)


def test_every_type_is_counted() -> None:
    """No type of the table is without a record; kimi_k2 is deepseek_v3 by another name."""
    assert {*type_names()} - {record["config"]["model_type"] for record in COUNTS} == {"kimi_k2"}
