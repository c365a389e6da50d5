"""Where stages live: stage -> device, and for bidirectional pipelines also by the half of the microbatches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pipesched.errors import ConfigError
from pipesched.lookup import find


@dataclass(frozen=True)
class Placement:
    """`devices[s]` is the device of stage s. Mirrored: the second half of the microbatches finds stage s on device
    P-1-devices[s] (two copies of every stage)."""

    devices: tuple[int, ...]
    mirrored: bool = False

    def device(self, stage: int, microbatch: int, microbatches: int) -> int:
        """The device of a stage for a microbatch out of `microbatches`."""
        home = self.devices[stage]
        return self.last - home if self.mirrored and microbatch >= microbatches // 2 else home

    @property
    def last(self) -> int:
        """The number of the last device."""
        return max(self.devices)

    def stages_on(self, device: int) -> list[int]:
        """The stages whose weights a device holds, in forward order (the chunks 0, 1, ... of the device)."""
        last = self.last
        return [
            stage
            for stage, home in enumerate(self.devices)
            if home == device or (self.mirrored and last - home == device)
        ]


def place(name: str, devices: int, stages: int) -> Placement:
    """The placement of that name. Raises ConfigError when the number of stages does not suit it."""
    make = find(PLACEMENTS, name, "placement")
    if stages < devices:
        raise ConfigError(f"{stages} stages cannot fill {devices} devices; at least one stage a device is needed")
    return make(devices, stages)


def explicit(homes: tuple[int, ...], devices: int) -> Placement:
    """The placement that a list of devices spells out, one entry a stage. Every device must have a stage."""
    outside = [home for home in homes if not 0 <= home < devices]
    if outside:
        raise ConfigError(f"device {outside[0]} is out of range; devices are 0 to {devices - 1}")
    idle = sorted(set(range(devices)) - set(homes))
    if idle:
        raise ConfigError(f"device {idle[0]} is left without a stage")
    return Placement(homes)


def _linear(devices: int, stages: int) -> Placement:
    """Contiguous blocks; when they cannot be equal, the first devices hold one stage more."""
    each, more = divmod(stages, devices)
    return Placement(tuple(d for d in range(devices) for _ in range(each + (d < more))))


def _loop(devices: int, stages: int) -> Placement:
    """Round and round: stage s on device s mod P."""
    return Placement(tuple(stage % devices for stage in range(stages)))


def _v(devices: int, stages: int) -> Placement:
    """Down and back: stage 2P-1-d is on device d too, so a device holds a stage of each end."""
    if stages != 2 * devices:
        raise ConfigError(f"placement v needs {2 * devices} stages on {devices} devices (2P), not {stages}")
    return _wave(devices, stages)


def _wave(devices: int, stages: int) -> Placement:
    """Down and back, again and again (Hanayo's waves)."""
    if stages % (2 * devices):
        low = max(stages // (2 * devices), 1) * 2 * devices
        raise ConfigError(
            f"placement wave needs a multiple of {2 * devices} stages (2P), for instance {low}, not {stages}"
        )
    down = list(range(devices))
    return Placement(tuple((down + down[::-1]) * (stages // (2 * devices))))


def _bidirectional(devices: int, stages: int) -> Placement:
    """One pipeline from each end (Chimera, DualPipe)."""
    if stages != devices:
        raise ConfigError(f"placement bidirectional needs one stage a device: {devices} stages, not {stages}")
    return Placement(tuple(range(devices)), mirrored=True)


PLACEMENTS: dict[str, Callable[[int, int], Placement]] = {
    "linear": _linear,
    "loop": _loop,
    "v": _v,
    "wave": _wave,
    "bidirectional": _bidirectional,
}
