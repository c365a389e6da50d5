"""The command group, `main`: COMMANDS, whose modules load when they are called; without Typer's validation library."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import cache, partial
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from pipesched.cli import options
from pipesched.cli.exits import ExitStatus, guarded, stop
from pipesched.cli.groups import GROUPS
from pipesched.cli.options import ChartOptions, CommandOption, Screen, Target
from pipesched.cli.progress import progress_of
from pipesched.core.arrays import form_of_kernels
from pipesched.errors import ConfigError
from pipesched.version import __version__

CONVERT, SHOW_TYPE = "process_value", "display_type_rich"


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


PROBLEMS = ("problem", "estimation", "space")  # groups of commands that schedule, but for
OF_FILES = ("check", "show")
FIGURE_SUFFIXES = (".svg", ".png", ".pdf")


def with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` as Typer reads it: each parameter that is named like a group is replaced by its options.

    Of options that are spelled alike the first counts: the function's own, else that of the first group. Every command
    has --quiet, and those that schedule --family. Expected errors become messages and exit codes.
    """
    name, own = function.__module__.rpartition(".")[2], inspect.signature(function, eval_str=True).parameters.values()
    shown, taken = list[inspect.Parameter](), set[str]()
    kept: dict[str, dict[str, str]] = {}  # by group, the names of its options as parameters of the command
    for parameter in own:
        one = parameter.default
        if isinstance(one, CommandOption):
            taken.update(one.usage.split()[0].split("/"))
            shown.append(one.parameter(parameter.name, None, parameter.annotation))
        elif parameter.name in GROUPS:
            kept[parameter.name] = {}
        else:
            shown.append(parameter)
    for group, names in kept.items():
        for key, option in GROUPS[group].options.items():
            spellings = option.usage.split()[0].split("/")
            if taken.isdisjoint(spellings):
                names[key] = f"{group}_{key.replace('.', '_')}"
                shown.append(option.parameter(names[key], GROUPS[group].panel))
                taken.update(spellings)
    schedules = not kept.keys().isdisjoint(PROBLEMS) and name not in OF_FILES
    shown += [options.OWN_FAMILIES.parameter("families", "The algorithm")] * schedules
    shown.append(options.QUIET.parameter("quiet", "Output"))

    def command(quiet: bool = False, families: Sequence[str] | None = None, **values: Any) -> None:
        read: dict[str, Any] = {}
        with guarded(name, read):
            for file in families or ():
                from pipesched.schedulers.own import load_families

                load_families(file)
            texts = {group: {key: values[one] for key, one in names.items()} for group, names in kept.items()}
            read |= {group: GROUPS[group].read(given) for group, given in texts.items()}
            target, chart = read.get("target"), read.get("chart")
            if (target and target.force) or (chart and (chart.figure or chart.given)):
                _require_effect(target, read.get("screen"), chart)
            with nullcontext() if quiet else progress_of(name):
                function(**{one.name: values[one.name] for one in own if one.name not in GROUPS}, **read)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return command


def _require_effect(target: Target | None, screen: Screen | None, chart: ChartOptions | None) -> None:
    """Raise ConfigError for options of files and charts where nothing of that sort is written."""
    if target is not None and target.force and target.path is None:
        raise ConfigError("--force: has no effect without -o, which names the file")
    if chart is None:
        return
    draws = target is not None and str(target.path).lower().endswith(FIGURE_SUFFIXES)
    for name in chart.figure if not draws else ():
        *others, last = FIGURE_SUFFIXES
        without = f"has no effect without a figure: -o with a file in {', '.join(others)} or {last}"
        raise ConfigError(f"{options.OF_FIGURES[name].flag}: {without}")
    if screen is not None and screen.as_json and chart.fold is not None:
        raise ConfigError("--fold: has no effect with --json, which draws no chart on the screen")
    if screen is not None and screen.as_json and chart.given and not draws:
        raise ConfigError(f"{chart.given[0]}: has no effect with --json, which draws no chart")


COMMANDS = {  # name -> module of this package, whose function `command` it is
    "run": "run", "compare": "compare", "solve": "solve", "pack": "pack", "estimate": "estimate", "tune": "tune",
    "explain": "explain", "robust": "robust", "explore": "explore", "list": "list_algorithms", "hls": "hls",
    "show": "show", "check": "check", "export": "export", "profile": "profile", "train": "train", "init": "init",
}  # fmt: skip


@cache
def command_of(name: str) -> Any:
    """Return a command of COMMANDS, whose module loads with it."""
    function = import_module(f"pipesched.cli.{COMMANDS[name]}").command
    single = typer.Typer(add_completion=False)
    single.command(name, cls=FastCommand)(with_options(function))
    return typer.main.get_command(single)


@cache
def own_command(name: str) -> Any:
    """Return a command of an installed package, a function as Typer takes it; None where there is none."""
    from pipesched.pipeline.plan.door import installed, loaded

    entry = installed("pipesched.commands").get(name)
    if entry is None:
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
