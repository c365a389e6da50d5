"""What to give `make_problem` for a changed problem: those parameters whose values differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from pipesched.pipeline.costs import PER_STAGE, STEP_TIMES, Entry
from pipesched.pipeline.layers import GIVEN, SHARES, SIZES, Amount, LayerCosts
from pipesched.pipeline.memory import KEPT
from pipesched.pipeline.placement import placement_name
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import canonical, plain, rounded, to_fraction
from pipesched.pipeline.step_arguments import item_values

HALVES = ("backward_input", "backward_weight")
MEMORY = ("activation", "retain", "checkpoint", "static", *KEPT, "budget")
DEFAULTS = {
    "p2p": 0,
    "retain": 1,
    "checkpoint": 0,
    "static": 0,
    **dict.fromkeys(KEPT, 0),
}  # of what may be a list, one a stage


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
    yield "side", [item_values(item, typed) for item in problem.side] or None
    if problem.cutter is not None:
        yield "chunks", problem.stages // problem.devices
        return
    yield "stages", problem.stages
    yield "placement", "auto" if problem.placement is None else placement_name(problem.placement, problem.devices)
    layers = problem.layers
    yield "p2p", _one_or_list(problem.costs.p2p if layers is None or layers.p2p is None else layers.p2p)
    own = [key for key in SHARES if layers is None or getattr(layers.layer, key) is None]
    yield from ((key, _one_or_list(getattr(problem.memory, key))) for key in own)
    yield from _arguments_of_stages(problem) if problem.layers is None else _arguments_of_layers(problem)


def _arguments_of_stages(problem: Problem) -> Iterator[tuple[str, Any]]:
    costs, memory = problem.costs, problem.memory
    halves = HALVES if costs.split else ("backward",)
    for key in ("forward", *halves, "recompute", "overlap", "offload", "reload", *STEP_TIMES):
        yield key, _one_or_list(getattr(costs, key) or ())
    yield from ((key, _one_or_list(getattr(memory, key))) for key in SIZES)


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
        given["backward"] = part.backward
    numbers = {key: value for key, value in given.items() if value is not None and (value or key not in KEPT)}
    return {key: typed(value) for key, value in numbers.items()}


def _one_or_list(values: Sequence[Entry]) -> Any:
    """Return one number where all are equal, None where there is none, else a list."""
    numbers = [*map(typed, values)]
    return None if not numbers else numbers[0] if all(number == numbers[0] for number in numbers) else numbers


def typed(value: Amount) -> Any:
    """Return a number, or each of a list or a table, as a config has it: a decimal of as many digits as count."""
    if isinstance(value, tuple):
        return [*map(typed, value)]
    return plain(canonical(rounded(to_fraction(value))))


def as_typed(before: Problem, after: Problem) -> Problem:
    """Return a changed problem with the numbers that are typed for it, where those of stages are others than before."""
    if after.layers is not None or after.cutter is not None:
        return after
    costs = {
        key: column for key in (*PER_STAGE, "p2p", *STEP_TIMES) if (column := _typed(before.costs, after.costs, key))
    }
    memory = {key: column for key in MEMORY if (column := _typed(before.memory, after.memory, key))}
    return replace(after, costs=replace(after.costs, **costs), memory=replace(after.memory, **memory))


def _typed(before: object, after: object, key: str) -> Any:
    """Return the typed numbers of a column that changed, None for one that did not."""
    old, new = getattr(before, key), getattr(after, key)
    return None if new is None or new == old else tuple(map(typed, new))
