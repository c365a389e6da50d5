"""The command group. A command's module loads when the command is called, so that none pays for another."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from functools import partial
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from pipesched import __version__
from pipesched.cli.exits import guarded
from pipesched.cli.options import with_options

COMMANDS = {  # name -> module of this package, whose function `command` it is
    "run": "run",
    "compare": "compare",
    "list": "list_algorithms",
    "show": "show",
    "check": "check",
    "init": "init",
}


class LeanCommand(TyperCommand):
    """A command whose text options stay text: turning a str into a str is not worth loading a validation library."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for parameter in self.params:
            if not parameter.required and parameter.callback is None:
                vars(parameter)["process_value"] = partial(_as_given, parameter)


def _as_given(parameter: Any, _context: Any, value: Any) -> Any:
    """The parsed value itself: text, a flag's bool, or a list of texts."""
    return () if value is None and (parameter.multiple or parameter.nargs == -1) else value


class LazyCommands(MutableMapping[str, Any]):
    """The commands by name, built when they are looked at."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            if name not in COMMANDS:
                raise KeyError(name)
            function = import_module(f"pipesched.cli.{COMMANDS[name]}").command
            single = typer.Typer(add_completion=False)
            single.command(name, cls=LeanCommand)(guarded(with_options(function)))
            self._built[name] = typer.main.get_command(single)
        return self._built[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        del self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class LazyGroup(TyperGroup):
    """A group that knows its commands by name only, until one is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = LazyCommands()


app = typer.Typer(name="pipesched", cls=LazyGroup, no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pipesched {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Schedules of pipeline-parallel training: see them, measure them, compare them, and know how far from the best."""
