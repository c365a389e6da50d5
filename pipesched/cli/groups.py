"""The groups of options that commands take: `with_options` gives a function those that its parameters name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

from pipesched.cli.chart_options import FIGURE, ChartOptions, chart_options, figure_view
from pipesched.cli.option import CommandOption
from pipesched.cli.options import (
    ALGORITHM,
    EXECUTOR,
    FAMILY_OPTIONS,
    QUIET,
    VARIATION,
    ComparisonOptions,
    Rules,
    Screen,
    SearchOptions,
    Target,
    TrustOptions,
    TuningOptions,
    executor_spec,
    given,
)
from pipesched.cli.problem_options import ESTIMATION, PROBLEM, SPACE, problem_source
from pipesched.cli.progress import progress_of
from pipesched.errors import ConfigError

FIGURE_SUFFIXES = (".svg", ".png", ".pdf")


class OptionGroup(NamedTuple):
    """The panel of the help, the options in it by the names of their values, and what is made of these."""

    panel: str
    options: Mapping[str, CommandOption]
    make: Callable[..., Any]

    def read(self, texts: Mapping[str, Any]) -> Any:
        """Return what is made of the texts that were given, by the names of their values. Raises ConfigError."""
        return self.make(**{name: one.value(texts.get(name)) for name, one in self.options.items()})


def _record(panel: str, record: Any) -> OptionGroup:
    return OptionGroup(panel, record._field_defaults, record)


GROUPS = {  # parameter of a command -> its options
    "problem": OptionGroup("The problem", PROBLEM, problem_source),
    "estimation": OptionGroup("The problem", ESTIMATION, problem_source),
    "space": OptionGroup("The problem", SPACE, problem_source),
    "tuning": _record("The search", TuningOptions),
    "trust": _record("The evidence", TrustOptions),
    "algorithm": OptionGroup("The algorithm", ALGORITHM, given),
    "family_options": OptionGroup("The algorithm", FAMILY_OPTIONS, given),
    "search": _record("The search", SearchOptions),
    "variation": OptionGroup("The variation", VARIATION, given),
    "rules": _record("The algorithm", Rules),
    "comparison": _record("The comparison", ComparisonOptions),
    "executor": OptionGroup("The workers", EXECUTOR, executor_spec),
    "screen": _record("Output", Screen),
    "target": _record("Output", Target),
    "chart": OptionGroup("The chart", ChartOptions._field_defaults, chart_options),
    "figure": OptionGroup("The figure", FIGURE, figure_view),
}


def with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` as Typer reads it: each parameter that is named like a group is replaced by its options.

    Of options that are spelled alike the first counts: the function's own, else that of the first group. Every command
    has --quiet.
    """
    own = inspect.signature(function, eval_str=True).parameters.values()
    shown = [_for_typer(parameter) for parameter in own if parameter.name not in GROUPS]
    taken = {name for parameter in own for one in _options_of(parameter) for name in one.names}
    names: dict[str, dict[str, str]] = {parameter.name: {} for parameter in own if parameter.name in GROUPS}
    for group, kept in names.items():
        for key, option in GROUPS[group].options.items():
            if taken.isdisjoint(option.names):
                kept[key] = f"{group}_{key.replace('.', '_')}"
                shown.append(option.parameter(kept[key], GROUPS[group].panel))
                taken.update(option.names)

    shown.append(QUIET.parameter("quiet", "Output"))

    def command(quiet: bool = False, **values: Any) -> Any:
        read = {
            group: GROUPS[group].read({key: values[name] for key, name in kept.items()})
            for group, kept in names.items()
        }
        _require_effect(read)
        with progress_of(function.__module__.rpartition(".")[2], quiet=quiet):
            return function(**{p.name: values[p.name] for p in own if p.name not in GROUPS}, **read)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return command


def _options_of(parameter: inspect.Parameter) -> list[CommandOption]:
    """Return the option of a command's own parameter; of an argument there is none."""
    return [one for one in getattr(parameter.annotation, "__metadata__", ()) if isinstance(one, CommandOption)]


def _for_typer(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a command's own parameter as Typer knows it."""
    options = _options_of(parameter)
    if not options:
        return parameter
    return parameter.replace(annotation=Annotated[parameter.annotation.__origin__, options[0].info()])


def _require_effect(read: Mapping[str, Any]) -> None:
    """Raise ConfigError for options that have no effect beside others."""
    target, screen, chart = (read.get(name) for name in ("target", "screen", "chart"))
    if target is not None and target.force and target.path is None:
        raise ConfigError("--force: has no effect without -o, which names the file")
    draws = target is not None and str(target.path).lower().endswith(FIGURE_SUFFIXES)
    if chart is not None and chart.inches is not None and not draws:
        *others, last = FIGURE_SUFFIXES
        raise ConfigError(f"--inches: has no effect without a figure: -o with a file in {', '.join(others)} or {last}")
    if screen is not None and screen.as_json and chart is not None and chart.fold is not None:
        raise ConfigError("--fold: has no effect with --json, which draws no chart on the screen")
    if screen is not None and screen.as_json and chart is not None and chart.given() and not draws:
        raise ConfigError(f"{chart.given()[0]}: has no effect with --json, which draws no chart")
