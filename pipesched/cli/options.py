"""The options that commands share: a record, or a table, for each group.

The default of a field is its option; `cli/groups.py` fills the fields with what was given. Readers of texts stand
first, then `CommandOption` and `option_of`, which makes one of a key of a config, then one group after the other.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pipesched.checks import MOST_SECONDS, MOST_WORKERS, require_name
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.declared import FIELDS, INSIDE
from pipesched.pipeline.problem.quantities import parse_number
from pipesched.pipeline.problem.shapes import ByKey, ByName, Either, Field, Flag, Label, ListOf, OneOf, Searched
from pipesched.schedulers.options import OPTIONS, TAKEN

if TYPE_CHECKING:
    from pipesched.pipeline.plan.schedule import Schedule
    from pipesched.render.view import View


def as_value(_flag: str, text: str) -> Any:
    """Return what `parse_value` makes of the text."""
    return parse_value(text)


def parse_value(text: str) -> Any:
    """Return what an option's text means: a number, a list of them when it holds commas, else a word."""
    if "," in text and "|" not in text:  # in a layout's text commas mean nothing
        return [parse_value(part) for part in text.split(",")]
    try:
        number = parse_number(text.strip())
    except ValueError:
        return text.strip()
    return int(number) if -20 < number.adjusted() < 20 and number == number.to_integral_value() else number


def whole_number(flag: str, text: str, least: int, most: int = 10**9) -> int:
    """Return the whole number that the text of an option spells. Raises ConfigError."""
    number = number_of(flag, text)
    if number != int(number) or not least <= number <= most:
        raise ConfigError(f"{flag}: must be a whole number of at least {least} (at most {most:,}), not {text!r}")
    return int(number)


def whole_numbers(flag: str, text: str, least: int) -> list[int]:
    """Return the whole numbers that a list with commas spells. Raises ConfigError."""
    return [whole_number(flag, part, least) for part in text.split(",")]


def number_of(flag: str, text: str) -> float:
    """Return the number that the text of an option spells. Raises ConfigError."""
    try:
        number = float(parse_number(text.strip()))
    except (ValueError, OverflowError):
        raise ConfigError(f"{flag}: must be a number, not {text!r}") from None
    if not -1e15 < number < 1e15:
        raise ConfigError(f"{flag}: {text} is out of range")
    return int(number) if number.is_integer() else number


class CommandOption(NamedTuple):
    """An option with its `usage`: `-o/--output FILE`; without a word for a value it is a switch.

    `read` takes the flag and the text behind it, or with `repeats` the texts (None: that is the value). `absent` is the
    value of an option that is not given; of a switch it is False, or None where it can be switched off too.
    """

    usage: str
    help: str
    read: Callable[[str, Any], Any] | None = None
    absent: Any = None
    hidden: bool = False
    repeats: bool = False

    @property
    def flag(self) -> str:
        return next(name for name in self.usage.split()[0].split("/") if name.startswith("--"))

    def parameter(self, name: str, panel: str | None, kind: Any = None) -> inspect.Parameter:
        """Return it as a parameter of a command, in a panel; `kind` is its type, where the command's own says it."""
        spelling, _, metavar = self.usage.partition(" ")
        turns_off = "/--no-" in spelling
        names = [spelling] if turns_off else spelling.split("/")
        info = typer.Option(*names, help=self.help, rich_help_panel=panel, metavar=metavar, hidden=self.hidden)
        absent = None if metavar or turns_off else False
        default = absent if kind is None or self.absent is None else self.absent
        kind = kind or (list[str] if self.repeats else str if metavar else bool) | None
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info]
        )


option: Any = CommandOption  # the default of a field of a record of options, or of a parameter of a command


def argument(metavar: str, text: str, default: Any = None) -> Any:
    """Return an argument of a command, the default of its parameter; one whose `default` is `...` is required."""
    return typer.Argument(default, help=text, metavar=metavar)


EVERY_CORE = "local"  # the executor where none is given: a process a core, where processes pay
NARROWEST, WIDEST = 20, 10_000  # columns


def given(**values: Any) -> dict[str, Any]:
    """Return the values that were given, as arguments of a function."""
    return {name: value for name, value in values.items() if value is not None and value is not False}


def listed_value(_flag: str, text: str) -> Any:
    """Return the numbers of an option that is a list, also of one number."""
    value = parse_value(text)
    return value if isinstance(value, list) else [value]


def named_value(_flag: str, text: str) -> Any:
    """Return one value, one each, or a mapping of them: {2: 0.8}."""
    if not (text.strip().startswith("{") and text.strip().endswith("}")):
        return parse_value(text)
    pairs = (part.partition(":") for part in text.strip()[1:-1].split(","))
    return {parse_value(name): parse_value(value) for name, _, value in pairs}


def recompute_value(flag: str, text: str) -> Any:
    """Return recompute as a config gives it: a number is so many layers of each stage in full."""
    if "," in text:
        return [recompute_value(flag, part) for part in text.split(",")]
    value = parse_value(text)
    return {"full": value} if isinstance(value, int) else value


def option_of(field: Field, *, switches_off: bool = False, searched: bool = False) -> Any:
    """Return the option of a key of a config; `searched`: it takes several values, which a search tries."""
    shape, flag = field.shape, f"--{field.flag or field.name.replace('_', '-')}"
    inner = shape.shapes if isinstance(shape, Either) else ()
    if isinstance(shape, Flag):
        return option(f"{flag}/--no-{flag[2:]}" if switches_off else flag, field.help)
    read: Callable[[str, str], Any] | None = None if isinstance(shape, (OneOf, Label)) else as_value
    if isinstance(shape, ListOf):
        read = listed_value
    for one in inner:
        if isinstance(one, ByName):
            read = named_value
        elif isinstance(one, ByKey) and isinstance(shape, Searched):
            read = recompute_value
    if not searched or not isinstance(shape, Searched):
        return option(f"{flag} {shape.metavar}", field.help, read)
    is_default = " " not in field.searched
    text = field.help.replace("default 1", f"default {field.searched}") if is_default else field.searched
    return option(f"{flag} {shape.several}", text, read)


def own_values(flag: str, texts: Sequence[str]) -> dict[str, Any]:
    """Return options of an algorithm by their names, of texts NAME=VALUE: a value means what it does in a config."""
    from pipesched.text.yaml_reader import parse_yaml

    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        key, listed = name.strip().replace("-", "_"), "," in value and value.strip()[0] not in "[{'\""
        if not equals or not key.isidentifier() or not value.strip():
            raise ConfigError(f"{flag}: write NAME=VALUE, for instance depth=2, not {text!r}")
        if key in found or key in TAKEN:
            raise ConfigError(f"{flag} {key}: {'is given twice' if key in found else 'no algorithm has this option'}")
        try:
            found[key] = parse_yaml(f"[{value}]" if listed else value, key).plain()
        except ConfigError:
            raise ConfigError(f"{flag} {key}: must be a value as in a config, not {value!r}") from None
    return found


def algorithm_options(own: dict[str, Any], **flags: Any) -> dict[str, Any]:
    """Return the options of an algorithm that were given, by flags of their own and by --option. Raises ConfigError."""
    named = {key: value for key, value in flags.items() if value is not None and value is not False}
    if twice := [key for key in own if key in named]:
        raise ConfigError(f"{OWN.flag} {twice[0]}: is given twice, by {ALGORITHM[twice[0]].flag} too")
    return {**named, **own}


ALGORITHM = {key: option_of(one) for key, one in OPTIONS.items() if one.flag is not None}
OWN = option(
    "--option NAME=VALUE",
    "any option of the algorithm, one of your own too; may be repeated",
    own_values,
    absent={},
    repeats=True,
)
FAMILY_OPTIONS = {key: one for key, one in ALGORITHM.items() if key != "seed"}  # beside a seed of another meaning
VARIATION: dict[str, CommandOption] = {
    "noise": option("--noise X", "coefficient of variation of each operation's duration; default 0.05", as_value),
    "device_noise": option("--device-noise X", "that of a factor of each device besides; default 0", as_value),
    "straggler": option("--straggler X", "how many times slower each device in turn is; default 1.2", as_value),
    "samples": option("--samples N", "steps that are drawn; default 1000", as_value),
    "seed": option("--seed N", "seed of the draws; default 0", as_value),
}
EXECUTOR: dict[str, CommandOption] = {
    "jobs": option(
        "--jobs N",
        "processes side by side; default: one a core where that pays, in solve one",
        partial(whole_number, least=1, most=MOST_WORKERS),
    ),
    "executor": option(
        "--executor SPEC", "what runs them: local, local:N (as --jobs N), or dask://HOST:PORT, a Dask cluster"
    ),
}


def executor_spec(jobs: int | None, executor: str | None) -> str | None:
    """Return what runs independent calls, as `open_executor` takes it; None where nothing is given."""
    if jobs is None and executor is None:
        return None
    from pipesched.executors.opening import spec_of_jobs

    return spec_of_jobs(jobs or 0, executor)


class ProblemSource(NamedTuple):
    """A config file, or the values of a `document`, if any, and the parameters and sections that options replace."""

    config: str | None
    overrides: dict[str, Any]
    document: Any = None


class SearchOptions(NamedTuple):
    """How to search: what `pipesched.solve` takes, and what the command itself looks at."""

    objective: str | None = option("--objective NAME", "what to minimize: makespan (default) or span")
    time_limit: float | None = option(
        "--time-limit SECONDS", "seconds for the whole command, with the best so far; default 60", number_of
    )
    gap: float | None = option("--gap FRACTION", "relative gap to the bound that is good enough; default 0", number_of)
    workers: int | None = option(
        "--workers N", "threads of CP-SAT; default: one a core", partial(whole_number, least=1, most=MOST_WORKERS)
    )
    seed: Any = option("--seed N", "seed of the search; with --workers 1 it repeats the answer", as_value)
    split_backward: bool | None = option(
        "--split-backward/--no-split-backward", "run the backward as I and W, or whole; default: as the config gives it"
    )
    offload: bool = option("--offload", "activations may go to host memory and come back (costs.offload)")
    recompute: bool = option("--recompute", "forwards may run again before their backwards (costs.recompute)")
    hint: str | None = option("--hint FILE|NAME", "a schedule (JSON), or the algorithm that makes one, to begin from")
    method: str | None = option("--method NAME", "auto (default), portfolio, periodic, cpsat or improve")
    cuts: int | None = option(
        "--cuts N",
        "cuts of the layers to try for each placement, where `layout` leaves them open; default 3",
        partial(whole_number, least=1),
    )
    frontier: bool = option("--frontier", "the best at every budget instead: makespan against memory")
    polish: bool | None = option(
        "--no-polish",
        "do not lower the memory of what was found at the same value",
        lambda _, is_off: False if is_off else None,
    )
    advice: bool | None = option(
        "--advice/--no-advice",
        "which changes would make it shorter, by heuristics; default: unless bounds settle the answer without a search",
    )


ONLY = (
    "only what a trainer takes: megatron, torchtitan, pytorch, primus, zero-bubble, deepspeed, megatron-bridge, maxtext"
)


def _trainer(_flag: str, text: str) -> str:
    from pipesched.results.trainers import TRAINERS

    return require_name(TRAINERS, text, "trainer", "trainer")


class TrustOptions(NamedTuple):
    """What is known beside published runs of all sources."""

    like: str | None = option(
        "--like SOURCE", "whose software and cluster yours are like: a source of `pipesched list --evidence`"
    )
    measured: str | None = option("--measured FILE", "your own runs: configs, and the milliseconds of a step of each")

    def require_effect(self, sweep: str | None) -> None:
        """Raise ConfigError beside a sweep, which compares no steps."""
        for flag, value in (("--like", self.like), ("--measured", self.measured)):
            if sweep is not None and value is not None:
                raise ConfigError(f"{flag}: has no effect with --sweep, which compares no steps")

    def beside(self, like: str | None) -> dict[str, Any]:
        """Return what was given, as parameters; where no source was, the one that a config is `like`."""
        return given(like=like if self.like is None else self.like, measured=self.measured)


class TuningOptions(NamedTuple):
    """What `pipesched tune` tries, and how."""

    names: Sequence[str] = option(
        "--algos NAME[,..]",
        "what to try, as words do too; default: all that apply, and solve at the end",
        lambda _, text: [*filter(None, map(str.strip, text.split(",")))],
        absent=(),
    )
    only: str | None = option("--only TRAINER", ONLY, _trainer)
    top: Any = option("--top N", "how many of the best; default 10", as_value)
    time_limit: float | None = option(
        "--time-limit SECONDS", "seconds until the best so far is taken; default: none", number_of
    )
    resume: str | None = option(
        "--resume FILE", "file that keeps each point that was tried; what stands in it already is not tried again"
    )
    beyond: bool = option("--beyond", "also layouts that are unlike all published runs, which are else listed apart")
    fits: str | None = option("--fits sure|likely", "whether the best must surely fit (default), or by its estimate")


def _only(flag: str, texts: Sequence[str]) -> str:
    """Return the one text. Raises ConfigError for several, of which the last would count alone."""
    if len(texts) > 1:
        raise ConfigError(f"{flag}: varies one field at a time, not {' and '.join(texts)}; give one value of the other")
    return texts[0]


def _measure(_flag: str, text: str) -> str:
    from pipesched.render.comparison import name_of_measure

    return name_of_measure(text)


class ComparisonOptions(NamedTuple):
    """What `pipesched compare` compares, and what it prints."""

    everything: bool = option("--all", "every algorithm that applies, best first")
    all_rows: bool = option("--all-rows", "with --all: a row for each, also where several take the same time")
    only: str | None = option("--only TRAINER", ONLY, _trainer)
    pareto: bool = option("--pareto", "makespan against memory, plotted; without names of every algorithm")
    sweep: str | None = option(
        "--sweep FIELD=VALUES",
        "vary a field: microbatches=4,8,16,32, a range 8:96:8, or words, shard=optimizer,weights; prints the bubble"
        " against it",
        _only,
        repeats=True,
    )
    show: str | None = option(
        "--show MEASURE",
        "what --sweep prints, a metric: bubble (default), makespan, span, bubble-of-span, bubble-over-ideal,"
        " utilization, memory, .., or microbatch (time of one)",
        _measure,
    )
    charts: str | None = option(
        "--charts N|all|none",
        "how many: all, none, or the best N; default: all of up to 4 algorithms, of more the best 3",
    )

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


def _seconds(flag: str, text: str) -> float:
    seconds = number_of(flag, text)
    if not 0 < seconds <= MOST_SECONDS:
        raise ConfigError(f"{flag}: must be more than 0 (at most {MOST_SECONDS:,}), not {text}")
    return seconds


class Rules(NamedTuple):
    """A rule of the list scheduler, if one was given, and how long a search may take."""

    priority: str | None = ALGORITHM["priority"]
    tie: str | None = ALGORITHM["tie"]
    seed: int = ALGORITHM["seed"]._replace(read=partial(whole_number, least=0), absent=0)
    time_limit: float = option(
        "--time-limit SECONDS", "seconds that a search may take; default 60", _seconds, absent=60.0
    )

    @property
    def limits(self) -> dict[str, Any]:
        """How long a search may take, and its seed, as arguments of the searches."""
        return {"time_limit": self.time_limit, "seed": self.seed}


class Screen(NamedTuple):
    """How to print."""

    as_json: bool = option("--json", "print one JSON document and nothing else")
    width: int | None = option(
        "--width COLUMNS",
        "columns of the output; default: the terminal's",
        partial(whole_number, least=NARROWEST, most=WIDEST),
    )
    no_color: bool = option("--no-color", "no colours (also: NO_COLOR)")
    ascii_only: bool = option("--ascii", "ASCII letters only")


QUIET: CommandOption = option("--quiet", "no progress, no timing")  # of every command
OWN_FAMILIES: CommandOption = option(
    "--family FILE.py", "your own algorithms: a file of Python; may be repeated", repeats=True
)


class Target(NamedTuple):
    """A file to write, if any."""

    path: str | None = option("-o/--output FILE", "also write the result to this file, in the format of its suffix")
    force: bool = option("--force", "overwrite an existing file")


def problem_source(config: str | None, **given: Any) -> ProblemSource:
    """Return the source of a problem: a parameter is an override, a dotted key one in a section."""
    overrides: dict[str, Any] = {}
    for key, value in given.items():
        section, _, name = key.partition(".")
        if value is not None:
            (overrides.setdefault(section, {}) if name else overrides)[name or key] = value
    return ProblemSource(config, overrides)


COMPANIONS = "the costs of a model instead: a preset, or a config.json; more options: pipesched estimate --help"
CONFIG = {"config": option("-c/--config FILE", "YAML file of the problem; - reads standard input")}
FIELD_OPTIONS: dict[str, CommandOption] = {  # by the parameter of make_problem
    one.name: option_of(one, switches_off=True) for one in FIELDS if one.flag is not None
}
INSIDE_OPTIONS: dict[str, CommandOption] = {one.key: option_of(one) for one in INSIDE}  # by the dotted key of an entry
INSIDE_OPTIONS["shard.level"] = INSIDE_OPTIONS["shard.level"]._replace(
    help=INSIDE_OPTIONS["shard.level"].help.replace("costs.gather", FIELD_OPTIONS["gather"].flag)
)
PROBLEM = {  # options of commands on a problem, without those of a training run
    **CONFIG,
    **{name: FIELD_OPTIONS[name] for name in ("devices", "stages", "chunks", "microbatches")},
    **INSIDE_OPTIONS,
    **FIELD_OPTIONS,
}


@cache
def setup_options() -> dict[str, dict[str, CommandOption]]:
    """Return the options of a training run by dotted keys, as groups have them; they load where one is given."""
    from pipesched.estimation.setup import BATCH, PARALLEL, TRAINING

    fields = [one for known in (PARALLEL, BATCH, TRAINING) for one in known.values() if one.flag is not None]
    taken = {one.flag for known in (FIELD_OPTIONS, INSIDE_OPTIONS, ALGORITHM) for one in known.values()}
    found: dict[str, CommandOption] = {
        "model": option("--model NAME|FILE", "a preset of `pipesched list --models`, or the path of a config.json"),
        "hardware": option("--hardware NAME", "a preset of `pipesched list --hardware`"),
        **{one.key: option_of(one) for one in fields},
    }
    own = {key: one for key, one in found.items() if one.flag not in taken}
    others = {key: one for key, one in found.items() if one.flag in taken}  # in PROBLEM of another meaning
    hidden = {key: one._replace(hidden=True) for key, one in own.items()}
    hidden["model"] = own["model"]._replace(help=COMPANIONS)
    both = {name: FIELD_OPTIONS[name] for name in ("microbatches", "placement", "budget")}
    estimation = {**CONFIG, **own, **others, **both}
    space = {**estimation, **{one.key: option_of(one, searched=True) for one in fields}}
    return {"own": own, "others": others, "problem": hidden, "estimation": estimation, "space": space}


OF_CHARTS = ("first_microbatch", "device_name")
OF_FIGURES = {
    "inches": option("--inches INCHES", "width of a figure; default 7, a page's text (3.5: a column)", number_of),
    "title": option("--title TEXT", "title of a figure; default: what it shows ('': none)"),
    "font_size": option("--font-size POINTS", "size of the text of a figure; default 7", number_of),
    "legend": option("--legend PLACE", "of a figure: below, right, none"),
    "first_microbatch": option(
        "--first-microbatch 0|1", "number of the first microbatch in a figure; default 0",
        lambda flag, text: whole_number(flag, text, 0, 1),
    ),
    "device_name": option("--device-name WORD", "name of devices in a figure: rank, GPU"),
}  # fmt: skip
LABEL = option("--label NAME", "label of a slot: auto, microbatch, op, stage, none")


def _no_columns(flag: str, _text: str) -> None:
    raise ConfigError(f"{flag}: counts columns of a terminal; --inches is the width of a figure")


class ChartOptions(NamedTuple):
    """What part of a chart to draw, and how; None where nothing is said."""

    zoom: float | None = option("--zoom ZOOM", "draw 1/ZOOM of the timeline, that much closer", number_of)
    start: float | None = option("--from TIME", "draw from this time on", number_of)
    end: float | None = option("--to TIME", "draw up to this time", number_of)
    label: str | None = LABEL
    memory: bool | None = option("--memory/--no-memory", "the strip of memory over time; default: with a budget")
    rows: list[int] | str | None = option(
        "--rows D,D..", "devices to draw: all, or 0,31,63; default: at most 64, of more than 16 in compare 8",
        lambda flag, text: text if text == "all" else whole_numbers(flag, text, least=0),
    )  # fmt: skip
    fold: bool | None = option(
        "--fold/--no-fold",
        "draw of what repeats one period only; default: where slots are narrow and it helps, not in compare",
    )
    charts: str | None = option(
        "--charts all|none", "whether the chart is drawn; default all",
        lambda flag, text: require_name(("all", "none"), text, "number of charts", flag),
    )  # fmt: skip
    figure: Mapping[str, Any] = {}  # what is said of OF_FIGURES
    given: Sequence[str] = ()  # the flags that were given and are about a chart

    def view(self, **more: Any) -> View:
        """Return these options as renderers take them, with `more` fields of a View. Raises ConfigError."""
        return figure_view(**{**self.figure, **{name: getattr(self, name) for name in OF_PARTS}, **more})

    def require_drawable(self, schedule: Schedule, until: int | None = None) -> None:
        """Raise ConfigError for a window or devices that a chart of `schedule`, up to the tick `until`, has not."""
        view = self.view()
        view.window(schedule, until)
        view.devices(schedule)


CHART = {name: one for name, one in ChartOptions._field_defaults.items() if name not in ("figure", "given")}
OF_PARTS = [name for name in CHART if name != "charts"]  # of a chart, in a View and in a Gantt


def chart_options(**values: Any) -> ChartOptions:
    """Return the options of a chart. Raises ConfigError for bad ones, before anything takes long."""
    said = {name: value for name, value in values.items() if value is not None}
    figure = {name: said[name] for name in OF_FIGURES if name in said}
    flags = [(CHART | OF_FIGURES)[name].flag for name in (*CHART, *OF_CHARTS) if name in said]
    options = ChartOptions(**{name: values[name] for name in CHART}, figure=figure, given=flags)
    if said:
        options.view()
    return options


FIGURE = {
    **OF_FIGURES,
    "label": LABEL,
    "memory": option("--memory/--no-memory", "memory over time; default: with a budget"),
    "width": option("--width COLUMNS", "of a chart in a terminal, which nothing here draws", _no_columns, hidden=True),
}


def figure_view(**values: Any) -> View:
    """Return the options of a figure as renderers take them; None is not given. Raises ConfigError."""
    from pipesched.render.view import View

    return View(**{name: value for name, value in values.items() if value is not None})
