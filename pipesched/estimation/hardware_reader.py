"""Reading a GPU: the name of a preset, or a mapping of its numbers, which a preset may fill."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal
from typing import Any

from pipesched.checks import require_number
from pipesched.errors import ConfigError
from pipesched.estimation.efficiency import TYPICAL, read_efficiency
from pipesched.estimation.hardware import GpuModel
from pipesched.estimation.presets import HARDWARE, preset
from pipesched.pipeline.quantities import plain
from pipesched.pipeline.units_of_measure import MEMORY, Unit, has_unit, read_number
from pipesched.text.sections import Entries
from pipesched.text.yaml_reader import Value

NEEDED = {
    "tflops": "the peak of dense 16-bit products, in TFLOP/s",
    "memory": "in GB",
    "bandwidth": "of its memory, in GB/s",
}
COUNTS = ("gpus_per_node", "nvlink_gpus")
USUAL = {"pcie": 32, "nic": 25}  # PCIe 4 x16, and a network of 200 Gbit/s a GPU
OTHERS = ("name", "efficiency", "fitted_on")  # fields that are no numbers of a data sheet
NUMBERS = tuple(field.name for field in fields(GpuModel) if field.name not in OTHERS)
KEYS = ("preset", *NUMBERS)
MAPPING = f"; or a mapping of {', '.join(NUMBERS)} (`preset` fills what it leaves out)"


def read_hardware(value: Value) -> GpuModel:
    """Return the GPU that the section `hardware` describes. Raises ConfigError about the key at fault."""
    if not isinstance(value.data, dict):
        return _preset(value.plain(), "hardware", MAPPING)
    entries = Entries(value, "hardware", KEYS)
    given = {key: _number(entries, key) for key in NUMBERS if key in entries}
    if "preset" in entries:
        base = _preset(entries.plain("preset"), "hardware.preset")
        known = {field: getattr(base, field) for field in (*NUMBERS, *OTHERS)}
        return _hardware({**known, **given})
    for key, what in NEEDED.items():
        entries.needed(key, f"{what}; or give a `preset`")
    return _hardware({"name": "GPU", "efficiency": TYPICAL, **USUAL, **given})


def preset_hardware(name: str) -> GpuModel:
    """Return the GPU of that name. Raises ConfigError for an unknown one."""
    return _preset(name, "hardware", MAPPING)


def _preset(name: object, key: str, rest: str = "") -> GpuModel:
    found = preset(HARDWARE, name, key, rest)
    entries = found.value.data
    given = {key: _plain(entries[key]) for key in (*NUMBERS, "fitted_on") if key in entries}
    shares = read_efficiency(entries.get("efficiency", Value({}, 0)), f"{found.name}.efficiency")
    return _hardware({"name": found.name, "efficiency": shares, **given})


def _hardware(keys: dict[str, Any]) -> GpuModel:
    try:
        return GpuModel(**keys)
    except ConfigError as error:
        raise ConfigError(error.message, f"hardware.{error.key}") from None


def _plain(value: Value) -> Any:
    return float(value.data) if isinstance(value.data, Decimal) else value.data


def _number(entries: Entries, key: str) -> Any:
    """Return a number as it was given; memory may be `80GB`."""
    value = entries.number(key)
    if key == "memory" and has_unit(value):
        return plain(read_number(value, Unit(MEMORY, "GB"), entries.key(key)))
    return value if key in COUNTS else require_number(value, entries.key(key))
