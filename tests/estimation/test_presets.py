"""The models and the GPUs that are known by name."""

from __future__ import annotations

import re

import pytest

from pipesched.errors import ConfigError
from pipesched.estimation.hardware_reader import hardware_rows, preset_hardware
from pipesched.estimation.model_reader import HARDWARE, MODELS, model_rows, preset, preset_model, preset_names
from pipesched.estimation.parameters import parameters

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
    """Every GPU has the numbers of its data sheet, and the memory that its driver gives."""
    assert set(preset_names(HARDWARE)) == set(GPUS)
    for name, (tflops, memory, bandwidth, nvlink, node) in GPUS.items():
        gpu = preset_hardware(name)
        assert gpu.name == name
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


@pytest.mark.parametrize("name", preset_names(HARDWARE))
def test_a_gpu_has_a_source(name: str) -> None:
    """The comments of a preset say where its numbers come from."""
    assert re.search("(?i)datasheet|data sheet|brief|whitepaper", preset(HARDWARE, name, "hardware").sources)


def test_an_unknown_name() -> None:
    """What begins like a preset is taken for a short name of it; all are listed."""
    with pytest.raises(ConfigError, match=r"did you mean 'h100-pcie' or 'h100-sxm'\? known are a100-40gb-sxm, ") as gpu:
        preset_hardware("H100")
    assert gpu.value.key == "hardware"
    with pytest.raises(ConfigError, match=r"unknown model 'llama-3-7b'; did you mean 'llama-3-[78]"):
        preset_model("llama-3-7b")
    for name in (5, None, ""):
        with pytest.raises(ConfigError):
            preset(MODELS, name, "model")


def test_rows() -> None:
    """A row for each preset, with its numbers and its source."""
    models, gpus = list(model_rows()), list(hardware_rows())
    assert [row["name"] for row in models] == list(preset_names(MODELS))
    assert [row["name"] for row in gpus] == list(preset_names(HARDWARE))
    assert all(row["source"] and row["parameters"] >= row["active_parameters"] > 0 for row in models)
    assert all(row["source"] and set(row["efficiency"]) >= {"gemm_forward", "core", "memory"} for row in gpus)
