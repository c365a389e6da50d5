"""The presets as rows: what is known of each model and of each GPU, and where that comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from pipesched.estimation.hardware_reader import preset_hardware
from pipesched.estimation.parameters import parameters
from pipesched.estimation.presets import HARDWARE, MODELS, Preset, preset, preset_model, preset_names

SHAPES = ("layers", "hidden", "heads", "kv_heads", "head", "ffn", "vocabulary")
NATURE = ("mlp", "norm", "bias", "positions", "tied", "qk_norm")


def model_rows() -> Iterator[dict[str, Any]]:
    """Yield an object for each model: its shapes, its parameters, and the source of both."""
    for found in _presets(MODELS):
        model = preset_model(found.name)
        counted = parameters(model)
        yield {
            "name": model.name,
            "parameters": counted.total,
            "active_parameters": counted.active,
            **{key: getattr(model, key) for key in (*SHAPES, *NATURE)},
            "experts": None if model.experts is None else asdict(model.experts),
            "latent": None if model.latent is None else asdict(model.latent),
            "mtp": model.mtp,
            "source": found.sources,
        }


def hardware_rows() -> Iterator[dict[str, Any]]:
    """Yield an object for each GPU: its numbers, the shares of them that training reaches, and the sources."""
    for found in _presets(HARDWARE):
        yield {**asdict(preset_hardware(found.name)), "source": found.sources}


def _presets(kind: str) -> Iterator[Preset]:
    for name in preset_names(kind):
        yield preset(kind, name, kind)
