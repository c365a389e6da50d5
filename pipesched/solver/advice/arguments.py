"""What to give `make_problem` for a changed problem: those parameters whose values differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any

from pipesched.errors import ConfigError
from pipesched.pipeline.layers import GIVEN, LayerCosts
from pipesched.pipeline.placement import placement_name
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import Exact, canonical, exact, to_fraction

HALVES = ("backward_input", "backward_weight")
DEFAULTS = {"p2p": 0, "retain": 1, "checkpoint": 0, "static": 0}  # of what may be a list, one a stage


def changed_arguments(before: Problem, after: Problem) -> dict[str, Any]:
    """Return the parameters of make_problem that are others for `after`: one number where all stages have the same.

    Of another number of stages, all that may have been given as a list is among them, if it is no default. A problem
    that was derived from a model has `chunks` instead of `stages`.
    """
    old, new = dict(_arguments(before)), dict(_arguments(after))
    if before.stages != after.stages:
        old |= DEFAULTS
    return {key: value for key, value in new.items() if value is not None and value != old.get(key)}


def _arguments(problem: Problem) -> Iterator[tuple[str, Any]]:
    yield "microbatches", problem.microbatches
    yield "budget", _one_or_list(problem.memory.budget or ())
    if problem.cutter is not None:
        yield "chunks", problem.stages // problem.devices
        return
    yield "stages", problem.stages
    yield "placement", "auto" if problem.placement is None else placement_name(problem.placement, problem.devices)
    yield "p2p", _one_or_list(problem.costs.p2p)
    yield from ((key, _one_or_list(getattr(problem.memory, key))) for key in ("retain", "checkpoint"))
    yield from _arguments_of_stages(problem) if problem.layers is None else _arguments_of_layers(problem)


def _arguments_of_stages(problem: Problem) -> Iterator[tuple[str, Any]]:
    costs, memory = problem.costs, problem.memory
    for key in ("forward", *(HALVES if costs.split else ("backward",)), "recompute", "overlap", "offload", "reload"):
        yield key, _one_or_list(getattr(costs, key) or ())
    yield from ((key, _one_or_list(getattr(memory, key))) for key in ("activation", "static"))


def _arguments_of_layers(problem: Problem) -> Iterator[tuple[str, Any]]:
    layers, split = problem.layers, problem.costs.split
    assert layers is not None
    yield from ((key, _part(getattr(layers, key), split=split)) for key in ("layer", "first", "last"))
    if layers.rule == GIVEN:
        yield "layout", [*layers.layout]


def _part(part: LayerCosts, *, split: bool) -> dict[str, Any]:
    """Return what a layer costs, by the keys of make_problem's parameter."""
    given = {field.name: getattr(part, field.name) for field in fields(part)}
    if not split:
        del given["backward_input"], given["backward_weight"]
        given["backward"] = canonical(part.amount("backward_input") + part.amount("backward_weight"))
    return {key: typed(value) for key, value in given.items() if value is not None}


def _one_or_list(values: Sequence[Exact]) -> Any:
    """Return one number where all are equal, None where there is none, else a list."""
    numbers = [*map(typed, values)]
    return None if not numbers else numbers[0] if all(number == numbers[0] for number in numbers) else numbers


def typed(value: Exact) -> int | float | str:
    """Return a number as a user may type it: an int or a float of few digits, else the text of a fraction, 1/3.

    Raises ConfigError for a fraction of too many digits.
    """
    number = canonical(to_fraction(value))
    whole = to_fraction(number)
    text = f"{whole.numerator}/{whole.denominator}"
    for spelled in (number, text):
        with suppress(ValueError):
            if isinstance(spelled, (int, float, str)) and exact(spelled) == whole:
                return spelled
    raise ConfigError(f"{text} has too many digits")
