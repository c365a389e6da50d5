"""The command group. A command's module loads when the command is called, so that none pays for another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
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
    "solve": "solve",
    "list": "list_algorithms",
    "hls": "hls",
    "show": "show",
    "check": "check",
    "export": "export",
    "init": "init",
}


def _lean(parameters: Iterable[Any]) -> None:
    """Let text stay text and flags stay bools: a str that becomes a str is not worth loading a validation library."""
    for parameter in parameters:
        if not parameter.required:
            vars(parameter)["process_value"] = partial(_as_parsed, parameter)


def _as_parsed(parameter: Any, context: Any, value: Any) -> Any:
    """The parsed value itself, through the parameter's callback if it has one."""
    if value is None and (parameter.multiple or parameter.nargs == -1):
        value = ()
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


class LeanCommand(TyperCommand):
    """A command whose options are read by pipesched."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _lean(self.get_params(ctx))
        return super().parse_args(ctx, args)


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

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _lean(self.get_params(ctx))
        return super().parse_args(ctx, args)


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
