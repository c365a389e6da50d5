"""Shares of a GPU's numbers as they are written: in a preset, in a config, in a profile of one's own.

The keys are those of `Efficiency`: gemm_forward, gemm_input, gemm_weight, core, unfused, memory, network, kernel,
latency, tensor_exposed, data_exposed. `gemm` is short for the first three: a number for all of them, or a mapping of
forward, backward_input and backward_weight. What is left out stays as it was.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from pipesched.checks import require_number
from pipesched.errors import ConfigError
from pipesched.estimation.hardware import Efficiency
from pipesched.text.sections import Entries
from pipesched.text.yaml_reader import Value

GEMM = {"forward": "gemm_forward", "backward_input": "gemm_input", "backward_weight": "gemm_weight"}
KEYS = ("gemm", *(field.name for field in fields(Efficiency)))
TYPICAL = Efficiency(  # of a GPU of which nothing is known
    gemm_forward=0.6, gemm_input=0.6, gemm_weight=0.65, core=0.35, unfused=0.3, memory=0.7, network=0.7,
    kernel=8, latency=0.1, tensor_exposed=0.4, data_exposed=0.3,
)  # fmt: skip


def read_efficiency(value: Value, prefix: str, below: Efficiency = TYPICAL) -> Efficiency:
    """Return shares as they are written at the dotted key `prefix`, those left out from `below`. Raises ConfigError."""
    entries = Entries(value, prefix, KEYS)
    numbers = _gemm(entries) | {key: _number(entries, key) for key in KEYS if key != "gemm" and key in entries}
    try:
        return replace(below, **numbers)
    except ConfigError as error:
        raise ConfigError(error.message, _written(entries, str(error.key))) from None


def _gemm(entries: Entries) -> dict[str, float]:
    """Return the shares of matrix products that `gemm` gives."""
    if "gemm" not in entries:
        return {}
    value = entries.values["gemm"]
    if not isinstance(value.data, dict):
        return dict.fromkeys(GEMM.values(), _number(entries, "gemm"))
    parts = Entries(value, entries.key("gemm"), tuple(GEMM))
    return {GEMM[part]: _number(parts, part) for part in parts.values}


def _number(entries: Entries, key: str) -> float:
    return require_number(entries.number(key), entries.key(key))


def _written(entries: Entries, field: str) -> str:
    """Return the dotted key by which a field was written."""
    parts: dict[str, Any] = {name: part for part, name in GEMM.items()}
    if field in entries or field not in parts:
        return entries.key(field)
    is_mapping = isinstance(entries.values["gemm"].data, dict)
    return entries.key(f"gemm.{parts[field]}") if is_mapping else entries.key("gemm")
