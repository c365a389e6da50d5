"""The options that describe a training run, by their keys in a config: the model, the GPUs, the layout, the batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipesched.cli.flags import ESTIMATE_FLAGS, SETUP_FLAGS
from pipesched.cli.parse import parse_value

WORDS = ("model", "hardware", "training.precision")  # what stays a word, whatever it spells
COMPANIONS = "the costs of a model instead: a preset, or a config.json; more options: pipesched estimate --help"


class SetupOption(NamedTuple):
    """An option of a training run: its dotted key, what it means, and what stands for its value."""

    key: str
    help: str
    metavar: str = "N"

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return {**SETUP_FLAGS, **ESTIMATE_FLAGS}[self.key]

    @property
    def parameter(self) -> str:
        """The name of its value among those of a command."""
        return f"setup_{self.key.replace('.', '_')}"


SETUP_OPTIONS = (
    SetupOption("model", "a preset of `pipesched list --models`, or the path of a config.json", "NAME|FILE"),
    SetupOption("hardware", "a preset of `pipesched list --hardware`", "NAME"),
    SetupOption("parallel.gpus", "on how many GPUs to train"),
    SetupOption("parallel.tensor", "tensor parallelism; default 1"),
    SetupOption("parallel.pipeline", "pipeline parallelism; default 1"),
    SetupOption("parallel.context", "context parallelism; default 1"),
    SetupOption("parallel.expert", "expert parallelism; default 1"),
    SetupOption("parallel.expert_tensor", "tensor parallelism of experts; default 1"),
    SetupOption("batch.sequence", "tokens of a sequence"),
    SetupOption("batch.micro", "sequences of a microbatch; default 1"),
    SetupOption("batch.global", "sequences of a step, over all GPUs"),
    SetupOption("training.precision", "bf16 (default), fp16 or fp32", "NAME"),
)
ESTIMATE_OPTIONS = (
    SetupOption("parallel.chunks", "stages of a device; default 1"),
    SetupOption("training.recompute", "none (default), selective, full, or full of N layers of each stage", "NAME|N"),
)
SEARCHED = {  # what `tune` tries of an option: its help there
    "parallel.tensor": "tensor parallelism",
    "parallel.pipeline": "pipeline parallelism",
    "parallel.chunks": "stages of a device",
    "parallel.context": "context parallelism",
    "parallel.expert": "expert parallelism",
    "parallel.expert_tensor": "tensor parallelism of experts",
    "batch.micro": "sequences of a microbatch",
    "training.recompute": "none, selective, full, or full of N layers of each stage",
}
UNSEARCHED = {"parallel.expert_tensor": "1", "batch.micro": "1", "training.recompute": "none"}  # what is not given


def candidate_option(option: SetupOption) -> SetupOption:
    """Return an option as `tune` takes it: several candidates where it is searched."""
    if option.key not in SEARCHED:
        return option
    default = UNSEARCHED.get(option.key, "auto")
    values = "NAME|N[,..]|auto" if option.key == "training.recompute" else "N[,N..]|auto"
    return option._replace(help=f"{SEARCHED[option.key]}; default {default}", metavar=values)


def setup_overrides(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was given of a training run, as sections of a config."""
    overrides: dict[str, Any] = {}
    for option in (*SETUP_OPTIONS, *ESTIMATE_OPTIONS):
        text = values.get(option.parameter)
        if text is None:
            continue
        section, _, key = option.key.partition(".")
        value = text if option.key in WORDS else parse_value(text)
        if option.key == "training.recompute":
            value = [*map(_recompute, value)] if isinstance(value, list) else _recompute(value)
        if key:
            overrides.setdefault(section, {})[key] = value
        else:
            overrides[section] = value
    return overrides


def _recompute(value: Any) -> Any:
    """Return recompute as a config gives it: a number is so many layers of each stage in full."""
    return {"full": value} if isinstance(value, int) else value
