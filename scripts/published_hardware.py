"""The GPUs of published runs: presets, and the parts of them that another board has otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pipesched.estimation.hardware import Efficiency, GpuModel
from pipesched.estimation.setup_reader import preset_hardware

NAMES = {  # how the name of a GPU begins in a record: the preset
    "A100-SXM": "a100-80gb-sxm",
    "H100": "h100-sxm",
    "GB200": "gb200",
    "B200": "b200",
    "MI300X": "mi300x",
    "MI325X": "mi325x",
    "MI355X": "mi355x",
}
HBM2E = "H100-SXM-96GB-HBM2e"  # 96 GB, 2.4 TB/s, and 500 of 700 W: power goes about with the third power of a clock
HBM2E_NUMBERS = {"memory": 96.0, "bandwidth": 2400.0, "tflops": round(989 * (500 / 700) ** (1 / 3))}


def hardware_of(gpu: str, efficiency: Mapping[str, Efficiency]) -> GpuModel:
    """Return the GPU of a record; `efficiency` of a preset by its name replaces the preset's."""
    name = next(preset for text, preset in NAMES.items() if gpu.startswith(text))
    found = preset_hardware(name)
    if name in efficiency:
        found = replace(found, efficiency=efficiency[name])
    return replace(found, **HBM2E_NUMBERS) if gpu.startswith(HBM2E) else found
