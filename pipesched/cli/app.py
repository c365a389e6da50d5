"""The command group. The module of a command loads when the command is called, so that none pays for another."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Annotated, Any

import typer

from pipesched.cli.exits import guarded
from pipesched.cli.fast_typer import FastCommand, FastGroup
from pipesched.cli.groups import with_options
from pipesched.core.compiled import form_of_kernels
from pipesched.version import __version__

COMMANDS = {  # name -> module of this package, whose function `command` it is
    "run": "run",
    "compare": "compare",
    "solve": "solve",
    "pack": "pack",
    "estimate": "estimate",
    "tune": "tune",
    "explain": "explain",
    "robust": "robust",
    "explore": "explore",
    "list": "list_algorithms",
    "hls": "hls",
    "show": "show",
    "check": "check",
    "export": "export",
    "profile": "profile",
    "train": "train",
    "init": "init",
}


class LazyCommands(MutableMapping[str, Any]):
    """The commands by name, each built when it is looked up."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            if name not in COMMANDS:
                raise KeyError(name)
            function = import_module(f"pipesched.cli.{COMMANDS[name]}").command
            single = typer.Typer(add_completion=False)
            single.command(name, cls=FastCommand)(guarded(with_options(function)))
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


class LazyGroup(FastGroup):
    """A group that knows only the names of its commands until it looks one up."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = LazyCommands()


app = typer.Typer(name="pipesched", cls=LazyGroup, no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pipesched {__version__}, kernels: {form_of_kernels()}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and exit; also whether kernels are compiled.",
        ),
    ] = False,
) -> None:
    """Schedules of pipeline-parallel training: see them, measure them, compare them, and know how far from the best."""
