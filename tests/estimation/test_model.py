"""Models by their config.json: parameters and operations against published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import pipesched.estimation
from pipesched.estimation.huggingface import read_model
from pipesched.estimation.model import ModelShape
from pipesched.estimation.parameters import parameters, training_flops

PRESETS = Path(pipesched.estimation.__file__).parent / "presets" / "models"


def model(name: str) -> ModelShape:
    """The model of a preset."""
    return read_model(yaml.safe_load((PRESETS / f"{name}.yaml").read_text(encoding="utf-8")), name)


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("llama-2-7b", 6.74, 6.74),
        ("llama-2-13b", 13.02, 13.02),
        ("llama-3-8b", 8.03, 8.03),
        ("llama-3-70b", 70.55, 70.55),
        ("llama-3.1-405b", 405.9, 405.9),
        ("gpt-3-175b", 174.6, 174.6),
        ("mixtral-8x7b", 46.7, 12.9),
        ("mixtral-8x22b", 140.6, 39.2),
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
