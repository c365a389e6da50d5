"""From what a user writes of a model's layers to Layers: numbers or their texts, every default filled in."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from pipesched.checks import require_mapping, require_name, shown
from pipesched.errors import ConfigError
from pipesched.pipeline.layers import (
    BALANCED,
    EQUAL,
    GIVEN,
    OPTIONAL,
    SIZES,
    LayerCosts,
    Layers,
    least_counts,
    require_filled,
)
from pipesched.pipeline.layout import equal_layout
from pipesched.pipeline.quantities import Exact, canonical, to_fraction
from pipesched.pipeline.units_of_measure import Unit, count_of, exact_number, first_entries, is_several, length_text

HALVES = ("backward_input", "backward_weight")
KEYS = ("forward", "backward", *HALVES, "recompute", "overlap", "offload", "reload", "activation", "static")
MOST_LAYERS = 10_000
PARTS = ("layer", "first", "last")


class GivenLayers(NamedTuple):
    """What a user gave of the layers of a model: the parameters of make_problem of these names."""

    layers: Any
    layer: Any
    first: Any
    last: Any
    layout: Any


def read_layers(given: GivenLayers, devices: int, stages: int, time: Unit, size: Unit) -> Layers | None:
    """Return the layers of a model, with a layout of that many stages; one that is to be balanced is equal until then.

    None where no `layers` are given. `time` and `size` are the units of the problem. Raises ConfigError, about the
    parameter at fault.
    """
    if given.layers is None:
        _require_none(given)
        return None
    count = count_of("layers", given.layers)
    if count > MOST_LAYERS:
        raise ConfigError(f"must be at most {MOST_LAYERS:,}, not {count}", "layers")
    entries = {key: _entries(key, getattr(given, key), time, size) for key in PARTS}
    _require_alike(entries)
    defaults = {"forward": 1, "activation": canonical(Fraction(devices, count))}
    layer = _costs(entries["layer"], defaults, entries["layer"])
    first, last = (_costs(entries[key], {"forward": 0}, entries["layer"]) for key in ("first", "last"))
    if is_several(given.layout):
        return Layers(layer, first, last, _listed_layout(given.layout, count, stages, first, last), GIVEN)
    if given.layout is not None and not isinstance(given.layout, str):
        what = f"must be {BALANCED}, {EQUAL} or a list of the layers of each stage, not {shown(given.layout)}"
        raise ConfigError(what, "layout")
    rule = BALANCED if given.layout is None else require_name((BALANCED, EQUAL), given.layout, "layout", "layout")
    least = least_counts(stages, first, last)
    if count < sum(least):
        raise ConfigError(f"must be at least {sum(least)} for {stages} stages, not {count}", "layers")
    return Layers(layer, first, last, equal_layout(count, least), rule)


def require_numbers(model: Layers, values: Mapping[str, Any]) -> None:
    """Raise ConfigError for a list that holds for one number of stages, where others may be cut."""
    for key, value in values.items():
        if model.rule != GIVEN and is_several(value):
            raise ConfigError("must be one number: a list holds for one layout, and none is given", key)


def stage_values(model: Layers, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the stages that layers make, by the parameters of make_problem.

    Raises ConfigError for one that is given by stages too.
    """
    for key, value in given.items():
        if value is not None:
            raise ConfigError("is one a stage; with `layers`, give it in `layer`, `first` and `last`", key)
    values: dict[str, Any] = {"backward": None}
    for key in given:
        if key != "backward":
            absent = getattr(model.layer, key) is None
            values[key] = None if absent else [*map(to_fraction, model.amounts(key))]
    return values


def _require_none(given: GivenLayers) -> None:
    """Raise ConfigError for a part that was given without `layers`, which it belongs to."""
    for key in (*PARTS, "layout"):
        if getattr(given, key) is not None:
            raise ConfigError("has no effect without `layers`, the number of layers", key)


def _listed_layout(given: Any, count: int, stages: int, first: LayerCosts, last: LayerCosts) -> tuple[int, ...]:
    """Return a layout that lists `count` layers. Raises ConfigError."""
    entries = first_entries(given, stages)
    if len(entries) != stages:
        found = length_text(given, entries, stages)
        raise ConfigError(f"lists the layers of {found} stages; there are {stages}", "layout")
    numbers = [exact_number("layout", value, None) for value in entries]
    for value, number in zip(entries, numbers, strict=True):
        if number.denominator != 1:
            raise ConfigError(f"must be whole numbers, not {shown(value)}", "layout")
    layout = tuple(map(int, numbers))
    require_filled(layout, first, last)
    if sum(layout) != count:
        raise ConfigError(f"lists {sum(layout)} layers; `layers` is {count}", "layout")
    return layout


def _entries(key: str, given: Any, time: Unit, size: Unit) -> dict[str, Exact]:
    """Return the numbers of a part. Raises ConfigError for an unknown entry, and for one that is no number."""
    what = "numbers by their names (forward, backward, activation, static, ..)"
    numbers = {}
    for name, value in ({} if given is None else require_mapping(given, what, key)).items():
        try:
            require_name(KEYS, name, "key")
            if value is not None:
                numbers[name] = canonical(exact_number(name, value, size if name in SIZES else time))
        except ConfigError as error:
            raise ConfigError(error.message, key, entry=name) from None
    if "reload" in numbers and "offload" not in numbers:
        raise ConfigError("is the way back from host memory; `offload` is needed too", key, entry="reload")
    halves = [half for half in HALVES if half in numbers]
    if "backward" in numbers and halves:
        raise ConfigError(f"give either the whole or its halves, not also `{halves[0]}`", key, entry="backward")
    if len(halves) == 1:
        other = HALVES[halves[0] == HALVES[0]]
        raise ConfigError(f"is half of the backward; `{other}` is needed too", key, entry=halves[0])
    return numbers


def _require_alike(entries: Mapping[str, Mapping[str, Exact]]) -> None:
    """Raise ConfigError where `first` or `last` has what `layer` lacks, or gives the backward in another way."""
    layer = entries["layer"]
    by_halves = HALVES[0] in layer
    for key in ("first", "last"):
        for name in (*OPTIONAL, *HALVES):
            if name in entries[key] and name not in layer:
                raise ConfigError("is not given for a `layer`; give it there too", key, entry=name)
        if by_halves and "backward" in entries[key]:
            raise ConfigError("is given by its halves for a `layer`; give these", key, entry="backward")


def _costs(entries: Mapping[str, Exact], defaults: Mapping[str, Exact], layer: Mapping[str, Exact]) -> LayerCosts:
    """Return the costs of a part, every default filled in; what `layer` does not give is left out."""
    forward = entries.get("forward", defaults["forward"])
    half = canonical(to_fraction(entries["backward"]) / 2) if "backward" in entries else forward
    halves = {name: entries.get(name, half) for name in HALVES}
    whole = canonical(sum(map(to_fraction, (forward, *halves.values())), Fraction(0)))
    offload = entries.get("offload", 0)
    optional = {"overlap": whole, "offload": offload, "reload": offload}
    known = {*layer, *(["reload"] if "offload" in layer else [])}
    given = {name: entries.get(name, default) for name, default in optional.items() if name in known}
    return LayerCosts(
        forward=forward,
        **halves,
        recompute=entries.get("recompute", forward),
        activation=entries.get("activation", defaults.get("activation", 0)),
        static=entries.get("static", 0),
        **given,
    )
