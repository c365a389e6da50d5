"""What operations cost, in time (`Costs`) and in memory (`Memory`): in the user's units, as given.

All that computes asks `Problem.ticks` and `Problem.grains` instead, which are integers. An `Entry` is what a stage has:
one number, or one for each microbatch. Between both records stand functions of entries, speeds and links.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from pipesched.checks import WIDTH, require_flag, require_label, require_sequence, require_whole, shown
from pipesched.display import Displayable
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.quantities import (
    MEMORY,
    TIME,
    Exact,
    canonical,
    in_range,
    no_number,
    plain_numbers,
    rounded,
    ticks_per_unit,
    to_fraction,
)
from pipesched.pipeline.problem.shapes import Each, Label, Number, declare, declared

BRIEF = 32  # letters of a list of numbers in the text of an object
HALVES = ("backward_input", "backward_weight")
TRANSFER_TIMES = ("offload", "reload")  # of lanes: no speed of a device changes them
A_TIME = Number(TIME)
TIMES, TABLE = Each(A_TIME), Each(A_TIME, rows=True)
Entry = Exact | tuple[Exact, ...]  # of a stage: of all its microbatches, or of each


@dataclass(frozen=True, kw_only=True)
class Costs(Displayable):
    """Durations in the user's time unit, one for each of the S stages.

    Where microbatches differ on a stage, its entry holds one for each of them; `p2p` has one for each of the S-1
    boundaries. `split` says that the backward is given as its halves, so that it may run as I and W. `whole` is a full
    backward that is no sum of the halves (None: it is). None: there is no such operation; a pair then lasts the sum of
    its parts. `resolution`, a power of ten where times are decimals, divides the number of ticks in a time unit.

    Raises ConfigError, about the field at fault, for lists of other lengths and for entries that are no such numbers.
    """

    forward: tuple[Entry, ...] = declare(
        TABLE,
        "time of a forward; default 1 (5 without a config); an entry may list one a microbatch, as that of any cost",
        absent=1,
        live="5",
        remark="a number, or a list with one for each stage, or in it a list of one for each microbatch",
    )
    whole: tuple[Entry, ...] | None = declare(
        TABLE,
        "time of a full backward; default twice forward (10 without a config)",
        None,
        key="costs.backward",
        argument="backward",
        live="10",
        remark="or its two halves, or all three:",
    )
    backward_input: tuple[Entry, ...] = declare(
        TABLE, "its half for the input gradient", called="input gradient", example="5"
    )
    backward_weight: tuple[Entry, ...] = declare(
        TABLE, "its half for the weight gradient", called="weight gradient", example="5"
    )
    recompute: tuple[Entry, ...] = declare(
        TABLE, "time to run a forward again; default forward", flag="recompute-cost", example="5"
    )
    overlap: tuple[Exact, ...] | None = declare(
        TIMES,
        "time of an overlapped pair F&B; default: the sum of its parts",
        None,
        called="overlapped pair",
        example="15",
    )
    p2p: tuple[Entry, ...] = declare(
        Each(A_TIME, "boundary", rows=True),
        "latency of an edge between two devices, or one a boundary between stages or layers; default 0",
        (),
        absent=0,
        called="p2p latency",
        live="0",
    )
    offload: tuple[Entry, ...] | None = declare(
        TABLE, "time to offload one activation", None, flag="offload-cost", example="5"
    )
    reload: tuple[Entry, ...] | None = declare(
        TABLE, "time to load it back; default offload", None, flag=None, example="5"
    )
    split: bool = False
    gather: tuple[Exact, ...] | None = declare(
        TIMES,
        "time to bring the weights of a stage together, over the network",
        None,
        called="gather of weights",
        flag="gather-cost",
        once=True,
        example="4",
    )
    reduce: tuple[Exact, ...] | None = declare(
        TIMES,
        "time to add up the gradients of a stage among data-parallel ranks",
        None,
        called="reduction of gradients",
        flag="reduce-cost",
        once=True,
        example="6",
    )
    optimizer: tuple[Exact, ...] | None = declare(
        TIMES,
        "time of the optimizer's update of a stage, on its device",
        None,
        flag="optimizer-cost",
        once=True,
        example="2",
    )
    tied: Exact | None = declare(
        A_TIME,
        "time in which first and last stage add up gradients that they share: one number",
        None,
        called="sum of tied gradients",
        flag="tied-cost",
        example="3",
    )
    resolution: int = field(default=1, compare=False)

    stages: int = field(init=False, compare=False)  # the number of stages
    microbatches: int | None = field(init=False, compare=False)  # of which entries have one each; None: all are alike
    has_step: bool = field(init=False, compare=False)  # whether it says what a step costs beside its passes

    def __post_init__(self) -> None:
        made, stages = vars(self), len(require_sequence(self.forward, "forward"))
        for name in (*PER_STAGE, *STEP_TIMES):
            if getattr(self, name) is not None or not COSTS[name].optional:
                is_table = COSTS[name].name in TABLED
                made[name] = exact_tuple(getattr(self, name), name, stages, "one a stage", by_row=is_table)
        if self.whole is not None and self.whole == self._sums:
            made["whole"] = None
        if self.tied is not None:
            made["tied"] = exact_tuple((self.tied,), "tied", 1, "")[0]
        made["p2p"] = exact_tuple(self.p2p, "p2p", stages - 1, "one a boundary between stages", by_row=True)
        if (self.offload is None) != (self.reload is None):
            missing = "offload" if self.offload is None else "reload"
            raise ConfigError("offload and reload are given together or not at all", missing)
        require_flag(self.split, "split")
        require_whole(self.resolution, "resolution", least=1)
        columns = {key: made[key] for key in (*PER_STAGE, "p2p", *STEP_TIMES) if made[key]}
        for key, column in (columns if self.tied is None else {**columns, "tied": (self.tied,)}).items():
            if {*map(type, column)} - {int, float}:  # which are decimals
                require_decimals(column, key)
        rows = [len(entry) for column in columns.values() for entry in column if isinstance(entry, tuple)]
        has_step = self.tied is not None or any(made[key] is not None for key in STEP_TIMES)
        made.update(stages=stages, microbatches=max(rows, default=None), has_step=has_step)

    def __repr__(self) -> str:
        forward, backward = one_or_all(self.forward, BRIEF), one_or_all(self.backward, BRIEF)
        return f"Costs({forward=!s}, {backward=!s}, stages={self.stages})"

    @property
    def backward(self) -> tuple[Entry, ...]:
        """The full backward B of each stage: `whole`, or both halves."""
        return self.whole or self._sums

    @property
    def _sums(self) -> tuple[Entry, ...]:
        """Both halves of each stage."""
        return tuple(map(added, zip(self.backward_input, self.backward_weight, strict=True)))

    @property
    def chooses(self) -> bool:
        """Whether each backward may run whole or as its halves, which take another time."""
        return self.split and self.whole is not None

    @property
    def given_backward(self) -> tuple[str, ...]:
        """The parameters of make_problem that say what a backward costs: of the whole, of its halves, or of both."""
        whole = ("backward",) if self.chooses or not self.split else ()
        return whole + HALVES * self.split

    @property
    def unsaid(self) -> set[str]:
        """The others, which follow from these."""
        return {"backward", *HALVES} - {*self.given_backward}


COSTS = declared(Costs, "costs")
PER_STAGE = tuple(name for name, one in COSTS.items() if one.of_stages and not one.once)
STEP_TIMES = tuple(name for name, one in COSTS.items() if one.once)


def require_decimals(times: Iterable[Entry], key: str) -> None:
    """Raise ConfigError, about `key`, for a time that no number of ticks is."""
    try:
        ticks_per_unit(dict.fromkeys(time for time in in_one(times) if isinstance(time, Fraction)))
    except ValueError as error:
        raise ConfigError(f"times must be decimals; {error}", key) from None


def exact_tuple(values: object, key: str, count: int, each: str, *, by_row: bool = False) -> tuple[Any, ...]:
    """Return `count` values as exact numbers; `by_row` some may be rows of those of each microbatch, not all the same.

    Raises ConfigError, about `key`, for anything but numbers from 0 on, and for rows of several lengths.
    """
    numbers = require_sequence(values, key)
    rows = [len(value) for value in numbers if isinstance(value, (list, tuple))] if by_row else []
    if len(numbers) != count:
        what = "entries" if rows else "numbers"
        raise ConfigError(f"needs {count} {what} ({each}); this has {len(numbers)}", key)
    known = None if rows else plain_numbers(numbers)
    if known is not None:
        return known
    checked = list[Entry]()
    for entry, value in enumerate(numbers):
        try:
            if rows and isinstance(value, (list, tuple)):
                if len(value) not in (1, max(rows)) or not value:
                    what = f"has a row of {len(value)} numbers beside one of {max(rows)} microbatches"
                    raise ConfigError(what, key)
                row = exact_tuple(value, key, len(value), "")
                checked.append(row if len({*row}) > 1 else row[0])
                continue
            number = in_range(to_fraction(value))
        except ConfigError as error:
            raise ConfigError(error.message, key, entry=entry) from None
        except ValueError as error:
            raise ConfigError(no_number(value, error), key, entry=entry) from None
        if number.numerator < 0:
            raise ConfigError(f"must be at least 0, not {shown(value)}", key, entry=entry)
        checked.append(canonical(number))
    return tuple(checked)


def in_one(values: Iterable[Entry]) -> Iterator[Exact]:
    """Yield all numbers of entries."""
    for value in values:
        yield from value if isinstance(value, tuple) else (value,)


def added(entries: Iterable[Entry]) -> Entry:
    """Return the sum of entries: one number, or one for each microbatch where some entry has that."""
    rows = [entry if isinstance(entry, tuple) else (entry,) for entry in entries] or [(0,)]
    most = max(map(len, rows))
    columns = zip(*(row if len(row) == most else row * most for row in rows), strict=True)
    sums = tuple(canonical(sum(map(to_fraction, column), Fraction(0))) for column in columns)
    return sums if len({*sums}) > 1 else sums[0]


def scaled(entry: Entry, factor: Fraction) -> Entry:
    """Return an entry with its numbers multiplied by a factor."""
    products = tuple(canonical(to_fraction(one) * factor) for one in (entry if isinstance(entry, tuple) else (entry,)))
    return products if isinstance(entry, tuple) else products[0]


def entries_of(entry: Entry, microbatches: int) -> Sequence[Fraction]:
    """Return what an entry says of each microbatch, exactly."""
    return [*map(to_fraction, entry)] if isinstance(entry, tuple) else [to_fraction(entry)] * microbatches


def taken(entries: Sequence[Entry], order: Sequence[int]) -> tuple[Entry, ...]:
    """Return entries with the numbers of these microbatches, in this order, where there is one for each."""
    return tuple(tuple(entry[one] for one in order) if isinstance(entry, tuple) else entry for entry in entries)


def fractions_of(entry: Entry) -> Fraction | tuple[Fraction, ...]:
    """Return an entry with its numbers as fractions, which are exact whatever reads them."""
    return tuple(map(to_fraction, entry)) if isinstance(entry, tuple) else to_fraction(entry)


def one_or_all(values: Sequence[Entry] | None, most: int = WIDTH) -> str:
    """Return the text of numbers, of at most `most` letters: of a single one where all are equal."""
    if not values:
        return shown(values)
    return shown(values[0] if all(value == values[0] for value in values) else tuple(values), most)


def fields_of(instance: object) -> dict[str, Any]:
    """Return the fields of a frozen dataclass without what it has cached: its state for pickle."""
    names: dict[str, Any] = getattr(instance, "__dataclass_fields__")  # noqa: B009  mypy does not know it of object
    return {name: getattr(instance, name) for name in names}


SLOWEST, FASTEST = Fraction(1, 1000), 1000
SCALED = (*(key for key in PER_STAGE if key not in TRANSFER_TIMES), "backward")  # by the speed of a device

Links = tuple[tuple[Exact, ...], ...]


def at_speed(cost: Fraction, speed: Fraction) -> Fraction:
    """Return what an operation lasts on a device of a speed: its cost where that is 1."""
    return cost if speed == 1 else rounded(cost / speed)


def exact_speed(values: object, devices: int) -> tuple[Exact, ...]:
    """Return the speed of each device. Raises ConfigError about `speed`, with the device at fault."""
    numbers = exact_tuple(values, "speed", devices, "one a device")
    for device, number in enumerate(numbers):
        if not SLOWEST <= to_fraction(number) <= FASTEST:
            raise ConfigError(f"device {device} needs a speed from 0.001 to 1000, not {shown(number)}", "speed")
    return numbers


def exact_links(values: object, devices: int) -> Links:
    """Return the latency from each device to each. Raises ConfigError about `links`, with the devices at fault."""
    rows = require_sequence(values, "links")
    if len(rows) != devices:
        raise ConfigError(f"needs {devices} lists (one a device); this has {len(rows)}", "links")
    links = list[tuple[Exact, ...]]()
    for device, row in enumerate(rows):
        try:
            links.append(exact_tuple(row, "links", devices, "one a device"))
            require_decimals(links[-1], "links")
        except ConfigError as error:
            there = "" if error.entry is None else f" to device {error.entry}"
            raise ConfigError(f"from device {device}{there}: {error.message}", "links") from None
    for device, latencies in enumerate(links):
        if latencies[device]:
            raise ConfigError(f"device {device} reaches itself in 0, not in {shown(latencies[device])}", "links")
    return tuple(links)


SIZE = Each(Number(MEMORY))


@dataclass(frozen=True, kw_only=True)
class Memory(Displayable):
    """Memory in the user's unit, of which `unit` is the label.

    Lists have one for each of the S stages, `activation` also one for each microbatch where they differ, `budget` one
    for each device (None: no limit). A `retain` above 1 holds gradients beside the activation, from the start of I on.
    `weights`, `gradients` and `states` are part of what stays, or come and go where they are sharded (`()`: nothing).
    `resolution` divides the number of grains in a unit.

    Raises ConfigError, about the field at fault, for lists of other lengths and for entries that are no such numbers.
    """

    unit: str = declare(
        Label(),
        "a label for memory, for instance GB; default microbatch; values may have units of their own, 500MB",
        "microbatch",
        absent="microbatch",
        flag=None,
        live="microbatch",
    )
    activation: tuple[Entry, ...] = declare(
        Each(Number(MEMORY), rows=True),
        "of one stage and microbatch; default P/S",
        called="activation memory",
        live="0.5",
    )
    retain: tuple[Exact, ...] = declare(
        Each(Number()),
        "held from the end of I to the end of W, in activations; default 1",
        absent=1,
        called="retained part of activations",
        example="1",
    )
    checkpoint: tuple[Exact, ...] = declare(
        Each(Number(most=1)),
        "fraction that a recomputed microbatch keeps; default 0",
        absent=0,
        called="kept part of activations",
        example="0.1",
    )
    kv: Exact = declare(
        Number(most=1),
        "keys and values as a part of the activation: slices hold their gradients, forwards alone them; default 0",
        0,
        absent=0,
        called="keys and values",
        example="0.25",
    )
    receive: Exact = declare(
        Number(MEMORY),
        "buffer of a message between stages, from its RECV to the end of what needs it, where they queue; default 0",
        0,
        absent=0,
        called="receive buffer",
        example="0",
    )
    static: tuple[Exact, ...] = declare(
        SIZE,
        "weights, gradients, optimizer, per stage; default 0",
        absent=0,
        called="static memory",
        flag=None,
        example="0",
    )
    weights: tuple[Exact, ...] = declare(
        SIZE,
        "weights of a stage, whole; default 0",
        (),
        absent=0,
        once=True,
        example="2",
        remark="or these three, for each stage as a whole, which `shard` divides",
    )
    gradients: tuple[Exact, ...] = declare(
        SIZE, "gradients of a stage, whole; default 0", (), absent=0, once=True, example="4"
    )
    states: tuple[Exact, ...] = declare(
        SIZE,
        "states of the optimizer of a stage, whole; default 0",
        (),
        absent=0,
        once=True,
        called="optimizer states",
        example="12",
    )
    budget: tuple[Exact, ...] | None = declare(
        Each(Number(MEMORY, above=True), "device"),
        "limit of activations and static memory; absent: none, or with `model` what the GPU leaves",
        None,
        called="memory budget",
        flag="mem-budget",
        example="4",
    )
    resolution: int = field(default=1, compare=False)

    microbatches: int | None = field(init=False, compare=False)  # as that of Costs

    def __post_init__(self) -> None:
        made, stages = vars(self), len(require_sequence(self.activation, "activation"))
        for name in (*AVERAGED, *SIZES):
            sizes = getattr(self, name) or ((0,) * stages if MEMORY_KEYS[name].once else ())
            made[name] = exact_tuple(sizes, name, stages, "one a stage", by_row=name == "activation")
        require_whole(self.resolution, "resolution", least=1)
        for key in ("kv", "receive"):
            made[key] = exact_tuple((made[key],), key, 1, "")[0]
        for key, shares in (("checkpoint", self.checkpoint), ("kv", (self.kv,))):
            for entry, share in enumerate(shares):
                if share > 1:
                    at = entry if key == "checkpoint" else None
                    raise ConfigError(f"must be between 0 and 1, not {shown(share)}", key, entry=at)
        if self.budget is not None:
            devices = len(require_sequence(self.budget, "budget"))
            made["budget"] = exact_tuple(self.budget, "budget", devices, "one a device")
            for entry, limit in enumerate(made["budget"]):
                if not limit:
                    raise ConfigError(f"must be more than 0, not {shown(limit)}", "budget", entry=entry)
        require_label(self.unit, "unit")
        rows = [len(entry) for entry in self.activation if isinstance(entry, tuple)]
        made["microbatches"] = max(rows, default=None)

    def __repr__(self) -> str:
        budget = "" if self.budget is None else f", budget={one_or_all(self.budget, BRIEF)}"
        return f"Memory(activation={one_or_all(self.activation, BRIEF)}{budget}, unit={shown(self.unit, BRIEF // 2)})"


MEMORY_KEYS = declared(Memory, "memory")
STATIC_PARTS = tuple(name for name, one in MEMORY_KEYS.items() if one.once)  # of a stage as a whole
_OF_STAGES = [name for name, one in MEMORY_KEYS.items() if one.of_stages and not one.once]
AVERAGED = tuple(name for name in _OF_STAGES if MEMORY_KEYS[name].dimension is None)  # of activations
SIZES = (*(name for name in _OF_STAGES if name not in AVERAGED), *STATIC_PARTS)
TABLED = tuple(
    one.name for one in (*COSTS.values(), *MEMORY_KEYS.values()) if isinstance(one.shape, Each) and one.shape.rows
)
