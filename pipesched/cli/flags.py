"""The flags of the command line, by the parameters that they set.

Messages of the library name parameters, in backticks: `group_size`, `costs.offload`. The functions here put flags in
their stead. Options stand under the parameters that they set; parameters of other names are listed here.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from pipesched.cli.groups import GROUPS
from pipesched.cli.options import ALGORITHM
from pipesched.cli.problem_options import ESTIMATE_OPTIONS, FIELD_OPTIONS, INSIDE_OPTIONS, SETUP_OPTIONS, SHARD_OPTIONS
from pipesched.errors import ConfigError
from pipesched.text.fields import BY_NAME, FIELDS

PROBLEM_FLAGS = {name: one.flag for name, one in FIELD_OPTIONS.items()}  # by the parameter of make_problem
ALGORITHM_FLAGS = {key: one.flag for key, one in ALGORITHM.items()}
SETUP_FLAGS = {key: one.flag for key, one in SETUP_OPTIONS.items()}  # by the dotted key of a training run
ESTIMATE_FLAGS = {key: one.flag for key, one in ESTIMATE_OPTIONS.items()}
SHARD_FLAGS = {key: one.flag for key, one in SHARD_OPTIONS.items()}
INSIDE_FLAGS = {key: one.flag for key, one in INSIDE_OPTIONS.items()}  # by the dotted key of an entry
KEY_FLAGS = {
    **{field.key: PROBLEM_FLAGS[field.name] for field in FIELDS if field.name in PROBLEM_FLAGS},
    **SETUP_FLAGS,
    **INSIDE_FLAGS,
    "parallel.chunks": "--chunks",
}
COMMAND_FLAGS = {  # parameter of any other function -> its flag
    **{
        name: one.flag
        for key, group in GROUPS.items()
        for name, one in group.options.items()
        if key not in ("problem", "estimation", "space", "screen")
    },
    **{
        name: f"--{name}"
        for name in ("against", "chunks", "count", "latency", "pipeline", "pipelined", "placement", "trace")
    },
    **{
        name: f"--{name}" for name in ("attention", "cap", "microbatches", "rank", "ranks", "reference")
    },  # of a packing
    **{name: f"--{name}" for name in ("data", "dtype", "loss", "rate", "rows", "shape", "vocab")},  # of a training
    "algorithm": "--algo",
    "field": "--sweep",
    "format": "--to",
    "op": "--why",
    "trainer": "--only",
    "units": "--unit",
    "values": "--sweep",
}
ARGUMENTS = ("algorithms", "lengths", "plans")  # parameters that are no flags: what is wrong with them says so itself
_PARAMETER = re.compile(r"`([a-z][a-z_0-9]*(?:\.[a-z_0-9]+)?)(=False)?`")


def spell(text: str) -> str:
    """Return a text in which flags replace the parameters in backticks; what has no flag stays as it is."""

    def flag(match: re.Match[str]) -> str:
        found = {**COMMAND_FLAGS, **KEY_FLAGS}.get(match[1], match[0])
        return found.replace("--", "--no-", 1) if match[2] and found != match[0] else found

    return _PARAMETER.sub(flag, text.replace("`algorithms()`", "`pipesched list`"))


def spelled(error: ConfigError) -> str:
    """Return the text of an error in which flags replace the parameters, unless it is about a value in a file."""
    if error.where:
        return str(error)
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
    flag = {**PROBLEM_FLAGS, **SETUP_FLAGS, **ESTIMATE_FLAGS, **SHARD_FLAGS, **INSIDE_FLAGS}.get(key)
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
