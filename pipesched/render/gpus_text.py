"""The GPUs of a setup in words: how many, of which preset, and which of its numbers a config replaces."""

from __future__ import annotations

from collections.abc import Iterator

from pipesched.estimation.hardware import NUMBERS, GpuModel, preset_hardware
from pipesched.estimation.presets import HARDWARE, preset_names
from pipesched.estimation.setup import Setup
from pipesched.render.timescale import number


def gpus_text(setup: Setup) -> str:
    """Return the GPUs of a setup: `64 h100-sxm with nvlink 200, own efficiency`."""
    own = ", ".join(_own(setup.hardware))
    return f"{setup.parallel.gpus:,} {setup.hardware.name}" + (f" with {own}" if own else "")


def _own(hardware: GpuModel) -> Iterator[str]:
    """Yield the numbers in which a GPU is not its preset."""
    if hardware.name not in preset_names(HARDWARE):
        return
    known = preset_hardware(hardware.name)
    for key in NUMBERS:
        value = getattr(hardware, key)
        if value != getattr(known, key):
            yield f"{key} {number(value)}"
    if hardware.efficiency != known.efficiency:
        yield "own efficiency"
