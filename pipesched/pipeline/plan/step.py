"""What a step has beside its passes: `Shard`, `SideItem`, `Messages`; their ticks and grains, and their readers.

Passes are forwards and backwards. Each record stands with what checks it; `read_shard`, `read_side` and `read_messages`
make it of what a config says, by the shapes before them (SHARD, SIDE, MESSAGES).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import Any, NamedTuple

from pipesched.checks import (
    require_flag,
    require_label,
    require_name,
    require_sequence,
    require_type,
    require_whole,
    shown,
)
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.costs import STEP_TIMES, Costs, Memory, at_speed, exact_tuple, require_decimals
from pipesched.pipeline.problem.quantities import (
    MEMORY,
    TIME,
    Exact,
    Unit,
    canonical,
    count_of,
    exact_number,
    exact_numbers,
    first_entries,
    grains_per_unit,
    is_several,
    length_text,
    ticks_per_unit,
    to_fraction,
    whole,
)
from pipesched.pipeline.problem.shapes import Count, Either, Field, Label, ListOf, Number, OneOf
from pipesched.pipeline.problem.units import MOST_ITEMS, Extent, entry_of, known_entries

NOTHING, OPTIMIZER_STATES, GRADIENTS, WEIGHTS = LEVELS = ("none", "optimizer", "gradients", "weights")
LAST, EACH = REDUCES = ("last", "each")
AHEAD_OF_USE, _ = GATHERS = ("ahead", EACH)
FULL, AUTO = "full", "auto"
AHEAD = 3  # stages that are unsharded at once in PyTorch

Ahead = int | tuple[int, ...] | str


@dataclass(frozen=True)
class Shard:
    """How the data-parallel ranks of each device divide weights, gradients and optimizer states (ZeRO 0 to 3).

    `level` says what each rank keeps only its part of: "none", the states of the "optimizer", "gradients" too, or
    "weights" too; `ranks` among how many. With weights divided, a device has `ahead` of its stages whole at once: a
    number, one a device, "full" (all), or "auto" (the best one; it is settled before a plan is made). With `gather`
    "each" nothing is gathered ahead: a forward frees its stage, and a backward leaves it whole until the next forward.
    `reduce` says whether gradients are reduced once a stage ("last") or once a stage and microbatch ("each"). Raises
    ConfigError, about `shard`, for what is none of these.
    """

    level: str = NOTHING
    ranks: int = 1
    ahead: Ahead = AHEAD
    reduce: str = LAST
    gather: str = AHEAD_OF_USE

    def __post_init__(self) -> None:
        for key, names in (("level", LEVELS), ("reduce", REDUCES), ("gather", GATHERS)):
            with entry_of("shard", key):
                require_name(names, getattr(self, key), key, "shard")
        object.__setattr__(self, "ranks", require_whole(self.ranks, "shard", least=1, entry="ranks"))
        ahead: Any = self.ahead
        if isinstance(ahead, (list, tuple)):
            each = require_sequence(ahead, "shard")
            ahead = tuple(require_whole(one, "shard", least=1, entry="ahead") for one in each)
        elif not isinstance(ahead, str):
            ahead = require_whole(ahead, "shard", least=1, entry="ahead")
        elif ahead not in (FULL, AUTO):
            raise ConfigError(f"must be a number from 1, full or auto, not {shown(ahead)}", "shard", entry="ahead")
        object.__setattr__(self, "ahead", ahead)
        if self.reduce == EACH and not self.divides(GRADIENTS):
            what = "each needs level gradients or weights: below, gradients stay whole"
            raise ConfigError(what, "shard", entry="reduce")
        if self.ahead != AHEAD and not self.divides(WEIGHTS):
            what = "has no effect below level weights, where weights stay whole: leave it out"
            raise ConfigError(what, "shard", entry="ahead")
        if self.gather == EACH and not self.divides(WEIGHTS):
            raise ConfigError("each needs level weights: below, weights stay whole", "shard", entry="gather")
        if self.gather == EACH and self.ahead != AHEAD:
            what = "has no effect with `shard.gather` each, which gathers nothing ahead: leave it out"
            raise ConfigError(what, "shard", entry="ahead")

    def divides(self, what: str) -> bool:
        """Return whether each rank keeps only its part of what a level is named after."""
        return LEVELS.index(self.level) >= LEVELS.index(what) > 0

    @property
    def reduces_each(self) -> bool:
        """Whether gradients are reduced after each microbatch."""
        return self.reduce == EACH

    @property
    def gathers_each(self) -> bool:
        """Whether weights are freed behind each forward, and gathered directly before what needs them."""
        return self.gather == EACH


@dataclass(frozen=True)
class SideItem:
    """Side work: for each microbatch a forward before stage `into`, and perhaps a backward behind it.

    Times are one for all microbatches, or one each. Raises ConfigError about `side`.
    """

    forward: tuple[Exact, ...]
    backward: tuple[Exact, ...] | None  # None: it is frozen
    devices: tuple[int, ...]  # any of them may run it, at any time between
    into: int = 0  # the stage
    p2p: Exact = 0  # the latency to the device of `into`, and back
    activation: Exact = 0  # held on the device that runs it, from the forward to the backward
    output: Exact = 0  # held on the device of `into` until it is used, and its gradient likewise
    static: Exact = 0  # held on each of the devices
    name: str = ""

    def __post_init__(self) -> None:
        made = vars(self)
        with entry_of("side", "name"):
            require_label(self.name, "side")
        for key in ("forward",) if self.backward is None else ("forward", "backward"):
            made[key] = _exact_times(made[key], key)
        made["p2p"] = _exact_times((self.p2p,), "p2p")[0]
        for key in ("activation", "output", "static"):
            with entry_of("side", key):
                made[key] = exact_tuple((made[key],), "side", 1, "")[0]
        made["into"] = require_whole(self.into, "side", entry="into")
        listed = require_sequence(self.devices, "side")
        made["devices"] = devices = tuple(require_whole(one, "side", entry="devices") for one in listed)
        if not devices or len({*devices}) < len(devices):
            what = "names no device" if not devices else "names a device twice"
            raise ConfigError(f"{what}; it lists those that may run it, or is all", "side", entry="devices")

    def time(self, key: str, microbatch: int) -> Exact:
        """Return the time of a microbatch's "forward" or "backward", 0 where there is none."""
        times: tuple[Exact, ...] | None = getattr(self, key)
        return 0 if times is None else times[microbatch if len(times) > 1 else 0]


def _exact_times(values: object, key: str) -> tuple[Exact, ...]:
    """Return times of an item as exact decimals; one where all are equal. Raises ConfigError about `side`."""
    with entry_of("side", key):
        times = exact_tuple(values, "side", max(len(require_sequence(values, "side")), 1), "one a microbatch")
        require_decimals(times, "side")
    return times if len({*times}) > 1 else times[:1]


def require_step(
    shard: Shard | None, clip: bool | None, side: Sequence[SideItem], costs: Costs, shape: tuple[int, int, int]
) -> None:
    """Raise ConfigError, about the field at fault, for what is no step of so many devices, stages and microbatches."""
    devices, stages, microbatches = shape
    require_type(shard, (Shard, type(None)), "a Shard or None", "shard")
    if clip is not None and require_flag(clip, "clip") and costs.optimizer is None:
        raise ConfigError("needs `costs.optimizer`: it is the optimizer that waits", "clip")
    if shard is not None and isinstance(shard.ahead, tuple) and len(shard.ahead) != devices:
        what = f"needs {devices} numbers (one a device); this has {len(shard.ahead)}"
        raise ConfigError(what, "shard", entry="ahead")
    if shard is not None and shard.level == NOTHING and costs.gather is not None:
        what = "level none gathers nothing: take level optimizer, or leave out `costs.gather`"
        raise ConfigError(what, "shard", entry="level")
    for number, item in enumerate(side):
        with item_of(number):
            require_type(item, SideItem, "a SideItem", "side")
            if item.into >= stages:
                raise ConfigError(f"must be a stage, 0 to {stages - 1}, not {item.into}", "side", entry="into")
            if (most := max(item.devices)) >= devices:
                raise ConfigError(f"must be from 0 to {devices - 1}; there is no {most}", "side", entry="devices")
            for key, times in (("forward", item.forward), ("backward", item.backward)):
                if times is not None and len(times) not in (1, microbatches):
                    what = f"needs one number, or {microbatches}, one a microbatch; this has {len(times)}"
                    raise ConfigError(what, "side", entry=key)


@contextmanager
def item_of(number: int) -> Iterator[None]:
    """Let a ConfigError about `side`, inside the scope, be about that item."""
    try:
        yield
    except ConfigError as error:
        inside = () if error.entry is None else (error.entry,) if not isinstance(error.entry, tuple) else error.entry
        raise ConfigError(error.message, "side", entry=(number, *inside)) from None


def require_step_of_forwards(clip: bool | None, side: Sequence[SideItem], costs: Costs) -> None:
    """Raise ConfigError, about the field at fault, for what only a step with backward passes has."""
    refused = "has no effect with `mode` forward, in which no gradient is made"
    given = {"reduce": costs.reduce, "optimizer": costs.optimizer, "tied": costs.tied, "clip": clip or None}
    if wrong := next((key for key, value in given.items() if value is not None), None):
        raise ConfigError(refused, wrong)
    for number, item in enumerate(side):
        if item.backward is not None:
            raise ConfigError(refused, "side", entry=(number, "backward"))


DIVIDED_FROM = {"weights": WEIGHTS, "gradients": GRADIENTS, "states": OPTIMIZER_STATES}  # the level that divides each


class StepTicks(NamedTuple):
    """What the step lasts beside its passes, in ticks: by stage, `tied` once, side work by item (see `side`).

    What runs on the network lasts its cost on every device; an optimizer and side work last cost / speed, as passes do.
    """

    gather: tuple[int, ...]
    reduce: tuple[int, ...]
    optimizer: tuple[int, ...]
    tied: int
    side_p2p: tuple[int, ...]
    per_unit: int
    side: Sequence[SideItem]
    speed: Sequence[Exact] | None

    def side_lasts(self, key: str, item: int, microbatch: int, device: int) -> int:
        """Return what the "forward" or "backward" of an item lasts for a microbatch on a device."""
        speed = Fraction(1) if self.speed is None else to_fraction(self.speed[device])
        return int(at_speed(to_fraction(self.side[item].time(key, microbatch)), speed) * self.per_unit)


class StepGrains(NamedTuple):
    """What comes and goes beside activations, in grains: whole weights and gradients by stage, side work by item."""

    weights: tuple[int, ...]
    gradients: tuple[int, ...]
    side_activation: tuple[int, ...]
    side_output: tuple[int, ...]
    side_static: tuple[int, ...]


def step_resolution(costs: Costs, side: Sequence[SideItem], speed: Sequence[Exact] | None) -> int:
    """Return the ticks in a time unit that make the times of the step whole on every device."""
    of_side = (time for item in side for time in (*item.forward, *(item.backward or ())))
    scaled = {*map(to_fraction, (*(costs.optimizer or ()), *of_side))}
    fixed = [one for key in STEP_TIMES for one in getattr(costs, key) or ()]
    fixed += [costs.tied or 0, *(item.p2p for item in side)]
    speeds = {Fraction(1), *map(to_fraction, speed or ())}
    return ticks_per_unit([*map(to_fraction, fixed), *(at_speed(one, by) for one in scaled for by in speeds)])


def step_ticks(
    costs: Costs, side: Sequence[SideItem], speed: Sequence[Exact] | None, devices: Sequence[int] | None, per_unit: int
) -> StepTicks:
    """Return what the step lasts with each stage on one of `devices` (None: at speed 1); absent costs are 0."""
    nothing: tuple[Exact, ...] = (0,) * costs.stages
    speeds = [1] * costs.stages if speed is None or devices is None else [speed[there] for there in devices]
    updates = [at_speed(*map(to_fraction, both)) for both in zip(costs.optimizer or nothing, speeds, strict=True)]
    gather, reduce, optimizer = (whole(times or nothing, per_unit) for times in (costs.gather, costs.reduce, updates))
    tied, *hops = whole((costs.tied or 0, *(item.p2p for item in side)), per_unit)
    return StepTicks(gather, reduce, optimizer, tied, tuple(hops), per_unit, side, speed)


def divisors(shard: Shard) -> dict[str, int]:
    """Return by how many ranks each part of what stays of a stage is divided, by the fields of Memory."""
    levels = DIVIDED_FROM.items()
    return {"static": 1, **{key: shard.ranks if shard.divides(level) else 1 for key, level in levels}}


def kept_memory(memory: Memory, shard: Shard, side: Sequence[SideItem]) -> Memory:
    """Return the memory whose `static` counts all that stays of each stage, in grains fine enough for what does not."""
    parts = [[to_fraction(size) / by for size in getattr(memory, key)] for key, by in divisors(shard).items()]
    static = tuple(canonical(sum(column, Fraction(0))) for column in zip(*parts, strict=True))
    comes = [to_fraction(size) for key in ("weights", "gradients") for size in getattr(memory, key)]
    comes += [to_fraction(size) for item in side for size in (item.activation, item.output, item.static)]
    least = lcm(memory.resolution, grains_per_unit(comes))
    return replace(memory, static=static, resolution=least)


def step_grains(memory: Memory, shard: Shard, side: Sequence[SideItem], per_unit: int) -> StepGrains:
    """Return what comes and goes: whole weights where they are divided, and whole gradients where these are."""
    nothing = (0,) * len(memory.static)
    of_stages = (memory.weights if shard.divides(WEIGHTS) else nothing,
                 memory.gradients if shard.divides(GRADIENTS) else nothing)  # fmt: skip
    of_side = ([getattr(item, key) for item in side] for key in ("activation", "output", "static"))
    return StepGrains(*(whole(sizes, per_unit) for sizes in (*of_stages, *of_side)))


ALL = "all"  # of devices
SHARD = {
    "level": Field(
        "shard.level", OneOf(*LEVELS),
        "what data-parallel ranks divide: none, optimizer (its states; default beside costs.gather), gradients too or"
        " weights too",
        "shard", flag="shard",
    ),
    "ranks": Field(
        "shard.ranks", Count(), "among how many ranks each part is divided; default 1",
        "shard", flag="shard-ranks", called="ranks of a shard",
    ),
    "ahead": Field(
        "shard.ahead", Either(Count(), OneOf(FULL, AUTO), ListOf(Count()), metavar="N[,N..]|full|auto", is_number=True),
        "with weights divided: how many stages of a device are whole at once; default 3",
        "shard", flag="shard-ahead", called="stages ahead",
    ),
    "reduce": Field(
        "shard.reduce", OneOf(*REDUCES),
        "last (default): gradients are reduced once a stage; each: after each microbatch",
        "shard", flag="shard-reduce", called="rule of reductions",
    ),
    "gather": Field(
        "shard.gather", OneOf(*GATHERS),
        "with weights divided: ahead (default), or each: a forward frees its stage, nothing is gathered ahead",
        "shard", flag="shard-gather", called="rule of gathers",
    ),
}  # fmt: skip
_TIME, _SIZE = Number(TIME), Number(MEMORY)
_TIMES = Either(_TIME, ListOf(_TIME))
SIDE = {
    "name": Label(), "forward": _TIMES, "backward": _TIMES, "into": Count(0),
    "devices": Either(OneOf(ALL), ListOf(Count(0), 1, unique=True)), "p2p": _TIME, "activation": _SIZE,
    "output": _SIZE, "static": _SIZE,
}  # fmt: skip
SIDE_SIZES = tuple(key for key, shape in SIDE.items() if shape is _SIZE)  # the others that have a unit are times


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
    level = given.get("level", OPTIMIZER_STATES if gathers else NOTHING)
    with entry_of("shard", "ranks"):
        ranks = count_of("shard", given.get("ranks", 1))
    with entry_of("shard", "ahead"):
        ahead = given.get("ahead", AHEAD)
        if is_several(ahead):
            entries = first_entries(ahead, devices)
            if len(entries) != devices:
                found = length_text(ahead, entries, devices)
                what = f"a list here needs {devices} numbers (one a device); this one has {found}"
                raise ConfigError(what, "shard")
            ahead = tuple(_ahead_of_one(one, " in a list") for one in entries)
        elif not isinstance(ahead, str) or ahead not in (FULL, AUTO):
            ahead = _ahead_of_one(ahead, f", {FULL} or {AUTO}")
    return Shard(level, ranks, ahead, given.get("reduce", LAST), given.get("gather", AHEAD_OF_USE))


def _ahead_of_one(value: Any, others: str) -> int:
    try:
        return count_of("shard", value)
    except ConfigError:
        raise ConfigError(f"must be a whole number of at least 1{others}, not {shown(value)}", "shard") from None


def read_side(value: Any, shape: Extent) -> tuple[SideItem, ...]:
    """Return the items of side work, from a list of mappings. Raises ConfigError about `side`."""
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
        return SideItem(
            forward=_times(given, "forward", shape),
            backward=_times(given, "backward", shape) if "backward" in given else None,
            devices=_devices(given.get("devices", ALL), shape.devices),
            into=read_place(given.get("into", 0), "stage", shape.stages - 1, "side", "into"),
            p2p=_number(given, "p2p", shape.time),
            **{key: _number(given, key, shape.size) for key in SIDE_SIZES},
            name=given.get("name", ""),
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
    return tuple(read_place(one, "device", devices - 1, "side", "devices") for one in first_entries(value, devices))


def read_place(value: Any, what: str, most: int, key: str, entry: str | None = None) -> int:
    """Return the number of a device or a stage, from 0 to `most`. Raises ConfigError, about `key` and its `entry`."""
    try:
        number = to_fraction(value)
    except ValueError:
        raise ConfigError(f"{shown(value)} is no {what}; {what}s are 0 to {most}", key, entry=entry) from None
    if number.denominator != 1 or not 0 <= number <= most:
        raise ConfigError(f"{what} {shown(value)} is out of range; {what}s are 0 to {most}", key, entry=entry)
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


FREE, EDGE, PAIR, RANK, ON_DEVICE = "free", "edge", "pair", "rank", "device"
QUEUES = (FREE, EDGE, PAIR, RANK, ON_DEVICE)
PYTORCH, BEST, OF_FILE = "pytorch", "best", "file"
ORDERS = (PYTORCH, BEST, OF_FILE)
MESSAGES = {
    "queue": Field(
        "messages.queue", OneOf(*QUEUES),
        "which messages go one after another: none (free, default), those from one device to another (edge), between"
        " two devices (pair), of a device (rank), or those of a device among its computations (device)",
        "messages", flag="messages", called="queue of messages",
    ),
    "order": Field(
        "messages.order", OneOf(*ORDERS),
        "in which order a device issues them: as PyTorch's runtime would (pytorch), in the best one found (best), or as"
        " the file of the plan says (file); default: file where it says one, else pytorch",
        "messages", flag="messages-order", called="order of messages",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Messages:
    """Queues in which messages go one after another, and the `order` in them (None: of the plan, or PyTorch's).

    Raises ConfigError, about `messages`, for names that are none.
    """

    queue: str = FREE
    order: str | None = None

    def __post_init__(self) -> None:
        with entry_of("messages", "queue"):
            require_name(QUEUES, self.queue, "queue", "messages")
        if self.order is not None:
            with entry_of("messages", "order"):
                require_name(ORDERS, self.order, "order", "messages")
            if self.queue == FREE:
                queues = ", ".join(QUEUES[1:])
                raise ConfigError(f"have no order without a `queue`: {queues}", "messages", entry="order")

    @property
    def is_free(self) -> bool:
        """Whether no message waits for another."""
        return self.queue == FREE


def read_messages(value: Any) -> Messages | None:
    """Return the queues of messages from a name or a mapping; None where they are free. Raises ConfigError."""
    if isinstance(value, str):
        value = {"queue": value}
    if value is not None and not isinstance(value, (Mapping, Messages)):
        what = f"must be a queue ({', '.join(QUEUES)}) or a mapping of {', '.join(MESSAGES)}, not {shown(value)}"
        raise ConfigError(what, "messages")
    found = Messages(**known_entries(value, [*MESSAGES], "messages")) if isinstance(value, Mapping) else value
    return None if found is None or found.is_free else found
