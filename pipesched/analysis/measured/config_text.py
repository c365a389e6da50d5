"""Measured costs as a config: the problem that a next schedule is made for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from pipesched.analysis.measured.timeline import Timeline
from pipesched.pipeline.quantities import MOST_DIGITS, to_fraction

DECIMALS = 6  # of times in a config, fewer where they have many digits


def config_text(timeline: Timeline) -> str:
    """Return the config: medians as costs, and memory as the plan had it."""
    return "\n".join(_lines(timeline)) + "\n"


def _lines(timeline: Timeline) -> Iterator[str]:
    problem = timeline.problem
    costs, memory, placement = problem.costs, problem.memory, problem.settled_placement
    yield f"# Measured by {timeline.source}: medians of {timeline.steps} steps."
    if problem.name:
        yield f"name: {json.dumps(problem.name)}"
    yield f"devices: {problem.devices}"
    yield f"stages: {problem.stages}"
    yield f"microbatches: {problem.microbatches}"
    yield f"placement: {'bidirectional' if placement.mirrored else json.dumps(list(placement.devices))}"
    yield f"time_unit: {problem.time_unit}"
    if problem.lanes != "device":
        yield f"lanes: {problem.lanes}"
    yield "costs:"
    backward = ("backward_input", "backward_weight") if costs.split else ("backward",)
    for key in ("forward", *backward, "recompute", "overlap", "p2p", "offload", "reload"):
        values = getattr(costs, key)
        if values is not None:
            yield f"  {key}: {_times(values)}"
    if timeline.plan is None:
        yield "# Traces say nothing of memory; `memory` is still to be given."
        return
    yield "memory:"
    yield f"  unit: {json.dumps(memory.unit)}"
    for key in ("activation", "retain", "checkpoint", "static", "budget"):
        values = getattr(memory, key)
        if values is not None:
            yield f"  {key}: {_sizes(values)}"


def _times(values: Any) -> str:
    return _one_or_list([_decimal(to_fraction(value)) for value in values] or ["0"])


def _decimal(value: Fraction) -> str:
    """Return a time with at most so many digits as a config may have."""
    whole = len(str(int(value)))
    places = max(0, min(DECIMALS, MOST_DIGITS - whole))
    text = f"{float(round(value, places)):.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _sizes(values: Any) -> str:
    return _one_or_list([_exact(to_fraction(value)) for value in values])


def _exact(value: Fraction) -> str:
    number = float(value)
    return (
        json.dumps(value.numerator if value.denominator == 1 else number)
        if to_fraction(number) == value
        else f"{value}"
    )


def _one_or_list(texts: list[str]) -> str:
    return texts[0] if len({*texts}) == 1 else f"[{', '.join(texts)}]"
