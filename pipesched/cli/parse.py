"""What the texts of options mean: numbers, lists of them, words."""

from __future__ import annotations

from typing import Any

from pipesched.errors import ConfigError
from pipesched.pipeline.quantities import parse_number


def parse_value(text: str) -> Any:
    """Return what an option's text means: a number, a list of them when it holds commas, else a word."""
    if "," in text:
        return [parse_value(part) for part in text.split(",")]
    try:
        number = parse_number(text.strip())
    except ValueError:
        return text.strip()
    return int(number) if -20 < number.adjusted() < 20 and number == number.to_integral_value() else number


def whole_number(option: str, text: str, least: int, most: int = 10**9) -> int:
    """Return the whole number that the text of an option spells. Raises ConfigError."""
    number = number_of(option, text)
    if number is None or number != int(number) or not least <= number <= most:
        raise ConfigError(f"{option}: must be a whole number of at least {least} (at most {most:,}), not {text!r}")
    return int(number)


def number_of(option: str, text: str | None) -> float | None:
    """Return the number that the text of an option spells; None without a text. Raises ConfigError."""
    if text is None:
        return None
    try:
        number = float(parse_number(text.strip()))
    except (ValueError, OverflowError):
        raise ConfigError(f"{option}: must be a number, not {text!r}") from None
    if not -1e15 < number < 1e15:
        raise ConfigError(f"{option}: {text} is out of range")
    return int(number) if number.is_integer() else number
