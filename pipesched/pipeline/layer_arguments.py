"""From what a user writes of a model's layers to Layers: numbers or their texts, every default filled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from pipesched.checks import require_mapping
from pipesched.errors import ConfigError
from pipesched.names import require_name
from pipesched.pipeline.layers import (
    BALANCED,
    EQUAL,
    GIVEN,
    OPTIONAL,
    LayerCosts,
    Layers,
    least_counts,
    require_filled,
)
from pipesched.pipeline.layout import equal_layout
from pipesched.pipeline.quantities import Exact, canonical, to_fraction

HALVES = ("backward_input", "backward_weight")
KEYS = ("forward", "backward", *HALVES, "recompute", "overlap", "offload", "reload", "activation", "static")
MOST_LAYERS = 10_000
PARTS = ("layer", "first", "last")
Reader = Callable[[str, Any], Fraction]  # the value of a number that the parameter of that name holds


class GivenLayers(NamedTuple):
    """What a user gave of the layers of a model: the parameters of make_problem of these names."""

    layers: Any
    layer: Any
    first: Any
    last: Any
    layout: Any

    def require_layers(self) -> None:
        """Raise ConfigError for a part that was given without `layers`, which it belongs to."""
        for key in (*PARTS, "layout"):
            if getattr(self, key) is not None:
                raise ConfigError("has no effect without `layers`, the number of layers", key)


def read_layers(given: GivenLayers, count: int, stages: int, activation: Fraction, read: Reader) -> Layers:
    """Return `count` layers, with a layout of that many stages; one that is to be balanced is equal until then.

    `activation` is the default of a layer. Raises ConfigError, about the parameter at fault.
    """
    if count > MOST_LAYERS:
        raise ConfigError(f"must be at most {MOST_LAYERS:,}, not {count}", "layers")
    entries = {key: _entries(key, getattr(given, key), read) for key in PARTS}
    _require_alike(entries)
    layer = _costs(entries["layer"], {"forward": 1, "activation": canonical(activation)}, entries["layer"])
    first, last = (_costs(entries[key], {"forward": 0}, entries["layer"]) for key in ("first", "last"))
    least = least_counts(stages, first, last)
    if isinstance(given.layout, str) or given.layout is None:
        rule = BALANCED if given.layout is None else require_name((BALANCED, EQUAL), given.layout, "layout", "layout")
        if count < sum(least):
            raise ConfigError(f"must be at least {sum(least)} for {stages} stages, not {count}", "layers")
        return Layers(layer, first, last, equal_layout(count, least), rule)
    layout = tuple(given.layout)
    require_filled(layout, first, last)
    if sum(layout) != count:
        raise ConfigError(f"lists {sum(layout)} layers; `layers` is {count}", "layout")
    return Layers(layer, first, last, layout, GIVEN)


def _entries(key: str, given: Any, read: Reader) -> dict[str, Exact]:
    """Return the numbers of a part. Raises ConfigError for an unknown entry, and for one that is no number."""
    what = "numbers by their names (forward, backward, activation, static, ..)"
    numbers = {}
    for name, value in ({} if given is None else require_mapping(given, what, key)).items():
        try:
            require_name(KEYS, name, "key")
            if value is not None:
                numbers[name] = canonical(read(name, value))
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
