"""The types of models: the table in presets/model_types.yaml, its formulas, and what mixes tokens by it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

import yaml

from pipesched.estimation.model import Mixer, Seen

TERM = re.compile(r"([+-]?)\s*([^+-]+)")
WORD = re.compile(r"[A-Za-z_]{3,}")
NO_KEYS = ("note", "like", "architecture", "read_as")
Sizes = Callable[[str], int]


class ModelType(SimpleNamespace):
    """What a type of model is where its config does not say; the table explains each field. Formulas are texts."""

    def kind(self, name: str) -> ModelType:
        """Return what the layers of a kind are: the same with what `kinds` says on top."""
        own = {**self.kinds.get(name, {})}
        return ModelType(**{**vars(self), **own, "keys": {**self.keys, **own.get("keys", {})}})


@cache
def table() -> Mapping[str, Any]:
    """Return the table as it is written: `mixers` and `types`, by name."""
    text = (files("pipesched.estimation") / "presets" / "model_types.yaml").read_text(encoding="utf-8")
    found: Mapping[str, Any] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # 20 times as fast
    return found


def type_names() -> tuple[str, ...]:
    """Return all types, as the table has them."""
    return (*table()["types"],)


@cache
def model_type(name: str) -> ModelType:
    """Return a type of the table, with what the type that it is like says."""
    own = table()["types"][name] if name else {}  # without a name: a llama of which nothing is left out
    base = vars(model_type(own["like"])) if "like" in own else table()["by_default"]
    merged = {key: {**base[key], **own.get(key, {})} for key in ("keys", "defaults", "kinds")}
    return ModelType(**{**base, "read_as": "", "note": "", **own, **merged})


@cache
def known_keys() -> frozenset[str]:
    """Return all keys of a config.json that the table speaks of, with effect or without."""
    parts = table()
    found = {*WORD.findall(str(parts["synonyms"]))}
    for part in (*parts["mixers"].values(), *parts["types"].values()):
        found |= {*WORD.findall(str({key: value for key, value in part.items() if key not in NO_KEYS}))}
    ours = {*parts["by_default"], *Mixer.__dataclass_fields__, "sizes", "seen"}
    return frozenset((found - ours) | {*parts["silent"], *parts["usual"]})


def type_of_architectures(names: object) -> str:
    """Return the type that the classes of a config.json mean, "" where none is known."""
    known = {model_type(name).architecture: name for name in reversed(type_names())}
    given = names if isinstance(names, list) else []
    return next((known[name] for name in given if isinstance(name, str) and name and name in known), "")


def evaluate(formula: str, sizes: Sizes) -> int:
    """Return a sum of products of sizes and whole numbers: "2 h d + n"; "/n" divides."""
    total = 0
    for sign, term in TERM.findall(str(formula)):
        product = 1
        for factor in term.split():
            size = factor.removeprefix("/")
            number = int(size) if size.isdigit() else sizes(size)
            product = product // number if factor.startswith("/") else product * number
        total += -product if sign == "-" else product
    return total


def mixer_of(name: str, sizes: Sizes) -> tuple[Mixer, tuple[Seen, ...]]:
    """Return a mixer of the table with sizes of a model, and the keys that attention then sees; () where all."""
    own = table()["mixers"][name]
    found = {**table()["mixers"].get(own.get("like"), {}), **own}
    known: dict[str, int] = {}

    def size(symbol: str) -> int:
        return known[symbol] if symbol in known else sizes(symbol)

    for symbol, formula in found.get("sizes", {}).items():
        known[symbol] = evaluate(formula, size)
    fields = [key for key in Mixer.__dataclass_fields__ if key in found and key not in ("name", "own")]
    numbers = {key: evaluate(found[key], size) for key in fields}
    seen = tuple(Seen(evaluate(limit, size), evaluate(stride, size)) for limit, stride in found.get("seen", ()))
    return Mixer(name.replace("-", " "), **numbers, own=found.get("own", False)), seen
