"""Problems: devices, stages, microbatches, costs and memory. A `Problem` knows no algorithm.

`make_problem` and `load` make one (readers.py). Its fields are what users give, in their units; `ticks`, `grains` and
`model` are the integers that all else computes with. Behind it stand problems made of one whose microbatches differ: in
another order (`in_order`), all like their mean (`typical`), by which families plan; and its groups of equal ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Any, Protocol, TypeVar

from pipesched.checks import cut, require_label, require_name, require_sequence, require_type, require_whole, shown
from pipesched.core.arrays import np
from pipesched.display import Displayable
from pipesched.errors import ConfigError
from pipesched.pipeline.layers.cutting import CutItems
from pipesched.pipeline.layers.layers import GIVEN, MOST_LAYERS, Layers
from pipesched.pipeline.plan.step import (
    LEVELS,
    MESSAGES,
    NOTHING,
    OPTIMIZER_STATES,
    QUEUES,
    SHARD,
    SIDE,
    Messages,
    Shard,
    SideItem,
    StepGrains,
    StepTicks,
    kept_memory,
    require_step,
    require_step_of_forwards,
    step_grains,
    step_resolution,
    step_ticks,
)
from pipesched.pipeline.problem.costs import (
    BRIEF,
    PER_STAGE,
    STATIC_PARTS,
    Costs,
    Entry,
    Memory,
    entries_of,
    exact_links,
    exact_speed,
    fields_of,
    taken,
)
from pipesched.pipeline.problem.kinds import Resource
from pipesched.pipeline.problem.model import ALIKE, Grains, Route, StepModel, Ticks, Units, grains_of, ticks_of
from pipesched.pipeline.problem.placement import PLACEMENTS, Placement, placement_name
from pipesched.pipeline.problem.quantities import TIME, Exact, canonical, plain, rounded, to_fraction, whole
from pipesched.pipeline.problem.shapes import (
    ByKey,
    ByName,
    Count,
    Either,
    Flag,
    Label,
    ListOf,
    Number,
    OneOf,
    ValueShape,
    declare,
    declared,
)
from pipesched.pipeline.problem.units import (
    AUTO,
    FACTORS,
    FORWARD_ONLY,
    MODES,
    MOST_ITEMS,
    SHARED,
    SIZES,
    SLICE_COUNT,
    SLICES,
    TRAIN,
    WHOLE,
    Sizes,
    Slices,
)

P = TypeVar("P")  # the type of problems, which know cutters and not the other way round


class Cutter(Protocol[P]):
    """What a problem was derived from, where its stages can be cut anew: for another number, or another placement.

    `cut` and `require_recompute` raise NotApplicable. SetupCutter, that of a model on GPUs, describes each member.
    """

    @property
    def is_open(self) -> bool: ...
    @property
    def seeks_best(self) -> bool: ...
    @property
    def kinds(self) -> Sequence[object]: ...
    @property
    def layers_before(self) -> list[int]: ...
    @property
    def ends(self) -> tuple[int, ...]: ...
    @property
    def layers_of_stages(self) -> tuple[int, ...]: ...
    def cut(self, problem: P, placement: Placement) -> P: ...
    def at_spans(self, problem: P, spans: Sequence[tuple[int, int]]) -> P: ...
    def cut_items(self, problem: P) -> CutItems: ...
    def cut_at(self, problem: P, ends: Sequence[int]) -> P: ...
    def require_recompute(self) -> None: ...
    def facts(self) -> Mapping[str, Any]: ...


DEVICES, LATENCY, SPEED = ListOf(Count(0)), Number(TIME), Number(least=0.001, most=1000)
MOST_OPERATIONS = 10_000_000
UNSHARDED = Shard()
LANES = ("device",)
NO_STEP = "two copies of each stage (bidirectional) go without gathers, reductions, optimizers, shards and side work"


def _groups(name: str, shape: ValueShape) -> ByKey:
    """Return links of groups of devices: `inside` one, and `between` two."""
    return ByKey({name: shape, "inside": LATENCY, "between": LATENCY}, (name, "inside", "between"))


@dataclass(frozen=True, repr=False, kw_only=True)
class Problem(Displayable):
    """A training step to schedule: P devices, S stages, M microbatches, the costs of operations, and memory.

    With `rounds` these are those of all rounds, so many times as `batches` are in flight.

    `placement` is None while it is left to the algorithm. `layers` says how the stages were cut, where the problem was
    given by layers; the costs and the memory follow from it. `cutter` cuts the stages anew, where the problem was
    derived from a model. Where `sizes`, `slices` or tables of costs make microbatches differ, the problem has units.
    With `shard`, `clip` or `side` (None or empty: there is none), or with costs of a step, it has a step.
    `make_problem` builds one from plain numbers, and fills in defaults. Raises ConfigError, about the field at fault,
    for values that do not go together.
    """

    name: str = declare(Label(), "a title for charts and tables", "", flag=None, live="my-model")
    devices: int = declare(Count(), "P, the pipeline ranks", live="4")
    stages: int = declare(
        Count(), "S, the contiguous parts of the model; default: one a device (two without a config)", live="8"
    )
    microbatches: int = declare(Count(), "M; default as many as lists of one a microbatch have, else 2P", live="8")
    sizes: Sizes | None = declare(
        ByKey(SIZES),
        "factors of each microbatch, lists of M numbers: work (of the times of F, B, I, W and R), activation (of its"
        " memory, and of O and L), message (of p2p and links); default all 1",
        None,
        flag=None,
        example="{work: [1, 1, 2, 1, 1, 2, 1, 1]}",
        remark="microbatches that differ: factors of each; also activation and message",
    )
    slices: Slices = declare(
        Either(SLICE_COUNT, OneOf(AUTO), ByKey(SLICES, short="count"), metavar="N|auto", is_number=True),
        "into how many parts each microbatch is cut along its sequence, or auto; or a mapping of count, tokens,"
        " attention, work, overhead and most",
        WHOLE,
        absent=1,
        example="4",
        remark="parts of each microbatch along its sequence, or {count: 4, attention: 0.5, overhead: 0}",
    )
    mode: str = declare(OneOf(*MODES), "train (default), or forward: forward passes alone", TRAIN, example="forward")
    rounds: int = declare(
        Count(),
        "beside mode forward: how often each of the M microbatches goes through the stages; its next round waits for"
        " the last stage",
        1,
        example="3",
    )
    placement: Placement | None = declare(
        Either(OneOf("auto", *PLACEMENTS), DEVICES, ListOf(DEVICES, 2, 2), metavar="NAME|D,D.."),
        "auto (the algorithm's own), linear, loop, v, wave, bidirectional, or the device of each stage, or two lists",
        absent="auto",
        noun="Placement",
        live="auto",
        remark="the algorithm's own, or linear, loop, v, wave, bidirectional, [0, 1, 2, 3, 0, 1, 2, 3]",
    )
    time_unit: str = declare(
        Label(), "a label for times, for instance ms; beside it values may be 250us", "", flag=None, live="ms"
    )
    lanes: str = declare(
        OneOf(*LANES), "transfer lanes: each device has its own two", "device", flag=None, example="device"
    )
    layers: Layers | None = declare(
        Count(most=MOST_LAYERS),
        "of the model; cut into the stages, whose costs then follow from `layer`; default: as many as its lists have",
        None,
        example="32",
        remark="may be left out beside lists, of layers that differ: layer: {forward: [1.25, 1.5, ..]}",
        compare=False,
    )
    speed: tuple[Exact, ...] | None = declare(
        Either(SPEED, ListOf(SPEED), ByName(SPEED), metavar="X[,X..]", is_number=True),
        "what each device divides the costs of operations by: one each, or by device, {2: 0.8}; default 1",
        None,
        example="{2: 0.8}",
    )
    links: tuple[tuple[Exact, ...], ...] | None = declare(
        Either(ListOf(ListOf(LATENCY)), _groups("size", Count()), _groups("groups", ListOf(DEVICES)), is_number=False),
        "latency from device to device, beside that of the boundary: {size: 4, inside: 0.05, between: 0.4} for groups"
        " of devices in a row, `groups` for others, or a list for each device",
        None,
        flag=None,
        example="{size: 2, inside: 0, between: 0.5}",
    )
    costs: Costs
    memory: Memory
    messages: Messages | None = declare(
        Either(ByKey(MESSAGES, short="queue"), OneOf(*QUEUES)),
        "which messages between devices go one after another: none (free, default), those of an edge, pair or rank, or"
        " those of a device among its computations; or a mapping of queue and order",
        None,
        flag=None,
        noun="Messages",
        example="{queue: rank, order: pytorch}",
    )
    cutter: Cutter[Problem] | None = field(default=None, compare=False)
    shard: Shard | None = declare(
        Either(ByKey(SHARD, short="level"), OneOf(*LEVELS)),
        "what data-parallel ranks divide: none, optimizer (its states; default beside costs.gather), gradients too or"
        " weights too; or a mapping of level, ranks, ahead and reduce",
        None,
        flag=None,
        noun="Shard",
        example="{level: weights, ranks: 8, ahead: 3, reduce: last}",
    )
    clip: bool | None = declare(
        Flag(),
        "whether each optimizer waits for the gradients of all stages, to clip their norm",
        None,
        example="true",
        key="step.clip",
    )
    side: tuple[SideItem, ...] = declare(
        ListOf(ByKey(SIDE, ("forward",)), 1, MOST_ITEMS),
        "work beside the pipeline for each microbatch, a list of mappings: name, forward, backward (times, or lists"
        " of one a microbatch), into (a stage), devices (all, or a list), p2p, activation, output, static",
        (),
        flag=None,
        noun="Sequence[SideItem]",
        example="[{name: vision, forward: 3, backward: 6, into: 0, devices: all}]",
    )

    has_step: bool = field(init=False, compare=False)  # whether more than passes is planned: collectives, side work
    has_units: bool = field(init=False, compare=False)  # whether microbatches differ, are cut, or only forwards run
    sharding: Shard = field(init=False, compare=False)  # what the ranks of a device divide; without a step nothing
    batches: int = field(init=False, compare=False)  # microbatches of a round: number r * batches + k is k in round r
    known: dict[Any, Any] = field(init=False, compare=False)  # made of it: problems by placement, graphs by index
    letters: str = field(init=False, compare=False)  # the kinds of a plain step: split where costs give the halves

    def __post_init__(self) -> None:
        made = vars(self)
        for key in ("devices", "stages", "microbatches"):
            made[key] = require_whole(made[key], key, least=1)
        if require_whole(self.rounds, "rounds", least=1) > 1:
            unlike = (self.sizes, self.costs.microbatches, self.memory.microbatches)
            step = (self.costs.has_step, self.shard, self.clip, self.side)
            refused = {
                f"`mode` {FORWARD_ONLY}: a microbatch that is trained goes through once": self.mode != FORWARD_ONLY,
                "whole microbatches, not with `slices`": self.slices.are_several,
                "microbatches that are alike": unlike != (None, None, None),
                "passes alone, without gathers, shards and side work": any(step),
                "placements of one direction": self.placement is not None and len(self.placement.ways) > 1,
                f"as many microbatches in each, not {self.microbatches} in all": self.microbatches % self.rounds,
            }
            if wrong := next((what for what, is_wrong in refused.items() if is_wrong), None):
                raise ConfigError(f"of {self.rounds} go with {wrong}", "rounds")
        self._require_lengths()
        made["sizes"] = None if self.sizes is None or self.sizes.are_one else self.sizes
        made["letters"] = letters_of(self.mode, split=self.costs.split)
        require_size(self.letters, self.stages, self.microbatches, self.slices.count)
        self._require_placed()
        for key in PLAIN:
            if words := PROBLEM_KEYS[key].shape.words:
                require_name(words, made[key], key, key)
            else:
                require_label(made[key], key)
        if self.speed is not None:
            made["speed"] = exact_speed(self.speed, self.devices)
        if self.links is not None:
            made["links"] = exact_links(self.links, self.devices)
        made["messages"] = None if self.messages is None or self.messages.is_free else self.messages
        if self.messages is not None and self.devices == 1:
            raise ConfigError("have no effect on one device, which sends none", "messages")
        made["side"] = tuple(require_sequence(self.side, "side"))
        if self.costs.has_step or self.shard is not None or self.clip is not None or self.side:
            self._settle_step()
        tables = self.costs.microbatches, self.memory.microbatches
        differs = self.sizes is not None or tables != (None, None)
        made["has_units"] = differs or not self.slices.is_plain or self.mode == FORWARD_ONLY
        made.update(has_step=self.shard is not None, sharding=self.shard or UNSHARDED, known={})
        made["batches"] = self.microbatches // self.rounds

    def _settle_step(self) -> None:
        """Fill in the defaults of a step. Raises ConfigError, about the field at fault."""
        level = NOTHING if self.costs.gather is None else OPTIMIZER_STATES
        vars(self).update(shard=self.shard or Shard(level), clip=False if self.clip is None else self.clip)
        if self.mode == FORWARD_ONLY:
            require_step_of_forwards(self.clip, self.side, self.costs)
        require_step(self.shard, self.clip, self.side, self.costs, (self.devices, self.stages, self.microbatches))
        if self.placement is not None and len(self.placement.ways) > 1:
            raise ConfigError(NO_STEP, "placement")

    def _require_lengths(self) -> None:
        """Raise ConfigError for parts of other types, and of other stages, microbatches or devices."""
        for key, (kind, what) in NOUNS.items():
            require_type(getattr(self, key), kind, what, key)
        if self.cutter is not None and not all(hasattr(type(self.cutter), name) for name in MEMBERS):
            raise ConfigError(f"must be a Cutter or None, not {shown(self.cutter)}", "cutter")
        costs, memory, sizes, layers = self.costs, self.memory, self.sizes, self.layers
        of_stages, of_microbatches = ("stages", self.stages), ("microbatches", self.microbatches)
        lengths: Sequence[tuple[str, str, int | None, tuple[str, int]]] = (
            ("costs", "are for", costs.stages, of_stages),
            ("memory", "are for", len(memory.activation), of_stages),
            ("costs", "are of", costs.microbatches, of_microbatches),
            ("activation", "are of", memory.microbatches, of_microbatches),
            ("budget", "is for", None if memory.budget is None else len(memory.budget), ("devices", self.devices)),
            ("sizes", "are of", None if sizes is None else len(sizes.work), of_microbatches),
            ("layers", "are cut into", None if layers is None else len(layers.layout), of_stages),
        )
        for key, what, count, (noun, due) in lengths:
            if count not in (None, due):
                raise ConfigError(f"{what} {count} {noun}; the problem has {due}", key)
        for key in SHARED:
            if (rows := len(getattr(self.slices, key))) not in (1, self.stages):
                raise ConfigError(f"have the {key} of {rows} stages; there are {self.stages}", "slices")

    def _require_placed(self) -> None:
        """Raise ConfigError for a placement of other stages, layers that do not make the costs, and other lanes."""
        placement, layers = self.placement, self.layers
        if placement is None and self.devices > self.stages:
            raise ConfigError(f"must be at most `stages` ({self.stages}), not {shown(self.devices)}", "devices")
        if placement is not None and len(placement.devices) != self.stages:
            what = f"needs one device for each of the {self.stages} stages; this one has {len(placement.devices)}"
            raise ConfigError(what, "placement")
        if placement is not None and placement.last != self.devices - 1:
            raise ConfigError(f"uses {placement.last + 1} devices; the problem has {self.devices}", "placement")
        is_open = placement is None and layers is not None and layers.rule != GIVEN
        if layers and is_open and not layers.make(self.costs, self.memory):  # which would change with another cut
            raise ConfigError("do not make these costs and this memory; set them without layers", "layers")
        if str(self.lanes) == "pair":
            raise ConfigError("'pair' is no longer known: each device has lanes of its own ('device')", "lanes")

    def __repr__(self) -> str:
        name = f"{shown(self.name, BRIEF)}, " if self.name else ""
        placement = "auto" if self.placement is None else placement_name(self.placement, self.devices)
        sizes = f"devices={self.devices}, stages={self.stages}, microbatches={self.microbatches}"
        return f"Problem({name}{sizes}, placement={cut(placement, BRIEF // 2)})"

    def __getstate__(self) -> dict[str, Any]:
        return {**fields_of(self), "known": {}}

    @cached_property
    def ticks(self) -> Ticks:
        """The costs in integer ticks, on the devices of the placement; at speed 1 without links while it is open."""
        units, ways, along = ALIKE, [Route(range(1), None)], None
        least = self.costs.resolution  # fine enough for the step, and where its layers are cut anew
        if self.has_units:
            units, ways = self.units, [Route(range(self.microbatches), None)] if self.placement is None else self.ways
        elif self.placement is not None and not (self.speed is None and self.links is None):
            ways = [Route(range(n, n + 1), one) for n, one in enumerate(self.placement.ways)]
            units = ALIKE._replace(microbatches=len(ways))
            if len(ways) > 1:
                along = np.repeat([int(way.is_second) for way in self.ways], [len(way[0]) for way in self.ways])
        if self.has_step:
            least = lcm(least, step_resolution(self.costs, self.side, self.speed))
        if self.layers is not None and self.speed is not None and not self.has_units:
            least = lcm(least, self.layers.resolution_at(map(to_fraction, self.speed)))
        rows = ticks_of(self.costs, units, ways, self.speed, self.links, least)
        return Ticks(*rows, self.microbatches * self.slices.count, along)

    @cached_property
    def model(self) -> StepModel:
        """The passes on the integer grid, by stage and unit. Raises ConfigError while the placement is open."""
        return StepModel(self.ways, self.ticks, self.grains, self.mode, is_plain=not self.has_units, rounds=self.rounds)

    @cached_property
    def step_ticks(self) -> StepTicks:
        """What the step lasts beside its passes, in ticks."""
        there = None if self.placement is None else self.placement.devices
        return step_ticks(self.costs, self.side, self.speed, there, self.ticks.per_unit)

    @cached_property
    def step_grains(self) -> StepGrains:
        """What comes and goes beside activations, in grains."""
        return step_grains(self.memory, self.sharding, self.side, self.grains.per_unit)

    @property
    def are_alike(self) -> bool:
        """Whether all microbatches are alike in all, also in the devices that they go through."""
        return not self.has_units and len(self.settled_placement.ways) == 1

    @property
    def units(self) -> Units:
        """The microbatches with their factors, and the slices."""
        return Units(self.microbatches, self.sizes, self.slices)

    @cached_property
    def ways(self) -> list[Route]:
        """The runs of microbatches that go the same way: one, or several where the placement is mirrored."""
        placement, count = self.settled_placement, self.microbatches
        if not placement.mirrored:
            return [Route(range(count), placement.devices)]
        devices = placement.ways
        parts = [(part, placement.is_second(part[0], count)) for part in placement.directions(count)]
        return [Route(part, devices[is_second], is_second) for part, is_second in parts]

    @property
    def largest_hops(self) -> list[int]:
        """The largest latency of each boundary in ticks, of all ways over it."""
        rows = zip(self.ticks.rows["p2p"], self.ticks.rows["p2p_back"], strict=True)
        return [max(*there, *back) for there, back in rows]

    @property
    def least_hops(self) -> list[int]:
        """The least latency of each boundary in ticks, of all ways over it."""
        rows = zip(self.ticks.rows["p2p"], self.ticks.rows["p2p_back"], strict=True)
        return [min(*there, *back) for there, back in rows]

    @cached_property
    def grains(self) -> Grains:
        """The memory of activations and weights in integer grains."""
        units, memory, slices = self.units if self.has_units else ALIKE, self.memory, self.slices.count
        if self.has_step or any(any(getattr(memory, key)) for key in STATIC_PARTS):  # also weights, gradients, states
            memory = kept_memory(memory, self.sharding, self.side)
        per_unit, rows = grains_of(memory, units, has_cached=self.has_units)
        static, budget = whole(memory.static, per_unit), whole(memory.budget or (), per_unit)
        return Grains(per_unit, rows, self.microbatches * slices, None, slices, static, budget or None)

    @property
    def settled_placement(self) -> Placement:
        """The placement. Raises ConfigError while it is left to the algorithm."""
        if self.placement is None:
            raise ConfigError("is not settled yet: it is left to the algorithm", "placement")
        return self.placement

    def device_name(self, device: int, word: str = "device ") -> str:
        """Return the name of a device for charts, with its speed where that is another than 1: `device 2 x0.8`."""
        speed = 1 if self.speed is None else self.speed[device]
        return f"{word}{device}" + (f" x{shown(plain(speed))}" if speed != 1 else "")

    def resource(self, device: int, resource: Resource) -> int:
        """Return the number of a resource in the task graph: devices first, then two lanes of each."""
        if resource is Resource.DEVICE:
            return device
        return self.devices + 2 * device + (resource is Resource.H2D)

    @cached_property
    def static_grains(self) -> list[int]:
        """The static memory of each device, in grains; in a mirrored placement both copies count."""
        found = self.side_static_grains if self.side else [0] * self.devices
        for devices in self.settled_placement.ways:
            for device, size in zip(devices, self.grains.static, strict=True):
                found[device] += size
        return found

    @property
    def side_static_grains(self) -> list[int]:
        """What of that each device holds for side work."""
        found = [0] * self.devices
        for item, size in zip(self.side, self.step_grains.side_static, strict=True) if self.side else ():
            for device in {*item.devices}:
                found[device] += size
        return found

    @property
    def capacity_grains(self) -> tuple[int | None, ...]:
        """The capacity of each device: what its budget leaves for activations, in grains (None: no limit)."""
        if self.grains.budget is None:
            return (None,) * self.devices
        return tuple(budget - static for budget, static in zip(self.grains.budget, self.static_grains, strict=True))


def require_problem(value: object, key: str = "problem") -> Problem:
    """Return `value` if it is a Problem. Raises ConfigError, about `key`, for anything else."""
    problem: Problem = require_type(value, Problem, "a Problem (of make_problem or load)", key)
    return problem


def letters_of(mode: str, *, split: bool) -> str:
    """Return the kinds of operations of a plain step in a mode; `split`: the backward runs as its halves."""
    return "F" if mode == FORWARD_ONLY else "FIW" if split else "FB"


def require_size(letters: str, stages: int, microbatches: int, slices: int) -> None:
    """Raise ConfigError for more than MOST_OPERATIONS operations of these kinds."""
    operations = len(letters) * stages * microbatches * slices
    if operations > MOST_OPERATIONS:
        each = f" x {slices:,} slices" if slices > 1 else ""
        raise ConfigError(
            f"{stages:,} stages x {microbatches:,} microbatches{each} are {operations:,} operations;"
            f" at most {MOST_OPERATIONS:,} are scheduled",
            "microbatches",
        )


PROBLEM_KEYS = declared(Problem)
NOUNS: dict[str, tuple[Any, str]] = {  # the types of parts, for a check
    "costs": (Costs, "Costs"),
    "memory": (Memory, "Memory"),
    "sizes": (Sizes | None, "Sizes or None"),
    "slices": (Slices, "Slices"),
    "placement": (Placement | None, "a Placement or None"),
    "layers": (Layers | None, "Layers or None"),
    "messages": (Messages | None, "Messages or None"),
}
MEMBERS = [name for name in vars(Cutter) if not name.startswith("_")]
PLAIN = [name for name, one in PROBLEM_KEYS.items() if isinstance(one.shape, (Label, OneOf))]  # texts, as they are
COLUMNS = (*PER_STAGE, "p2p")


def in_order(problem: Problem, order: Sequence[int]) -> Problem:
    """Return the problem whose i-th microbatch is `order[i]` of this one: a list of all microbatches."""
    sizes, layers = problem.sizes and problem.sizes.taken(order), problem.layers and problem.layers.taken(order)
    return _with_entries(problem, lambda _, entry: taken([entry], order)[0], sizes=sizes, layers=layers)


def _with_entries(problem: Problem, change: Callable[[str, Entry], Any], **others: Any) -> Problem:
    """Return the problem with `others`, and each entry of its tables changed, by their keys, that of `side` too."""
    columns = {key: getattr(problem.costs, key) or () for key in COLUMNS}
    tables: dict[str, Any] = {
        key: tuple(change(key, one) for one in column) for key, column in columns.items() if column
    }
    activation = tuple(change("activation", entry) for entry in problem.memory.activation)
    side = (
        replace(item, **{key: change("side", times) for key, times in _times_of_each(item)}) for item in problem.side
    )
    costs, memory = replace(problem.costs, **tables), replace(problem.memory, activation=activation)
    return replace(problem, costs=costs, memory=memory, side=tuple(side), **others)


def _times_of_each(item: SideItem) -> Iterator[tuple[str, tuple[Exact, ...]]]:
    for key in ("forward", "backward"):
        times = getattr(item, key)
        if times is not None and len(times) > 1:
            yield key, times


def typical(problem: Problem) -> Problem:
    """Return the problem with all microbatches like their mean, in nine digits; slices and mode stay.

    A plan of it does not depend on the order in which microbatches are fed.
    """
    if not differs(problem):
        return problem
    sizes = problem.sizes
    ones = (1,) * problem.microbatches
    work, held, sent = (sizes.work, sizes.activation, sizes.message) if sizes else (ones, ones, ones)
    by_key = {"p2p": sent, "offload": held, "reload": held, "activation": held, "overlap": ones, "side": ones}

    def mean(key: str, entry: Entry) -> Any:
        factors = by_key.get(key, work)
        products = (one * to_fraction(by) for one, by in zip(entries_of(entry, len(factors)), factors, strict=True))
        found = canonical(rounded(sum(products, Fraction(0)) / len(factors)))
        return (found,) if key == "side" else found

    made = _with_entries(problem, mean, sizes=None, layers=None, cutter=None)
    return replace(made, costs=replace(made.costs, overlap=problem.costs.overlap, resolution=1))


def differs(problem: Problem) -> bool:
    """Return whether some microbatches are unlike others."""
    tables = problem.costs.microbatches, problem.memory.microbatches
    beside = any(True for item in problem.side for _ in _times_of_each(item))
    return problem.sizes is not None or tables != (None, None) or beside


def equals(problem: Problem) -> list[int]:
    """Return of each microbatch the first one that equals it in every table and factor, and in its side work."""
    columns: list[Sequence[object]] = [] if problem.sizes is None else [getattr(problem.sizes, key) for key in FACTORS]
    tables = [getattr(problem.costs, key) or () for key in COLUMNS] + [problem.memory.activation]
    columns += [entry for table in tables for entry in table if isinstance(entry, tuple)]
    columns += [times for item in problem.side for _, times in _times_of_each(item)]
    known: dict[tuple[object, ...], int] = {}
    return [known.setdefault(tuple(column[one] for column in columns), one) for one in range(problem.microbatches)]


def alike(problem: Problem) -> Sequence[Sequence[int]]:
    """Return the microbatches in groups that equal each other and go the same way, by their numbers."""
    placement, count = problem.settled_placement, problem.microbatches
    if problem.rounds > 1 and problem.memory.kv:  # what ran more of its rounds holds more
        return [[one] for one in range(count)]
    if not differs(problem) and placement.second is None:
        return placement.directions(count)
    groups: dict[tuple[bool, int], list[int]] = {}
    for microbatch, first in enumerate(equals(problem)):
        groups.setdefault((placement.is_second(microbatch, count), first), []).append(microbatch)
    return [*groups.values()]
