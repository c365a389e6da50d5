"""`read_setup`: a training run from the sections of a config, model, hardware, parallel, batch and training."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from pipesched.checks import require_whole, shown
from pipesched.errors import ConfigError, blame
from pipesched.estimation.hardware import FP32, PRECISIONS, GpuModel
from pipesched.estimation.hardware_reader import TYPICAL, read_efficiency, read_hardware
from pipesched.estimation.model import ModelShape, require_experts, require_stages, require_tensor
from pipesched.estimation.model_reader import read_model_section
from pipesched.estimation.setup import (
    BATCH,
    FULL,
    MOST,
    PARALLEL,
    SIZES,
    TRAINING,
    Parallel,
    Setup,
    TokenBatch,
    TrainingSetup,
    packed,
)
from pipesched.pipeline.layers.layers import BEST
from pipesched.pipeline.plan.step import LEVELS, NOTHING, OPTIMIZER_STATES
from pipesched.pipeline.problem.shapes import AUTO
from pipesched.text.sections import Entries, Section, Sections, located, merged
from pipesched.text.yaml_reader import Value, parse_yaml, read_text

READ_APART = ("precision", "optimizer", "shard", "recompute", "layout", "efficiency")  # of training
SWITCHED = {True: OPTIMIZER_STATES, False: NOTHING}  # what `distributed_optimizer` says of `shard`
FORMS = {"sequence": "true or false", "recompute": "none, selective or full", "shard": f"one of {', '.join(LEVELS)}"}
FORMS["precision"] = f"one of {', '.join(PRECISIONS)}"
MISSING = {
    "model": "the name of a preset, the path of a config.json, or a mapping of its keys",
    "hardware": "the name of a preset, or a mapping of tflops, memory, bandwidth and links",
}
EMPTY = Section(Value({}, 0))
OF_SETUP = {"parallel": PARALLEL, "batch": BATCH, "training": TRAINING}
SECTION_OF = {key: f"{name}.{key}" for name in ("training", "parallel", "batch") for key in OF_SETUP[name]}


def section_entries(value: Value, name: str) -> Entries:
    """Return the entries of `parallel`, `batch` or `training`. Raises ConfigError, which names the section of a key."""
    return Entries(value, name, [*OF_SETUP[name]], SECTION_OF)


class ReadSetup(NamedTuple):
    """A training run, and what a person should know of how it was read."""

    setup: Setup
    notes: tuple[str, ...] = ()


def setup_of(name: str = "", **sections: Any) -> ReadSetup:
    """Return the training run of sections as Python has them: `model="llama-3-8b"`, ... Raises ConfigError."""
    return read_setup({key: merged(None, plain, key) for key, plain in sections.items() if plain is not None}, name)


def read_setup(sections: Sections, name: str = "") -> ReadSetup:
    """Return the training run of these sections. Raises ConfigError that says where the value at fault stands."""
    try:
        model, hardware, training, notes = _shared(sections)
        parallel, batch = (sections.get(key, EMPTY).value for key in ("parallel", "batch"))
        layout = _parallel(parallel, model)
        title = name or f"{model.name} on {layout.gpus} {hardware.name}"
        return ReadSetup(Setup(model, hardware, layout, _batch(batch, layout.data), training, title), notes)
    except ConfigError as error:
        raise located(error, sections) from None


def read_unsized(sections: Sections) -> dict[str, Any]:
    """Return what a training run has whatever its layout: `size` sequences of `tokens` in a step, and others.

    Raises ConfigError, with the place at fault.
    """
    try:
        model, hardware, training, _ = _shared(sections)
        parallel = section_entries(sections.get("parallel", EMPTY).value, "parallel")
        gpus = require_whole(parallel.needed("gpus", "on how many GPUs to train"), "parallel.gpus", least=1, most=MOST)
        sequence = _one(parallel, "sequence") if "sequence" in parallel else None
        data = _one(parallel, "data")
        batch = _batch(sections.get("batch", EMPTY).value, None)
    except ConfigError as error:
        raise located(error, sections) from None
    shared = {"model": model, "hardware": hardware, "training": training}
    return {**shared, "gpus": gpus, "sequence": sequence, "tokens": batch.sequence, "size": batch.size, "data": data}


def _shared(sections: Sections) -> tuple[ModelShape, GpuModel, TrainingSetup, tuple[str, ...]]:
    """Return what does not depend on the layout: model, GPU, training, and notes."""
    for key, what in MISSING.items():
        if key not in sections:
            raise ConfigError(f"is missing: {what}", key)
    model, notes = read_model_section(sections["model"])
    training = sections.get("training", EMPTY)
    hardware = read_hardware(sections["hardware"].value)
    shares = section_entries(training.value, "training").values.get("efficiency")  # here, or in a file of their own
    if shares is not None:
        profile = profile_of(training, shares) if isinstance(shares.data, str) else None
        value, key = (shares, "training.efficiency") if profile is None else (profile.value, "efficiency")
        try:
            hardware = replace(hardware, efficiency=read_efficiency(value, key, hardware.efficiency))
        except ConfigError as error:
            raise (error if profile is None else located(error, {key: profile})) from None
    if hardware.fitted_on not in ("", hardware.name):
        notes += (f"{hardware.name}: shares of its numbers are those fitted on {hardware.fitted_on}",)
    elif hardware.efficiency == TYPICAL:
        notes += (f"{hardware.name}: no run tells its shares, so usual ones count; efficiency sets them",)
    trained = _training(training.value)
    if trained.precision == FP32:
        notes += ("fp32 counts in weights, gradients and optimizer; times and activations are those of 16 bits",)
    return model, hardware, trained, notes


def _parallel(value: Value, model: ModelShape) -> Parallel:
    """Return the layout. What a way of parallelism asks of the model comes before what their product asks of GPUs."""
    entries = section_entries(value, "parallel")
    entries.needed("gpus", "on how many GPUs to train")
    numbers = {key: _one(entries, key) for key in ("gpus", *SIZES) if key in entries}
    for key, number in numbers.items():
        require_whole(number, entries.key(key), least=1, most=MOST)
    require_tensor(model, numbers.get("tensor", 1))
    require_experts(model, numbers.get("expert", 1), numbers.get("expert_tensor", 1))
    require_stages(model, numbers.get("pipeline", 1), numbers.get("chunks", 1))
    sequence = _one(entries, "sequence", numbers.get("tensor", 1) != 1)
    if isinstance(sequence, int) and not isinstance(sequence, bool):
        said = f"must be true or false, not {sequence}; `batch.sequence` are the tokens of a sequence"
        raise ConfigError(said, entries.key("sequence"))
    parallel = Parallel(**numbers, sequence=sequence, shard_ranks=_one(entries, "shard_ranks"))
    data = _one(entries, "data", parallel.data)
    if isinstance(data, bool) or data != parallel.data:
        ways = f"{parallel.tensor} x {parallel.pipeline} x {parallel.context}"
        due = f"gpus / (tensor x pipeline x context) = {parallel.gpus} / ({ways}) = {parallel.data}"
        raise ConfigError(f"must be {due}, not {shown(data)}", entries.key("data"))
    return parallel


def _batch(value: Value, data: int | None) -> TokenBatch:
    """Return the batch; that of documents which are packed, where there are so many data-parallel ranks."""
    entries = section_entries(value, "batch")
    if "lengths" in entries:
        beside = next((key for key in BATCH if key != "lengths" and key in entries), None)
        if beside is not None:
            raise ConfigError("has no place beside `batch.lengths`, which say it", entries.key(beside))
        if data is None:
            said = "are for one layout: `pipesched tune` takes `sequence` and `global`"
            raise ConfigError(said, entries.key("lengths"))
        return packed(entries.plain("lengths"), data)
    sequence = entries.needed("sequence", "how many tokens a sequence has")
    size = entries.needed("global", "how many sequences a step has, over all GPUs")
    return TokenBatch(sequence, _one(entries, "micro", 1), size)


def _one(entries: Entries, key: str, default: Any = None) -> Any:
    """Return an entry; raise ConfigError for one that only a search takes."""
    plain = entries.plain(key)
    if plain == AUTO or isinstance(plain, list):
        what, form = AUTO if plain == AUTO else "a list of candidates", FORMS.get(key, "one number")
        raise ConfigError(f"is {what}: `pipesched tune` searches these; give {form}", entries.key(key))
    return plain if key in ("precision", "recompute", "shard") else entries.number(key, default)


def _training(value: Value) -> TrainingSetup:
    entries = section_entries(value, "training")
    given: dict[str, Any] = {key: entries.plain(key) for key in TRAINING if key not in READ_APART and key in entries}
    if (optimizer := entries.plain("optimizer")) is not None:
        given["optimizer"] = optimizer if isinstance(optimizer, str) else entries.number("optimizer")
    if (precision := _one(entries, "precision")) is not None:
        given["precision"] = precision
    level = _one(entries, "shard")
    require_agreement(entries, [level])
    recompute, layers = _one(entries, "recompute") if "recompute" in entries else "none", None
    if isinstance(recompute, dict):
        parts = Entries(entries.values["recompute"], entries.key("recompute"), (FULL,))
        recompute, layers = FULL, parts.needed(FULL, "of how many layers of each stage")
    layout = None if entries.plain("layout") in (AUTO, BEST) else entries.plain("layout")
    return TrainingSetup(**given, recompute=recompute, full_layers=layers, layout=layout, shard=level)


def require_agreement(training: Entries, levels: Iterable[str]) -> None:
    """Raise ConfigError where `distributed_optimizer` says something else of what is divided than one of the levels."""
    switch = training.plain("distributed_optimizer")
    said = SWITCHED[switch] if isinstance(switch, bool) else None
    other = next((level for level in levels if level in LEVELS and level != said), None)
    if said is not None and other is not None:
        what = f"{str(switch).lower()} is level {said}, not {other} as in `training.shard`: leave one of the two out"
        raise ConfigError(what, training.key("distributed_optimizer"))


def profile_of(training: Section, value: Value) -> Section:
    """Return the YAML file of shares that `training.efficiency` names. Raises ConfigError."""
    path = training.folder(value) / value.data
    with blame("training.efficiency"):
        text = read_text(path)
    return Section(parse_yaml(text, str(path)), str(path))
