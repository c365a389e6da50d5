"""What stands around a command, by `with_options`: options of GROUPS become arguments, errors messages (`guarded`).

Messages name parameters, in backticks; `spell` puts their flags in place of these, by the tables here.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from types import MappingProxyType
from typing import Any, NamedTuple

from pipesched.cli import options
from pipesched.cli.exits import ExitStatus, quiet_pipe, stop
from pipesched.cli.options import ChartOptions, CommandOption, Screen, Target
from pipesched.cli.progress import elapsed, progress_of
from pipesched.core.arrays import HOW_TO, SLOW, compiled_kernels, form_of_kernels
from pipesched.errors import ConfigError, Inexpressible, InvalidSchedule, NoSchedule, RankFailed, WorkerDied
from pipesched.pipeline.problem.declared import BY_NAME, FIELDS


class OptionGroup(NamedTuple):
    """The panel of the help, the options in it by the names of their values, and what is made of these."""

    panel: str
    own: Mapping[str, CommandOption]
    make: Callable[..., Any]
    of_setup: str = ""  # with those of `setup_options` of that name

    @property
    def options(self) -> Mapping[str, CommandOption]:
        """All options; what a training run has of them loads now."""
        return {**self.own, **(options.setup_options()[self.of_setup] if self.of_setup else {})}

    def read(self, texts: Mapping[str, Any]) -> Any:
        """Return what is made of the texts that were given, by the names of their values. Raises ConfigError."""
        values = {}
        for name, one in (self.own if texts.keys() <= self.own.keys() else self.options).items():
            values[name] = text = texts.get(name, None if " " in one.usage or "/--no-" in one.usage else False)
            if text is None or text == ():
                values[name] = one.absent
            elif one.read is not None:
                values[name] = one.read(one.flag, text)
        return self.make(**values)


WAITING = ("explore", "profile", "train")  # commands whose time is that of people or of models
GROUPS = {  # parameter of a command -> its options
    "problem": OptionGroup("The problem", options.PROBLEM, options.problem_source, "problem"),
    "estimation": OptionGroup("The problem", {}, options.problem_source, "estimation"),
    "space": OptionGroup("The problem", {}, options.problem_source, "space"),
    "tuning": OptionGroup("The search", options.TuningOptions._field_defaults, options.TuningOptions),
    "trust": OptionGroup("The evidence", options.TrustOptions._field_defaults, options.TrustOptions),
    "algorithm": OptionGroup("The algorithm", {**options.ALGORITHM, "own": options.OWN}, options.algorithm_options),
    "family_options": OptionGroup(
        "The algorithm", {**options.FAMILY_OPTIONS, "own": options.OWN}, options.algorithm_options
    ),
    "search": OptionGroup("The search", options.SearchOptions._field_defaults, options.SearchOptions),
    "variation": OptionGroup("The variation", options.VARIATION, options.given),
    "rules": OptionGroup("The algorithm", options.Rules._field_defaults, options.Rules),
    "comparison": OptionGroup("The comparison", options.ComparisonOptions._field_defaults, options.ComparisonOptions),
    "executor": OptionGroup("The workers", options.EXECUTOR, options.executor_spec),
    "screen": OptionGroup("Output", options.Screen._field_defaults, options.Screen),
    "target": OptionGroup("Output", options.Target._field_defaults, options.Target),
    "chart": OptionGroup("The chart", {**options.CHART, **options.OF_FIGURES}, options.chart_options),
    "figure": OptionGroup("The figure", options.FIGURE, options.figure_view),
}

PROBLEM_FLAGS = {name: one.flag for name, one in options.FIELD_OPTIONS.items()}  # by the parameter of make_problem
ALGORITHM_FLAGS = {key: one.flag for key, one in options.ALGORITHM.items()}
INSIDE_FLAGS = {key: one.flag for key, one in options.INSIDE_OPTIONS.items()}  # by the dotted key of an entry
KEY_FLAGS = {
    **{field.key: PROBLEM_FLAGS[field.name] for field in FIELDS if field.name in PROBLEM_FLAGS},
    **INSIDE_FLAGS,
    "parallel.chunks": "--chunks",
}
OWN = (  # of commands, of a packing, and of a training
    "against", "chunks", "count", "latency", "pipeline", "pipelined", "placement", "trace",
    "attention", "cap", "microbatches", "multiple_of", "overhead", "ranges", "rank", "ranks", "reference", "too_long",
    "data", "dtype", "loss", "rate", "rows", "shape", "vocab",
)  # fmt: skip
COMMAND_FLAGS = {  # parameter of any other function -> its flag
    **{name: one.flag for key in GROUPS if key not in ("problem", "screen") for name, one in GROUPS[key].own.items()},
    **{name: f"--{name.replace('_', '-')}" for name in OWN},
    "algorithm": "--algo",
    "field": "--sweep",
    "format": "--to",
    "op": "--why",
    "trainer": "--only",
    "units": "--unit",
    "values": "--sweep",
}
FLAGS = {**COMMAND_FLAGS, **KEY_FLAGS}  # by what messages have in backticks, but for keys of a training run
ARGUMENTS = ("algorithms", "lengths", "plans")  # parameters that are no flags: what is wrong with them says so itself
_PARAMETER = re.compile(r"`([a-z][a-z_0-9]*(?:\.[a-z_0-9]+)?)(=False)?`")


def setup_flags(which: str = "own") -> dict[str, str]:
    """Return the flag of each key of a training run; of `others`, beside a problem, it means something else."""
    return {key: one.flag for key, one in options.setup_options()[which].items()}


def spell(text: str) -> str:
    """Return a text in which flags replace the parameters in backticks; what has no flag stays as it is."""
    text = text.replace("`algorithms()`", "`pipesched list`")
    return _PARAMETER.sub(
        lambda one: (FLAGS.get(one[1]) or setup_flags().get(one[1], one[0])).replace("--", "--no-", int(bool(one[2]))),
        text,
    )


def spelled(error: ConfigError, given: Collection[str] = ()) -> str:
    """Return the text of an error in which flags replace the parameters, unless it is about a value in a file.

    `given` are options of the algorithm: one that has no flag of its own is said as it was given.
    """
    if error.where:
        return str(error)
    if error.key in given and error.key not in ALGORITHM_FLAGS:
        return f"{options.OWN.flag} {error.key}: {spell(error.message)}"
    if error.key in ARGUMENTS:
        return spell(error.message)
    flag = COMMAND_FLAGS.get(error.key or "")
    names_it = str(error) != error.message
    return spell(str(error.at(flag) if flag and names_it else error))


def about_problem(error: ConfigError, config: str | None = None, given: Collection[str] = ()) -> ConfigError:
    """Return an error about a value of the problem as one about its flag, unless the value stands in a file.

    Beside a `config` only an error about what is `given` on the command line, by parameters and dotted keys, is about
    a flag; others call by flags what was given.
    """
    known, key, entry = {**PROBLEM_FLAGS, **KEY_FLAGS, **setup_flags()}, error.key or "", error.entry
    inside, _, rest = str(entry).partition("[")  # of an entry such as level, or ahead[1]
    if error.where is None and f"{key}.{inside}" in INSIDE_FLAGS:
        key, entry = f"{key}.{inside}", int(rest[:-1]) if rest else None
    flag = {**PROBLEM_FLAGS, **setup_flags(), **setup_flags("others"), **INSIDE_FLAGS}.get(key)
    where, is_flag = error.where, error.where is None and flag is not None and (config is None or key in given)
    if config is None and not is_flag:
        return error
    if is_flag:
        where = flag
    elif where is None and key in BY_NAME:  # which stands in the file
        where = f"{'<stdin>' if config == '-' else config}: {BY_NAME[key].key}"
    if where is None:
        return error
    if config is not None:  # what no option gave stands in the file too: the text says its key
        known = {name: one for name, one in known.items() if name in given or (is_flag and "." not in name)}
    text = _PARAMETER.sub(lambda match: known.get(match[1], match[0]), error.message)
    return type(error)(text, error.key, entry=entry, where=where)


@contextmanager
def guarded(command: str, read: Mapping[str, Any] = MappingProxyType({})) -> Iterator[None]:
    """Turn every expected error into a message on stderr and an exit code; `read` are options of the command."""
    if command not in WAITING:  # products here are small: threads for them cost more than they save
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        yield
        sys.stdout.flush()
        if elapsed() >= SLOW and command not in WAITING and compiled_kernels() is None:
            note = f"kernels run as {form_of_kernels()}; {HOW_TO} for faster ones"
            print(f"pipesched: note: {note}", file=sys.stderr)
    except ConfigError as error:
        given = {*read.get("algorithm", ()), *read.get("family_options", ())}
        raise stop(spelled(error, given), ExitStatus.BAD_INPUT) from None
    except (NoSchedule, InvalidSchedule, Inexpressible, RankFailed, WorkerDied) as error:
        said = with_flags(error)
        answer = error if isinstance(error, NoSchedule) else NoSchedule(said)
        would_fit = f" (would fit: {', '.join(answer.would_fit)})" if answer.would_fit else ""
        if "screen" in read and read["screen"].as_json:
            import json

            content = {"format": "pipesched.infeasible", "version": 1, "reason": spell(answer.reason)}
            content |= {key: getattr(answer, key) for key in ("device", "floor", "budget")}
            print(json.dumps({**content, "would_fit": [*map(spell, answer.would_fit)]}, indent=1))
        raise stop(said + spell(would_fit), ExitStatus.ANSWER_IS_NO) from None
    except BrokenPipeError:
        quiet_pipe()
    except OSError as error:
        raise stop(f"cannot write the output: {error.strerror or error}", ExitStatus.BAD_INPUT) from None
    except KeyboardInterrupt:
        raise stop("interrupted", ExitStatus.INTERRUPTED) from None


def with_flags(error: Exception) -> str:
    """Return the text of an error with flags for parameters: of a rank, whose text is others', only in the hint."""
    if not isinstance(error, RankFailed):
        return spell(str(error))
    return f"{error.text}; hint: {spell(error.hint)}" if error.hint else error.text


PROBLEMS = ("problem", "estimation", "space")  # groups of commands that schedule, but for
OF_FILES = ("check", "show")
FIGURE_SUFFIXES = (".svg", ".png", ".pdf")


def with_options(function: Callable[..., Any], flags: Collection[str] = ("--help",)) -> Callable[..., Any]:
    """Return `function` as Typer reads it: each parameter that is named like a group is replaced by its options.

    Of options that are spelled alike the first counts: the function's own, else that of the first group. Every command
    has --quiet, and those that schedule --family. Expected errors become messages and exit codes. A command that has
    all `flags` is made without others, which takes a fifth of the time.
    """
    name, own = function.__module__.rpartition(".")[2], inspect.signature(function, eval_str=True).parameters.values()
    shown, taken = list[inspect.Parameter](), {"--quiet", "--family"}
    kept: dict[str, dict[str, str]] = {one.name: {} for one in own if one.name in GROUPS}  # the names of its options
    for parameter in own:
        one = parameter.default
        if isinstance(one, CommandOption):
            taken.update(one.usage.split()[0].split("/"))
            shown.append(one.parameter(parameter.name, None, parameter.annotation))
        elif parameter.name not in GROUPS:
            shown.append(parameter)
    spelled = [one.usage.split()[0].split("/") for group in kept for one in GROUPS[group].own.values()]
    few = taken.union(*spelled).issuperset(flags) and all(GROUPS[group].own for group in kept)
    for group, names in kept.items():
        for key, option in (GROUPS[group].own if few else GROUPS[group].options).items():
            spellings = option.usage.split()[0].split("/")
            if taken.isdisjoint(spellings) and not (few and {*flags}.isdisjoint(spellings)):
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
