"""Reading a space from a config: lists of candidates, `auto`, and what is the same for all points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pipesched.checks import require_name, require_sequence, require_whole, shown
from pipesched.config.derived import INSTEAD, require_place
from pipesched.config.estimate import require_training
from pipesched.config.load import algorithm_of, load_values, read_trust
from pipesched.config.values import Values
from pipesched.errors import ConfigError
from pipesched.estimation.derived import derive, side_static
from pipesched.estimation.hardware import PRECISIONS, require_precision
from pipesched.estimation.model_reader import MODELS, preset_names
from pipesched.estimation.setup import FULL, NONE, RECOMPUTES, SHARD_RANKS, TRAINING
from pipesched.estimation.setup_reader import read_unsized, require_agreement
from pipesched.pipeline.memory import KEPT
from pipesched.pipeline.messages import OF_FILE, read_messages
from pipesched.pipeline.quantities import to_fraction
from pipesched.pipeline.shapes import AUTO, only_numbers
from pipesched.pipeline.step import LEVELS
from pipesched.pipeline.units import TRAIN
from pipesched.pipeline.units_of_measure import MEMORY, Unit, exact_number, is_several
from pipesched.results.trainers import families_of
from pipesched.schedulers.registry import FAMILIES, family
from pipesched.text.given import located as located_value
from pipesched.text.sections import Entries, Section, located
from pipesched.text.yaml_reader import Value
from pipesched.tuning.space import FIELDS, OF_PRECISION, OF_SHARDS, Space, automatic

ABSENT = {  # other fields are searched
    "batch.micro": 1, "training.recompute": NONE, "parallel.expert_tensor": 1, SHARD_RANKS: None,
}  # fmt: skip
UNLIKE = ("speed", "links")  # of devices, which no point of a space has
EMPTY = Section(Value({}, 0))
SECTIONS = ("model", "hardware", "parallel", "batch", "training")


def read_space(
    config: Any,
    overrides: Mapping[str, Any],
    algorithms: Sequence[Any] | None = None,
    only: str | None = None,
    *,
    beyond: bool = False,
) -> Space:
    """Return the space of a config with overrides on top.

    `algorithms` are those to try; None: all that need no options. With `only` they are those that this trainer has.
    `beyond`: it reaches beyond what was measured, whatever the config says.

    Raises ConfigError that says where the value at fault stands.
    """
    values = load_values(config, overrides)
    if "model" in values:  # without one nothing is derived, which is said first
        require_place(values)
    for name in UNLIKE:
        if name in values and values[name].value is not None:
            what = "is not searched over: tune takes GPUs of one speed, linked as `hardware` says"
            raise located_value(ConfigError(what, name), values)
    sections = {name: values[name].value for name in SECTIONS if name in values}
    trust = read_trust(values["trust"].value if "trust" in values else None)
    try:
        space = _space(values, sections, algorithms, only)
        space = replace(space, beyond=beyond or trust.beyond, like=trust.like, fits=trust.fits, notes=_notes(values))
        _require_use(space)
    except ConfigError as error:
        others = {key: value for key, value in values.items() if key not in SECTIONS}
        raise located(located_value(error, others), sections) from None
    return space


def _notes(values: Values) -> tuple[str, ...]:
    """Return what to know of a space: options of an algorithm, which no point has, and side work, which all have."""
    asked, notes = algorithm_of(values), []
    if asked is not None and asked.options:
        said = "counts in no point: algorithms run with their usual options"
        notes.append(f"{', '.join(asked.options)} of `algorithm` {said}")
    if "side" in values and values["side"].value is not None:
        notes.append("`side` counts in each point as it is given: of a microbatch on a device, however large both are")
    return tuple(notes)


def _require_use(space: Space) -> None:
    """Raise ConfigError for a value beside the sections that no layout of the space can have."""
    messages = read_messages(space.given.get("messages"))
    if messages is not None and messages.order == OF_FILE:
        raise ConfigError("file: no point of a space is the plan of a file", "messages", entry="order")
    refused, tried = None, set[tuple[int, int]]()
    for layout in space.layouts() if set(space.given) - {"budget"} else ():
        size = layout.pipeline, layout.chunks
        if size in tried:
            continue
        try:
            setup = space.setup(layout)
        except ConfigError:
            continue
        tried.add(size)
        try:
            derive(setup, space.given)
        except ConfigError as error:
            if refused is None and error.key in space.given:
                refused = ConfigError(error.message, error.key, entry=error.entry)
        else:
            return
    if refused is not None:
        raise refused


def _space(
    values: Values, sections: Mapping[str, Section], algorithms: Sequence[Any] | None, only: str | None
) -> Space:
    several = [OF_PRECISION] if isinstance(_given(sections, OF_PRECISION), list) else []
    several += [OF_PRECISION] * (_given(sections, OF_PRECISION) == AUTO)
    beside = (*_of_shards(sections), *several)
    fixed = {name: _without_fields(name, section, beside) for name, section in sections.items()}
    unsized = read_unsized(fixed)
    model, hardware = unsized.model, unsized.hardware
    candidates = {
        field: _candidates(field, _entry(sections, field))
        or automatic(field, model, hardware, unsized.gpus, unsized.tokens)
        for field in (*FIELDS, *beside)
    }
    for precision in candidates.get(OF_PRECISION, (unsized.training.precision,)):
        require_precision(hardware, precision)
    tried = _every(values) if algorithms is None else _named(algorithms)
    left = tried if only is None else families_of(only, tried)
    if not left:
        raise ConfigError(f"{only} can run none of these: {', '.join(tried)}", "only")
    others = (*SECTIONS, *INSTEAD, "algorithm", "name", "trust")
    given = {key: one.value for key, one in values.items() if key not in others and one.value is not None}
    require_training(given.get("mode", TRAIN))
    for key in ("static", *KEPT):
        if key in given:
            raise ConfigError("is what each layout makes of it; leave it out", key)
    same = {key: value for key, value in unsized._asdict().items() if key != "notes"}
    return Space(
        **same,
        candidates=candidates,
        algorithms=tuple(dict.fromkeys(left)),
        given=given,
        name=str(values["name"].value) if "name" in values else "",
        sections={name: _as_given(name, section) for name, section in sections.items()},
        budget=_budget(given.get("budget")),
        beside=side_static(given),
        only=only,
    )


def _of_shards(sections: Mapping[str, Section]) -> tuple[str, ...]:
    """Return the fields of shards, none where no level is asked for."""
    level, ranks = OF_SHARDS
    given = _given(sections, level)
    if given is None:
        if _given(sections, ranks) is not None:
            raise ConfigError("has no effect without `training.shard`, which says what these ranks divide", ranks)
        return ()
    levels = _candidates(level, given) or LEVELS
    require_agreement(Entries(sections["training"].value, "training", [*TRAINING]), levels)
    return OF_SHARDS


def _budget(value: Any) -> Fraction | None:
    """Return the budget of every device in GB; None where none or one for each is given. Raises ConfigError."""
    if value is None or is_several(value):
        return None
    return to_fraction(exact_number("budget", value, Unit(MEMORY, "GB"), positive=True))


def _as_given(name: str, section: Section) -> Any:
    """Return a section as the config has it, but for names of files, which then hold wherever it is read from."""
    plain = section.value.plain()
    if name == "model" and isinstance(plain, str) and plain not in preset_names(MODELS):
        path = section.folder(section.value) / plain
        return str(path.resolve()) if path.exists() else plain
    if name == "training" and isinstance(plain, dict) and isinstance(plain.get("efficiency"), str):
        path = section.folder(section.value.data["efficiency"]) / plain["efficiency"]
        return {**plain, "efficiency": str(path.resolve())}
    return plain


def _every(values: Values) -> list[str]:
    """Return the names of all algorithms that need no options; those for slices where there are slices."""
    sliced = "slices" in values and values["slices"].value is not None
    known = [family(name) for name in FAMILIES]
    return [one.name for one in known if not one.required and (sliced or not one.same_without_slices)]


def _named(algorithms: Sequence[Any]) -> tuple[str, ...]:
    if not require_sequence(algorithms, "algorithms"):
        raise ConfigError("names none; `solve` goes on from the schedules of others", "algorithms")
    try:
        chosen = [family(name) for name in algorithms]
    except ConfigError as error:
        raise ConfigError(error.message, "algorithms") from None
    for one in chosen:
        if one.required:
            needed = " and ".join(f"`{key}`" for key in one.required)
            raise ConfigError(f"{one.name} needs {needed}, which a space does not have", "algorithms")
    return tuple(one.name for one in chosen)


def _without_fields(name: str, section: Section, beside: Sequence[str]) -> Section:
    """Return a section without the fields that are searched, which may hold lists."""
    data = section.value.data
    if name in ("model", "hardware") or not isinstance(data, dict):
        return section
    left = {key: value for key, value in data.items() if f"{name}.{key}" not in (*FIELDS, *beside)}
    return section._replace(value=Value(left, section.value.line))


def _entry(sections: Mapping[str, Section], field: str) -> Any:
    """Return what a config gives for a field; `auto` where it gives nothing and the field is searched by default."""
    given = _given(sections, field)
    return ABSENT.get(field, AUTO) if given is None else given


def _given(sections: Mapping[str, Section], field: str) -> Any:
    name, _, key = field.partition(".")
    data = sections.get(name, EMPTY).value.data
    value = data.get(key) if isinstance(data, dict) else None
    return None if value is None else value.plain()


def _candidates(field: str, plain: Any) -> tuple[Any, ...]:
    """Return the candidates that stand in a config, none for `auto`. Raises ConfigError about the field."""
    if plain == AUTO:
        return ()
    if plain is None:
        return (None,)
    listed = plain if isinstance(plain, list) else [plain]
    if not listed:
        raise ConfigError("lists no candidates; give some, or auto", field)
    if field == "training.recompute":
        return tuple(dict.fromkeys(_recompute(value) for value in listed))
    if field == OF_PRECISION:
        return tuple(dict.fromkeys(require_name(PRECISIONS, value, "precision", field) for value in listed))
    if field == "training.shard":
        return tuple(dict.fromkeys(require_name(LEVELS, value, "level", field) for value in listed))
    return tuple(dict.fromkeys(require_whole(only_numbers(value), field, least=1) for value in listed))


def _recompute(value: Any) -> Any:
    field = "training.recompute"
    if isinstance(value, Mapping):
        if list(value) != [FULL]:
            raise ConfigError(f"must be {', '.join(RECOMPUTES)} or {{full: N}}, not {shown(value)}", field)
        return require_whole(value[FULL], field, least=1)
    return require_name(RECOMPUTES, value, "recompute", field)
