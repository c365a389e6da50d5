"""From what a user writes of a step beside its passes to numbers: costs of stages, shards of memory and side work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pipesched.checks import require_flag, require_label, require_name, shown
from pipesched.errors import ConfigError
from pipesched.pipeline.costs import Costs
from pipesched.pipeline.quantities import Exact, canonical, to_fraction
from pipesched.pipeline.shapes import Count, Either, Field, Label, ListOf, Number, OneOf
from pipesched.pipeline.step import (
    AHEAD,
    AHEAD_OF_USE,
    AUTO,
    FULL,
    GATHERS,
    LAST,
    LEVELS,
    NOTHING,
    OPTIMIZER_STATES,
    REDUCES,
    Shard,
    SideItem,
    item_of,
)
from pipesched.pipeline.unit_arguments import MOST_ITEMS, Extent, known_entries
from pipesched.pipeline.units import entry_of
from pipesched.pipeline.units_of_measure import (
    MEMORY,
    TIME,
    Unit,
    count_of,
    exact_number,
    exact_numbers,
    first_entries,
    is_several,
    length_text,
)

ALL = "all"  # of devices
SHARD = {
    "level": Field(
        "shard.level",
        OneOf(*LEVELS),
        "what data-parallel ranks divide: none, optimizer (its states; default beside costs.gather), gradients too or"
        " weights too",
        "shard",
        flag="shard",
    ),
    "ranks": Field(
        "shard.ranks",
        Count(),
        "among how many ranks each part is divided; default 1",
        "shard",
        flag="shard-ranks",
        called="ranks of a shard",
    ),
    "ahead": Field(
        "shard.ahead",
        Either(Count(), OneOf(FULL, AUTO), ListOf(Count()), metavar="N[,N..]|full|auto", is_number=True),
        "with weights divided: how many stages of a device are whole at once; default 3",
        "shard",
        flag="shard-ahead",
        called="stages ahead",
    ),
    "reduce": Field(
        "shard.reduce",
        OneOf(*REDUCES),
        "last (default): gradients are reduced once a stage; each: after each microbatch",
        "shard",
        flag="shard-reduce",
        called="rule of reductions",
    ),
    "gather": Field(
        "shard.gather",
        OneOf(*GATHERS),
        "with weights divided: ahead (default), or each: a forward frees its stage, nothing is gathered ahead",
        "shard",
        flag="shard-gather",
        called="rule of gathers",
    ),
}
_TIME, _SIZE = Number(TIME), Number(MEMORY)
_TIMES = Either(_TIME, ListOf(_TIME))
SIDE = {
    "name": Label(), "forward": _TIMES, "backward": _TIMES, "into": Count(0),
    "devices": Either(OneOf(ALL), ListOf(Count(0), 1, unique=True)), "p2p": _TIME, "activation": _SIZE,
    "output": _SIZE, "static": _SIZE,
}  # fmt: skip
SIDE_SIZES = tuple(key for key, shape in SIDE.items() if shape is _SIZE)  # the others that have a unit are times


def read_step(shard: Any, clip: Any, side: Any, costs: Costs, shape: Extent) -> dict[str, Any]:
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
        what = f"must be a level ({', '.join(LEVELS)}) or a mapping of {', '.join(SHARD)}, not {shown(value)}"
        raise ConfigError(what, "shard")
    given = known_entries(value, [*SHARD], "shard")
    with entry_of("shard", "level"):
        level = require_name(LEVELS, given.get("level", OPTIMIZER_STATES if gathers else NOTHING), "level", "shard")
    with entry_of("shard", "ranks"):
        ranks = count_of("shard", given.get("ranks", 1))
    with entry_of("shard", "ahead"):
        ahead = _ahead(given.get("ahead", AHEAD), devices)
    return Shard(level, ranks, ahead, given.get("reduce", LAST), given.get("gather", AHEAD_OF_USE))


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


def read_side(value: Any, shape: Extent) -> tuple[SideItem, ...]:
    """Return the items of side work, from a list of mappings. Raises ConfigError about `side`."""
    if value is None:
        return ()
    items = first_entries(value, MOST_ITEMS) if is_several(value) else []
    if not items:
        what = f"must list items, each a mapping of {', '.join(SIDE)}, not {shown(value)}"
        raise ConfigError(what, "side")
    if len(items) > MOST_ITEMS:
        raise ConfigError(f"must list at most {MOST_ITEMS:,} items", "side")
    return tuple(_item(item, number, shape) for number, item in enumerate(items))


def _item(value: Any, number: int, shape: Extent) -> SideItem:
    if isinstance(value, SideItem):
        return value
    with item_of(number):
        given = known_entries(value, [*SIDE], "side")
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


def _times(given: Mapping[str, Any], key: str, shape: Extent) -> tuple[Exact, ...]:
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
    return {key: values[key] for key in SIDE}
