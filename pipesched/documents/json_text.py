"""JSON documents: `dump` writes a line for each key, slot or row, for comparisons by line; `parse_document` reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from math import isclose
from sys import float_info
from typing import Any

from pipesched.checks import shown
from pipesched.errors import ConfigError
from pipesched.pipeline.plan.metrics import HELD, RECEIVED
from pipesched.pipeline.problem.quantities import parse_number, plain

VERSION = 1
VERSION_OF_UNITS = 2  # of schedules in which microbatches differ, or steps have more than passes
VERSION_OF_BOTH = 3  # of schedules whose costs give the whole backward beside its halves, or whose messages queue
MOST = float_info.max
NUMBERS = ("makespan", "span", "ideal", "bubble", "bubble_over_ideal", "bubble_span", "lower_bound", "gap")
PEAKS = tuple(f"peak_{what}" for what in (*HELD, RECEIVED))  # of a schedule with a step, or with receive buffers
UNKNOWN = ("lower_bound", "gap")  # that may be null of a schedule: not known
BY_DEVICE = ("peak_memory", "memory", "idle", "busy", *PEAKS)  # lists of numbers
METRICS = (*NUMBERS, *BY_DEVICE, "imbalance", "utilization", "bottleneck")


def head(name: str) -> dict[str, Any]:
    """Return what a document begins with: its format, and the version."""
    return {"format": f"pipesched.{name}", "version": VERSION}


def dump(content: Mapping[str, Any]) -> str:
    """Return a document as text, with a line for each key, slot or row."""
    lines = (f"  {json.dumps(key)}: {_lines(value, '    ')}" for key, value in content.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _lines(value: Any, indent: str) -> str:
    """Return a value as text: each object or list in a list on a line of its own, everything else on one line."""
    if isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        inner = ",\n".join(indent + _lines(entry, indent + "  ") for entry in value)
        return f"[\n{inner}\n{indent[2:]}]"
    return json.dumps(value, allow_nan=False)


def parse_document(text: str, name: str) -> dict[str, Any]:
    """Return the object in a text, with exact decimals. Raises ConfigError with `name` for what is no JSON object."""
    try:
        content = json.loads(text, parse_float=parse_number, parse_constant=_no_constant, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name} is no JSON document: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{name} is no document of pipesched: it holds {shown(content)}")
    return content


def require_version(content: Mapping[str, Any], form: str, what: str, most: int = VERSION) -> None:
    """Raise ConfigError for a document, which is a `what`, of a format but `form`, or of no version up to `most`."""
    if content.get("format") != form:
        own = f", and has {shown(content['format'])}" if "format" in content else ""
        raise ConfigError(f'is no {what}: it lacks "format": "{form}"{own}')
    version = content.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or not VERSION <= version <= most:
        known = f"version {VERSION}" if most == VERSION else f"versions {VERSION} to {most}"
        raise ConfigError(f"has version {shown(version)} of {form}; this pipesched knows {known}")


def picked(one: object, *keys: str) -> dict[str, Any]:
    """Return attributes by their names."""
    return {key: getattr(one, key) for key in keys}


def get(content: Any, key: str, kind: type) -> Any:
    """Return `content[key]` if it is there, and of that type. Raises ConfigError."""
    if not isinstance(content, dict) or key not in content or not isinstance(content[key], kind):
        raise ConfigError(f"{key!r} is missing, or of the wrong type")
    return content[key]


def require_metrics(metrics: Mapping[str, Any], where: str, required: Iterable[str] = ()) -> None:
    """Raise ConfigError, with `where`, for a metric that is no number, or no list of them; others may be missing."""
    for key in dict.fromkeys((*required, *(key for key in METRICS if key in metrics))):
        value = metrics.get(key)
        if value is None and key in UNKNOWN:
            continue
        if key in BY_DEVICE and (not isinstance(value, list) or not value):
            raise ConfigError(f"{where}{key} must list a number for each device, not {shown(value)}")
        for one in value if isinstance(value, list) and key in BY_DEVICE else [value]:
            require_finite(one, f"{where}{key}")
    if "step" in metrics:
        for key in ("pipeline", "network"):
            require_finite(get(metrics, "step", dict).get(key), f"{where}step.{key}")


def require_finite(value: Any, name: str) -> Any:
    """Return a value if it is a number that a float can hold. Raises ConfigError."""
    is_number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    if not is_number or abs(value) > MOST:
        raise ConfigError(f"{name} must be a number, not {shown(value)}")
    return value


def nearly_equal(theirs: Any, ours: Any) -> bool:
    """Return whether values are equal, but for the last digits of a float that another program computed."""
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(theirs) == len(ours) and all(map(nearly_equal, theirs, ours))
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        return {*theirs} == {*ours} and all(nearly_equal(theirs[key], ours[key]) for key in ours)
    if isinstance(theirs, bool) or isinstance(ours, bool) or not isinstance(theirs, (int, float)):
        return type(theirs) is type(ours) and bool(theirs == ours)
    return isinstance(ours, (int, float)) and isclose(theirs, ours, rel_tol=1e-9, abs_tol=1e-12)


def plain_values(value: Any) -> Any:
    """Return a value, such as an option, with a number of JSON for each decimal and fraction in it."""
    if isinstance(value, Mapping):
        return {name: plain_values(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_values(entry) for entry in value]
    return plain(Fraction(value)) if isinstance(value, (Decimal, Fraction)) else value


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no number in JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return content
