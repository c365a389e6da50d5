"""The flags of the command line, by the parameters that they set.

Messages of the library name parameters, in backticks: `group_size`, `costs.offload`. The functions here put flags in
their stead. A flag is the parameter with hyphens, but for those listed here.
"""

from __future__ import annotations

import re

from pipesched.errors import ConfigError
from pipesched.schedulers.options import OPTIONS
from pipesched.text.fields import ALGORITHM, FIELDS, LANES, PART, TEXT

IN_FILE_ONLY = ("reload", "static")  # of the numbers of a config
PROBLEM_FLAGS = {  # parameter of make_problem -> its flag
    field.name: f"--{field.name.replace('_', '-')}"
    for field in FIELDS
    if field.shape not in (TEXT, LANES, ALGORITHM, PART) and field.name not in IN_FILE_ONLY
} | {"budget": "--mem-budget", "recompute": "--recompute-cost", "offload": "--offload-cost"}
ALGORITHM_FLAGS = {key: f"--{key.replace('_', '-')}" for key, option in OPTIONS.items() if not option.in_config}
SETUP_FLAGS = {  # dotted key of a training run -> its flag
    "model": "--model",
    "hardware": "--hardware",
    **{
        f"parallel.{key}": f"--{key.replace('_', '-')}"
        for key in ("gpus", "tensor", "pipeline", "context", "expert", "expert_tensor")
    },
    "batch.sequence": "--sequence",
    "batch.micro": "--micro",
    "batch.global": "--global-batch",
    "training.precision": "--precision",
}
ESTIMATE_FLAGS = {  # of `estimate` alone, beside those above
    "parallel.chunks": "--chunks",
    "training.recompute": "--recompute",
}
KEY_FLAGS = {
    **{field.key: PROBLEM_FLAGS[field.name] for field in FIELDS if field.name in PROBLEM_FLAGS},
    **SETUP_FLAGS,
    "parallel.chunks": "--chunks",
}
COMMAND_FLAGS = {  # parameter of any other function -> its flag
    **ALGORITHM_FLAGS,
    **{
        name: f"--{name.replace('_', '-')}"
        for name in (
            "advice", "charts", "executor", "fold", "gap", "hint", "inches", "jobs", "label", "latency", "memory",
            "method", "offload", "pipeline", "pipelined", "placement", "recompute", "rows", "split_backward",
            "time_limit", "workers", "zoom", "force", "frontier", "show", "sweep", "noise", "device_noise", "straggler",
            "samples", "top", "resume", "count", "trace",
        )
    },
    "algorithm": "--algo",
    "end": "--to",
    "field": "--sweep",
    "format": "--to",
    "op": "--why",
    "path": "--output",
    "polish": "--no-polish",
    "start": "--from",
    "trainer": "--only",
    "units": "--unit",
    "values": "--sweep",
}  # fmt: skip
ARGUMENTS = ("algorithms", "plans")  # parameters that are no flags: what is wrong with them says so itself
_PARAMETER = re.compile(r"`([a-z][a-z_0-9]*(?:\.[a-z_0-9]+)?)`")


def spell(text: str) -> str:
    """Return a text in which flags replace the parameters in backticks; what has no flag stays as it is."""

    def flag(match: re.Match[str]) -> str:
        return {**COMMAND_FLAGS, **KEY_FLAGS}.get(match[1], match[0])

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


def about_problem(error: ConfigError) -> ConfigError:
    """Return an error about a value of the problem as one about its flag, unless the value stands in a file."""
    flag = {**PROBLEM_FLAGS, **SETUP_FLAGS, **ESTIMATE_FLAGS}.get(error.key or "")
    if error.where or flag is None:
        return error
    text = _PARAMETER.sub(lambda match: {**PROBLEM_FLAGS, **KEY_FLAGS}.get(match[1], match[0]), error.message)
    return type(error)(text, error.key, entry=error.entry, where=flag)
