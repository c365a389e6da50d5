"""From what a user writes of microbatches that differ to numbers: tables, factors and slices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pipesched.checks import joined, require_name, shown
from pipesched.errors import ConfigError
from pipesched.pipeline.costs import Costs, Entry
from pipesched.pipeline.quantities import Exact, canonical, simplest, to_fraction
from pipesched.pipeline.units import AUTO, MOST_SLICES, SHARED, Shares, Sizes, SliceRule, Slices
from pipesched.pipeline.units_of_measure import (
    Unit,
    count_of,
    exact_number,
    exact_numbers,
    first_entries,
    is_several,
    length_text,
)

FACTORS = ("work", "activation", "message")
SLICE_KEYS = ("count", "tokens", "attention", "work", "overhead", "most")
WHOLE_ONLY = ("recompute", "offload", "reload", "overlap")
NEAR = Fraction(1, 10**9)  # how far from 1 the sum of given parts may be
Table = tuple[Entry, ...]


def counted(tables: Mapping[str, Any], sizes: Any, microbatches: Any, devices: int) -> int:
    """Return the number of microbatches: as given, as the first list for each has, or two a device.

    Raises ConfigError for a list of another length, about its key.
    """
    given = None if microbatches is None else count_of("microbatches", microbatches)
    for key, entry, length in _lengths(tables, sizes):
        if given is None:
            given = length
        elif length != given:
            where = f"row {entry}" if entry is not None else "it"
            name = f"`{key}`" if key in FACTORS else where
            said = f"{given} microbatches" if microbatches is None else f"`microbatches` is {given}"
            raise ConfigError(
                f"{name} has {length} numbers, one a microbatch; {said}", "sizes" if key in FACTORS else key
            )
    return 2 * devices if given is None else given


def _lengths(tables: Mapping[str, Any], sizes: Any) -> Iterator[tuple[str, int | None, int]]:
    """Yield the length of each list for all microbatches, with its key and its place in a table."""
    for key, value in (sizes or {}).items() if isinstance(sizes, Mapping) else ():
        if is_several(value):
            yield key, None, len([*value])
    for key, value in tables.items():
        for entry, row in enumerate(value if isinstance(value, (list, tuple)) else ()):
            if is_several(row):
                yield key, entry, len([*row])


def exact_table(key: str, value: Any, count: int, each: str, unit: Unit | None, microbatches: int) -> Table:
    """Return `count` entries: from a list of so many, each a number or a list of one a microbatch, or one number.

    Raises ConfigError, about the key and the entry at fault.
    """
    if not is_several(value):
        return exact_numbers(key, value, count, each, unit)
    entries = first_entries(value, count)
    if not any(map(is_several, entries)):
        return exact_numbers(key, entries if len(entries) <= count else value, count, each, unit)
    if len(entries) != count:
        raise ConfigError(
            f"a list here needs {count} entries ({each}); this one has {length_text(value, entries, count)}", key
        )
    return tuple(_row(key, row, unit, microbatches, entry) for entry, row in enumerate(entries))


def _row(key: str, row: Any, unit: Unit | None, microbatches: int, entry: int) -> Entry:
    """Return an entry of a table: one number where all are equal."""
    if not is_several(row):
        return canonical(exact_number(key, row, unit, entry=entry))
    numbers = first_entries(row, microbatches)
    if len(numbers) != microbatches:
        found = length_text(row, numbers, microbatches)
        raise ConfigError(f"needs {microbatches} numbers (one a microbatch); this row has {found}", key, entry=entry)
    exact = tuple(canonical(exact_number(key, number, unit, entry=entry)) for number in numbers)
    return exact[0] if len({*exact}) == 1 else exact


def read_sizes(value: Any, microbatches: int) -> Sizes | None:
    """Return the factors of each microbatch; None where all are 1. Raises ConfigError about `sizes`."""
    if value is None or isinstance(value, Sizes):
        return value
    if not isinstance(value, Mapping):
        raise ConfigError(f"must be a mapping of {joined(FACTORS)}, not {shown(value)}", "sizes")
    columns: dict[str, tuple[Exact, ...]] = dict.fromkeys(FACTORS, (1,) * microbatches)
    for key, factors in value.items():
        name = require_name(FACTORS, key, "key of `sizes`", "sizes")
        if factors is None:
            continue
        if not is_several(factors):
            raise ConfigError(
                f"`{name}` must list {microbatches} numbers (one a microbatch), not {shown(factors)}", "sizes"
            )
        try:
            columns[name] = exact_numbers("sizes", factors, microbatches, "one a microbatch", None)
        except ConfigError as error:
            at = "" if error.entry is None else f"[{error.entry}]"
            raise ConfigError(f"`{name}`{at} {error.message}", "sizes") from None
    sizes = Sizes(**columns)
    return None if sizes.are_one else sizes


def read_slices(value: Any, stages: int, time: Unit) -> Slices:
    """Return how microbatches are cut, from a number of slices, or a mapping. Raises ConfigError about `slices`."""
    if isinstance(value, Slices):
        return value
    given = value if isinstance(value, Mapping) else {"count": value}
    for key in given:
        require_name(SLICE_KEYS, key, "key of `slices`", "slices")
    given = {key: one for key, one in given.items() if one is not None}
    overhead = canonical(_number(given, "overhead", 0, time))
    if given.get("count") == AUTO:
        return _open(given, overhead)
    count = _count(given)
    if "most" in given:
        raise ConfigError(f"`most` goes with `count: {AUTO}`", "slices")
    if "work" in given:
        if "attention" in given:
            raise ConfigError("give either `attention`, or the parts of the `work`", "slices")
        tokens = _tokens(given.get("tokens"), count)
        forward, backward_input, backward_weight = _work(given["work"], count, stages)
        return Slices(count, tokens, forward, backward_input, backward_weight, overhead)
    return _rule(given, overhead, MOST_SLICES).slices(count, _tokens_given(given, count))


def _open(given: Mapping[str, Any], overhead: Exact) -> Slices:
    """Return one slice, with the rule by which a better number is to be found."""
    for key in ("tokens", "work"):
        if is_several(given.get(key)) or isinstance(given.get(key), Mapping):
            raise ConfigError(f"`{key}` lists parts, but how many there are is to be found (`count: {AUTO}`)", "slices")
    most = 64 if "most" not in given else _whole(given["most"], "most")
    return Slices(overhead=overhead, rule=_rule(given, overhead, most))


def _rule(given: Mapping[str, Any], overhead: Exact, most: int) -> SliceRule:
    attention = _number(given, "attention", 0, None)
    if attention > 1:
        raise ConfigError(f"`attention` must be between 0 and 1, not {shown(given['attention'])}", "slices")
    tokens = given.get("tokens", "equal")
    if isinstance(tokens, str):
        require_name(("equal", "work"), tokens, "rule of `tokens`", "slices")
    return SliceRule(most, attention, tokens == "work", overhead)


def _tokens_given(given: Mapping[str, Any], count: int) -> Shares | None:
    """Return the part of each slice where they are listed."""
    return None if isinstance(given.get("tokens", ""), str) else _shares(given["tokens"], count, "tokens")


def _tokens(value: Any, count: int) -> Shares:
    if value is None or value == "equal":
        return (Fraction(1, count),) * count
    if isinstance(value, str):
        raise ConfigError("`tokens` must be equal or listed beside `work`", "slices")
    return _shares(value, count, "tokens")


def _work(value: Any, count: int, stages: int) -> list[tuple[Shares, ...]]:
    """Return the parts of F, I and W, for each stage where they are listed by stage."""
    by_kind = value if isinstance(value, Mapping) else dict.fromkeys(SHARED, value)
    for key in by_kind:
        require_name(SHARED, key, "kind of `work`", "slices")
    rows = []
    for key in SHARED:
        listed = by_kind.get(key, by_kind.get("forward"))
        if listed is None:
            raise ConfigError(f"`work.{key}` is missing", "slices")
        if is_several(listed) and any(map(is_several, listed)):
            if len([*listed]) != stages:
                raise ConfigError(f"`work.{key}` has lists for {len([*listed])} stages; there are {stages}", "slices")
            rows.append(tuple(_shares(row, count, f"work.{key}") for row in listed))
        else:
            rows.append((_shares(listed, count, f"work.{key}"),))
    return [row[:1] if len({*row}) == 1 else row for row in rows]


def _shares(value: Any, count: int, name: str) -> Shares:
    """Return `count` positive parts, of sum 1 once they are divided by it. Raises ConfigError."""
    if not is_several(value):
        raise ConfigError(f"`{name}` must list {count} parts of sum 1, not {shown(value)}", "slices")
    entries = first_entries(value, count)
    if len(entries) != count:
        found = length_text(value, entries, count)
        raise ConfigError(f"`{name}` needs {count} parts, one a slice; this has {found}", "slices")
    parts = []
    for entry, one in enumerate(entries):
        try:
            number = Decimal(repr(one)) if isinstance(one, float) else one
            parts.append(simplest(number) if isinstance(number, Decimal) else to_fraction(number))
        except ValueError:
            parts.append(Fraction(0))
        if parts[-1] <= 0:
            raise ConfigError(f"`{name}`[{entry}] must be more than 0, not {shown(one)}", "slices")
    whole = sum(parts, Fraction(0))
    if abs(whole - 1) > NEAR:
        raise ConfigError(f"`{name}` must have the sum 1, not {shown(float(whole))}", "slices")
    return tuple(part / whole for part in parts)


def _count(given: Mapping[str, Any]) -> int:
    count = given.get("count", 1)
    if isinstance(count, str) and not count.strip().isdigit():
        raise ConfigError(f"must be a whole number from 1 to {MOST_SLICES}, or {AUTO}, not {shown(count)}", "slices")
    return _whole(count, "")


def _whole(value: Any, name: str) -> int:
    what = f"`{name}` " if name else ""
    try:
        number = count_of("slices", value)
    except ConfigError:
        number = 0
    if not 1 <= number <= MOST_SLICES:
        raise ConfigError(f"{what}must be a whole number from 1 to {MOST_SLICES}, not {shown(value)}", "slices")
    return number


def _number(given: Mapping[str, Any], key: str, default: int, unit: Unit | None) -> Fraction:
    try:
        return exact_number("slices", given.get(key, default), unit)
    except ConfigError as error:
        raise ConfigError(f"`{key}` {error.message}", "slices") from None


def require_whole_microbatches(given: Mapping[str, Any], slices: Slices) -> None:
    """Raise ConfigError for costs that no slice has: of recompute, offload, and overlapped pairs."""
    key = next((key for key in WHOLE_ONLY if given[key] is not None), None)
    if key is not None and (slices.count > 1 or slices.rule is not None):
        raise ConfigError(f"goes with whole microbatches, not with `slices` ({shown(slices.count)} each)", key)


def require_alike_pairs(costs: Costs, sizes: Sizes | None) -> None:
    """Raise ConfigError for `overlap` where the halves of pairs last differently long from microbatch to microbatch."""
    differ = [key for key in ("forward", *SHARED[1:]) if any(isinstance(entry, tuple) for entry in getattr(costs, key))]
    if sizes is not None and {*sizes.work} != {1}:
        differ.append("sizes.work")
    if costs.overlap is not None and differ:
        raise ConfigError(
            f"is one time for all pairs of a stage; with `{differ[0]}` by microbatch, leave it out: a pair then lasts"
            " the sum of its parts",
            "overlap",
        )
