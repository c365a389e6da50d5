"""The options that commands share, each group defined once.

A command declares which groups it takes; `with_options` gives the function the parameters that Typer reads, and hands
the group's values over as one object. All values arrive as text and are read here or by the config, so that every
message has the same form.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pipesched.config.fields import OPTIONS
from pipesched.errors import ConfigError
from pipesched.pipeline.quantities import parse_number
from pipesched.render.labels import LABELS

if TYPE_CHECKING:
    from pipesched.core.cpsat import Limits

MOST_SECONDS = 1_000_000
Group = tuple[inspect.Parameter, ...]


def _text(name: str, option: str, text: str, panel: str, metavar: str | None = None) -> inspect.Parameter:
    names = option.split("/")
    info = typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar, show_default=False)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, info])


def _flag(name: str, option: str, text: str, panel: str, default: bool | None = False) -> inspect.Parameter:
    info = typer.Option(option, help=text, rich_help_panel=panel, show_default=False)
    kind: Any = bool if default is not None else bool | None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info])


_PROBLEM, _ALGORITHM, _CHART, _OUTPUT = "The problem", "The algorithm", "The chart", "Output"

PROBLEM: Group = (
    _text("config", "-c/--config", "YAML file of the problem; - reads standard input", _PROBLEM, "FILE"),
    *(
        _text(option.strip("-").replace("-", "_"), option, field.help, _PROBLEM, field.shape.upper())
        for option, field in OPTIONS.items()
    ),
)
ALGORITHM: Group = (
    _text("group_size", "--group-size", "interleaved: microbatches that visit a chunk in a row; default P", _ALGORITHM),
    _flag("lifo", "--lifo", "naive: backwards in reverse order", _ALGORITHM),
    _text("priority", "--priority", "list: none, asap, alap, mobility, successors, descendants", _ALGORITHM),
    _text("tie", "--tie", "list: dfs (lifo), bfs, fifo, input, reverse, random, most-descendants, pairing", _ALGORITHM),
    _text("objective", "--objective", "zb-auto: span (default), makespan", _ALGORITHM),
    _text("seed", "--seed", "list: seed of the random tie", _ALGORITHM),
)
RULES: Group = (
    *(option for option in ALGORITHM if option.name in {"priority", "tie", "seed"}),
    _text("time_limit", "--time-limit", "seconds that a search may take; default 60", _ALGORITHM, "SECONDS"),
)
SCREEN: Group = (
    _flag("as_json", "--json", "print one JSON document and nothing else", _OUTPUT),
    _text("width", "--width", "columns of the output; default: the terminal's", _OUTPUT, "COLUMNS"),
    _flag("no_color", "--no-color", "no colours (also: NO_COLOR)", _OUTPUT),
    _flag("ascii_only", "--ascii", "ASCII letters only", _OUTPUT),
)
FILE: Group = (
    _text("output", "-o/--output", "also write the result to this file (.json)", _OUTPUT, "FILE"),
    _flag("force", "--force", "overwrite an existing file", _OUTPUT),
)
CHART: Group = (
    _text("zoom", "--zoom", "draw 1/ZOOM of the timeline, that much closer", _CHART, "ZOOM"),
    _text("from_time", "--from", "draw from this time on", _CHART, "TIME"),
    _text("to_time", "--to", "draw up to this time", _CHART, "TIME"),
    _text("label", "--label", "label of a slot: auto, microbatch, op, stage, none", _CHART),
    _flag("memory", "--memory/--no-memory", "the strip of memory over time; default: with a budget", _CHART, None),
)


class Rules(NamedTuple):
    """A rule of the list scheduler, if one was given, and how long a search may take."""

    priority: str | None
    tie: str | None
    seed: int
    seconds: float

    def limits(self) -> Limits:
        """The same for CP-SAT."""
        from pipesched.core.cpsat import Limits

        return Limits(seconds=self.seconds, seed=self.seed)


class Screen(NamedTuple):
    """How to print."""

    as_json: bool
    width: int | None
    no_color: bool
    ascii_only: bool


class Target(NamedTuple):
    """A file to write, if any."""

    path: str | None
    force: bool


class ChartView(NamedTuple):
    """What part of a chart to draw, in the user's time unit, and how."""

    zoom: float
    start: float | None
    end: float | None
    label: str
    memory: bool | None


def problem_values(values: Mapping[str, Any]) -> tuple[str | None, dict[str, str]]:
    """The config file and the options that override it."""
    options = {option: values[option.strip("-").replace("-", "_")] for option in OPTIONS}
    return values["config"], {option: text for option, text in options.items() if text is not None}


def algorithm_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The algorithm options that were given."""
    given = {parameter.name: values[parameter.name] for parameter in ALGORITHM}
    for name in ("group_size", "seed"):
        if given[name] is not None:
            given[name] = _whole(f"--{name.replace('_', '-')}", given[name], least=1 if name == "group_size" else 0)
    return {name: value for name, value in given.items() if value not in (None, False)}


def rule_values(values: Mapping[str, Any]) -> Rules:
    """A rule, a seed and a time limit."""
    seconds = 60.0 if values["time_limit"] is None else _number("--time-limit", values["time_limit"]) or 0.0
    if not 0 < seconds <= MOST_SECONDS:
        raise ConfigError(f"--time-limit: must be more than 0 (at most {MOST_SECONDS:,}), not {values['time_limit']}")
    seed = 0 if values["seed"] is None else _whole("--seed", values["seed"], least=0)
    return Rules(values["priority"], values["tie"], seed, seconds)


def screen_values(values: Mapping[str, Any]) -> Screen:
    """How to print."""
    width = None if values["width"] is None else _whole("--width", values["width"], least=20, most=10_000)
    return Screen(values["as_json"], width, values["no_color"], values["ascii_only"])


def file_values(values: Mapping[str, Any]) -> Target:
    """Where to write."""
    return Target(values["output"], values["force"])


def chart_values(values: Mapping[str, Any]) -> ChartView:
    """What to draw."""
    start, end = (_number(option, values[name]) for option, name in (("--from", "from_time"), ("--to", "to_time")))
    zoom = _number("--zoom", values["zoom"])
    if zoom is not None and zoom < 1:
        raise ConfigError(f"--zoom: must be at least 1, not {values['zoom']}")
    if start is not None and end is not None and start >= end:
        raise ConfigError(f"--to: must be later than --from ({values['from_time']}), not {values['to_time']}")
    label = values["label"] or "auto"
    if label not in LABELS:
        raise ConfigError(f"--label: must be one of {', '.join(LABELS)}, not {label!r}")
    return ChartView(zoom or 1, start, end, label, values["memory"])


_READERS: dict[str, tuple[Group, Callable[[Mapping[str, Any]], Any]]] = {
    "problem": (PROBLEM, problem_values),
    "algorithm": (ALGORITHM, algorithm_values),
    "rules": (RULES, rule_values),
    "screen": (SCREEN, screen_values),
    "target": (FILE, file_values),
    "chart": (CHART, chart_values),
}


def with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with its parameters that are named as in _READERS replaced by the options of those groups."""
    own = list(inspect.signature(function, eval_str=True).parameters.values())
    groups = [parameter.name for parameter in own if parameter.name in _READERS]
    shown = [parameter for parameter in own if parameter.name not in _READERS]
    shown += [option for name in groups for option in _READERS[name][0]]

    def command(**values: Any) -> Any:
        read = {name: _READERS[name][1](values) for name in groups}
        return function(**{p.name: values[p.name] for p in own if p.name not in _READERS}, **read)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return command


def _whole(option: str, text: str, least: int, most: int = 10**9) -> int:
    number = _number(option, text)
    if number is None or number != int(number) or not least <= number <= most:
        raise ConfigError(f"{option}: must be a whole number of at least {least} (at most {most:,}), not {text!r}")
    return int(number)


def _number(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        number = float(parse_number(text.strip()))
    except (ValueError, OverflowError):
        raise ConfigError(f"{option}: must be a number, not {text!r}") from None
    if not -1e15 < number < 1e15:
        raise ConfigError(f"{option}: {text} is out of range")
    return number
