"""The options that commands share, each group defined once.

A command declares which groups it takes; `with_options` gives its function the parameters that Typer reads, and hands
the values of a group over as one object. All values arrive as text and are read here or by the library, so that every
message has the same form.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pipesched.checks import require_name
from pipesched.cli.chart_options import chart_values, figure_values
from pipesched.cli.flags import ALGORITHM_FLAGS, PROBLEM_FLAGS
from pipesched.cli.parse import number_of, parse_value, whole_number
from pipesched.cli.setup_options import COMPANIONS, ESTIMATE_OPTIONS, SETUP_OPTIONS, candidate_option, setup_overrides
from pipesched.errors import ConfigError
from pipesched.schedulers.options import COUNT as OPTION_COUNT, FLAG, OPTIONS, STAGES, WHOLE, WORD
from pipesched.text.fields import (
    BY_NAME,
    COUNT,
    FRACTION,
    LAYOUT,
    PER_BOUNDARY,
    PER_DEVICE,
    PER_STAGE,
    PLACEMENT,
    RATIO,
)

if TYPE_CHECKING:
    from pipesched.core.cpsat import Limits

MOST_SECONDS = 1_000_000
MOST = 1000  # workers, or jobs
EVERY_CORE = "local"  # the executor where none is given: a process a core, where processes pay
FIGURE_SUFFIXES = (".svg", ".png", ".pdf")
NARROWEST, WIDEST = 20, 10_000  # columns
Group = tuple[inspect.Parameter, ...]
METAVARS = {
    COUNT: "N",
    PER_STAGE: "X[,X..]",
    PER_BOUNDARY: "X[,X..]",
    PER_DEVICE: "X[,X..]",
    FRACTION: "X[,X..]",
    RATIO: "X[,X..]",
    PLACEMENT: "NAME|D,D..",
    LAYOUT: "NAME|N,N..",
    OPTION_COUNT: "N",
    WHOLE: "N",
    WORD: "NAME",
    STAGES: "full|N",
}


def _text(name: str, option: str, text: str, panel: str, metavar: str, *, hidden: bool = False) -> inspect.Parameter:
    names = option.split("/")
    info = typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar, show_default=False, hidden=hidden)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, info])


def _flag(name: str, option: str, text: str, panel: str, default: bool | None = False) -> inspect.Parameter:
    info = typer.Option(option, help=text, rich_help_panel=panel, show_default=False, metavar="")
    kind: Any = bool if default is not None else bool | None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info])


_PROBLEM, _ALGORITHM, _SEARCH, _COMPARISON, _VARIATION, _WORKERS, _CHART, _OUTPUT = (
    "The problem",
    "The algorithm",
    "The search",
    "The comparison",
    "The variation",
    "The workers",
    "The chart",
    "Output",
)

_CONFIG = _text("config", "-c/--config", "YAML file of the problem; - reads standard input", _PROBLEM, "FILE")
_PROBLEM_OPTIONS = {
    name: _text(f"problem_{name}", flag, BY_NAME[name].help, _PROBLEM, METAVARS[BY_NAME[name].shape])
    for name, flag in PROBLEM_FLAGS.items()
}
_MODEL, *_COMPANIONS = SETUP_OPTIONS
PROBLEM: Group = (
    _CONFIG,
    *_PROBLEM_OPTIONS.values(),
    _text(_MODEL.parameter, _MODEL.flag, COMPANIONS, _PROBLEM, _MODEL.metavar),
    *(_text(one.parameter, one.flag, one.help, _PROBLEM, one.metavar, hidden=True) for one in _COMPANIONS),
)
ESTIMATION: Group = (
    _CONFIG,
    *(_text(one.parameter, one.flag, one.help, _PROBLEM, one.metavar) for one in (*SETUP_OPTIONS, *ESTIMATE_OPTIONS)),
    *(_PROBLEM_OPTIONS[name] for name in ("microbatches", "placement", "budget")),
)
_CANDIDATES = [candidate_option(option) for option in (*SETUP_OPTIONS, *ESTIMATE_OPTIONS)]
SPACE: Group = (
    _CONFIG,
    *(_text(one.parameter, one.flag, one.help, _PROBLEM, one.metavar) for one in _CANDIDATES),
    *(_PROBLEM_OPTIONS[name] for name in ("microbatches", "placement", "budget")),
)
ALGORITHM: Group = tuple(
    _flag(key, flag, OPTIONS[key].help, _ALGORITHM)
    if OPTIONS[key].shape == FLAG
    else _text(key, flag, OPTIONS[key].help, _ALGORITHM, METAVARS[OPTIONS[key].shape])
    for key, flag in ALGORITHM_FLAGS.items()
)
SEARCH: Group = (
    _text("objective", "--objective", "what to minimize: makespan (default) or span", _SEARCH, "NAME"),
    _text(
        "time_limit",
        "--time-limit",
        "seconds for the whole command, with the best so far; default 60",
        _SEARCH,
        "SECONDS",
    ),
    _text("gap", "--gap", "relative gap to the bound that is good enough; default 0", _SEARCH, "FRACTION"),
    _text("workers", "--workers", "threads of CP-SAT; default: one a core", _SEARCH, "N"),
    _text("seed", "--seed", "seed of the search; with --workers 1 it repeats the answer", _SEARCH, "N"),
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
    _text("method", "--method", "auto (default), portfolio, periodic, cpsat or improve", _SEARCH, "NAME"),
    _flag("frontier", "--frontier", "the best at every budget instead: makespan against memory", _SEARCH),
    _flag("no_polish", "--no-polish", "do not lower the memory of what was found at the same value", _SEARCH),
    _flag(
        "advice",
        "--advice/--no-advice",
        "which changes would make it shorter, by heuristics; default: unless a bound settles the answer at once",
        _SEARCH,
        None,
    ),
    _flag("quiet", "--quiet", "no progress, no timing", _SEARCH),
)
TUNING: Group = (
    _text(
        "algos",
        "--algos",
        "what to try, as words do too; default: all that apply, and solve at the end",
        _SEARCH,
        "NAME[,..]",
    ),
    _text("top", "--top", "how many of the best; default 10", _SEARCH, "N"),
    _text("time_limit", "--time-limit", "seconds until the best so far is taken; default: none", _SEARCH, "SECONDS"),
    _text(
        "resume",
        "--resume",
        "file that keeps each point that was tried; what stands in it already is not tried again",
        _SEARCH,
        "FILE",
    ),
    _flag("quiet", "--quiet", "no progress", _SEARCH),
)
COMPARISON: Group = (
    _flag("everything", "--all", "every algorithm that applies, best first", _COMPARISON),
    _flag("all_rows", "--all-rows", "with --all: a row for each, also where several take the same time", _COMPARISON),
    _text("only", "--only", "only what a trainer can run as it is: pytorch", _COMPARISON, "TRAINER"),
    _flag("pareto", "--pareto", "makespan against memory, plotted; without names of every algorithm", _COMPARISON),
    _text(
        "sweep",
        "--sweep",
        "vary a field: microbatches=4,8,16,32, or a range 8:96:8, prints the bubble against it",
        _COMPARISON,
        "FIELD=VALUES",
    ),
    _text(
        "show",
        "--show",
        "what --sweep prints: bubble, makespan, microbatch (time of one), utilization, memory",
        _COMPARISON,
        "MEASURE",
    ),
    _text(
        "charts",
        "--charts",
        "how many: all, none, or the best N; default: all of up to 4 algorithms, of more the best 3",
        _COMPARISON,
        "N|all|none",
    ),
)
EXECUTOR: Group = (
    _text("jobs", "--jobs", "processes side by side; default: one a core where that pays, in solve one", _WORKERS, "N"),
    _text(
        "executor",
        "--executor",
        "what runs them: local, local:N (as --jobs N), or dask://HOST:PORT, a Dask cluster",
        _WORKERS,
        "SPEC",
    ),
)
VARIATION: Group = (
    _text("noise", "--noise", "coefficient of variation of each operation's duration; default 0.05", _VARIATION, "X"),
    _text("device_noise", "--device-noise", "that of a factor of each device besides; default 0", _VARIATION, "X"),
    _text("straggler", "--straggler", "how many times slower each device in turn is; default 1.2", _VARIATION, "X"),
    _text("samples", "--samples", "steps that are drawn; default 1000", _VARIATION, "N"),
    _text("seed", "--seed", "seed of the draws; default 0", _VARIATION, "N"),
)
FAMILY_OPTIONS: Group = tuple(option for option in ALGORITHM if option.name != "seed")
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
    _text("label", "--label", "label of a slot: auto, microbatch, op, stage, none", _CHART, "NAME"),
    _flag("memory", "--memory/--no-memory", "the strip of memory over time; default: with a budget", _CHART, None),
    _text("rows", "--rows", "devices to draw: all, or 0,31,63; default: all, of many some in compare", _CHART, "D,D.."),
    _flag(
        "fold",
        "--fold/--no-fold",
        "draw of what repeats one period only; default: where slots are narrow and it helps, not in compare",
        _CHART,
        None,
    ),
    _text("inches", "--inches", "width of the figure that -o writes; default 7, a page's text", _CHART, "INCHES"),
)
_FIGURE = "The figure"
FIGURE: Group = (
    _text("inches", "--inches", "width of a figure; default 7, a page's text (3.5: a column)", _FIGURE, "INCHES"),
    _text("label", "--label", "label of a slot: auto, microbatch, op, stage, none", _FIGURE, "NAME"),
    _flag("memory", "--memory/--no-memory", "memory over time; default: with a budget", _FIGURE, None),
)


class ProblemSource(NamedTuple):
    """A config file, if any, and what options replace of it: parameters of make_problem, and sections of a setup."""

    config: str | None
    overrides: dict[str, Any]


class SearchOptions(NamedTuple):
    """How to search: `settings` for `pipesched.solve`, and what the command itself looks at."""

    settings: dict[str, Any]
    hint: str | None
    frontier: bool
    quiet: bool


class TuningOptions(NamedTuple):
    """What `pipesched tune` tries, and how: `settings` are parameters of `pipesched.tune`."""

    names: list[str]
    settings: dict[str, Any]
    quiet: bool


class Rules(NamedTuple):
    """A rule of the list scheduler, if one was given, and how long a search may take."""

    priority: str | None
    tie: str | None
    seed: int
    seconds: float

    def limits(self) -> Limits:
        """Return the limits of CP-SAT."""
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


class ComparisonOptions(NamedTuple):
    """What `pipesched compare` compares, and what it prints."""

    everything: bool
    all_rows: bool
    only: str | None
    pareto: bool
    sweep: str | None
    show: str | None
    charts: str | None

    def require_effect(self, names: Sequence[str]) -> None:
        """Raise ConfigError for options that contradict each other or `names`, and for those that change nothing."""
        if self.everything and names:
            raise ConfigError("--all: compares every algorithm; give either it or names")
        if self.pareto and self.sweep is not None:
            raise ConfigError("--pareto: plots one problem; give either it or --sweep")
        if self.all_rows and not self.everything:
            raise ConfigError("--all-rows: has no effect without --all, which alone folds rows")
        if self.show is not None and self.sweep is None:
            raise ConfigError("--show: says what --sweep prints; give --sweep too")
        for flag in ("--sweep",) * (self.sweep is not None) + ("--pareto",) * self.pareto:
            if self.charts is not None:
                raise ConfigError(f"--charts: has no effect with {flag}, which draws no chart")
            if self.all_rows:
                raise ConfigError(f"--all-rows: has no effect with {flag}, which folds no rows")


def problem_values(values: Mapping[str, Any]) -> ProblemSource:
    """Read the config file and the options that override it."""
    texts = {name: values.get(f"problem_{name}") for name in PROBLEM_FLAGS}
    given = {name: parse_value(text) for name, text in texts.items() if text is not None}
    return ProblemSource(values["config"], {**given, **setup_overrides(values)})


def algorithm_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Read the algorithm options that were given."""
    given = {key: values[key] for key in ALGORITHM_FLAGS if values.get(key) not in (None, False)}
    return {
        key: parse_value(value) if OPTIONS[key].shape in (OPTION_COUNT, WHOLE, STAGES) else value
        for key, value in given.items()
    }


def search_values(values: Mapping[str, Any]) -> SearchOptions:
    """Read the options of a search."""
    settings: dict[str, Any] = {
        name: values[name] for name in ("objective", "method", "split_backward", "offload", "recompute", "advice")
    }
    settings |= {name: number_of(f"--{name.replace('_', '-')}", values[name]) for name in ("time_limit", "gap")}
    settings["seed"] = None if values["seed"] is None else parse_value(values["seed"])
    settings["workers"] = None if values["workers"] is None else whole_number("--workers", values["workers"], 1, MOST)
    settings["polish"] = False if values["no_polish"] else None
    given = {name: value for name, value in settings.items() if value is not None}
    return SearchOptions(given, values["hint"], values["frontier"], values["quiet"])


def tuning_values(values: Mapping[str, Any]) -> TuningOptions:
    """Read what to try, and how."""
    settings = {
        "top": None if values["top"] is None else parse_value(values["top"]),
        "time_limit": number_of("--time-limit", values["time_limit"]),
        "resume": values["resume"],
    }
    names = [name.strip() for name in (values["algos"] or "").split(",") if name.strip()]
    given = {name: value for name, value in settings.items() if value is not None}
    return TuningOptions(names, given, values["quiet"])


def comparison_values(values: Mapping[str, Any]) -> ComparisonOptions:
    """Read the options of a comparison; unknown names are refused before anything takes long."""
    if values["only"] is not None:
        from pipesched.results.trainers import TRAINERS

        require_name(TRAINERS, values["only"], "trainer", "trainer")
    if values["show"] is not None:
        from pipesched.render.measures import MEASURES

        require_name(MEASURES, values["show"], "measure", "show")
    return ComparisonOptions(**{name: values[name] for name in ComparisonOptions._fields})


def executor_values(values: Mapping[str, Any]) -> str | None:
    """Read what runs independent calls: an executor as `open_executor` takes it; None where nothing is given."""
    if values["jobs"] is None and values["executor"] is None:
        return None
    from pipesched.executors.spec import spec_of_jobs

    jobs = 0 if values["jobs"] is None else whole_number("--jobs", values["jobs"], 1, MOST)
    return spec_of_jobs(jobs, values["executor"])


def variation_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Read how durations vary, what was given of it."""
    names = [option.name for option in VARIATION]
    return {name: parse_value(values[name]) for name in names if values[name] is not None}


def family_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Read the options of algorithms, for a command whose seed is another."""
    return algorithm_values({**values, "seed": None})


def rule_values(values: Mapping[str, Any]) -> Rules:
    """Read a rule, a seed and a time limit."""
    seconds = 60.0 if values["time_limit"] is None else number_of("--time-limit", values["time_limit"]) or 0.0
    if not 0 < seconds <= MOST_SECONDS:
        raise ConfigError(f"--time-limit: must be more than 0 (at most {MOST_SECONDS:,}), not {values['time_limit']}")
    seed = 0 if values["seed"] is None else whole_number("--seed", values["seed"], least=0)
    return Rules(values["priority"], values["tie"], seed, seconds)


def screen_values(values: Mapping[str, Any]) -> Screen:
    """Read the options of printing."""
    width = None if values["width"] is None else whole_number("--width", values["width"], NARROWEST, WIDEST)
    return Screen(values["as_json"], width, values["no_color"], values["ascii_only"])


def file_values(values: Mapping[str, Any]) -> Target:
    """Read the file to write."""
    return Target(values["output"], values["force"])


_READERS: dict[str, tuple[Group, Callable[[Mapping[str, Any]], Any]]] = {
    "problem": (PROBLEM, problem_values),
    "estimation": (ESTIMATION, problem_values),
    "space": (SPACE, problem_values),
    "tuning": (TUNING, tuning_values),
    "algorithm": (ALGORITHM, algorithm_values),
    "family_options": (FAMILY_OPTIONS, family_values),
    "search": (SEARCH, search_values),
    "variation": (VARIATION, variation_values),
    "rules": (RULES, rule_values),
    "comparison": (COMPARISON, comparison_values),
    "executor": (EXECUTOR, executor_values),
    "screen": (SCREEN, screen_values),
    "target": (FILE, file_values),
    "chart": (CHART, chart_values),
    "figure": (FIGURE, figure_values),
}


def with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` with each parameter that is named like an entry of _READERS replaced by its options.

    Of options that are spelled alike the first counts: the function's own, else that of the first group.
    """
    own = list(inspect.signature(function, eval_str=True).parameters.values())
    groups = [parameter.name for parameter in own if parameter.name in _READERS]
    shown = [parameter for parameter in own if parameter.name not in _READERS]
    taken = {name for parameter in shown for name in _spellings(parameter)}
    for option in (option for name in groups for option in _READERS[name][0]):
        if not taken & _spellings(option):
            shown.append(option)
            taken |= _spellings(option)

    def command(**values: Any) -> Any:
        read = {name: _READERS[name][1](values) for name in groups}
        _require_effect(read)
        return function(**{p.name: values[p.name] for p in own if p.name not in _READERS}, **read)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return command


def _spellings(parameter: inspect.Parameter) -> set[str]:
    """Return how a parameter is typed: `-c`, `--config`; nothing for an argument."""
    infos = getattr(parameter.annotation, "__metadata__", ())  # Typer has the first spelling as the default
    return {name for info in infos for name in (info.default, *(info.param_decls or ())) if isinstance(name, str)}


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
