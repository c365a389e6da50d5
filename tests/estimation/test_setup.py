"""Training runs: sizes that follow from others, and sizes that do not divide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipesched.errors import ConfigError
from pipesched.estimation.hardware_reader import preset_hardware
from pipesched.estimation.model import nearest_divisors, nearest_multiples
from pipesched.estimation.model_reader import preset_model
from pipesched.estimation.setup import Parallel, Setup, TokenBatch, TrainingSetup

SETUP = Setup(
    preset_model("llama-3-8b"),
    preset_hardware("h100-sxm"),
    Parallel(64, 2, 4),
    TokenBatch(8192, 2, 256),
    TrainingSetup(),
)


def changed(model: str = "llama-3-8b", **sizes: Any) -> Setup:
    """The setup above with other sizes of the layout, and another model."""
    return replace(SETUP, model=preset_model(model), parallel=replace(SETUP.parallel, **sizes))


def test_sizes_that_follow() -> None:
    """Data-parallel ranks, microbatches and tokens of a step follow from the sizes that are given."""
    setup = replace(SETUP, parallel=Parallel(64, 2, 4, 2, 2, sequence=True))
    assert (setup.parallel.data, setup.parallel.stages, setup.parallel.spread) == (4, 8, 2)
    assert (setup.microbatches, setup.tokens, setup.tokens_of_step) == (32, 8192, 2 * 2**20)
    experts = changed("mixtral-8x7b", expert=8, expert_tensor=2).parallel
    assert experts.expert_data == 2 * 8 // 16


@pytest.mark.parametrize(
    ("sizes", "key", "message"),
    [
        ({"tensor": 3, "gpus": 12}, "tensor", "must divide the 32 attention heads: for instance 2 or 4, not 3"),
        (
            {"tensor": 64},
            "gpus",
            "must be a multiple of tensor x pipeline x context = 64 x 4 x 1 = 256, for instance 256",
        ),
        ({"gpus": 60}, "gpus", "for instance 56 or 64, not 60"),
        ({"gpus": 0}, "gpus", "whole number of at least 1"),
        ({"tensor": True}, "tensor", "not true"),
        (
            {"pipeline": 64, "tensor": 1},
            "pipeline",
            "must be at most 34, not 64: llama-3-8b has 32 layers, an embedding",
        ),
        ({"pipeline": 16, "chunks": 3}, "chunks", "must be at most 2, not 3"),
        ({"context": 3, "gpus": 24}, "context", "must divide the sequence of 8192: for instance 2 or 4, not 3"),
        ({"expert": 2}, "expert", "must be 1: llama-3-8b has no experts"),
        ({"expert_tensor": 2}, "expert_tensor", "must be 1: llama-3-8b has no experts"),
    ],
)
def test_a_layout_that_does_not_divide(sizes: dict[str, Any], key: str, message: str) -> None:
    """Each size that does not suit is one message about its key, with the nearest that do."""
    with pytest.raises(ConfigError) as caught:
        changed(**sizes)
    assert caught.value.key == f"parallel.{key}"
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("sizes", "key", "message"),
    [
        ({"expert": 3}, "expert", "expert 3 must divide tensor x context x data = 16: for instance 2 or 4"),
        ({"expert": 16, "expert_tensor": 1}, "expert", "must divide the 8 experts: for instance 8, not 16"),
        ({"expert": 8, "expert_tensor": 4}, "expert", "expert 8 x expert_tensor 4 must divide tensor x context x data"),
    ],
)
def test_experts_that_do_not_divide(sizes: dict[str, Any], key: str, message: str) -> None:
    """Experts divide among ranks, and these among those of the other ways."""
    with pytest.raises(ConfigError) as caught:
        changed("mixtral-8x7b", **sizes)
    assert caught.value.key == f"parallel.{key}"
    assert message in caught.value.message


def test_a_batch_that_does_not_divide() -> None:
    """The batch is a multiple of a microbatch on every data-parallel rank; learned positions limit its tokens."""
    with pytest.raises(
        ConfigError, match=r"^batch\.global: must be a multiple of micro x data = 2 x 8 = 16, .* 240 or"
    ):
        replace(SETUP, batch=TokenBatch(8192, 2, 255))
    with pytest.raises(ConfigError, match=r"^batch\.sequence: must be at most the 1024 learned positions, not 8192$"):
        changed("gpt2-xl", tensor=1)
    with pytest.raises(ConfigError, match=r"^parallel\.sequence: the 4095 tokens of a rank do not divide by tensor 2"):
        replace(SETUP, parallel=Parallel(64, 2, 4, sequence=True), batch=TokenBatch(4095, 2, 256))


@pytest.mark.parametrize(
    ("fields", "key", "message"),
    [
        (
            {"precision": "bf8"},
            "precision",
            "unknown precision 'bf8'; did you mean 'fp8'? known are bf16, fp16, fp32, fp8",
        ),
        ({"precision": 8}, "precision", "must be a name, one of bf16"),
        ({"gradients": "fp16"}, "gradients", "known are fp32, bf16"),
        ({"recompute": "some"}, "recompute", "known are none, selective, full"),
        ({"recompute": "full", "full_layers": 0}, "recompute", "at least 1"),
        ({"flash_attention": 1}, "flash_attention", "must be true or false"),
        ({"layout": [1, "2"]}, "layout", "whole number"),
        ({"layout": 5}, "layout", "must be best, balanced, equal, the layers of each stage"),
    ],
)
def test_training_that_is_refused(fields: dict[str, Any], key: str, message: str) -> None:
    """Each field is checked."""
    with pytest.raises(ConfigError) as caught:
        TrainingSetup(**fields)
    assert caught.value.key == f"training.{key}"
    assert message in caught.value.message


def test_nearest_numbers() -> None:
    """The nearest that divide, at once for large numbers too."""
    assert nearest_divisors(3, 64) == "2 or 4"
    assert nearest_divisors(100, 64) == "64"
    assert nearest_divisors(7, 10**14) == "5 or 8"
    assert (nearest_multiples(7, 4), nearest_multiples(3, 4)) == ("4 or 8", "4")
