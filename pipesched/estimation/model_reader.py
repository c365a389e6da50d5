"""Reading a model: the name of a preset, the path of a config.json, or a mapping with the same keys.

`read_model_section` is where one begins: it finds the keys, which `read_model` of `huggingface.py` turns into a shape.
Before it stand presets, the files of the package with models and hardware, and `model_rows` that lists models.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from pipesched.checks import joined, require_name, shown
from pipesched.errors import ConfigError
from pipesched.estimation.huggingface import MOST_SAID, decoder, known_keys, model_notes, read_model, table
from pipesched.estimation.model import ModelShape
from pipesched.estimation.parameters import parameters
from pipesched.text.sections import Section
from pipesched.text.yaml_reader import Value, parse_yaml, read_text

MODELS, HARDWARE = KINDS = ("models", "hardware")
SUFFIX = ".yaml"
SHAPES = ("layers", "hidden", "heads", "kv_heads", "head", "ffn", "vocabulary")
NATURE = ("mlp", "norm", "bias", "positions", "tied", "qk_norm")
CONFIG = "config.json"
OTHERWISE = "; or the path of a config.json, or a mapping of its keys"
ALIKE = 0.85  # how near a key must be to a known one to be a slip
TEXT_PART, *BESIDE_TEXT = (f"{part}_config" for part in ("text", "vision", "audio", "image", "video", "speech"))


class Preset(NamedTuple):
    """What a file of the package says: the keys with their values, and where these come from."""

    name: str
    value: Value
    sources: str


@cache
def preset_names(kind: str) -> tuple[str, ...]:
    """Return the names of all models, or of all hardware, in alphabetical order."""
    names = (entry.name for entry in (files("pipesched.estimation") / "presets" / kind).iterdir())
    return tuple(sorted(name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)))


def preset(kind: str, name: object, key: str, rest: str = "") -> Preset:
    """Return a preset. Raises ConfigError, about `key`, for an unknown name; `rest` says what else may stand there."""
    names, what = preset_names(kind), kind.removesuffix("s")
    longer = [known for known in names if isinstance(name, str) and name and known.startswith(name.lower())]
    if longer and name not in names:
        hint = " or ".join(map(repr, longer))
        raise ConfigError(f"unknown {what} {shown(name)}; did you mean {hint}? known are {', '.join(names)}{rest}", key)
    try:
        return _read_preset(kind, require_name(names, name, what, key))
    except ConfigError as error:
        raise ConfigError(f"{error.message}{rest}", key) from None


@cache
def _read_preset(kind: str, name: str) -> Preset:
    text = (files("pipesched.estimation") / "presets" / kind / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    comments = [line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#")]
    return Preset(name, parse_yaml(text, f"{name}{SUFFIX}"), " ".join(comments))


def presets(kind: str) -> Iterator[Preset]:
    """Yield all models, or all hardware, in alphabetical order."""
    for name in preset_names(kind):
        yield preset(kind, name, kind)


def preset_model(name: str) -> ModelShape:
    """Return the model of that name. Raises ConfigError for an unknown one."""
    return read_model(preset(MODELS, name, "model").value.plain(), name)


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


ReadModel = tuple[ModelShape, tuple[str, ...]]  # and notes: what of its config does not count


def read_model_section(section: Section) -> ReadModel:
    """Return the model that the section `model` describes. Raises ConfigError about the key at fault."""
    value = section.value
    if isinstance(value.data, dict):
        keys = value.plain()
        unknown = [key for key in keys if not _is_known_or_raise(key)]
        return _with_notes(keys, "", unknown)
    name = value.data
    if isinstance(name, str) and name and name not in preset_names(MODELS):
        path = section.folder(value) / name
        is_path = name.endswith(".json") or "/" in name or "\\" in name
        with suppress(OSError, ValueError):  # of a name that is too long for a file, or has a NUL
            is_path = is_path or path.exists()
        if is_path:
            return _of_file(path)
    found = preset(MODELS, value.plain(), "model", OTHERWISE)
    return _with_notes(found.value.plain(), found.name)


def _with_notes(keys: Mapping[str, Any], name: str, uncounted: Sequence[str] = ()) -> ReadModel:
    said = [f"{joined(uncounted, MOST_SAID)}: not known, not counted"] if uncounted else []
    return read_model(keys, name), (*model_notes(keys), *said)


def _of_file(path: Path) -> ReadModel:
    try:
        file = path / CONFIG if path.is_dir() else path
        folder = file.absolute().parent.name
        title = folder if file.name == CONFIG and folder else file.name.removesuffix(".json")
        try:
            content = json.loads(read_text(file))
        except json.JSONDecodeError as error:
            raise ConfigError(f"{file}:{error.lineno}: no JSON: {error.msg}") from None
        except (RecursionError, ValueError):  # the latter: a number of thousands of digits
            raise ConfigError(f"{file}: nested too deeply, or a number of thousands of digits") from None
        if not isinstance(content, dict):
            raise ConfigError(f"{file}: must be a mapping, as Hugging Face writes it, not {shown(content)}")
        text = decoder(content)  # of a model with vision or audio its `text_config`, else the content itself
        parts = [part for part in BESIDE_TEXT if content.get(part)] if text is not content else []
        unknown = [key for key, value in text.items() if value and key not in known_keys()]
        return _with_notes(content, "".join(letter for letter in title if letter.isprintable()), [*parts, *unknown])
    except ConfigError as error:
        key = (error.key or "").removeprefix("model").removeprefix(".")
        about = f"{key}: " if key else ""
        place = f"{path}: " if error.key else ""  # an error about no key names the file
        raise ConfigError(f"{place}{about}{error.message}", "model") from None


def _is_known_or_raise(key: str) -> bool:
    """Return whether a key that is written by hand is one of Hugging Face's, or ours; raise for a slip, or a part."""
    if key in (TEXT_PART, *BESIDE_TEXT):
        way_out = (
            "`model` is a language model alone: write its keys here, and give what comes before its first layer (a"
            " vision or audio encoder) in a config by layers, as `first: {forward: .., backward: .., static: ..}`"
        )
        raise ConfigError(f"is not estimated; {way_out}", f"model.{key}")
    if key in known_keys():
        return True
    near = get_close_matches(key, table()["usual"], n=1, cutoff=ALIKE)
    if near:
        raise ConfigError(f"unknown key; did you mean {near[0]!r}?", f"model.{key}")
    return False
