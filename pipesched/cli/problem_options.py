"""The options of the problem: values of a config, and what describes a training run."""

from __future__ import annotations

from typing import Any

from pipesched.cli.options import CommandOption, ProblemSource, as_value, option, parse_value
from pipesched.text.fields import (
    ALGORITHM,
    BY_NAME,
    COUNT,
    FIELDS,
    FLAG,
    LANES,
    LAYOUT,
    LINKS,
    MODE,
    NUMBER,
    PART,
    PLACEMENT,
    SHARD,
    SHARE,
    SIDE,
    SIZES,
    SLICES,
    SPEED,
    TEXT,
)

IN_FILE_ONLY = ("reload", "static")  # of the numbers of a config
SPELLED = {  # that others would take
    "budget": "mem-budget",
    **{key: f"{key}-cost" for key in ("recompute", "offload", "gather", "reduce", "optimizer", "tied")},
}
METAVARS = {  # of others: numbers, one or one each
    COUNT: "N", PLACEMENT: "NAME|D,D..", LAYOUT: "NAME|N,N..", SLICES: "N|auto", MODE: "NAME", SHARE: "X", NUMBER: "X",
}  # fmt: skip
COMPANIONS = "the costs of a model instead: a preset, or a config.json; more options: pipesched estimate --help"


def problem_source(config: str | None, **given: Any) -> ProblemSource:
    """Return the source of a problem: a parameter is an override, a dotted key one in a section."""
    overrides: dict[str, Any] = {}
    for key, value in given.items():
        section, _, name = key.partition(".")
        if value is not None:
            (overrides.setdefault(section, {}) if name else overrides)[name or key] = value
    return ProblemSource(config, overrides)


def _recompute(flag: str, text: str) -> Any:
    """Return recompute as a config gives it: a number is so many layers of each stage in full."""
    if "," in text:
        return [_recompute(flag, part) for part in text.split(",")]
    value = parse_value(text)
    return {"full": value} if isinstance(value, int) else value


def _speeds(_flag: str, text: str) -> Any:
    """Return speeds as a config gives them: one, one a device, or by device, {2: 0.8}."""
    if not (text.strip().startswith("{") and text.strip().endswith("}")):
        return parse_value(text)
    pairs = (part.partition(":") for part in text.strip()[1:-1].split(","))
    return {parse_value(device): parse_value(speed) for device, _, speed in pairs}


def _listed(_flag: str, text: str) -> Any:
    """Return the numbers of an option that is a list, also of one number."""
    value = parse_value(text)
    return value if isinstance(value, list) else [value]


def _several(one: CommandOption, default: str) -> CommandOption:
    """Return the option of a size as `tune` takes it, which searches: several, or auto."""
    return one._replace(usage=f"{one.flag} N[,N..]|auto", help=one.help.replace("default 1", f"default {default}"))


_CONFIG = {"config": option("-c/--config FILE", "YAML file of the problem; - reads standard input")}
FIELD_OPTIONS: dict[str, CommandOption] = {  # by the parameter of make_problem
    name: option(
        f"--{SPELLED.get(name, name).replace('_', '-')} {METAVARS.get(shape, 'X[,X..]')}",
        text,
        _speeds if shape == SPEED else as_value,
    )
    for name, shape, text in ((field.name, field.shape, field.help) for field in FIELDS)
    if shape not in (TEXT, LANES, ALGORITHM, PART, LINKS, SIZES, SHARD, FLAG, SIDE) and name not in IN_FILE_ONLY
}
FIELD_OPTIONS["clip"] = option("--clip/--no-clip", BY_NAME["clip"].help)
INSIDE_OPTIONS: dict[str, CommandOption] = {  # by the dotted key of an entry of a mapping
    "sizes.work": option(
        "--work X[,X..]", "factor of each microbatch, by which its F, B, I, W and R last longer; default 1", _listed
    ),
    "shard.level": option(
        "--shard NAME",
        "what data-parallel ranks divide: none, optimizer (its states; default beside --gather-cost), gradients too or"
        " weights too",
    ),
    "shard.ranks": option("--shard-ranks N", "among how many ranks each part is divided; default 1", as_value),
    "shard.ahead": option(
        "--shard-ahead N[,N..]|full|auto",
        "with weights divided: how many stages of a device are whole at once; default 3",
        as_value,
    ),
    "shard.reduce": option(
        "--shard-reduce NAME", "last (default): gradients are reduced once a stage; each: after each microbatch"
    ),
}
SETUP_OPTIONS: dict[str, CommandOption] = {  # by the dotted key of a training run
    "model": option("--model NAME|FILE", "a preset of `pipesched list --models`, or the path of a config.json"),
    "hardware": option("--hardware NAME", "a preset of `pipesched list --hardware`"),
    "parallel.gpus": option("--gpus N", "on how many GPUs to train", as_value),
    "parallel.tensor": option("--tensor N", "tensor parallelism; default 1", as_value),
    "parallel.pipeline": option("--pipeline N", "pipeline parallelism; default 1", as_value),
    "parallel.context": option("--context N", "context parallelism; default 1", as_value),
    "parallel.expert": option("--expert N", "expert parallelism; default 1", as_value),
    "parallel.expert_tensor": option("--expert-tensor N", "tensor parallelism of experts; default 1", as_value),
    "batch.sequence": option("--sequence N", "tokens of a sequence", as_value),
    "batch.micro": option("--micro N", "sequences of a microbatch; default 1", as_value),
    "batch.global": option("--global-batch N", "sequences of a step, over all GPUs", as_value),
    "training.precision": option("--precision NAME", "bf16 (default), fp16 or fp32"),
}
ESTIMATE_OPTIONS: dict[str, CommandOption] = {  # of `estimate` and `tune`, beside those
    "parallel.chunks": option("--chunks N", "stages of a device; default 1", as_value),
    "training.recompute": option(
        "--recompute NAME|N", "none (default), selective, full, or full of N layers of each stage", _recompute
    ),
}
SHARD_OPTIONS: dict[str, CommandOption] = {  # of both as well
    "training.shard": option(
        "--shard NAME", "what data-parallel ranks divide: none, optimizer, gradients or weights (ZeRO 0 to 3)", as_value
    ),
    "parallel.shard_ranks": option("--shard-ranks N", "among how many of these ranks; default: all", as_value),
}
_OF_BOTH = {name: FIELD_OPTIONS[name] for name in ("microbatches", "placement", "budget")}
PROBLEM = {
    **_CONFIG,
    **{name: FIELD_OPTIONS[name] for name in ("devices", "stages", "chunks", "microbatches")},
    **INSIDE_OPTIONS,
    **FIELD_OPTIONS,
    **{key: one._replace(hidden=True) for key, one in SETUP_OPTIONS.items()},
    "model": SETUP_OPTIONS["model"]._replace(help=COMPANIONS),
}
ESTIMATION = {**_CONFIG, **SETUP_OPTIONS, **ESTIMATE_OPTIONS, **SHARD_OPTIONS, **_OF_BOTH}
_SEARCHED = dict.fromkeys((f"parallel.{key}" for key in ("tensor", "pipeline", "chunks", "context", "expert")), "auto")
SPACE = {
    **ESTIMATION,
    **{
        key: _several(ESTIMATION[key], default)
        for key, default in {
            **_SEARCHED,
            "parallel.expert_tensor": "1",
            "batch.micro": "1",
            "parallel.shard_ranks": "all",
        }.items()
    },
    "training.shard": option(
        "--shard NAME[,NAME..]|auto", "what data-parallel ranks divide: none, optimizer, gradients, weights", as_value
    ),
    "training.recompute": option(
        "--recompute NAME|N[,..]|auto",
        "none, selective, full, or full of N layers of each stage; default none",
        _recompute,
    ),
}
