"""Which numbers of a config, of its files and of what was laid over it have more digits than count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pipesched.checks import shown
from pipesched.pipeline.declared import BY_NAME, MAPPINGS
from pipesched.pipeline.quantities import MOST_DIGITS, OutOfLimits, plain
from pipesched.pipeline.units_of_measure import rounding_of
from pipesched.schedulers.options import OPTIONS
from pipesched.text.given import Given

if TYPE_CHECKING:  # a problem that no file says is read without YAML
    from pipesched.text.sections import Section
    from pipesched.text.yaml_reader import Value

PARTED = ("tokens", "work")  # of slices: parts of a whole, of which all digits count
MEASURES = ("hardware", "training")  # the sections whose numbers may have many digits; those of others are whole


def rounding_note(values: Mapping[str, Given]) -> str | None:
    """Return which number is rounded first, by its place or parameter, and how many more are; None for none."""
    found = [place for name, given in values.items() for place in _rounded(name, given)]
    if not found:
        return None
    more = {1: "", 2: "; 1 more number is rounded"}.get(len(found), f"; {len(found) - 1} more numbers are rounded")
    return f"{found[0]}{more}"


def _rounded(name: str, given: Given) -> Iterator[str]:
    """Yield for each number of a value that is rounded where it stands, and what it counts as."""
    if name == "algorithm":
        for key, option in given.value.options.items():
            if key in OPTIONS and OPTIONS[key].shape.rounds:
                yield from _of_numbers(option, given.value.locations.get(key, f"`{key}`"))
    elif name not in BY_NAME:
        yield from _of_section(given.value, name) if name in MEASURES else ()
    elif (field := BY_NAME[name]).shape.rounds:
        key = field.key
        if not isinstance(given.value, Mapping):
            yield from _of_numbers(given.value, given.where or f"`{key}`")
            return
        for entry, value in given.value.items():
            place = given.inside.get(str(entry), given.where)
            called = f"`{key}.{entry}`" if name in MAPPINGS else f"`{key}`.{entry}"
            if name != "slices" or entry not in PARTED:
                yield from _of_numbers(value, f"{place}.{entry}" if place else called)


def _of_numbers(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, (list, tuple)):
        for entry, one in enumerate(value):
            yield from _of_numbers(one, f"{place}[{entry}]")
    elif isinstance(value, Mapping):  # an item of side work
        for name, one in value.items():
            yield from _of_numbers(one, f"{place}.{name}")
    else:
        try:
            counted = rounding_of(value)
        except OutOfLimits:  # which the check of what it is for refuses
            return
        if counted is not None:
            yield f"{place}: more than {MOST_DIGITS} digits, rounded to {shown(plain(counted))}"


def _of_section(section: Section, key: str) -> Iterator[str]:
    """Yield those of a section, and of the file of shares that `training.efficiency` may name."""
    yield from _of_tree(section.value, section.file, key)
    efficiency = section.value.data.get("efficiency") if isinstance(section.value.data, dict) else None
    if key == "training" and efficiency is not None and isinstance(efficiency.data, str):
        from pipesched.estimation.setup_reader import profile_of

        profile = profile_of(section, efficiency)
        yield from _of_tree(profile.value, profile.file, "efficiency")


def _of_tree(value: Value, file: str, key: str) -> Iterator[str]:
    if isinstance(value.data, dict):
        for name, entry in value.data.items():
            yield from _of_tree(entry, file, f"{key}.{name}")
    else:
        yield from _of_numbers(value.plain(), f"{file}:{value.line}: {key}" if value.line else f"`{key}`")
