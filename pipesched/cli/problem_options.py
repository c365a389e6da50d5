"""The options of the problem: values of a config, and what describes a training run."""

from __future__ import annotations

from typing import Any

from pipesched.cli.options import ALGORITHM, CommandOption, ProblemSource, option, option_of
from pipesched.estimation.setup import BATCH, PARALLEL, TRAINING
from pipesched.pipeline.declared import FIELDS, INSIDE

COMPANIONS = "the costs of a model instead: a preset, or a config.json; more options: pipesched estimate --help"


def problem_source(config: str | None, **given: Any) -> ProblemSource:
    """Return the source of a problem: a parameter is an override, a dotted key one in a section."""
    overrides: dict[str, Any] = {}
    for key, value in given.items():
        section, _, name = key.partition(".")
        if value is not None:
            (overrides.setdefault(section, {}) if name else overrides)[name or key] = value
    return ProblemSource(config, overrides)


_CONFIG = {"config": option("-c/--config FILE", "YAML file of the problem; - reads standard input")}
FIELD_OPTIONS: dict[str, CommandOption] = {  # by the parameter of make_problem
    one.name: option_of(one, switches_off=True) for one in FIELDS if one.flag is not None
}
INSIDE_OPTIONS: dict[str, CommandOption] = {one.key: option_of(one) for one in INSIDE}  # by the dotted key of an entry
INSIDE_OPTIONS["shard.level"] = INSIDE_OPTIONS["shard.level"]._replace(
    help=INSIDE_OPTIONS["shard.level"].help.replace("costs.gather", FIELD_OPTIONS["gather"].flag)
)
_NAMES = {
    "model": option("--model NAME|FILE", "a preset of `pipesched list --models`, or the path of a config.json"),
    "hardware": option("--hardware NAME", "a preset of `pipesched list --hardware`"),
}
_OF_SETUP = [one for known in (PARALLEL, BATCH, TRAINING) for one in known.values() if one.flag is not None]
_TAKEN = {one.flag for known in (FIELD_OPTIONS, INSIDE_OPTIONS, ALGORITHM) for one in known.values()}
_OPTIONS: dict[str, CommandOption] = _NAMES | {one.key: option_of(one) for one in _OF_SETUP}  # by the dotted key
SETUP_OPTIONS = {key: one for key, one in _OPTIONS.items() if one.flag not in _TAKEN}
ESTIMATE_OPTIONS = {key: one for key, one in _OPTIONS.items() if one.flag in _TAKEN}  # others mean another
_OF_BOTH = {name: FIELD_OPTIONS[name] for name in ("microbatches", "placement", "budget")}
PROBLEM = {
    **_CONFIG,
    **{name: FIELD_OPTIONS[name] for name in ("devices", "stages", "chunks", "microbatches")},
    **INSIDE_OPTIONS,
    **FIELD_OPTIONS,
    **{key: one._replace(hidden=True) for key, one in SETUP_OPTIONS.items()},
    "model": SETUP_OPTIONS["model"]._replace(help=COMPANIONS),
}
ESTIMATION = {**_CONFIG, **SETUP_OPTIONS, **ESTIMATE_OPTIONS, **_OF_BOTH}
SPACE = {**ESTIMATION, **{one.key: option_of(one, searched=True) for one in _OF_SETUP}}
