"""An option of the command line: one record that says how it is typed, what it means, and what reads its text.

All values arrive as text and are read by us or by the library, so that every message has the same form.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer

from pipesched.cli.parse import as_text


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
