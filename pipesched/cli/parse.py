"""Readers of options: what a text behind a flag means. Each takes the flag, for its error, and the text."""

from __future__ import annotations

from typing import Any

from pipesched.errors import ConfigError
from pipesched.pipeline.quantities import parse_number


def as_text(_flag: str, text: str) -> str:
    """Return the text itself."""
    return text


def as_value(_flag: str, text: str) -> Any:
    """Return what `parse_value` makes of the text."""
    return parse_value(text)


def parse_value(text: str) -> Any:
    """Return what an option's text means: a number, a list of them when it holds commas, else a word."""
    if "," in text:
        return [parse_value(part) for part in text.split(",")]
    try:
        number = parse_number(text.strip())
    except ValueError:
        return text.strip()
    return int(number) if -20 < number.adjusted() < 20 and number == number.to_integral_value() else number


def whole_number(flag: str, text: str, least: int, most: int = 10**9) -> int:
    """Return the whole number that the text of an option spells. Raises ConfigError."""
    number = number_of(flag, text)
    if number != int(number) or not least <= number <= most:
        raise ConfigError(f"{flag}: must be a whole number of at least {least} (at most {most:,}), not {text!r}")
    return int(number)


def whole_numbers(flag: str, text: str, least: int) -> list[int]:
    """Return the whole numbers that a list with commas spells. Raises ConfigError."""
    return [whole_number(flag, part, least) for part in text.split(",")]


def number_of(flag: str, text: str) -> float:
    """Return the number that the text of an option spells. Raises ConfigError."""
    try:
        number = float(parse_number(text.strip()))
    except (ValueError, OverflowError):
        raise ConfigError(f"{flag}: must be a number, not {text!r}") from None
    if not -1e15 < number < 1e15:
        raise ConfigError(f"{flag}: {text} is out of range")
    return int(number) if number.is_integer() else number
