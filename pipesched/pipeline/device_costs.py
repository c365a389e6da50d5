"""What operations last on devices of different speed, and what edges cost between them: the one place that says so.

An operation of cost c lasts c / speed of its device, rounded half up to 9 significant digits; the transfers O and L
last their cost. An edge costs the latency of its boundary and that of the link from device to device, and nothing
inside a device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from pipesched.checks import require_sequence, shown
from pipesched.errors import ConfigError
from pipesched.pipeline.costs import PER_STAGE, TRANSFER_TIMES, Costs, Ticks, exact_tuple, whole
from pipesched.pipeline.quantities import Exact, rounded, ticks_per_unit, to_fraction

SLOWEST, FASTEST = Fraction(1, 1000), 1000
SCALED = (*(key for key in PER_STAGE if key not in TRANSFER_TIMES), "backward")  # by the speed of a device

Links = tuple[tuple[Exact, ...], ...]


class DeviceCosts(NamedTuple):
    """The costs of a problem, the speed of each device (None: all 1), and the links between devices (None: all 0)."""

    costs: Costs
    speed: tuple[Exact, ...] | None
    links: Links | None
    resolution: int  # the least ticks in a time unit

    def ticks_on(self, devices: tuple[int, ...] | None) -> Ticks:
        """Return what operations last and edges cost with each stage on one of `devices`; None: at speed 1, no links.

        Ticks are the same for all placements of the stages.
        """
        return _ticks_on(self, devices)


def at_speed(cost: Fraction, speed: Fraction) -> Fraction:
    """Return what an operation lasts on a device of a speed: its cost where that is 1."""
    return cost if speed == 1 else rounded(cost / speed)


@lru_cache(maxsize=64)
def _ticks_on(known: DeviceCosts, devices: tuple[int, ...] | None) -> Ticks:
    scale, base = _scale(known)
    if devices is None:
        return base
    costs, speed, links, _ = known
    speeds = [Fraction(1) if speed is None else to_fraction(speed[device]) for device in devices]
    columns: dict[str, Any] = {}
    for key, column in _scaled(costs).items():
        if column is not None:
            columns[key] = whole(map(at_speed, column, speeds), scale)
    hops = list(pairwise(devices))

    def link(here: int, there: int) -> int:
        return 0 if links is None else int(to_fraction(links[here][there]) * scale)

    def latencies(ways: Iterable[tuple[int, int]]) -> tuple[int, ...]:
        pairs = zip(base.p2p, ways, strict=True)
        return tuple(0 if here == there else hop + link(here, there) for hop, (here, there) in pairs)

    return base._replace(**columns, p2p=latencies(hops), p2p_back=latencies((b, a) for a, b in hops))


def _scaled(costs: Costs) -> dict[str, Sequence[Fraction] | None]:
    """Return the costs of operations that depend on the speed of their device."""
    columns: dict[str, Sequence[Fraction] | None] = {key: costs.fractions.get(key) for key in SCALED}
    return {**columns, "backward": [*map(to_fraction, costs.backward)]}


@lru_cache(maxsize=64)
def _scale(known: DeviceCosts) -> tuple[int, Ticks]:
    """Return the ticks in a time unit that make the times of every placement whole, and the costs at speed 1."""
    costs, speed, links, least = known
    values = {value for column in _scaled(costs).values() for value in column or ()}
    times = [at_speed(value, one) for one in {*map(to_fraction, speed or ())} for value in values]
    times += [to_fraction(latency) for row in links or () for latency in row]
    scale = max(ticks_per_unit(times), costs.ticks.per_unit, least)
    return scale, replace(costs, resolution=scale).ticks


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
    links = tuple(_row(row, device, devices) for device, row in enumerate(rows))
    for device, row in enumerate(links):
        if row[device]:
            raise ConfigError(f"device {device} reaches itself in 0, not in {shown(row[device])}", "links")
    return links


def _row(row: object, device: int, devices: int) -> tuple[Exact, ...]:
    """Return the latencies from a device. Raises ConfigError."""
    try:
        numbers = exact_tuple(row, "links", devices, "one a device")
        ticks_per_unit(map(to_fraction, numbers))
    except ConfigError as error:
        there = "" if error.entry is None else f" to device {error.entry}"
        raise ConfigError(f"from device {device}{there}: {error.message}", "links") from None
    except ValueError as error:
        raise ConfigError(f"from device {device}: times must be decimals; {error}", "links") from None
    return numbers
