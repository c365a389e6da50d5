"""The problem of a config with a section `model`, derived from its model and GPUs, in ms and GB.

`derived_problem` is where one begins: it moves overrides into the sections that they belong to, reads these as a Setup,
and derives. A value with `where` None is such an override, from Python or an option; others stand in the config.
`read_trust`, apart from it, reads the section `trust`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipesched.checks import require_flag, require_name
from pipesched.errors import ConfigError, Given, located
from pipesched.estimation.derived import derive
from pipesched.estimation.setup import SIZES, Setup
from pipesched.estimation.setup_reader import ReadSetup, read_setup
from pipesched.estimation.trust.evidence import evidence_base
from pipesched.pipeline.layers.layers import BALANCED, BEST, EQUAL
from pipesched.pipeline.layers.layout_text import looks_like_text
from pipesched.pipeline.problem.declared import SETUP_NAMES
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.shapes import Flag, Label, OneOf, declare, declared
from pipesched.text.sections import Entries, Section, Sections, located as located_in_sections, merged

UNITS = {"time_unit": "ms", "unit": "GB"}
INSTEAD = {  # parameter of make_problem -> what to give where its value is derived
    "devices": "give `parallel.pipeline`",
    "stages": "give `parallel.chunks`, the stages of a device",
    "chunks": "give `parallel.chunks`",
    "layers": "`model` has them",
    "layer": "`model` has its costs; keys of costs and memory replace those of the stages",
    "first": "`model` has the embedding",
    "last": "`model` has the head",
    "mtp": "`model` has its own MTP layers",
    "layout": "give `training.layout`",
    "time_unit": "derived times are in ms",
    "unit": "derived memory is in GB",
}


def derived_problem(values: Mapping[str, Given]) -> tuple[Problem, Setup, tuple[str, ...]]:
    """Return the problem of values that describe a training run, that run, and notes about it. Raises ConfigError."""
    values = _with_sharding_in_sections(values)
    sections = _sections(values)
    setup, notes = _read(values, sections)
    given = {name: value.value for name, value in values.items() if name not in (*SETUP_NAMES, *INSTEAD, "algorithm")}
    try:
        problem = derive(setup, given)
    except ConfigError as error:
        if error.key in given:  # of a NotApplicable too: the fault is that value, not what an algorithm can do
            error = ConfigError(error.message, error.key, entry=error.entry, where=error.where)
        raise located_in_sections(located(error, values), sections) from None
    return problem, setup, notes


def setup_notes(values: Mapping[str, Given]) -> tuple[str, ...]:
    """Return what to know of a problem that is derived from these values. Raises ConfigError."""
    values = _with_sharding_in_sections(values)
    return _read(values, _sections(values)).notes


def _with_sharding_in_sections(values: Mapping[str, Given]) -> Mapping[str, Given]:
    """Return values with an override `shard={level, ranks}` as `training.shard` and `parallel.shard_ranks`."""
    given = values.get("shard", Given(None))
    entries = {"level": given.value} if isinstance(given.value, str) else given.value
    if given.where is not None or not isinstance(entries, Mapping):
        return values
    found, left = {**values}, {**entries}
    for key, (section, name) in {"level": ("training", "shard"), "ranks": ("parallel", "shard_ranks")}.items():
        if key in left and key not in given.inside:  # which has the entries that stand in the config
            below = found[section].value if section in found else None
            found[section] = Given(merged(below, {name: left.pop(key)}, section))
    del found["shard"]
    return {**found, "shard": given._replace(value=left)} if left else found


def _read(values: Mapping[str, Given], sections: Sections) -> ReadSetup:
    """Return the training run; its first note says from what the problem is derived."""
    require_place(values)
    name = values["name"].value if "name" in values else ""
    setup, notes = read_setup(sections, str(name))
    parallel, batch = setup.parallel, setup.batch
    ways = {key: getattr(parallel, key) for key in (*(key for key in SIZES if key != "chunks"), "data")}
    layout = ", ".join(f"{key} {size}" for key, size in ways.items() if size > 1)
    what = f"{setup.model.name} on {parallel.gpus} {setup.hardware.name} ({layout or 'no parallelism'})"
    step = f"{batch.size} sequences of {batch.sequence} a step"
    if batch.lengths is not None:
        step = f"{len(batch.lengths)} microbatches of packed documents, {sum(batch.totals):,} tokens of a rank"
    said = f"costs and memory are estimated: {what}, {step}; `pipesched estimate` shows them"
    return ReadSetup(setup, (said, *notes))


def _sections(values: Mapping[str, Given]) -> Sections:
    """Return the sections, with overrides `chunks` as `parallel.chunks` and `layout` as `training.layout`."""
    sections: dict[str, Section] = {name: values[name].value for name in SETUP_NAMES if name in values}
    if "chunks" in values and values["chunks"].where is None:
        sections["parallel"] = merged(sections.get("parallel"), {"chunks": values["chunks"].value}, "parallel")
    if _overrides_layout(values):
        sections["training"] = merged(sections.get("training"), {"layout": values["layout"].value}, "training")
    return sections


def _overrides_layout(values: Mapping[str, Given]) -> bool:
    """Return whether an override gives a layout that can be one of `training`: a rule, or Megatron's text."""
    if "layout" not in values or values["layout"].where is not None:
        return False
    return values["layout"].value in (None, BEST, BALANCED, EQUAL) or looks_like_text(values["layout"].value)


def require_place(values: Mapping[str, Given]) -> None:
    """Raise ConfigError for a value that is derived, and cannot be given too."""
    for name, instead in INSTEAD.items():
        given = values.get(name)
        if given is None or (name in UNITS and given.value == UNITS[name]):
            continue
        is_of_a_section = _overrides_layout(values) if name == "layout" else name == "chunks" and given.where is None
        if not is_of_a_section:
            raise located(ConfigError(f"has no place beside `model`: {instead}", name), values)


FITS = ("sure", "likely")  # by the upper end of the interval of its memory, or by the estimate


@dataclass(frozen=True)
class TrustSection:
    """What a config says of trust, in the section of that name."""

    like: str | None = declare(
        Label(), "the source of published runs whose software and cluster are like one's own", None
    )
    beyond: bool = declare(Flag(), "whether tune looks beyond what was measured; default false", False)
    fits: str = declare(
        OneOf(*FITS), "whether what tune finds first must surely fit (default), or likely, by its estimate", "sure"
    )


def read_trust(section: Section | None) -> TrustSection:
    """Return what the section says. Raises ConfigError that says where the value at fault stands."""
    if section is None:
        return TrustSection()
    try:
        entries = Entries(section.value, "trust", [*declared(TrustSection, "trust")])
        like = entries.plain("like")
        if like is not None:
            known = dict.fromkeys([*evidence_base().sources, *evidence_base(low=True).sources])
            require_name(known, like, "source of published runs", "trust.like")
        beyond = require_flag(entries.plain("beyond", False), "trust.beyond")
        fits = require_name(FITS, entries.plain("fits", FITS[0]), "way to fit", "trust.fits")
        return TrustSection(like, beyond, fits)
    except ConfigError as error:
        raise located_in_sections(error, {"trust": section}) from None
