"""The best point as a config: one value for each field, its stages, and the algorithm."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from pipesched.estimation.result import Estimate
from pipesched.pipeline.quantities import to_fraction
from pipesched.text.fields import BY_NAME
from pipesched.text.writer import dump
from pipesched.tuning.space import Space
from pipesched.tuning.trial import Trial

SECTIONS = ("parallel", "batch", "training")


def winner_config(space: Space, best: Trial, estimate: Estimate) -> str:
    """Return the config of a point, which `estimate` gives the same step; of one that `solve` found, where it began."""
    setup = estimate.setup
    content: dict[str, Any] = {"name": setup.name} if setup.name else {}
    content |= {key: space.sections[key] for key in ("model", "hardware")}
    values = {key: dict(space.sections.get(key) or {}) for key in SECTIONS}
    values["parallel"] |= {**best.point.layout.parallel, "chunks": setup.parallel.chunks}
    values["parallel"].pop("data", None)
    values["batch"]["micro"] = best.point.layout.micro
    values["training"] |= {"recompute": best.point.layout.recompute_value, "layout": estimate.layout}
    content |= {key: values[key] for key in SECTIONS}
    for name, value in space.given.items():
        _put(content, BY_NAME[name].key, value)
    content["algorithm"] = estimate.outcome.algorithm
    return f"{_heading(space, best, estimate)}\n{dump(content)}"


def _heading(space: Space, best: Trial, estimate: Estimate) -> str:
    rate, held = best.rate, f"{best.memory:.1f} of {float(space.capacity):g} GB"
    lines = [f"# The best of a space: {rate:,.1f} tokens/s/GPU, {held}, estimated by pipesched."]
    if best.point.algorithm != estimate.outcome.algorithm:
        lines.append(f"# That is the schedule that solve found for these stages; {estimate.outcome.algorithm} reaches")
        lines.append(f"# {estimate.step.tokens_per_second_per_gpu:,.1f}.")
    return "\n".join(lines)


def _put(content: dict[str, Any], key: str, value: Any) -> None:
    """Set the value of a dotted key."""
    section, _, name = key.rpartition(".")
    inside = content.setdefault(section, {}) if section else content
    inside[name] = _plain(value)


def _plain(value: Any) -> Any:
    """Return a number, or numbers, as YAML writes them."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else float(value)
    if isinstance(value, str):  # a text that spells a number is one, which no file may say so
        return _spelled(value)
    return value if isinstance(value, (int, float, bool)) or value is None else str(value)


def _spelled(text: str) -> Any:
    try:
        number = to_fraction(text)
    except ValueError:
        return text
    return int(number) if number.denominator == 1 else float(number)
