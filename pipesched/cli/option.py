"""An option of the command line: one record that says how it is typed, what it means, and what reads its text.

All values arrive as text and are read by us or by the library, so that every message has the same form. A reader takes
the flag, for its error, and the text behind it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer

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


class CommandOption(NamedTuple):
    """An option with its `usage`: `-o/--output FILE`; without a word for a value it is a switch.

    `read` takes the flag and the text behind it. `absent` is the value of an option that is not given; of a switch it
    is False, or None where it can be switched off too.
    """

    usage: str
    help: str
    read: Callable[[str, Any], Any] = as_text
    absent: Any = None
    hidden: bool = False

    @property
    def names(self) -> list[str]:
        """How it may be spelled."""
        return self.usage.split()[0].split("/")

    @property
    def flag(self) -> str:
        """Its long spelling, which messages use."""
        return next(name for name in self.names if name.startswith("--"))

    def value(self, given: Any) -> Any:
        """Return the value of what was given. Raises ConfigError."""
        return self.absent if given is None else self.read(self.flag, given)

    def info(self, panel: str | None = None) -> Any:
        """Return it as Typer knows it, in a panel of the help."""
        spelling, _, metavar = self.usage.partition(" ")
        names = [spelling] if "/--no-" in spelling else self.names
        return typer.Option(*names, help=self.help, rich_help_panel=panel, metavar=metavar, hidden=self.hidden)

    def parameter(self, name: str, panel: str) -> inspect.Parameter:
        """Return it as a parameter of a command, for Typer."""
        is_switch = " " not in self.usage
        kind: Any = (bool if is_switch else str) | None
        default = False if is_switch and "/--no-" not in self.usage else None
        annotation = Annotated[kind, self.info(panel)]
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def option(usage: str, text: str, read: Callable[[str, Any], Any] = as_text, **more: Any) -> Any:
    """Return an option: of a record of options the default of its field, of a command in the annotation."""
    return CommandOption(usage, text, read, **more)
