"""Setups that tests of estimates share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipesched.estimation.hardware import Efficiency, GpuModel
from pipesched.estimation.huggingface import read_model
from pipesched.estimation.setup import Parallel, Setup, TokenBatch, TrainingSetup

EFFICIENCY = Efficiency(
    gemm_forward=0.6, gemm_input=0.6, gemm_weight=0.65, core=0.35, unfused=0.3, memory=0.7, network=0.7, kernel=8,
    latency=0.1, tensor_exposed=0.4, data_exposed=0.3,
)  # fmt: skip
GPU = GpuModel(
    name="test-gpu", tflops=1000, memory=80, bandwidth=3000, nvlink=400, pcie=50, nic=50, efficiency=EFFICIENCY
)
LLAMA: dict[str, Any] = {
    "num_hidden_layers": 16,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 32000,
}


def setup(
    model: dict[str, Any] | None = None,
    *,
    parallel: dict[str, Any] | None = None,
    batch: dict[str, int] | None = None,
    training: dict[str, Any] | None = None,
    **hardware: Any,
) -> Setup:
    """A small llama on 8 GPUs, with changes."""
    sizes = {"gpus": 8, "pipeline": 4, "tensor": 2, **(parallel or {})}
    tokens: dict[str, Any] = {"sequence": 4096, "micro": 1, "size": 16, **(batch or {})}
    return Setup(
        read_model({**LLAMA, **(model or {})}, "small"),
        replace(GPU, **hardware),
        Parallel(**{"sequence": sizes.get("tensor", 1) > 1, **sizes}),
        TokenBatch(**tokens),
        TrainingSetup(**(training or {})),
        "small on 8",
    )
