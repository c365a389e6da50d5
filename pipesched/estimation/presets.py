"""The models and the GPUs that are known by name: YAML files of the package, with their sources as comments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from pipesched.checks import require_name, shown
from pipesched.errors import ConfigError
from pipesched.estimation.huggingface import read_model
from pipesched.estimation.model import ModelShape
from pipesched.estimation.parameters import parameters
from pipesched.text.yaml_reader import Value, parse_yaml

MODELS, HARDWARE = KINDS = ("models", "hardware")
SUFFIX = ".yaml"
SHAPES = ("layers", "hidden", "heads", "kv_heads", "head", "ffn", "vocabulary")
NATURE = ("mlp", "norm", "bias", "positions", "tied", "qk_norm")


class Preset(NamedTuple):
    """What a file of the package says: the keys with their values, and where these come from."""

    name: str
    value: Value
    sources: str

    @property
    def keys(self) -> Mapping[str, Any]:
        """The keys without lines."""
        plain: Mapping[str, Any] = self.value.plain()
        return plain


def preset_names(kind: str) -> tuple[str, ...]:
    """Return the names of all models, or of all hardware, in alphabetical order."""
    return tuple(sorted(name.removesuffix(SUFFIX) for name in _names(kind) if name.endswith(SUFFIX)))


@cache
def _names(kind: str) -> tuple[str, ...]:
    return tuple(entry.name for entry in (files("pipesched.estimation") / "presets" / kind).iterdir())


def preset(kind: str, name: object, key: str, rest: str = "") -> Preset:
    """Return a preset. Raises ConfigError, about `key`, for an unknown name; `rest` says what else may stand there."""
    names, what = preset_names(kind), kind.removesuffix("s")
    longer = [known for known in names if isinstance(name, str) and name and known.startswith(name.lower())]
    if longer and name not in names:
        hint = " or ".join(map(repr, longer))
        raise ConfigError(f"unknown {what} {shown(name)}; did you mean {hint}? known are {', '.join(names)}{rest}", key)
    try:
        return _read(kind, require_name(names, name, what, key))
    except ConfigError as error:
        raise ConfigError(f"{error.message}{rest}", key) from None


@cache
def _read(kind: str, name: str) -> Preset:
    text = (files("pipesched.estimation") / "presets" / kind / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    comments = [line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#")]
    return Preset(name, parse_yaml(text, f"{name}{SUFFIX}"), " ".join(comments))


def presets(kind: str) -> Iterator[Preset]:
    """Yield all models, or all hardware, in alphabetical order."""
    for name in preset_names(kind):
        yield preset(kind, name, kind)


def preset_model(name: str) -> ModelShape:
    """Return the model of that name. Raises ConfigError for an unknown one."""
    return read_model(preset(MODELS, name, "model").keys, name)


def model_rows() -> Iterator[dict[str, Any]]:
    """Yield an object for each model: its shapes, its parameters, and the source of both."""
    for found in presets(MODELS):
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
