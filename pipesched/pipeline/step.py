"""What a training step has beside its passes: how weights are sharded among ranks, and side work for idle devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from pipesched.pipeline.costs import STEP_TIMES, Costs, at_speed, exact_tuple, require_decimals
from pipesched.pipeline.memory import Memory
from pipesched.pipeline.quantities import Exact, canonical, grains_per_unit, ticks_per_unit, to_fraction, whole
from pipesched.pipeline.units import entry_of

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
        object.__setattr__(self, "ahead", self._checked_ahead())
        if self.reduce == EACH and not self.divides(GRADIENTS):
            what = "each needs level gradients or weights: below, gradients stay whole"
            raise ConfigError(what, "shard", entry="reduce")
        if self.ahead != AHEAD and not self.divides(WEIGHTS):
            what = "has no effect below level weights, where weights stay whole: leave it out"
            raise ConfigError(what, "shard", entry="ahead")
        if self.gathers_each and not self.divides(WEIGHTS):
            raise ConfigError("each needs level weights: below, weights stay whole", "shard", entry="gather")
        if self.gathers_each and self.ahead != AHEAD:
            what = "has no effect with `shard.gather` each, which gathers nothing ahead: leave it out"
            raise ConfigError(what, "shard", entry="ahead")

    def _checked_ahead(self) -> Ahead:
        ahead: Any = self.ahead
        if isinstance(ahead, str):
            if ahead not in (FULL, AUTO):
                raise ConfigError(f"must be a number from 1, full or auto, not {shown(ahead)}", "shard", entry="ahead")
            return ahead
        if isinstance(ahead, (list, tuple)):
            each = require_sequence(ahead, "shard")
            return tuple(require_whole(one, "shard", least=1, entry="ahead") for one in each)
        return require_whole(ahead, "shard", least=1, entry="ahead")

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

    Any of `devices` may run it, at any time between. `forward` and `backward` (None: frozen) are times of each
    microbatch, one for all of them or one each; `p2p` is the latency to the device of `into`, and back. `activation` is
    held on the device that runs it, from the forward to the backward, `output` on the device of `into` until it is
    used, and its gradient likewise; `static` on each of the devices. Raises ConfigError about `side`.
    """

    forward: tuple[Exact, ...]
    backward: tuple[Exact, ...] | None
    devices: tuple[int, ...]
    into: int = 0
    p2p: Exact = 0
    activation: Exact = 0
    output: Exact = 0
    static: Exact = 0
    name: str = ""

    def __post_init__(self) -> None:
        with entry_of("side", "name"):
            require_label(self.name, "side")
        for key in ("forward", "backward"):
            if key == "forward" or self.backward is not None:
                object.__setattr__(self, key, _exact_times(getattr(self, key), key))
        object.__setattr__(self, "p2p", _exact_times((self.p2p,), "p2p")[0])
        for key in ("activation", "output", "static"):
            with entry_of("side", key):
                object.__setattr__(self, key, exact_tuple((getattr(self, key),), "side", 1, "")[0])
        object.__setattr__(self, "into", require_whole(self.into, "side", entry="into"))
        listed = require_sequence(self.devices, "side")
        devices = tuple(require_whole(one, "side", entry="devices") for one in listed)
        object.__setattr__(self, "devices", devices)
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
    require_type(shard, (Shard, type(None)), "a Shard or None", "shard")
    if clip is not None and require_flag(clip, "clip") and costs.optimizer is None:
        raise ConfigError("needs `costs.optimizer`: it is the optimizer that waits", "clip")
    if shard is not None and isinstance(shard.ahead, tuple) and len(shard.ahead) != shape[0]:
        what = f"needs {shape[0]} numbers (one a device); this has {len(shard.ahead)}"
        raise ConfigError(what, "shard", entry="ahead")
    if shard is not None and shard.level == NOTHING and costs.gather is not None:
        what = "level none gathers nothing: take level optimizer, or leave out `costs.gather`"
        raise ConfigError(what, "shard", entry="level")
    for number, item in enumerate(side):
        with item_of(number):
            _require_fits(require_type(item, SideItem, "a SideItem", "side"), shape)


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
    for key in ("reduce", "optimizer", "tied"):
        if getattr(costs, key) is not None:
            raise ConfigError(refused, key)
    if clip:
        raise ConfigError(refused, "clip")
    for number, item in enumerate(side):
        if item.backward is not None:
            raise ConfigError(refused, "side", entry=(number, "backward"))


def _require_fits(item: SideItem, shape: tuple[int, int, int]) -> None:
    devices, stages, microbatches = shape
    if item.into >= stages:
        raise ConfigError(f"must be a stage, 0 to {stages - 1}, not {item.into}", "side", entry="into")
    if max(item.devices) >= devices:
        raise ConfigError(f"must be from 0 to {devices - 1}; there is no {max(item.devices)}", "side", entry="devices")
    for key in ("forward", "backward"):
        times = getattr(item, key)
        if times is not None and len(times) not in (1, microbatches):
            what = f"needs one number, or {microbatches}, one a microbatch; this has {len(times)}"
            raise ConfigError(what, "side", entry=key)


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
