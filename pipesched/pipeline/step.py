"""What a training step has beside its passes: how weights are sharded among ranks, and side work for idle devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
from pipesched.pipeline.costs import Costs, exact_tuple
from pipesched.pipeline.quantities import Exact

NOTHING, OPTIMIZER_STATES, GRADIENTS, WEIGHTS = LEVELS = ("none", "optimizer", "gradients", "weights")
LAST, EACH = REDUCES = ("last", "each")
FULL, AUTO = "full", "auto"
AHEAD = 3  # stages that are unsharded at once in PyTorch

Ahead = int | tuple[int, ...] | str


@dataclass(frozen=True)
class Shard:
    """How the data-parallel ranks of each device divide weights, gradients and optimizer states (ZeRO 0 to 3).

    `level` says what each rank keeps only its part of: "none", the states of the "optimizer", "gradients" too, or
    "weights" too; `ranks` among how many. With weights divided, a device has `ahead` of its stages whole at once: a
    number, one a device, "full" (all), or "auto" (the best one; it is settled before a plan is made). `reduce` says
    whether gradients are reduced once a stage ("last") or once a stage and microbatch ("each"). Raises ConfigError,
    about `shard`, for what is none of these.
    """

    level: str = NOTHING
    ranks: int = 1
    ahead: Ahead = AHEAD
    reduce: str = LAST

    def __post_init__(self) -> None:
        require_name(LEVELS, self.level, "level", "shard")
        require_name(REDUCES, self.reduce, "rule", "shard")
        object.__setattr__(self, "ranks", require_whole(self.ranks, "shard", least=1, entry="ranks"))
        object.__setattr__(self, "ahead", self._checked_ahead())
        if self.reduce == EACH and not self.divides(GRADIENTS):
            raise ConfigError("`each` needs level gradients or weights", "shard", entry="reduce")
        if self.ahead != AHEAD and not self.divides(WEIGHTS):
            raise ConfigError("has no effect below level weights, where weights stay whole", "shard", entry="ahead")

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
        require_label(self.name, "side")
        for key in ("forward", "backward"):
            times = getattr(self, key)
            if times is not None:
                object.__setattr__(self, key, exact_tuple(times, "side", len(times), "one a microbatch"))
        for key in ("p2p", "activation", "output", "static"):
            object.__setattr__(self, key, exact_tuple((getattr(self, key),), "side", 1, "")[0])
        object.__setattr__(self, "into", require_whole(self.into, "side", entry="into"))
        devices = tuple(require_whole(one, "side", entry="devices") for one in self.devices)
        object.__setattr__(self, "devices", devices)
        if not devices or len({*devices}) < len(devices):
            what = "names none" if not devices else "names one twice"
            raise ConfigError(f"{what}; it is a set of devices that may run it", "side", entry="devices")

    def time(self, key: str, microbatch: int) -> Exact:
        """Return the time of a microbatch's "forward" or "backward", 0 where there is none."""
        times: tuple[Exact, ...] | None = getattr(self, key)
        return 0 if times is None else times[microbatch if len(times) > 1 else 0]


def require_step(
    shard: Shard | None, clip: bool | None, side: Sequence[SideItem], costs: Costs, shape: tuple[int, int, int]
) -> None:
    """Raise ConfigError, about the field at fault, for what is no step of so many devices, stages and microbatches."""
    require_type(shard, (Shard, type(None)), "a Shard or None", "shard")
    if clip is not None:
        require_flag(clip, "clip")
    if clip and costs.optimizer is None:
        raise ConfigError("needs `costs.optimizer`: it is the optimizer that waits", "clip")
    if shard is not None:
        _require_agreement(shard, costs, shape[0])
    for item in require_sequence(side, "side"):
        _require_fits(require_type(item, SideItem, "a SideItem", "side"), shape)


def _require_agreement(shard: Shard, costs: Costs, devices: int) -> None:
    if isinstance(shard.ahead, tuple) and len(shard.ahead) != devices:
        what = f"needs {devices} numbers (one a device); this has {len(shard.ahead)}"
        raise ConfigError(what, "shard", entry="ahead")
    if shard.level == NOTHING and costs.gather is not None:
        raise ConfigError("level none gathers nothing: leave out `costs.gather`, or take level optimizer", "shard")


def _require_fits(item: SideItem, shape: tuple[int, int, int]) -> None:
    devices, stages, microbatches = shape
    if item.into >= stages:
        raise ConfigError(f"must be a stage, 0 to {stages - 1}, not {item.into}", "side", entry="into")
    if max(item.devices) >= devices:
        raise ConfigError(f"are 0 to {devices - 1}; there is no {max(item.devices)}", "side", entry="devices")
    for key in ("forward", "backward"):
        times = getattr(item, key)
        if times is not None and len(times) not in (1, microbatches):
            what = f"needs one number, or {microbatches}, one a microbatch; this has {len(times)}"
            raise ConfigError(what, "side", entry=key)
