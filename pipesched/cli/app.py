"""The command group, `main`: COMMANDS, whose modules load when they are called.

Values are not converted by Typer, whose validation library takes long to load: `Unconverted` hands on what was parsed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from types import CodeType
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from pipesched.cli.exits import ExitStatus, stop
from pipesched.core.arrays import form_of_kernels
from pipesched.errors import ConfigError
from pipesched.version import __version__

CONVERT, SHOW_TYPE = "process_value", "display_type_rich"  # methods of Typer's parameters that are replaced


def make_fast(parameters: Iterable[Any]) -> None:
    """Let parameters show no type, and the optional ones hand on what was parsed, text or bool, as it is."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif hasattr(parameter, SHOW_TYPE) and not hasattr(parameter, "is_flag"):  # an argument
            vars(parameter)[SHOW_TYPE] = lambda **_: None
        if hasattr(parameter, CONVERT) and not parameter.required:
            vars(parameter)[CONVERT] = partial(_as_parsed, parameter)


def _as_parsed(parameter: Any, context: Any, value: Any) -> Any:
    """Return the parsed value itself, or what the parameter's callback makes of one that was given."""
    if value is None and (parameter.multiple or parameter.nargs == -1):
        value = ()
    return parameter.callback(context, parameter, value) if value and parameter.callback else value


class Unconverted:
    """What parses without converting: its options are read by pipesched."""

    def parse_args(self: Any, ctx: Any, args: list[str]) -> list[str]:
        make_fast(self.get_params(ctx))
        parsed: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        return parsed


class FastCommand(Unconverted, TyperCommand):
    """A command whose options are read by pipesched."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help; a word in brackets, as in pipesched[torch], is text there and no style."""
        from rich.markup import escape

        text, self.help = self.help, escape(self.help or "")
        try:
            super().format_help(ctx, formatter)
        finally:
            self.help = text


COMMANDS = {  # name -> module of this package, whose function `command` it is
    "run": "run", "compare": "compare", "solve": "solve", "pack": "pack", "estimate": "estimate", "tune": "tune",
    "explain": "explain", "robust": "robust", "explore": "explore", "list": "list_algorithms", "hls": "hls",
    "show": "show", "check": "check", "export": "export", "profile": "profile", "train": "train", "init": "init",
}  # fmt: skip


@cache
def command_of(name: str, flags: Collection[str] = ("--help",)) -> Any:
    """Return a command of COMMANDS, whose module loads with it; if it has all `flags`, without other options."""
    from pipesched.cli.groups import with_options

    function = import_module(f"pipesched.cli.{COMMANDS[name]}").command
    single = typer.Typer(add_completion=False)
    single.command(name, cls=FastCommand)(with_options(function, flags))
    return typer.main.get_command(single)


@cache
def own_command(name: str) -> Any:
    """Return a command of an installed package, a function as Typer takes it; None where there is none."""
    from pipesched.cli.groups import guarded
    from pipesched.pipeline.plan.door import installed, loaded

    if (entry := installed("pipesched.commands").get(name)) is None:
        return None
    try:
        function = loaded(entry)
    except ConfigError as error:
        raise stop(str(error), ExitStatus.BAD_INPUT) from None
    single = typer.Typer(add_completion=False)
    single.command(name)(guarded(name)(function))
    return typer.main.get_command(single)


class LazyGroup(Unconverted, TyperGroup):
    """A group that knows only the names of its commands until it looks one up."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = dict.fromkeys(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return command_of(cmd_name) if cmd_name in COMMANDS else own_command(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that words name, with the options that they name; of completion with all."""
        name, *words = args
        if name not in COMMANDS or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        flags = frozenset(word.partition("=")[0] for word in words if word.startswith("-") and word != "-")
        return name, command_of(name, flags), words

    def list_commands(self, _ctx: Any) -> list[str]:
        self.get_command = _described  # type: ignore[assignment, method-assign]  # help and completion alone ask for a list
        return [*COMMANDS]


def _described(_context: Any, name: str) -> TyperCommand:
    """Return a command as a list of all shows it; none loads, for its docstring stands in the compiled module."""
    spec: Any = find_spec(f"pipesched.cli.{COMMANDS[name]}")
    functions = [one for one in spec.loader.get_code(spec.name).co_consts if isinstance(one, CodeType)]
    return TyperCommand(name, help=next(str(one.co_consts[0]) for one in functions if one.co_name == "command"))


app = typer.Typer(name="pipesched", cls=LazyGroup, no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pipesched {__version__}, kernels: {form_of_kernels()}")
        raise typer.Exit


@app.callback()
def main(
    version: bool = typer.Option(
        False,
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Print the version and exit; also whether kernels are compiled.",
    ),
) -> None:
    """Schedules of pipeline-parallel training: see them, measure them, compare them, and know how far from the best."""
