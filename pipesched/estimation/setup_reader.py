"""Reading a training run from the sections of a config: model, hardware, parallel, batch, training.

A GPU is the name of a preset, or a mapping of its numbers, which a preset may fill; shares of them stand beside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from decimal import Decimal
from typing import Any, NamedTuple

from pipesched.checks import require_number, require_whole, shown
from pipesched.errors import ConfigError, blame
from pipesched.estimation.hardware import (
    COUNTS,
    EFFICIENCIES,
    FP32,
    GEMM,
    NUMBERS,
    OTHERS,
    PRECISIONS,
    Efficiency,
    GpuModel,
)
from pipesched.estimation.model import ModelShape, require_experts, require_stages, require_tensor
from pipesched.estimation.model_reader import HARDWARE, preset, preset_names, presets, read_model_section
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
from pipesched.pipeline.problem.quantities import MEMORY, Unit, has_unit, plain, read_number
from pipesched.pipeline.problem.shapes import AUTO, Field, OneOf
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
    if hardware.has_relative:
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
    """Return an entry, or the default. Raises ConfigError for candidates of a search."""
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


NEEDED = {
    "tflops": "the peak of dense 16-bit products, in TFLOP/s",
    "memory": "in GB",
    "bandwidth": "of its memory, in GB/s",
}
USUAL = {"pcie": 32, "nic": 25}  # PCIe 4 x16, and a network of 200 Gbit/s a GPU
KEYS = {
    "preset": Field("hardware.preset", OneOf(*preset_names(HARDWARE)), "the GPU whose numbers others replace"),
    **NUMBERS,
}
TYPICAL = Efficiency(  # of a GPU of which nothing is known
    gemm_forward=0.6, gemm_input=0.6, gemm_weight=0.65, core=0.35, unfused=0.3, memory=0.7, network=0.7,
    kernel=8, latency=0.1, tensor_exposed=0.4, data_exposed=0.3,
)  # fmt: skip
MAPPING = f"; or a mapping of {', '.join(NUMBERS)} (`preset` fills what it leaves out)"


def read_hardware(value: Value) -> GpuModel:
    """Return the GPU that the section `hardware` describes. Raises ConfigError about the key at fault."""
    if not isinstance(value.data, dict):
        return preset_hardware(value.plain())
    entries = Entries(value, "hardware", [*KEYS])
    given = {key: _number(entries, key) for key in NUMBERS if key in entries}
    if "preset" in entries:
        base = preset_hardware(entries.plain("preset"), "hardware.preset", "")
        known = {field: getattr(base, field) for field in (*NUMBERS, *OTHERS)}
        return _gpu({**known, **given})
    for key, what in NEEDED.items():
        entries.needed(key, f"{what}; or give a `preset`")
    return _gpu({"name": "GPU", "efficiency": TYPICAL, **USUAL, **given})


def hardware_rows() -> Iterator[dict[str, Any]]:
    """Yield an object for each GPU: its numbers, the shares of them that training reaches, and the sources."""
    for found in presets(HARDWARE):
        yield {**asdict(preset_hardware(found.name)), "source": found.sources}


def preset_hardware(name: object, key: str = "hardware", rest: str = MAPPING) -> GpuModel:
    """Return the GPU of a name. Raises ConfigError, about `key`, for an unknown one; `rest` says what else may be."""
    found = preset(HARDWARE, name, key, rest)
    entries = found.value.data
    given = {key: entries[key].data for key in (*NUMBERS, "fitted_on") if key in entries}
    given = {key: float(value) if isinstance(value, Decimal) else value for key, value in given.items()}
    shares = read_efficiency(entries.get("efficiency", Value({}, 0)), f"{found.name}.efficiency")
    return _gpu({"name": found.name, "efficiency": shares, **given})


def _gpu(keys: dict[str, Any]) -> GpuModel:
    try:
        return GpuModel(**keys)
    except ConfigError as error:
        raise ConfigError(error.message, f"hardware.{error.key}") from None


def _number(entries: Entries, key: str) -> Any:
    """Return a number as it was given; memory may be `80GB`."""
    value = entries.number(key)
    if key == "memory" and has_unit(value):
        return plain(read_number(value, Unit(MEMORY, "GB"), entries.key(key)))
    return value if key in COUNTS else require_number(value, entries.key(key))


def read_efficiency(value: Value, prefix: str, below: Efficiency = TYPICAL) -> Efficiency:
    """Return shares as they are written at the dotted key `prefix`, those left out from `below`. Raises ConfigError."""
    entries = Entries(value, prefix, EFFICIENCIES)
    gemm, numbers = entries.values.get("gemm"), dict[str, float]()
    if gemm is not None and isinstance(gemm.data, dict):
        parts = Entries(gemm, entries.key("gemm"), tuple(GEMM))
        numbers = {GEMM[part]: _share(parts, part) for part in parts.values}
    elif gemm is not None:
        numbers = dict.fromkeys(GEMM.values(), _share(entries, "gemm"))
    numbers |= {key: _share(entries, key) for key in EFFICIENCIES if key != "gemm" and key in entries}
    try:
        return replace(below, **numbers)
    except ConfigError as error:
        written = {} if gemm is None else {name: f"gemm.{part}" for part, name in GEMM.items()}
        if gemm is not None and not isinstance(gemm.data, dict):
            written = dict.fromkeys(written, "gemm")
        key = str(error.key)
        raise ConfigError(error.message, entries.key(key if key in entries else written.get(key, key))) from None


def _share(entries: Entries, key: str) -> float:
    return require_number(entries.number(key), entries.key(key))
