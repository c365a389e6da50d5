"""`read_hardware`: a GPU from the section `hardware`: the name of a preset, or its numbers, which a preset may fill.

The shares of them that training reaches stand beside, in a preset, a config or a file of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from decimal import Decimal
from typing import Any

from pipesched.checks import require_number
from pipesched.errors import ConfigError
from pipesched.estimation.hardware import COUNTS, EFFICIENCIES, GEMM, NUMBERS, OTHERS, Efficiency, GpuModel
from pipesched.estimation.model_reader import HARDWARE, preset, preset_names, presets
from pipesched.pipeline.problem.quantities import MEMORY, Unit, has_unit, plain, read_number
from pipesched.pipeline.problem.shapes import Field, OneOf
from pipesched.text.sections import Entries
from pipesched.text.yaml_reader import Value

NEEDED = {
    "tflops": "the peak of dense 16-bit products, in TFLOP/s",
    "memory": "in GB",
    "bandwidth": "of its memory, in GB/s",
}
USUAL = {"pcie": 32, "nic": 25}  # PCIe 4 x16, and a network of 200 Gbit/s a GPU
KEYS = {
    "preset": Field("hardware.preset", OneOf(*preset_names(HARDWARE)), "the GPU whose numbers others replace"),
    **NUMBERS,
}
TYPICAL = Efficiency(  # of a GPU of which nothing is known
    gemm_forward=0.6, gemm_input=0.6, gemm_weight=0.65, core=0.35, unfused=0.3, memory=0.7, network=0.7,
    kernel=8, latency=0.1, tensor_exposed=0.4, data_exposed=0.3,
)  # fmt: skip
MAPPING = f"; or a mapping of {', '.join(NUMBERS)} (`preset` fills what it leaves out)"


def read_hardware(value: Value) -> GpuModel:
    """Return the GPU that the section `hardware` describes. Raises ConfigError about the key at fault."""
    if not isinstance(value.data, dict):
        return preset_hardware(value.plain())
    entries = Entries(value, "hardware", [*KEYS])
    given = dict[str, Any]()
    for key in filter(entries.__contains__, NUMBERS):  # as they were given; memory may be `80GB`
        given[key] = number = entries.number(key)
        if key == "memory" and has_unit(number):
            given[key] = plain(read_number(number, Unit(MEMORY, "GB"), entries.key(key)))
        elif key not in COUNTS:
            given[key] = require_number(number, entries.key(key))
    known: dict[str, Any] = {"name": "GPU", "efficiency": TYPICAL, **USUAL}
    if "preset" in entries:
        base = preset_hardware(entries.plain("preset"), "hardware.preset", "")
        known = {field: getattr(base, field) for field in (*NUMBERS, *OTHERS)}
    for key, what in NEEDED.items() if "preset" not in entries else ():
        entries.needed(key, f"{what}; or give a `preset`")
    try:
        return GpuModel(**{**known, **given})
    except ConfigError as error:
        raise ConfigError(error.message, f"hardware.{error.key}") from None


def hardware_rows() -> Iterator[dict[str, Any]]:
    """Yield an object for each GPU: its numbers, the shares of them that training reaches, and the sources."""
    for found in presets(HARDWARE):
        yield {**asdict(preset_hardware(found.name)), "source": found.sources}


def preset_hardware(name: object, key: str = "hardware", rest: str = MAPPING) -> GpuModel:
    """Return the GPU of a name. Raises ConfigError, about `key`, for an unknown one; `rest` says what else may be."""
    found = preset(HARDWARE, name, key, rest)
    entries = found.value.data
    given = {key: entries[key].data for key in (*NUMBERS, "fitted_on") if key in entries}
    given = {key: float(value) if isinstance(value, Decimal) else value for key, value in given.items()}
    shares = read_efficiency(entries.get("efficiency", Value({}, 0)), f"{found.name}.efficiency")
    return GpuModel(name=found.name, efficiency=shares, **given)


def read_efficiency(value: Value, prefix: str, below: Efficiency = TYPICAL) -> Efficiency:
    """Return shares as they are written at the dotted key `prefix`, those left out from `below`. Raises ConfigError."""
    entries = Entries(value, prefix, EFFICIENCIES)
    gemm, numbers = entries.values.get("gemm"), dict[str, float]()
    if gemm is not None and isinstance(gemm.data, dict):
        parts = Entries(gemm, entries.key("gemm"), tuple(GEMM))
        numbers = {GEMM[part]: _share(parts, part) for part in parts.values}
    elif gemm is not None:
        numbers = dict.fromkeys(GEMM.values(), _share(entries, "gemm"))
    numbers |= {key: _share(entries, key) for key in EFFICIENCIES if key != "gemm" and key in entries}
    try:
        return replace(below, **numbers)
    except ConfigError as error:
        written = {} if gemm is None else {name: f"gemm.{part}" for part, name in GEMM.items()}
        if gemm is not None and not isinstance(gemm.data, dict):
            written = dict.fromkeys(written, "gemm")
        key = str(error.key)
        raise ConfigError(error.message, entries.key(key if key in entries else written.get(key, key))) from None


def _share(entries: Entries, key: str) -> float:
    return require_number(entries.number(key), entries.key(key))
