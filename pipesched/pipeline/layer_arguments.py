"""From what a user writes of a model's layers to Layers: numbers or their texts, every default filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple

from pipesched.checks import require_mapping, require_name, shown
from pipesched.errors import ConfigError
from pipesched.pipeline.costs import HALVES, STEP_TIMES, Costs, Entry, fractions_of
from pipesched.pipeline.layers import (
    BALANCED,
    BEST,
    EQUAL,
    GIVEN,
    OPTIONAL,
    PARTS,
    TIMES,
    Amount,
    LayerCosts,
    Layers,
    least_counts,
    rows_of,
    summed,
)
from pipesched.pipeline.layout import equal_layout
from pipesched.pipeline.layout_text import StageItems, stages_of_counts
from pipesched.pipeline.memory import KEPT, MEMORY_KEYS, SHARES, SIZES, Memory
from pipesched.pipeline.quantities import canonical
from pipesched.pipeline.unit_arguments import exact_table
from pipesched.pipeline.units import SHARED, Slices
from pipesched.pipeline.units_of_measure import (
    Unit,
    count_of,
    exact_number,
    exact_numbers,
    first_entries,
    is_listed,
    is_several,
    length_text,
)

_FIELDS = [field.name for field in fields(LayerCosts) if field.name not in ("forward", "whole")]
KEYS = ("forward", "backward", *_FIELDS)
MOST_LAYERS = 10_000


class GivenLayers(NamedTuple):
    """What a user gave of the layers of a model: the parameters of make_problem of these names."""

    layers: Any
    layer: Any
    first: Any
    last: Any
    mtp: Any
    layout: Any
    across: Mapping[str, Any] = MappingProxyType({})  # p2p, retain and checkpoint
    microbatches: int = 1


class Blocks(dict[str, Any]):
    """Stages that count as layers: the parameter `layer`, in which an entry may hold one number for each microbatch."""


def read_layers(given: GivenLayers, devices: int, stages: int, time: Unit, size: Unit) -> Layers | None:
    """Return the layers of a model, with a layout of that many stages; one that is to be balanced is equal until then.

    None where neither `layers` nor lists of what each costs are given. `time` and `size` are the units of the problem.
    Raises ConfigError, about the parameter at fault.
    """
    entries = {key: _entries(key, getattr(given, key), time, size, given.microbatches) for key in PARTS}
    count = _count(given, entries["layer"])
    if count is None:
        for key in (*PARTS, "layout"):
            if getattr(given, key) is not None:
                raise ConfigError("has no effect without `layers`, the number of layers", key)
        return None
    _require_alike(entries)
    for key in STEP_TIMES:  # a stage may have them beside its layers alone
        if any(key in part for part in entries.values()):
            entries["layer"].setdefault(key, 0)
    defaults: dict[str, Amount] = {"forward": 1, "activation": canonical(Fraction(devices, count))}
    layer = _costs(entries["layer"], defaults, entries["layer"])
    shares = _shares_beside(entries["layer"], given.across)
    parts: dict[str, Any] = {
        key: _costs({**shares, **entries[key]}, {"forward": 0}, entries["layer"]) for key in PARTS[1:]
    }
    layers = Layers(layer, layout=(count,), rule=GIVEN, p2p=_latencies(given, count, stages, time), **parts)
    made = _laid_out(given.layout, layers, stages, devices)
    if (given.mtp is None) != all(stage.mtp == 0 for stage in made.items):
        if given.mtp is None:
            raise ConfigError("has m, a layer of multi-token prediction: give what one costs in `mtp`", "layout")
        raise ConfigError("has no effect without m (MTP layers) in `layout`, Megatron-LM's text: E|t*4|t*3m|L", "mtp")
    return made


def _shares_beside(layer: Mapping[str, Amount], across: Mapping[str, Any]) -> dict[str, Amount]:
    """Return the `retain` and `checkpoint` of what stands beside layers that have their own. Raises ConfigError."""
    found: dict[str, Amount] = {}
    for key in SHARES:
        if key in layer and is_several(across[key]):
            raise ConfigError(f"must be one number beside `layer.{key}`: that of what stands beside the layers", key)
        if key in layer:
            found[key] = canonical(exact_number(key, across[key], None, MEMORY_KEYS[key].number.most))
    return found


def _count(given: GivenLayers, layer: Mapping[str, Amount]) -> int | None:
    """Return the number of layers: as given, or the length of the lists; None for neither. Raises ConfigError."""
    lengths = {key: len(value) for key, value in layer.items() if isinstance(value, tuple)}
    if given.layers is not None:
        count, what = count_of("layers", given.layers), "`layers` is"
    elif lengths:
        first, count = next(iter(lengths.items()))
        what = f"`layer.{first}` lists"
    else:
        return None
    if count > MOST_LAYERS:
        where = {"key": "layers"} if given.layers is not None else {"key": "layer", "entry": next(iter(lengths))}
        raise ConfigError(f"must be at most {MOST_LAYERS:,}, not {count}", **where)
    for key, length in lengths.items():
        if length != count:
            raise ConfigError(f"lists {length} layers; {what} {count}", "layer", entry=key)
    return count


def _latencies(given: GivenLayers, count: int, stages: int, time: Unit) -> tuple[Entry, ...] | None:
    """Return the latency of each boundary between layers; None for one number, and for a list by a given layout."""
    p2p = given.across["p2p"]
    if not is_listed(p2p):
        return None
    entries, is_laid_out = first_entries(p2p, MOST_LAYERS), is_several(given.layout)
    if is_laid_out and len(entries) == stages - 1:
        return None
    if len(entries) != count - 1:
        what = "layer" if given.layers is None else "layers"
        needed = f"{count - 1} numbers (one a boundary between layers: `{what}` says {count})"
        needed += f" or {stages - 1} (between stages: `layout` lists {stages})" if is_laid_out else ""
        found = length_text(p2p, entries, MOST_LAYERS)
        raise ConfigError(f"must be one number, or a list of {needed}; this one has {found}", "p2p")
    between = "one a boundary between layers"
    latencies = exact_table("p2p", entries, count - 1, between, time, given.microbatches)
    return latencies if len({*latencies}) > 1 or rows_of(latencies) > 1 else None


def _laid_out(layout: Any, layers: Layers, stages: int, devices: int) -> Layers:
    """Return layers with a layout that is given, or with equal counts until a rule finds it. Raises ConfigError.

    Too few for all stages fill the first ones, if there is one a device: a family with fewer stages cuts them anew.
    """
    count, first, last = layers.count, layers.first, layers.last
    if is_several(layout):
        counts = _listed_layout([one[1] if isinstance(one, StageItems) else one for one in layout], count, stages)
        is_plain = layout == stages_of_counts(counts) or not isinstance(layout[0], StageItems)
        return replace(layers, layout=counts, items=() if is_plain else tuple(layout))
    if layout is not None and not isinstance(layout, str):
        what = f"must be {BEST}, {BALANCED}, {EQUAL}, a list of the layers of each stage, or a text such as Et*2|t*2L"
        what += f", not {shown(layout)}"
        raise ConfigError(what, "layout")
    rule = BEST if layout is None else require_name((BEST, BALANCED, EQUAL), layout, "layout", "layout")
    least = least_counts(stages, first, last)
    if count >= sum(least):
        return replace(layers, layout=equal_layout(count, least), rule=rule)
    if count < sum(least_counts(devices, first, last)) or stages <= devices:
        raise ConfigError(f"must be at least {sum(least)} for {stages} stages, not {count}", "layers")
    return replace(layers, layout=(1,) * count + (0,) * (stages - count), rule=rule)


def values_across(model: Layers, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `p2p`, `retain` and `checkpoint` of the stages: as the layers make them, else as they were given.

    Raises ConfigError for a list that holds for one number of stages, where others may be cut.
    """
    found, by_stage = {}, len(model.layout) - 1 if model.rule == GIVEN else None
    for key, value in values.items():
        made = model.latencies if key == "p2p" else model.shares(key)
        if made is not None:
            found[key] = [*map(fractions_of, made)]
        elif key == "p2p" and is_listed(value) and len(value) == model.count - 1 and len(value) != by_stage:
            found[key] = [*value, 0][0]  # of layers, and all the same
        elif not is_several(value) or model.rule == GIVEN:
            found[key] = value
        else:
            raise ConfigError("must be one number: a list holds for one layout, and none is given", key)
    return found


def stage_values(model: Layers, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the stages that layers make, by the parameters of make_problem.

    Raises ConfigError for one that is given by stages too.
    """
    for key, value in given.items():
        if value is not None:
            raise ConfigError("is one a stage; with `layers`, give it in `layer`, `first` and `last`", key)
    values: dict[str, Any] = {}
    for key in given:
        field = "whole" if key == "backward" else key
        absent = getattr(model.layer, field) is None
        values[key] = None if absent else [*map(fractions_of, model.amounts(field))]
    return values


def require_one_layout(slices: Slices, model: Layers) -> None:
    """Raise ConfigError for parts of the work by stage, where other stages may be cut, or others than those were."""
    for key in SHARED:
        rows = len(getattr(slices, key))
        if rows > 1 and (model.rule != GIVEN or rows != len(model.layout)):
            what = "must be one list: lists by stage hold for one layout, and none is given"
            raise ConfigError(what, "slices", entry=f"work.{key}")


def _listed_layout(given: Any, count: int, stages: int) -> tuple[int, ...]:
    entries = first_entries(given, stages)
    if len(entries) != stages:
        found = length_text(given, entries, stages)
        raise ConfigError(f"lists the layers of {found} stages; there are {stages}", "layout")
    numbers = [exact_number("layout", value, None) for value in entries]
    for value, number in zip(entries, numbers, strict=True):
        if number.denominator != 1:
            raise ConfigError(f"must be whole numbers, not {shown(value)}", "layout")
    layout = tuple(map(int, numbers))
    if not layout:
        raise ConfigError("must list the layers of each stage", "layout")
    if sum(layout) != count:
        raise ConfigError(f"lists {sum(layout)} layers; `layers` is {count}", "layout")
    return layout


def layer_of(costs: Costs, memory: Memory) -> Blocks:
    """Return stages as layers: the parameter `layer` that makes them of as many."""
    columns: dict[str, Any] = {key: getattr(costs, key) for key in TIMES if costs.split or key not in HALVES}
    whole = columns.pop("whole")
    columns["backward"] = whole if costs.split else costs.backward
    columns |= {key: getattr(memory, key) for key in SIZES}
    columns |= {key: column for key in SHARES if len({*(column := getattr(memory, key))}) > 1}
    return Blocks({key: [*map(fractions_of, column)] for key, column in columns.items() if column is not None})


def _entries(part: str, given: Any, time: Unit, size: Unit, microbatches: int) -> dict[str, Amount]:
    """Return the numbers of a part, of a `layer` also lists of them.

    Raises ConfigError for an unknown entry, and for one that is no number.
    """
    what = "numbers by their names (forward, backward, activation, static, ..)"
    rows = microbatches if isinstance(given, Blocks) else None
    numbers: dict[str, Amount] = {}
    for name, value in ({} if given is None else require_mapping(given, what, part)).items():
        try:
            require_name(KEYS, name, "key")
            if value is not None:
                unit = None if name in SHARES else size if name in SIZES else time
                numbers[name] = _one_or_each(name, value, unit, rows, is_listed=part == "layer")
        except ConfigError as error:
            place = f"{name}[{error.entry}]" if isinstance(error.entry, int) else name
            raise ConfigError(error.message, part, entry=place) from None
    if "reload" in numbers and "offload" not in numbers:
        raise ConfigError("is the way back from host memory; `offload` is needed too", part, entry="reload")
    halves = [half for half in HALVES if half in numbers]
    if len(halves) == 1:
        other = HALVES[halves[0] == HALVES[0]]
        raise ConfigError(f"is half of the backward; `{other}` is needed too", part, entry=halves[0])
    return numbers


def _one_or_each(name: str, value: Any, unit: Unit | None, microbatches: int | None, *, is_listed: bool) -> Amount:
    """Return the number of an entry, or where that may be the numbers of a list, or a table. Raises ConfigError."""
    most = MEMORY_KEYS[name].number.most if name in SHARES else None
    if not is_several(value) or not is_listed:
        return canonical(exact_number(name, value, unit, most))
    entries = first_entries(value, MOST_LAYERS)
    if not entries or len(entries) > MOST_LAYERS:
        raise ConfigError(f"must list 1 to {MOST_LAYERS:,} layers", name)
    if microbatches is not None and any(map(is_several, entries)):
        return exact_table(name, entries, len(entries), "one a layer", unit, microbatches)
    return exact_numbers(name, entries, len(entries), "one a layer", unit, most)


def _require_alike(entries: Mapping[str, Mapping[str, Amount]]) -> None:
    """Raise ConfigError where `first` or `last` has what `layer` lacks, or gives the backward in another way."""
    layer = entries["layer"]
    by_halves = HALVES[0] in layer
    for key in PARTS[1:]:
        for name in (*(one for one in OPTIONAL if one not in STEP_TIMES), *HALVES, *SHARES):
            if name in entries[key] and name not in layer:
                raise ConfigError("is not given for a `layer`; give it there too", key, entry=name)
        if by_halves and "backward" in entries[key] and "backward" not in layer:
            raise ConfigError("is given by its halves for a `layer`; give these", key, entry="backward")


def _costs(entries: Mapping[str, Amount], defaults: Mapping[str, Amount], layer: Mapping[str, Amount]) -> LayerCosts:
    """Return the costs of a part, every default filled in; what `layer` does not give is left out."""
    forward = entries.get("forward", defaults["forward"])
    half = summed([entries["backward"]], Fraction(1, 2)) if "backward" in entries else forward
    halves = {name: entries.get(name, half) for name in HALVES}
    whole = entries.get("backward", summed([*halves.values()]))
    offload = entries.get("offload", 0)
    optional = {**dict.fromkeys(OPTIONAL, 0), "whole": whole, "overlap": summed([forward, whole])}
    optional |= {"offload": offload, "reload": offload}
    known = {*layer, *["reload"] * ("offload" in layer), *["whole"] * ({*HALVES, "backward"} <= {*layer})}
    given = {name: entries.get(name, default) for name, default in optional.items() if name in known}
    return LayerCosts(
        forward=forward,
        **halves,
        recompute=entries.get("recompute", forward),
        activation=entries.get("activation", defaults.get("activation", 0)),
        **{key: entries.get(key, 0) for key in ("static", *KEPT)},
        **given,
        **{key: entries[key] for key in SHARES if key in entries},
    )
