"""Checks of arguments: each returns the value, or raises ConfigError about `key`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Context, Decimal
from difflib import get_close_matches
from fractions import Fraction
from math import isfinite, isqrt, nan
from numbers import Integral, Real
from typing import Any, TypeVar

from pipesched.errors import ConfigError

WIDTH = 60  # letters of a value in a message
NESTED = 3  # lists inside lists that are shown
MOST_DIGITS = 9  # of a number in a message
MANY = 12  # entries of a list that are shown
MOST_SECONDS = 1_000_000  # of a time limit: twelve days
NEAREST = 3  # names that a message proposes of many
MOST_WORKERS = 1_000  # threads or processes: more than any machine has
T = TypeVar("T")


def shown(value: object, most: int = WIDTH, depth: int = NESTED) -> str:
    """Return a value as text for a message, on one line of at most `most` characters; lists in lists to a depth."""
    if isinstance(value, (list, tuple)):
        entries = [shown(entry, depth=depth - 1) for entry in value[:MANY]] if depth else [".."] * bool(value)
        text = f"[{', '.join([*entries, *['..'] * (depth > 0 and len(value) > MANY)])}]"
    elif value is None or isinstance(value, bool):
        text = {None: "null", True: "true", False: "false"}[value]
    elif isinstance(value, str):
        text = repr(str(value[:1000]))
    else:
        try:
            text = str(value) if isinstance(value, (Decimal, Fraction)) else repr(value)
            if isinstance(value, (int, float, Decimal, Fraction)) and sum(map(str.isdigit, text)) > MOST_DIGITS:
                number = float(value) if isinstance(value, Fraction) else value
                text = f"{Decimal(number).normalize(Context(prec=MOST_DIGITS)):g}"
        except Exception:  # whatever an object of a user raises; or a number of more digits than Python writes
            text = f"a value of type {type(value).__name__} that cannot be written"
    return text if len(text) <= most and text.isprintable() else cut(text, most)


def cut(text: str, most: int = WIDTH) -> str:
    """Return a text on one line of at most `most` characters."""
    if not text.isprintable():
        text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return text if len(text) <= most else f"{text[: most - 3]}..."


def joined(texts: Sequence[str], most: int = 90) -> str:
    """Return texts with commas between them: all, or where that is too long the first ones, and how many there are."""
    whole = ", ".join(texts)
    if len(whole) <= most:
        return whole
    begin = whole[: most - 20]
    return f"{begin.rpartition(', ')[0] or begin}, .. {len(texts)} in all"


def require_type(value: object, kind: Any, what: str, key: str) -> Any:
    """Return `value` if it is of the type `kind`, which `what` describes: "a Plan (of pipesched.plan, say)"."""
    if not isinstance(value, kind):
        raise ConfigError(f"must be {what}, not {shown(value)}", key)
    return value


def require_fields(one: object, **kinds: type) -> None:
    """Raise ConfigError for a field of a record that is neither of a type, nor None."""
    for key, kind in kinds.items():
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        require_type(getattr(one, key), (kind, type(None)), f"{article} {kind.__name__} or None", key)


def require_whole(
    value: object, key: str, least: int = 0, most: int | None = None, entry: int | str | None = None
) -> int:
    """Return `value`, or entry number `entry` of a list, as an int if it is a whole number from `least` to `most`."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    number = int(value) if is_whole else least - 1  # type: ignore[call-overload]
    if number < least or (most is not None and number > most):
        limit = "" if most is None else f" (at most {most:,})"
        raise ConfigError(f"must be a whole number of at least {least}{limit}, not {shown(value)}", key, entry=entry)
    return number


def require_number(
    value: object, key: str, least: float = 0, most: float | None = None, *, above: bool = False
) -> float:
    """Return `value` as a float if it is a number from `least` to `most`; with `above` it must be more than `least`."""
    number = nan
    with suppress(OverflowError, ValueError):  # the latter: a signalling NaN
        if isinstance(value, (Real, Decimal)) and not isinstance(value, bool):
            number = float(value)
    if not isfinite(number) or number < least or (above and number == least) or (most is not None and number > most):
        allowed = f"more than {least:g}" if above else f"at least {least:g}"
        limit = "" if most is None else f" (at most {most:,})"
        raise ConfigError(f"must be a number of {allowed}{limit}, not {shown(value)}", key)
    return number


def _of_type(kind: Any, what: str) -> Callable[[object, str], Any]:
    def require(value: object, key: str) -> Any:
        return require_type(value, kind, what, key)

    return require


require_sequence: Callable[[object, str], Sequence[Any]] = _of_type((list, tuple), "a list")
require_flag: Callable[[object, str], bool] = _of_type(bool, "true or false")
require_text: Callable[[object, str], str] = _of_type(str, "a text")


def require_label(value: object, key: str) -> str:
    """Return `value` if it is one line of text."""
    if not isinstance(value, str) or not value.isprintable():
        raise ConfigError(f"must be one line of text, not {shown(value)}", key)
    return value


def require_mapping(value: object, what: str, key: str) -> Mapping[str, Any]:
    """Return `value` if it is a mapping by names; `what` says of what: "options by the names of algorithms"."""
    if not isinstance(value, Mapping):
        raise ConfigError(f"must be {what}, not {shown(value)}", key)
    for name in value:
        if not isinstance(name, str):
            raise ConfigError(f"must be {what}; {shown(name)} is no name", key)
    return value


def require_callable(value: object, key: str) -> Callable[..., Any] | None:
    """Return `value` if it can be called, or is None."""
    if value is not None and not callable(value):
        raise ConfigError(f"must be a function, not {shown(value)}", key)
    return value


def look_up(table: Mapping[str, T], name: object, what: str, key: str | None = None, rest: str = "") -> T:
    """Return `table[name]`; `what` says what it is, for a message: "algorithm".

    Raises ConfigError, about the parameter `key`, that suggests the nearest name and lists all known ones, or the three
    nearest where `rest` says what lists all.
    """
    if not isinstance(name, str):
        known = f"one of {', '.join(table)}, " if not rest else ""
        raise ConfigError(f"must be a name, {known}not {shown(name)}", key)
    if name in table:
        return table[name]
    near = get_close_matches(name.lower(), table, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    nearest = get_close_matches(name.lower(), table, n=NEAREST, cutoff=0)
    known = f"the nearest are {', '.join(nearest)}; {rest}" if rest else f"known are {', '.join(table)}"
    raise ConfigError(f"unknown {what} {shown(name)}; {hint}{known}", key)


def require_name(names: Iterable[str], name: object, what: str, key: str | None = None, rest: str = "") -> str:
    """Return `name` if it is one of `names`. Raises ConfigError as `look_up` does."""
    known = {one: one for one in names}
    return known[name] if isinstance(name, str) and name in known else look_up(known, name, what, key, rest)


def divisors(number: int) -> tuple[int, ...]:
    """Return the numbers that divide another, ascending."""
    small = [size for size in range(1, isqrt(number) + 1) if number % size == 0]
    return tuple(sorted({*small, *(number // size for size in small)}))


def nearest_divisors(number: int, of: int) -> str:
    """Return as text the divisors of a number that are nearest to another one, below and above it."""
    below = [size for size in divisors(of) if size <= number][-1:]
    above = [size for size in divisors(of) if size > number][:1]
    return " or ".join(map(str, below + above))


def nearest_multiples(number: int, of: int) -> str:
    """Return as text the multiples that are nearest to a number, below and above it."""
    low = number // of * of
    return f"{low} or {low + of}" if low else f"{of}"
