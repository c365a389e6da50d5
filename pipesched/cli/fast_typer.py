"""Typer without its validation library, which takes longer to load than a whole command, and without types in its help.

Our options stay text and are read by pipesched, so there is nothing to convert: a str that becomes a str. Each
parameter's `process_value` is replaced by one that hands the parsed value on, and its `display_type_rich`, which would
print `<bool>` and `<list[str]>`, by its metavar. Where a Typer has no such method, nothing is replaced, and everything
works as before, only slower. No other file touches what is not Typer's public API.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from typer.core import TyperCommand, TyperGroup

CONVERT, SHOW_TYPE = "process_value", "display_type_rich"


def make_fast(parameters: Iterable[Any]) -> None:
    """Let parameters show no type, and the optional ones hand on what was parsed, text or bool, as it is."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif hasattr(parameter, SHOW_TYPE) and not hasattr(parameter, "is_flag"):  # an argument
            vars(parameter)[SHOW_TYPE] = _no_type
        if hasattr(parameter, CONVERT) and not parameter.required:
            vars(parameter)[CONVERT] = partial(_as_parsed, parameter)


def _no_type(ctx: Any) -> None:
    """Return that there is no type to show."""


def _as_parsed(parameter: Any, context: Any, value: Any) -> Any:
    """Return the parsed value itself, or what the parameter's callback makes of it."""
    if value is None and (parameter.multiple or parameter.nargs == -1):
        value = ()
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


class FastCommand(TyperCommand):
    """A command whose options are read by pipesched."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse without converting."""
        make_fast(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help; a word in brackets, as in pipesched[torch], is text there and no style."""
        from rich.markup import escape

        text, self.help = self.help, escape(self.help or "")
        try:
            super().format_help(ctx, formatter)
        finally:
            self.help = text


class FastGroup(TyperGroup):
    """A group whose options are read by pipesched."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse without converting."""
        make_fast(self.get_params(ctx))
        return super().parse_args(ctx, args)
