"""The groups of options that commands take (GROUPS), and, by `spelled`, flags in messages in place of parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from pipesched.cli import options
from pipesched.cli.options import CommandOption
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.declared import BY_NAME, FIELDS


class OptionGroup(NamedTuple):
    """The panel of the help, the options in it by the names of their values, and what is made of these."""

    panel: str
    options: Mapping[str, CommandOption]
    make: Callable[..., Any]

    def read(self, texts: Mapping[str, Any]) -> Any:
        """Return what is made of the texts that were given, by the names of their values. Raises ConfigError."""
        values = {}
        for name, one in self.options.items():
            values[name] = text = texts.get(name)
            if text is None or text == ():
                values[name] = one.absent
            elif one.read is not None:
                values[name] = one.read(one.flag, text)
        return self.make(**values)


def _record(panel: str, record: Any) -> OptionGroup:
    return OptionGroup(panel, record._field_defaults, record)


GROUPS = {  # parameter of a command -> its options
    "problem": OptionGroup("The problem", options.PROBLEM, options.problem_source),
    "estimation": OptionGroup("The problem", options.ESTIMATION, options.problem_source),
    "space": OptionGroup("The problem", options.SPACE, options.problem_source),
    "tuning": _record("The search", options.TuningOptions),
    "trust": _record("The evidence", options.TrustOptions),
    "algorithm": OptionGroup("The algorithm", {**options.ALGORITHM, "own": options.OWN}, options.algorithm_options),
    "family_options": OptionGroup(
        "The algorithm", {**options.FAMILY_OPTIONS, "own": options.OWN}, options.algorithm_options
    ),
    "search": _record("The search", options.SearchOptions),
    "variation": OptionGroup("The variation", options.VARIATION, options.given),
    "rules": _record("The algorithm", options.Rules),
    "comparison": _record("The comparison", options.ComparisonOptions),
    "executor": OptionGroup("The workers", options.EXECUTOR, options.executor_spec),
    "screen": _record("Output", options.Screen),
    "target": _record("Output", options.Target),
    "chart": OptionGroup("The chart", {**options.CHART, **options.OF_FIGURES}, options.chart_options),
    "figure": OptionGroup("The figure", options.FIGURE, options.figure_view),
}


PROBLEM_FLAGS = {name: one.flag for name, one in options.FIELD_OPTIONS.items()}  # by the parameter of make_problem
ALGORITHM_FLAGS = {key: one.flag for key, one in options.ALGORITHM.items()}
SETUP_FLAGS = {key: one.flag for key, one in options.SETUP_OPTIONS.items()}  # by the dotted key of a training run
ESTIMATE_FLAGS = {key: one.flag for key, one in options.ESTIMATE_OPTIONS.items()}
INSIDE_FLAGS = {key: one.flag for key, one in options.INSIDE_OPTIONS.items()}  # by the dotted key of an entry
KEY_FLAGS = {
    **{field.key: PROBLEM_FLAGS[field.name] for field in FIELDS if field.name in PROBLEM_FLAGS},
    **SETUP_FLAGS,
    **INSIDE_FLAGS,
    "parallel.chunks": "--chunks",
}
OWN = (  # of commands, of a packing, and of a training
    "against", "chunks", "count", "latency", "pipeline", "pipelined", "placement", "trace",
    "attention", "cap", "microbatches", "multiple_of", "overhead", "ranges", "rank", "ranks", "reference", "too_long",
    "data", "dtype", "loss", "rate", "rows", "shape", "vocab",
)  # fmt: skip
COMMAND_FLAGS = {  # parameter of any other function -> its flag
    **{
        name: one.flag
        for key, group in GROUPS.items()
        for name, one in group.options.items()
        if key not in ("problem", "estimation", "space", "screen")
    },
    **{name: f"--{name.replace('_', '-')}" for name in OWN},
    "algorithm": "--algo",
    "field": "--sweep",
    "format": "--to",
    "op": "--why",
    "trainer": "--only",
    "units": "--unit",
    "values": "--sweep",
}
FLAGS = {**COMMAND_FLAGS, **KEY_FLAGS}  # by all that messages have in backticks
ARGUMENTS = ("algorithms", "lengths", "plans")  # parameters that are no flags: what is wrong with them says so itself
_PARAMETER = re.compile(r"`([a-z][a-z_0-9]*(?:\.[a-z_0-9]+)?)(=False)?`")


def spell(text: str) -> str:
    """Return a text in which flags replace the parameters in backticks; what has no flag stays as it is."""
    text = text.replace("`algorithms()`", "`pipesched list`")
    return _PARAMETER.sub(lambda one: FLAGS.get(one[1], one[0]).replace("--", "--no-", 1 if one[2] else 0), text)


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
    known, key, entry = {**PROBLEM_FLAGS, **KEY_FLAGS}, error.key or "", error.entry
    inside, _, rest = str(entry).partition("[")
    if error.where is None and f"{key}.{inside}" in INSIDE_FLAGS:
        key, entry = f"{key}.{inside}", int(rest[:-1]) if rest else None
    flag = {**PROBLEM_FLAGS, **SETUP_FLAGS, **ESTIMATE_FLAGS, **INSIDE_FLAGS}.get(key)
    where = error.where
    if where is None and flag is not None and (config is None or key in given):
        where = flag
        if config is not None:  # a dotted key that no option gave stands in the file
            known = {name: spelling for name, spelling in known.items() if name in given or "." not in name}
    elif config is None:
        return error
    else:
        known = {name: spelling for name, spelling in known.items() if name in given}
        if where is None and key in BY_NAME:
            where = f"{'<stdin>' if config == '-' else config}: {BY_NAME[key].key}"
    if where is None:
        return error
    text = _PARAMETER.sub(lambda match: known.get(match[1], match[0]), error.message)
    return type(error)(text, error.key, entry=entry, where=where)
