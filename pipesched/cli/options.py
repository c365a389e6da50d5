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

from pipesched.config.fields import ALGORITHM_FIELDS, COUNT, FLAG, OPTIONS, WHOLE
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


_PROBLEM, _ALGORITHM, _SEARCH, _CHART, _OUTPUT = (
    "The problem",
    "The algorithm",
    "The search",
    "The chart",
    "Output",
)

PROBLEM: Group = (
    _text("config", "-c/--config", "YAML file of the problem; - reads standard input", _PROBLEM, "FILE"),
    *(
        _text(option.strip("-").replace("-", "_"), option, field.help, _PROBLEM, field.shape.upper())
        for option, field in OPTIONS.items()
    ),
)
ALGORITHM: Group = tuple(
    (_flag if field.shape == FLAG else _text)(field.key, field.option, field.help, _ALGORITHM)
    for field in ALGORITHM_FIELDS
    if field.option
)
SEARCH: Group = (
    _text("objective", "--objective", "what to minimize: makespan (default) or span", _SEARCH),
    _text("time_limit", "--time-limit", "seconds until the best so far is taken; default 60", _SEARCH, "SECONDS"),
    _text("gap", "--gap", "relative gap to the bound that is good enough; default 0", _SEARCH, "FRACTION"),
    _text("workers", "--workers", "threads of CP-SAT; default: one a core", _SEARCH),
    _text("seed", "--seed", "seed of the search; with --workers 1 it repeats the answer", _SEARCH),
    _flag(
        "split_backward",
        "--split-backward/--no-split-backward",
        "run the backward as I and W, or whole; default: as the config gives it",
        _SEARCH,
        None,
    ),
    _flag("offload", "--offload", "activations may go to host memory and come back (costs.offload)", _SEARCH),
    _flag("recompute", "--recompute", "forwards may run again before their backwards (costs.recompute)", _SEARCH),
    _text("hint", "--hint", "a schedule (JSON) to begin from", _SEARCH, "FILE"),
    _text("method", "--method", "auto (default), portfolio, cpsat or improve", _SEARCH),
    _flag("frontier", "--frontier", "the best at every budget instead: makespan against memory", _SEARCH),
    _flag("quiet", "--quiet", "no progress, no timing", _SEARCH),
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
    _text("output", "-o/--output", "also write the result to this file, in the format of its suffix", _OUTPUT, "FILE"),
    _flag("force", "--force", "overwrite an existing file", _OUTPUT),
)
CHART: Group = (
    _text("zoom", "--zoom", "draw 1/ZOOM of the timeline, that much closer", _CHART, "ZOOM"),
    _text("from_time", "--from", "draw from this time on", _CHART, "TIME"),
    _text("to_time", "--to", "draw up to this time", _CHART, "TIME"),
    _text("label", "--label", "label of a slot: auto, microbatch, op, stage, none", _CHART),
    _flag("memory", "--memory/--no-memory", "the strip of memory over time; default: with a budget", _CHART, None),
)
_FIGURE = "The figure"
FIGURE: Group = (
    _text("inches", "--inches", "width of a figure; default 7, a page's text (3.5: a column)", _FIGURE, "INCHES"),
    _text("label", "--label", "label of a slot: auto, microbatch, op, stage, none", _FIGURE),
    _flag("memory", "--memory/--no-memory", "memory over time; default: with a budget", _FIGURE, None),
)


SAVING = ("offload", "recompute")


class SearchOptions(NamedTuple):
    """How to search: what `pipesched.solve` takes, and what is for the command line."""

    settings: dict[str, Any]
    hint: str | None
    frontier: bool
    quiet: bool


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


class FigureLook(NamedTuple):
    """How wide a figure is on paper, and what it shows."""

    inches: float
    label: str
    memory: bool | None


def problem_values(values: Mapping[str, Any]) -> tuple[str | None, dict[str, str]]:
    """The config file and the options that override it."""
    options = {option: values[option.strip("-").replace("-", "_")] for option in OPTIONS}
    return values["config"], {option: text for option, text in options.items() if text is not None}


def algorithm_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The algorithm options that were given."""
    given = {}
    for field in ALGORITHM_FIELDS:
        value = values[field.key] if field.option else None
        if field.option and value not in (None, False):
            counts = field.shape in (COUNT, WHOLE)
            given[field.key] = _whole(field.option, value, least=int(field.shape == COUNT)) if counts else value
    return given


def search_values(values: Mapping[str, Any]) -> SearchOptions:
    """How to search."""
    settings: dict[str, Any] = {name: values[name] for name in ("objective", "method", "split_backward", *SAVING)}
    settings["time_limit"] = _number("--time-limit", values["time_limit"])
    settings["gap"] = _number("--gap", values["gap"])
    if settings["time_limit"] is not None and settings["time_limit"] <= 0:
        raise ConfigError(f"--time-limit: must be more than 0, not {values['time_limit']}")
    if settings["gap"] is not None and settings["gap"] < 0:
        raise ConfigError(f"--gap: must be at least 0, not {values['gap']}")
    for name, least, most in (("workers", 1, 1000), ("seed", 0, 2**31 - 1)):
        settings[name] = None if values[name] is None else _whole(f"--{name}", values[name], least, most)
    given = {name: value for name, value in settings.items() if value is not None}
    return SearchOptions(given, values["hint"], values["frontier"], values["quiet"])


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
    return ChartView(zoom or 1, start, end, _label(values), values["memory"])


def figure_values(values: Mapping[str, Any]) -> FigureLook:
    """How a figure looks."""
    inches = _number("--inches", values["inches"])
    if inches is not None and not 2 <= inches <= 40:
        raise ConfigError(f"--inches: must be between 2 and 40, not {values['inches']}")
    return FigureLook(inches or 7, _label(values), values["memory"])


def _label(values: Mapping[str, Any]) -> str:
    label: str = values["label"] or "auto"
    if label not in LABELS:
        raise ConfigError(f"--label: must be one of {', '.join(LABELS)}, not {label!r}")
    return label


_READERS: dict[str, tuple[Group, Callable[[Mapping[str, Any]], Any]]] = {
    "problem": (PROBLEM, problem_values),
    "algorithm": (ALGORITHM, algorithm_values),
    "search": (SEARCH, search_values),
    "rules": (RULES, rule_values),
    "screen": (SCREEN, screen_values),
    "target": (FILE, file_values),
    "chart": (CHART, chart_values),
    "figure": (FIGURE, figure_values),
}


def with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with its parameters that are named like an entry of _READERS replaced by the options of that group."""
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
