"""From what a user writes of a step beside its passes to numbers: costs of stages, shards of memory and side work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pipesched.checks import require_flag, require_label, require_name, shown
from pipesched.errors import ConfigError
from pipesched.pipeline.costs import STEP_TIMES, Costs
from pipesched.pipeline.quantities import Exact, canonical, to_fraction
from pipesched.pipeline.step import AHEAD, AUTO, FULL, LAST, LEVELS, NOTHING, OPTIMIZER_STATES, Shard, SideItem, item_of
from pipesched.pipeline.unit_arguments import MOST_ITEMS, known_entries
from pipesched.pipeline.units import entry_of
from pipesched.pipeline.units_of_measure import (
    Unit,
    count_of,
    exact_number,
    exact_numbers,
    first_entries,
    is_several,
    length_text,
)

SHARD_KEYS = ("level", "ranks", "ahead", "reduce")
SIDE_KEYS = ("name", "forward", "backward", "into", "devices", "p2p", "activation", "output", "static")
SIDE_SIZES = ("activation", "output", "static")  # the others that have a unit are times
ALL = "all"  # of devices


class StepShape(NamedTuple):
    """What the lists of a step are for, and the units of its numbers."""

    devices: int
    stages: int
    microbatches: int
    time: Unit
    size: Unit


def read_step_costs(given: Mapping[str, Any], stages: int, time: Unit) -> dict[str, Any]:
    """Return what a step costs beside its passes, by the fields of Costs; None for what is not given.

    Raises ConfigError about the parameter at fault.
    """
    columns: dict[str, Any] = {
        key: None if given[key] is None else exact_numbers(key, given[key], stages, "one a stage", time)
        for key in STEP_TIMES
    }
    if given["tied"] is None:
        return {**columns, "tied": None}
    if is_several(given["tied"]):
        raise ConfigError("must be one number: first and last stage add up the gradients that they share", "tied")
    return {**columns, "tied": canonical(exact_number("tied", given["tied"], time))}


def read_step(shard: Any, clip: Any, side: Any, costs: Costs, shape: StepShape) -> dict[str, Any]:
    """Return the fields of a Problem that say what its step has beside costs. Raises ConfigError about one of them."""
    return {
        "shard": read_shard(shard, shape.devices, gathers=costs.gather is not None),
        "clip": None if clip is None else require_flag(clip, "clip"),
        "side": read_side(side, shape),
    }


def read_shard(value: Any, devices: int, *, gathers: bool = False) -> Shard | None:
    """Return what the ranks of a device divide, from a level, or a mapping. Raises ConfigError about `shard`.

    Where it says no level, the states of the optimizer are divided if a step `gathers` weights, else nothing.
    """
    if value is None or isinstance(value, Shard):
        return value
    if isinstance(value, str):
        value = {"level": value}
    if not isinstance(value, Mapping):
        what = f"must be a level ({', '.join(LEVELS)}) or a mapping of {', '.join(SHARD_KEYS)}, not {shown(value)}"
        raise ConfigError(what, "shard")
    given = known_entries(value, SHARD_KEYS, "shard")
    with entry_of("shard", "level"):
        level = require_name(LEVELS, given.get("level", OPTIMIZER_STATES if gathers else NOTHING), "level", "shard")
    with entry_of("shard", "ranks"):
        ranks = count_of("shard", given.get("ranks", 1))
    with entry_of("shard", "ahead"):
        ahead = _ahead(given.get("ahead", AHEAD), devices)
    return Shard(level, ranks, ahead, given.get("reduce", LAST))


def _ahead(value: Any, devices: int) -> Any:
    """Return how many stages are whole at once: a number, one a device, or a word. Raises ConfigError."""
    if isinstance(value, str) and value in (FULL, AUTO):
        return value
    if not is_several(value):
        return _ahead_of_one(value, f", {FULL} or {AUTO}")
    entries = first_entries(value, devices)
    if len(entries) != devices:
        found = length_text(value, entries, devices)
        raise ConfigError(f"a list here needs {devices} numbers (one a device); this one has {found}", "shard")
    return tuple(_ahead_of_one(one, " in a list") for one in entries)


def _ahead_of_one(value: Any, others: str) -> int:
    try:
        return count_of("shard", value)
    except ConfigError:
        raise ConfigError(f"must be a whole number of at least 1{others}, not {shown(value)}", "shard") from None


def read_side(value: Any, shape: StepShape) -> tuple[SideItem, ...]:
    """Return the items of side work, from a list of mappings. Raises ConfigError about `side`."""
    if value is None:
        return ()
    items = first_entries(value, MOST_ITEMS) if is_several(value) else []
    if not items:
        what = f"must list items, each a mapping of {', '.join(SIDE_KEYS)}, not {shown(value)}"
        raise ConfigError(what, "side")
    if len(items) > MOST_ITEMS:
        raise ConfigError(f"must list at most {MOST_ITEMS:,} items", "side")
    return tuple(_item(item, number, shape) for number, item in enumerate(items))


def _item(value: Any, number: int, shape: StepShape) -> SideItem:
    if isinstance(value, SideItem):
        return value
    with item_of(number):
        given = known_entries(value, SIDE_KEYS, "side")
        if "forward" not in given:
            raise ConfigError("is missing: it is what the forward of an item takes", "side", entry="forward")
        name = given.get("name", "")
        with entry_of("side", "name"):
            require_label(name, "side")
        return SideItem(
            forward=_times(given, "forward", shape),
            backward=_times(given, "backward", shape) if "backward" in given else None,
            devices=_devices(given.get("devices", ALL), shape.devices),
            into=_place(given.get("into", 0), "into", shape.stages - 1),
            p2p=_number(given, "p2p", shape.time),
            activation=_number(given, "activation", shape.size),
            output=_number(given, "output", shape.size),
            static=_number(given, "static", shape.size),
            name=name,
        )


def _times(given: Mapping[str, Any], key: str, shape: StepShape) -> tuple[Exact, ...]:
    if not is_several(given[key]):
        return (_number(given, key, shape.time),)
    with entry_of("side", key):
        return exact_numbers("side", given[key], shape.microbatches, "one a microbatch", shape.time)


def _number(given: Mapping[str, Any], key: str, unit: Unit) -> Exact:
    with entry_of("side", key):
        return canonical(exact_number("side", given.get(key, 0), unit))


def _devices(value: Any, devices: int) -> tuple[int, ...]:
    if isinstance(value, str) and value == ALL:
        return tuple(range(devices))
    if not is_several(value):
        raise ConfigError(f"must be {ALL}, or a list of devices, not {shown(value)}", "side", entry="devices")
    return tuple(_place(one, "devices", devices - 1) for one in first_entries(value, devices))


def _place(value: Any, entry: str, most: int) -> int:
    """Return the number of a device or a stage, from 0 to `most`."""
    what = "device" if entry == "devices" else "stage"
    try:
        number = to_fraction(value)
    except ValueError:
        raise ConfigError(f"{shown(value)} is no {what}; {what}s are 0 to {most}", "side", entry=entry) from None
    if number.denominator != 1 or not 0 <= number <= most:
        raise ConfigError(f"{what} {shown(value)} is out of range; {what}s are 0 to {most}", "side", entry=entry)
    return int(number)


def item_values(item: SideItem, written: Callable[[Exact], Any]) -> dict[str, Any]:
    """Return side work as a mapping of `side`, every default filled in, with its numbers as they are `written`."""

    def times(values: tuple[Exact, ...] | None) -> Any:
        return None if values is None else written(values[0]) if len(values) == 1 else [*map(written, values)]

    values = {
        **{key: written(getattr(item, key)) for key in ("p2p", *SIDE_SIZES)},
        **{key: times(getattr(item, key)) for key in ("forward", "backward")},
        "name": item.name,
        "into": item.into,
        "devices": list(item.devices),
    }
    return {key: values[key] for key in SIDE_KEYS}
