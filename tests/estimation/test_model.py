"""Models from presets, from files of Hugging Face, and their sizes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import pipesched.estimation
from pipesched import ConfigError
from pipesched.estimation.hardware_reader import preset_hardware
from pipesched.estimation.huggingface import model_notes, read_model, table
from pipesched.estimation.model import Experts, Latent, ModelShape
from pipesched.estimation.model_reader import HARDWARE, MODELS, preset, preset_model, preset_names
from pipesched.estimation.parameters import parameters, training_flops

PRESETS = Path(pipesched.estimation.__file__).parent / "presets" / "models"


def model(name: str) -> ModelShape:
    """The model of a preset."""
    return read_model(yaml.safe_load((PRESETS / f"{name}.yaml").read_text(encoding="utf-8")), name)


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("llama-3-8b", 8.03, 8.03),
        ("gpt-3-175b", 174.6, 174.6),
        ("mixtral-8x7b", 46.7, 12.9),
        ("qwen3-30b-a3b", 30.53, 3.35),
        ("qwen3-235b-a22b", 235.1, 22.2),
        ("deepseek-v3", 671.0, 37.6),
    ],
)
def test_published_parameters(name: str, total: float, active: float) -> None:
    """In billions, as published, to the digits given."""
    found = parameters(model(name))
    for ours, published in ((found.total, total), (found.active, active)):
        digits = len(str(published).partition(".")[2])
        assert round(ours / 1e9, digits) == published


def test_the_formula_of_megatron() -> None:
    """GPT-3: 72 B s L h^2 (1 + s/6h + V/12Lh), with all scores counted (arXiv 2104.04473, section 3.3, appendix)."""
    batch, s, layers, h, words = 1536, 2048, 96, 12288, 50304
    formula = 72 * batch * s * layers * h**2 * (1 + s / (6 * h) + words / (12 * layers * h))
    assert training_flops(model("gpt-3-175b"), s, batch * s, whole=True) == pytest.approx(formula, rel=1e-12)


LLAMA: dict[str, Any] = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 256,
}


def test_biases_of_experts() -> None:
    """Where all products have biases, those of experts and of the shared width have them as well."""
    mixture = {**LLAMA, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1}
    none, every = (parameters(read_model({**mixture, "bias": bias})) for bias in ("none", "all"))
    attention, expert = 3 * 64 + 64, 2 * 32 + 64  # a gated MLP has two products of its width, and one of hidden
    assert every.total - none.total == 2 * (attention + expert + 8 * expert)
    assert every.active - none.active == 2 * (attention + expert + 2 * expert)


def test_a_mapping_without_a_type_is_a_llama() -> None:
    """Every head has keys where their number is missing; our own keys make it another model."""
    plain = read_model(LLAMA)
    assert (plain.kv_heads, plain.head, plain.mlp, plain.norm, plain.positions) == (4, 16, "gated", "rms", "rope")
    assert read_model({"model_type": "qwen2", **LLAMA, "num_key_value_heads": 2}).bias == "qkv"
    assert read_model({**LLAMA, "bias": "all", "norm": "layer", "mlp": "plain"}).products == 2
    assert read_model({"text_config": LLAMA, "vision_config": {}}) == plain


FILES = {path.stem: path for path in sorted((Path(__file__).parents[1] / "data" / "models").glob("*.json"))}
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
    assert {*table()["types"]} - {record["config"]["model_type"] for record in COUNTS} == {"kimi_k2"}


GPUS = {  # dense 16-bit TFLOP/s, GB that a program gets, GB/s, link a direction, GPUs of a node
    "a100-40gb-sxm": (312, 42.3, 1555, 300, 8),
    "a100-80gb-sxm": (312, 85, 2039, 300, 8),
    "h100-sxm": (989, 84.9, 3350, 450, 8),
    "h800": (989, 84.9, 3350, 200, 8),
    "h20": (148, 102, 4000, 450, 8),
    "h100-pcie": (756, 84.9, 2000, 64, 8),
    "h200": (989, 150.1, 4800, 450, 8),
    "b200": (2250, 191.5, 8000, 900, 8),
    "gb200": (2500, 197.9, 8000, 900, 4),
    "l40s": (362, 47.7, 864, None, 8),
    "rtx-4090": (165, 25.4, 1008, None, 8),
    "mi250x": (191.5, 64, 1600, None, 8),
    "mi300x": (1307, 205.8, 5300, 448, 8),
    "mi325x": (1307, 256, 6000, 448, 8),
    "mi355x": (2500, 288, 8000, 537, 8),
    "b300": (2250, 288, 8000, 900, 8),
    "gb300": (2450, 297, 8000, 900, 4),
}
FEW_BITS = {  # fp8, mxfp8, nvfp4
    **dict.fromkeys(("h100-sxm", "h200", "h800"), (1979, None, None)),
    "h100-pcie": (1513, None, None),
    "h20": (296, None, None),
    "b200": (4500, 4500, 9000),
    "gb200": (5000, 5000, 10000),
    "b300": (4500, 4500, 13500),
    "gb300": (4900, 4900, 14700),
    "l40s": (733, None, None),
    "rtx-4090": (330, None, None),
    **dict.fromkeys(("mi300x", "mi325x"), (2615, None, None)),
    "mi355x": (5033, 5033, None),
}


def test_the_gpus() -> None:
    """Every GPU has the numbers of its data sheet, which is named, and the memory that its driver gives."""
    assert set(preset_names(HARDWARE)) == set(GPUS)
    for name, (tflops, memory, bandwidth, nvlink, node) in GPUS.items():
        gpu = preset_hardware(name)
        assert gpu.name == name
        assert re.search("(?i)datasheet|data sheet|brief|whitepaper", preset(HARDWARE, name, "hardware").sources)
        assert (gpu.tflops, gpu.memory, gpu.bandwidth, gpu.gpus_per_node) == (tflops, memory, bandwidth, node)
        if nvlink is not None:
            assert gpu.nvlink == nvlink
        assert gpu.pcie in (32, 64)
        assert gpu.nic in (25, 50, 100)
        assert (gpu.fp8, gpu.mxfp8, gpu.nvfp4) == FEW_BITS.get(name, (None, None, None))


@pytest.mark.parametrize("name", preset_names(MODELS))
def test_a_model(name: str) -> None:
    """Every model has a source, and about as many parameters as its name says."""
    assert re.search(r"arXiv|config\.json", preset(MODELS, name, "model").sources)
    total = parameters(preset_model(name)).total / 1e9
    said = re.search(r"-(?:(\d)x)?(\d+)b\b", name)
    if said is not None and not said[1]:
        assert total == pytest.approx(float(said[2]), rel=0.05)
