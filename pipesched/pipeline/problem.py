"""The problem: devices, stages, microbatches, costs and memory, resolved and exact. It knows no algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pipesched.errors import ConfigError
from pipesched.pipeline.placement import Placement, explicit, place
from pipesched.pipeline.quantities import exact, grains_per_unit, shown, ticks_per_unit

MOST_OPERATIONS = 10_000_000
LANES = ("device", "pair")


@dataclass(frozen=True)
class Costs:
    """Durations in ticks (`scale` ticks are one of the user's time units), one a stage."""

    scale: int
    forward: tuple[int, ...]
    backward_input: tuple[int, ...]
    backward_weight: tuple[int, ...]
    split: bool  # the user gave the two halves of the backward, not their sum
    recompute: tuple[int, ...]
    overlap: tuple[int, ...] | None  # a pair F&B, by the stage of its forward; None: the sum of its parts
    p2p: tuple[int, ...]  # one a boundary between neighbouring stages
    offload: tuple[int, ...] | None
    reload: tuple[int, ...] | None

    @property
    def backward(self) -> tuple[int, ...]:
        """The full backward B of each stage: both halves."""
        return tuple(map(sum, zip(self.backward_input, self.backward_weight, strict=True)))

    def of_kinds(self) -> dict[str, tuple[int, ...]]:
        """The ticks of each kind of operation, stage by stage; nothing for transfers that have no cost."""
        return {
            "F": self.forward,
            "B": self.backward,
            "I": self.backward_input,
            "W": self.backward_weight,
            "R": self.recompute,
            "O": self.offload or (),
            "L": self.reload or (),
        }


@dataclass(frozen=True)
class Memory:
    """Memory in grains (`scale` grains are one of the user's units). Activations are per stage and microbatch."""

    scale: int
    unit: str
    activation: tuple[int, ...]
    retain: tuple[Fraction, ...]  # the fraction held from the end of I to the end of W
    checkpoint: tuple[Fraction, ...]  # the fraction that a recomputed microbatch keeps
    static: tuple[int, ...]  # weights, gradients, optimizer, per stage
    budget: tuple[int, ...] | None  # per device

    @property
    def checkpointed(self) -> tuple[int, ...]:
        """What the end of F leaves of an activation that is recomputed, in grains."""
        return tuple(int(size * part) for size, part in zip(self.activation, self.checkpoint, strict=True))

    @property
    def retained(self) -> tuple[int, ...]:
        """What the end of I leaves for W, in grains."""
        return tuple(int(size * part) for size, part in zip(self.activation, self.retain, strict=True))


@dataclass(frozen=True)
class Problem:
    """One training step to schedule. `placement` is None while it is left to the algorithm."""

    devices: int
    stages: int
    microbatches: int
    placement: Placement | None
    costs: Costs
    memory: Memory
    name: str = ""
    time_unit: str = ""
    lanes: str = "device"

    def home(self) -> Placement:
        """The placement, which must be settled by now."""
        if self.placement is None:
            raise ConfigError("the placement of this problem is not settled yet")
        return self.placement

    def lane(self, device: int) -> int:
        """Which pair of transfer lanes (out and back) a device uses."""
        return device // 2 if self.lanes == "pair" else device

    def sharing(self, lane: int) -> range:
        """The devices that use a pair of transfer lanes."""
        each = 2 if self.lanes == "pair" else 1
        return range(each * lane, min(each * (lane + 1), self.devices))

    @property
    def lane_count(self) -> int:
        """How many pairs of transfer lanes there are."""
        return self.lane(self.devices - 1) + 1

    def static_memory(self, device: int) -> int:
        """Weights and the like on a device, in grains; both copies count where the placement is bidirectional."""
        home, static = self.home(), self.memory.static
        own = sum(size for size, place in zip(static, home.devices, strict=True) if place == device)
        if not home.mirrored:
            return own
        return own + sum(size for size, place in zip(static, home.devices, strict=True) if home.last - place == device)

    def room(self) -> tuple[int | None, ...]:
        """What each device's budget leaves for activations, in grains; None: no limit."""
        if self.memory.budget is None:
            return (None,) * self.devices
        return tuple(budget - self.static_memory(device) for device, budget in enumerate(self.memory.budget))


def make_problem(
    *,
    devices: Any,
    stages: Any = None,
    microbatches: Any = None,
    placement: Any = "auto",
    forward: Any = 1,
    backward: Any = None,
    backward_input: Any = None,
    backward_weight: Any = None,
    recompute: Any = None,
    overlap: Any = None,
    p2p: Any = 0,
    offload: Any = None,
    reload: Any = None,
    activation: Any = None,
    retain: Any = 1,
    checkpoint: Any = 0,
    static: Any = 0,
    budget: Any = None,
    unit: Any = "microbatch",
    name: Any = "",
    time_unit: Any = "",
    lanes: Any = "device",
) -> Problem:
    """A problem from what a user wrote, every default filled in (README, "The config").

    Numbers may be int, float, Decimal or (for memory) Fraction; per-stage values a number or a list. Raises
    ConfigError, with the dotted key of the value at fault.
    """
    p = _count("devices", devices)
    s = p if stages is None else _count("stages", stages)
    m = 2 * p if microbatches is None else _count("microbatches", microbatches)
    _limit_size(s, m, kinds=2 if backward_input is None and backward_weight is None else 3)
    home = _placement(placement, p, s)
    times = _times(s, forward, backward, backward_input, backward_weight, recompute, overlap, p2p, offload, reload)
    sizes = _sizes(p, s, activation, retain, checkpoint, static, budget, unit)
    if lanes not in LANES:
        raise ConfigError(f"must be one of {', '.join(LANES)}, not {shown(lanes)}", "lanes")
    return Problem(p, s, m, home, times, sizes, _label("name", name), _label("time_unit", time_unit), lanes)


def _count(key: str, value: Any) -> int:
    try:
        number = exact(value)
    except ValueError as error:
        raise ConfigError(f"must be a whole number of at least 1, not {shown(value)} ({error})", key) from None
    if number.denominator != 1 or number < 1:
        raise ConfigError(f"must be a whole number of at least 1, not {shown(value)}", key)
    return int(number)


def _label(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise ConfigError(f"must be one line of text, not {shown(value)}", key)
    return value


def _limit_size(stages: int, microbatches: int, kinds: int) -> None:
    operations = kinds * stages * microbatches
    if operations > MOST_OPERATIONS:
        raise ConfigError(
            f"{stages:,} stages x {microbatches:,} microbatches are {operations:,} operations;"
            f" at most {MOST_OPERATIONS:,} are scheduled",
            "microbatches",
        )


def _placement(value: Any, devices: int, stages: int) -> Placement | None:
    try:
        if isinstance(value, (list, tuple)):
            if len(value) != stages:
                raise ConfigError(f"a list needs one device for each of the {stages} stages; this one has {len(value)}")
            if not all(isinstance(home, int) and not isinstance(home, bool) for home in value):
                raise ConfigError(f"a list holds device numbers, not {shown(value)}")
            return explicit(tuple(value), devices)
        if stages < devices:
            raise ConfigError(f"must be at least the number of devices ({devices}), not {stages}", "stages")
        if value == "auto":
            return None
        if not isinstance(value, str):
            raise ConfigError(f"must be a name or a list of devices, not {shown(value)}")
        return place(value, devices, stages)
    except ConfigError as error:
        raise ConfigError(str(error), error.key or "placement") from None


def _number(key: str, value: Any, most: int | None = None, *, positive: bool = False) -> Fraction:
    try:
        number = exact(value)
    except ValueError as error:
        raise ConfigError(f"must be a number, not {shown(value)} ({error})", key) from None
    if number < 0 or (positive and not number) or (most is not None and number > most):
        allowed = "more than 0" if positive else "at least 0" if most is None else f"between 0 and {most}"
        raise ConfigError(f"must be {allowed}, not {shown(value)}", key)
    return number


def _list(
    key: str, value: Any, count: int, each: str, most: int | None = None, *, positive: bool = False
) -> tuple[Fraction, ...]:
    """A number for all, or a list of `count` numbers."""
    if not isinstance(value, (list, tuple)):
        return (_number(key, value, most, positive=positive),) * count
    if len(value) != count:
        raise ConfigError(f"a list here needs {count} numbers ({each}); this one has {len(value)}", key)
    return tuple(_number(f"{key}[{place}]", entry, most, positive=positive) for place, entry in enumerate(value))


def _backward_halves(
    stages: int, forward: Sequence[Fraction], backward: Any, half_input: Any, half_weight: Any
) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """I and W of each stage: as given, or half of B each; B is twice F by default."""
    if half_input is None and half_weight is None:
        whole = (
            [2 * f for f in forward] if backward is None else _list("costs.backward", backward, stages, "one a stage")
        )
        half = tuple(b / 2 for b in whole)
        return half, half
    if backward is not None:
        raise ConfigError("give either backward or its halves backward_input and backward_weight", "costs.backward")
    if half_input is None:
        raise ConfigError("half of the backward; costs.backward_input is needed too", "costs.backward_weight")
    if half_weight is None:
        raise ConfigError("half of the backward; costs.backward_weight is needed too", "costs.backward_input")
    return (
        _list("costs.backward_input", half_input, stages, "one a stage"),
        _list("costs.backward_weight", half_weight, stages, "one a stage"),
    )


def _times(
    stages: int,
    forward: Any,
    backward: Any,
    half_input: Any,
    half_weight: Any,
    recompute: Any,
    overlap: Any,
    p2p: Any,
    offload: Any,
    reload: Any,
) -> Costs:
    def per_stage(key: str, value: Any) -> tuple[Fraction, ...] | None:
        return None if value is None else _list(f"costs.{key}", value, stages, "one a stage")

    f = _list("costs.forward", forward, stages, "one a stage")
    i, w = _backward_halves(stages, f, backward, half_input, half_weight)
    again = per_stage("recompute", recompute) or f
    pair = per_stage("overlap", overlap)
    out = per_stage("offload", offload)
    back = per_stage("reload", reload) or out
    hops = _list("costs.p2p", p2p, stages - 1, "one a boundary between stages")
    values = [*f, *i, *w, *again, *(pair or ()), *(out or ()), *(back or ()), *hops]
    try:
        scale = ticks_per_unit(values)
    except ValueError as error:
        raise ConfigError(f"times must be decimals; {error}", "costs") from None

    def ticks(values: Sequence[Fraction]) -> tuple[int, ...]:
        return tuple(int(value * scale) for value in values)

    return Costs(
        scale=scale,
        forward=ticks(f),
        backward_input=ticks(i),
        backward_weight=ticks(w),
        split=half_input is not None,
        recompute=ticks(again),
        overlap=ticks(pair) if pair else None,
        p2p=ticks(hops),
        offload=ticks(out) if out else None,
        reload=ticks(back) if back else None,
    )


def _sizes(
    devices: int, stages: int, activation: Any, retain: Any, checkpoint: Any, static: Any, budget: Any, unit: Any
) -> Memory:
    share = Fraction(devices, stages)
    size = (share,) * stages if activation is None else _list("memory.activation", activation, stages, "one a stage")
    held = _list("memory.retain", retain, stages, "one a stage", most=1)
    kept = _list("memory.checkpoint", checkpoint, stages, "one a stage", most=1)
    weights = _list("memory.static", static, stages, "one a stage")
    limit = None if budget is None else _list("memory.budget", budget, devices, "one a device", positive=True)
    parts = [a * part for a, r, c in zip(size, held, kept, strict=True) for part in (1, r, c)]
    scale = grains_per_unit([*parts, *weights, *(limit or ())])

    def grains(values: Sequence[Fraction]) -> tuple[int, ...]:
        return tuple(int(value * scale) for value in values)

    return Memory(
        scale=scale,
        unit=_label("memory.unit", unit),
        activation=grains(size),
        retain=held,
        checkpoint=kept,
        static=grains(weights),
        budget=grains(limit) if limit is not None else None,
    )
