"""Checks of arguments: each returns the value if it is legal, else it raises ConfigError about the parameter `key`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from numbers import Integral, Real
from typing import Any

from pipesched.errors import ConfigError


def shown(value: object) -> str:
    """Return a value as text for a message, on one line of at most 60 characters."""
    if isinstance(value, (list, tuple)):
        more = [".."] if len(value) > 12 else []
        text = f"[{', '.join([*map(shown, value[:12]), *more])}]"
    elif value is None or isinstance(value, bool):
        text = {None: "null", True: "true", False: "false"}[value]
    else:
        text = str(value) if isinstance(value, (Decimal, Fraction)) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def require_type(value: object, kind: Any, what: str, key: str) -> Any:
    """Return `value` if it is of the type `kind`, which `what` describes: "a Plan (of pipesched.plan, say)"."""
    if not isinstance(value, kind):
        raise ConfigError(f"must be {what}, not {shown(value)}", key)
    return value


def require_whole(value: object, key: str, least: int = 0, most: int | None = None, entry: int | None = None) -> int:
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
    number = float(value) if isinstance(value, (Real, Decimal)) and not isinstance(value, bool) else float("nan")
    if not isfinite(number) or number < least or (above and number == least) or (most is not None and number > most):
        allowed = f"more than {least:g}" if above else f"at least {least:g}"
        limit = "" if most is None else f" (at most {most:,})"
        raise ConfigError(f"must be a number of {allowed}{limit}, not {shown(value)}", key)
    return number


def require_sequence(values: object, key: str) -> Sequence[Any]:
    """Return `values` if they are a list or a tuple."""
    if not isinstance(values, (list, tuple)):
        raise ConfigError(f"must be a list, not {shown(values)}", key)
    return values


def require_flag(value: object, key: str) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool):
        raise ConfigError(f"must be true or false, not {shown(value)}", key)
    return value


def require_label(value: object, key: str) -> str:
    """Return `value` if it is one line of text."""
    if not isinstance(value, str) or not value.isprintable():
        raise ConfigError(f"must be one line of text, not {shown(value)}", key)
    return value


def require_callable(value: object, key: str) -> Callable[..., Any] | None:
    """Return `value` if it can be called, or is None."""
    if value is not None and not callable(value):
        raise ConfigError(f"must be a function, not {shown(value)}", key)
    return value
