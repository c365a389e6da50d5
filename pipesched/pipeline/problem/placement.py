"""Placements: the device of each stage (`Placement`). `named_placement` makes one of a name, linear say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from pipesched.checks import MANY, require_flag, require_name, require_sequence, require_whole, shown
from pipesched.display import Displayable
from pipesched.errors import ConfigError


@dataclass(frozen=True)
class Placement(Displayable):
    """The device of each stage: stage s is on `devices[s]`.

    If `mirrored`, a second copy of stage s on device P-1-devices[s] serves the second half of the microbatches; where
    they are fed in another order, those of `second`, by rising numbers. Raises ConfigError for what is no list of
    devices, for a list that leaves out a device below the last, and for what are no such microbatches.
    """

    devices: tuple[int, ...]
    mirrored: bool = False
    second: tuple[int, ...] | None = None
    last: int = field(init=False, compare=False)  # the number of the last device
    ways: list[tuple[int, ...]] = field(init=False, compare=False)  # devices of the stages, mirrored also those back

    def __post_init__(self) -> None:
        devices = require_sequence(self.devices, "placement")
        if not devices:
            raise ConfigError("must list the device of each stage", "placement")
        devices = tuple(require_whole(device, "placement", entry=entry) for entry, device in enumerate(devices))
        last = max(devices)
        held = {*devices}
        empty = next((device for device in range(last) if device not in held), None)
        if empty is not None:
            raise ConfigError(f"device {empty} is left without a stage", "placement")
        require_flag(self.mirrored, "mirrored")
        if self.second is not None:
            second = require_sequence(self.second, "second")
            second = tuple(require_whole(one, "second", entry=entry) for entry, one in enumerate(second))
            if not self.mirrored or second != tuple(sorted({*second})):
                raise ConfigError("must be microbatches of a mirrored placement, by rising numbers", "second")
            object.__setattr__(self, "second", second)
        back = [tuple(last - device for device in devices)] if self.mirrored else []
        vars(self).update(devices=devices, last=last, ways=[devices, *back])

    def __repr__(self) -> str:
        texts = [*map(str, self.devices[:MANY])]
        more = f", .. {len(self.devices)} in all" if len(self.devices) > MANY else "," * (len(texts) == 1)
        second = "" if self.second is None else f", second={shown(self.second)}"
        return f"Placement(devices=({', '.join(texts)}{more}), mirrored={self.mirrored}{second})"

    def is_second(self, microbatch: int, microbatches: int) -> bool:
        """Return whether a microbatch out of `microbatches` goes the second way of a mirrored placement."""
        if self.second is None:
            return self.mirrored and microbatch >= microbatches // 2
        return microbatch in self._seconds

    @cached_property
    def _seconds(self) -> frozenset[int]:
        return frozenset(self.second or ())

    def device(self, stage: int, microbatch: int, microbatches: int) -> int:
        """Return the device of a stage for a microbatch out of `microbatches`."""
        return self.ways[self.is_second(microbatch, microbatches)][stage]

    @property
    def said(self) -> str:
        """The devices as a text."""
        return f"{shown(self.devices)}{' in both directions' * self.mirrored}"

    @property
    def written(self) -> str | list[Any]:
        """What a config says: the devices; where the placement is mirrored its name, or the devices of both ways."""
        if not self.mirrored:
            return [*self.devices]
        is_named = placement_name(self, self.last + 1) == "bidirectional"
        return "bidirectional" if is_named else [[*way] for way in self.ways]

    def directions(self, microbatches: int) -> list[range]:
        """Return the microbatches of each direction: all of them, or the two halves where the placement is mirrored.

        With microbatches that go the second way of their own (`second`), each run of those that go the same way.
        """
        half = microbatches // 2 if self.mirrored else 0
        if self.second is None:
            return [part for part in (range(half), range(half, microbatches)) if part]
        turns = [one for one in range(1, microbatches) if (one in self._seconds) != (one - 1 in self._seconds)]
        return [range(begin, end) for begin, end in pairwise([0, *turns, microbatches])]

    def fed(self, order: Sequence[int]) -> Placement:
        """Return this placement for microbatches in this order: where it is mirrored, the second half goes back."""
        count = len(order)
        second = tuple(sorted(order[count // 2 :]))
        is_usual = not self.mirrored or second == tuple(range(count // 2, count))
        return self.by_number if is_usual else replace(self, second=second)

    @property
    def by_number(self) -> Placement:
        """The same placement of microbatches that are fed by their numbers."""
        return self if self.second is None else replace(self, second=None)

    def stages_on(self, device: int) -> list[int]:
        """Return the stages whose weights a device holds, in forward order (the chunks 0, 1, ... of the device)."""
        homes = (device, self.last - device) if self.mirrored else (device,)
        return [stage for stage, held_by in enumerate(self.devices) if held_by in homes]

    def in_blocks(self, stages: int) -> Placement:
        """Return this placement with each stage cut into equal parts that stay together, `stages` in all."""
        parts = stages // len(self.devices)
        return replace(self, devices=tuple(device for device in self.devices for _ in range(parts)))


def named_placement(name: str, devices: int, stages: int) -> Placement:
    """Return the placement of that name. Raises ConfigError when the number of stages does not suit it."""
    make = PLACEMENTS[require_name(PLACEMENTS, name, "placement", "placement")]
    if stages < devices:
        what = f"{stages} stages cannot fill {devices} devices; at least one stage a device is needed"
        raise ConfigError(what, "placement")
    return make(devices, stages)


def explicit_placement(devices_of_stages: tuple[int, ...], devices: int) -> Placement:
    """Return the placement of a list with the device of each stage. Raises ConfigError for a device without a stage."""
    outside = [device for device in devices_of_stages if not 0 <= device < devices]
    if outside:
        raise ConfigError(f"device {outside[0]} is out of range; devices are 0 to {devices - 1}", "placement")
    placement = Placement(devices_of_stages)
    if placement.last + 1 < devices:
        raise ConfigError(f"device {placement.last + 1} is left without a stage", "placement")
    return placement


def placement_name(placement: Placement, devices: int) -> str:
    """Return the name of a placement (also of one in blocks), or the text of its devices if it has no name."""
    stages, known = len(placement.devices), placement if placement.second is None else placement.by_number
    for name in PLACEMENTS:
        with suppress(ConfigError):
            named = named_placement(name, devices, 2 * devices if name == "v" else stages).in_blocks(stages)
            if named == known and not (name == "loop" and stages % devices):
                return name
    return placement.said


def _linear(devices: int, stages: int) -> Placement:
    """Return contiguous blocks; when they cannot be equal, the first devices hold one stage more."""
    each, more = divmod(stages, devices)
    return Placement(tuple(d for d in range(devices) for _ in range(each + (d < more))))


def _v(devices: int, stages: int) -> Placement:
    """Return the stages down the devices and back up: device d holds the stages d and 2P-1-d."""
    if stages != 2 * devices:
        what = f"placement v needs {2 * devices} stages on {devices} devices (2P), not {stages}"
        raise ConfigError(what, "placement")
    return _wave(devices, stages)


def _wave(devices: int, stages: int) -> Placement:
    """Return the stages down the devices and back up, again and again (Hanayo's waves)."""
    if stages % (2 * devices):
        low = max(stages // (2 * devices), 1) * 2 * devices
        what = f"placement wave needs a multiple of {2 * devices} stages (2P), for instance {low}, not {stages}"
        raise ConfigError(what, "placement")
    down = list(range(devices))
    return Placement(tuple((down + down[::-1]) * (stages // (2 * devices))))


def _bidirectional(devices: int, stages: int) -> Placement:
    """Return a pipeline from each end: stage s on the devices s and P-1-s (Chimera, DualPipe), or waves (BitPipe)."""
    if stages != devices and stages % (2 * devices):
        low = stages // (2 * devices) * 2 * devices
        fitting = f"{low or devices} or {low + 2 * devices}"
        what = f"placement bidirectional needs {devices} stages (P) or a multiple of {2 * devices} (2P)"
        raise ConfigError(f"{what}, for instance {fitting}, not {stages}", "placement")
    return replace((_linear if stages == devices else _wave)(devices, stages), mirrored=True)


PLACEMENTS: dict[str, Callable[[int, int], Placement]] = {
    "linear": _linear,
    "loop": lambda devices, stages: Placement(tuple(stage % devices for stage in range(stages))),
    "v": _v,
    "wave": _wave,
    "bidirectional": _bidirectional,
}
