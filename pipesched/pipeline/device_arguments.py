"""From what a user writes of devices that differ to numbers: the speed of each, and the links between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipesched.checks import shown
from pipesched.errors import ConfigError
from pipesched.pipeline.costs import Links, exact_links, exact_speed
from pipesched.pipeline.quantities import Exact, canonical, to_fraction
from pipesched.pipeline.units_of_measure import Unit, count_of, exact_number, exact_numbers, first_entries, is_several

FORM = "{size: 4, inside: 0.05, between: 0.4}, the same with `groups` instead of `size`, or a list for each device"


def read_speed(value: Any, devices: int) -> tuple[Exact, ...] | None:
    """Return the speed of each device, from a list, one number for all, or numbers by device. Raises ConfigError."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return exact_speed(exact_numbers("speed", value, devices, "one a device", None), devices)
    speeds: list[Exact] = [1] * devices
    for device, speed in value.items():
        number = _device(device, devices, "speed")
        speeds[number] = canonical(exact_number("speed", speed, None, entry=number))
    return exact_speed(speeds, devices)


def read_links(value: Any, devices: int, time: Unit) -> Links | None:
    """Return the latency from each device to each, from that matrix, or from groups of devices. Raises ConfigError."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return _of_groups(value, devices, time)
    if not is_several(value):
        raise ConfigError(f"must be {FORM}, not {shown(value)}", "links")
    rows = []
    for device, row in enumerate(first_entries(value, devices)):
        entries = first_entries(row, devices) if is_several(row) else row
        if isinstance(entries, list):
            entries = [_latency(entry, f"from device {device} to {there}", time) for there, entry in enumerate(entries)]
        rows.append(entries)
    return exact_links(rows, devices)


def _of_groups(value: Mapping[Any, Any], devices: int, time: Unit) -> Links:
    """Return the links of devices in groups: `inside` a group, and `between` two."""
    unknown = next((key for key in value if key not in ("size", "groups", "inside", "between")), None)
    if unknown is not None:
        raise ConfigError(f"unknown key {shown(unknown)}; this is {FORM}", "links")
    absent = next((key for key in ("inside", "between") if value.get(key) is None), None)
    given = [key for key in ("size", "groups") if value.get(key) is not None]
    if absent or len(given) != 1:
        what = f"`{absent}` is missing" if absent else "one of `size` and `groups` is needed"
        raise ConfigError(f"{what}; this is {FORM}", "links")
    inside, between = (_latency(value[key], f"`{key}`", time) for key in ("inside", "between"))
    group = _by_size(value["size"], devices) if given == ["size"] else _by_lists(value["groups"], devices)
    return tuple(
        tuple(0 if here == there else inside if group[here] == group[there] else between for there in range(devices))
        for here in range(devices)
    )


def _by_size(size: Any, devices: int) -> list[int]:
    """Return the group of each device, where groups are so many devices in a row (the last one may have fewer)."""
    try:
        each = count_of("links", size)
    except ConfigError as error:
        raise ConfigError(f"`size` {error.message}", "links") from None
    return [device // each for device in range(devices)]


def _by_lists(groups: Any, devices: int) -> list[int]:
    """Return the group of each device. Raises ConfigError for one that is missing, or named twice."""
    group: dict[int, int] = {}
    for number, members in enumerate(first_entries(groups, devices) if is_several(groups) else [groups]):
        if not is_several(members):
            raise ConfigError(f"`groups` are lists of devices, not {shown(groups)}", "links")
        for member in first_entries(members, devices):
            device = _device(member, devices, "links")
            if device in group:
                raise ConfigError(f"`groups` name device {device} twice", "links")
            group[device] = number
    missing = next((device for device in range(devices) if device not in group), None)
    if missing is not None:
        raise ConfigError(f"`groups` miss device {missing}", "links")
    return [group[device] for device in range(devices)]


def _device(value: Any, devices: int, key: str) -> int:
    try:
        number = to_fraction(value)
    except ValueError:
        raise ConfigError(f"{shown(value)} is no device; devices are 0 to {devices - 1}", key) from None
    if number.denominator != 1 or not 0 <= number < devices:
        raise ConfigError(f"device {shown(value)} is out of range; devices are 0 to {devices - 1}", key)
    return int(number)


def _latency(value: Any, what: str, time: Unit) -> Exact:
    try:
        return canonical(exact_number("links", value, time))
    except ConfigError as error:
        raise ConfigError(f"{what}: {error.message}", "links") from None
