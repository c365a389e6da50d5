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


def test_nearest_numbers() -> None:
    """The nearest that divide, at once for large numbers too."""
    assert nearest_divisors(3, 64) == "2 or 4"
    assert nearest_divisors(100, 64) == "64"
    assert nearest_divisors(7, 10**14) == "5 or 8"
    assert (nearest_multiples(7, 4), nearest_multiples(3, 4)) == ("4 or 8", "4")
