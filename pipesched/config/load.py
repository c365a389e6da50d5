"""Loading: `load_config` makes the Problem of a config or its text, `imported_problem` that of a foreign schedule.

Overrides, from Python or options, stand on top. `values.py` reads values, `derived.py` derives those of a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.checks import shown
from pipesched.config import values as config_values
from pipesched.config.values import Source, Values, rounding_note
from pipesched.errors import ConfigError, Given, blame, located
from pipesched.pipeline.layers.layers import WORK, rows_of
from pipesched.pipeline.layers.recut import can_be_cut, fitted_to, seeks_best
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.problem.declared import SETUP_NAMES
from pipesched.pipeline.problem.placement import PLACEMENTS, Placement
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import count_of, is_several
from pipesched.pipeline.problem.units import Sizes

if TYPE_CHECKING:
    from pipesched.config.derived import TrustSection
    from pipesched.config.values import Algorithm
    from pipesched.estimation.setup import Setup


class Choices(NamedTuple):
    """The numbers of chunks to choose from, and the name of the placement of each, if it is given."""

    chunks: tuple[int, ...] | None = None
    placement: str | None = None


def take_choices(values: Values) -> Choices:
    """Return what is left to a solve; of values only the first number of chunks stays. Raises ConfigError."""
    given = values.get("chunks")
    listed: Any = None
    if given is not None:
        listed = given.value
    elif "parallel" in values and isinstance(entries := values["parallel"].value.value.data, dict):
        listed = entries["chunks"].plain() if "chunks" in entries else None
    if not is_several(listed):
        return Choices()
    try:
        counts = tuple(count_of("chunks", count) for count in listed)
        if not counts:
            raise ConfigError("must name at least one number of stages a device", "chunks")
    except ConfigError as error:
        raise located(error, values) from None
    if given is not None:
        values["chunks"] = given._replace(value=counts[0])
    else:
        from pipesched.text.sections import merged

        below = values["parallel"]
        values["parallel"] = below._replace(value=merged(below.value, {"chunks": counts[0]}, "parallel"))
    named = values.get("placement")
    if len(counts) > 1 and named is not None and isinstance(named.value, str) and named.value in PLACEMENTS:
        del values["placement"]
        return Choices(counts, named.value)
    return Choices(counts)


class Config(NamedTuple):
    """What a config says: the problem, and the algorithm that it asks for, if any.

    `assumes_halves`: the backward was given whole, and not by the built-in default, so its halves are not measured.
    `setup` is the training run that the problem was derived from, if it was. Its `notes` say what to know of that;
    `rounded` says which numbers had too many digits, if some had. `trust` is what its section of that name says;
    `choices` is what it leaves to a solve. `assumes_alike_memory`: the work of microbatches differs, and what they hold
    is not said.
    """

    problem: Problem
    algorithm: Algorithm | None
    assumes_halves: bool = False
    setup: Setup | None = None
    notes: tuple[str, ...] = ()
    rounded: str | None = None
    trust: TrustSection | None = None
    choices: Choices = Choices()
    assumes_alike_memory: bool = False


def load(path_or_text: str | Path | None = None, **overrides: Any) -> Problem:
    """Read the problem of a config.

    Args:
        path_or_text: The name of a YAML file, or its text; None is the built-in default: 4 devices, two stages a
            device, 8 microbatches, forward 5, backward 10.
        **overrides: Values that replace those of the config, by the parameters of `make_problem`: `microbatches=16`,
            `forward=[1, 1, 2, 1]`. One way of giving the backward replaces the other. Sections from which a problem is
            derived are mappings, merged into those of the config: `model="llama-3-8b"`, `parallel={"tensor": 4}`.

    Raises:
        ConfigError: For a file that cannot be read, an unknown key, or a bad value; it says where the value stands, or
            its `key` is the override at fault.
    """
    return load_config(path_or_text, overrides).problem


def load_config(config: str | Path | Source | None, overrides: Mapping[str, Any], *, chooses: bool = False) -> Config:
    """Return the problem, as `load` does, and the algorithm; `chooses`: of several chunks the first counts."""
    values = load_values(config, overrides)
    choices = take_choices(values) if chooses and values.keys() & {"chunks", "parallel"} else Choices()
    setup, trust = None, None
    notes: tuple[str, ...] = ()
    if values.keys() & SETUP_NAMES:
        from pipesched.config.derived import derived_problem, read_trust

        problem, setup, notes = derived_problem(values)
        trust = read_trust(values["trust"].value if "trust" in values else None)
    else:
        problem = config_values.problem_of(values)  # which refuses what is no number
    sizes = values["sizes"].value if "sizes" in values else None
    is_said = isinstance(sizes, Sizes) or (isinstance(sizes, Mapping) and sizes.get("activation") is not None)
    factors = 1 if problem.sizes is None else len({*problem.sizes.work})
    works = factors > 1 or any(rows_of(getattr(problem.costs, key)) > 1 for key in WORK)
    alike = works and not is_said and rows_of(problem.memory.activation) == 1
    own = {name: given for name, given in values.items() if not given.built_in}
    halves, rounded = (config_values.assumes_halves(own), rounding_note(own)) if own else (False, None)
    return Config(problem, algorithm_of(values), halves, setup, notes, rounded, trust, choices, alike)


def load_values(config: str | Path | Source | None, overrides: Mapping[str, Any]) -> Values:
    """Return what a config or the built-in default gives, with overrides on top. Raises ConfigError."""
    if config is not None and not isinstance(config, (str, Path, Source)):
        raise ConfigError(f"must be the name of a file, or YAML, not {shown(config)}", "path_or_text")
    try:
        source = config_values.source_of(config) if isinstance(config, (str, Path)) else config
    except ConfigError as error:
        raise error.about("path_or_text") from None
    # what is wrong in a file names it and the line
    values = dict(config_values.BUILT_IN) if source is None else config_values.values_of(source)
    if overrides:
        config_values.override(values, overrides)
    return values


def algorithm_of(values: Values) -> Algorithm | None:
    """Return the algorithm that a config asks for, if any."""
    algorithm: Algorithm | None = values["algorithm"].value if "algorithm" in values else None
    return algorithm


SIZES = ("devices", "stages", "microbatches")


class ImportedProblem(NamedTuple):
    """The problem of a foreign plan, and the same before its stages were fused to those of the plan."""

    fitted: Problem
    given: Problem


def imported_problem(
    plan: Plan, placement: Placement, config: str | Path | Source | None, overrides: Mapping[str, Any], file: str
) -> ImportedProblem:
    """Return the problem of `plan` under the costs of a config with overrides (None: the built-in default's costs).

    Devices, microbatches and placement of the config must agree with `file`. The config's stages may be a multiple of
    the file's, to which they are then fused, as for every algorithm. Raises ConfigError.
    """
    if config is None:
        values = {name: given for name, given in config_values.BUILT_IN.items() if name not in SIZES}
        config_values.override(values, overrides)
    else:
        values = load_values(config, overrides)
    if values.keys() & SETUP_NAMES:
        from pipesched.config.derived import derived_problem

        problem, setup, _ = derived_problem(values)
        for name, key in {"devices": "parallel.pipeline", "microbatches": "batch.global"}.items():
            size, own = _sizes(plan)[name], getattr(problem, name)
            if size != own:
                raise ConfigError(f"{setup.name} has {own} {name}, but {file} has {size}", key)
        return _fitted(plan, problem, placement, values, file)
    is_open = {"layers", "layer", "chunks", "layout"} & {*values}  # the stages are known once there is a problem
    for name, size in _sizes(plan).items():
        if name != "stages" or not is_open:
            _require_agreement(values.setdefault(name, Given(size)), name, size, file)
        elif config_values.counts_blocks(values):  # whose number is not that of the stages that they are cut into
            values.setdefault(name, Given(size))
    problem = config_values.problem_of(values)
    if not can_be_cut(problem):
        _require_agreement(Given(problem.stages), "stages", plan.index.stages, file)
    return _fitted(plan, problem, placement, values, file)


def timed_by(plan: Plan, placement: Placement, problem: Problem, file: str) -> ImportedProblem:
    """Return the problem of `plan` with the costs of `problem`, whose sizes must agree with it. Raises ConfigError."""
    for name, size in _sizes(plan).items():
        if name == "stages" and can_be_cut(problem):
            continue
        with blame("problem"):
            _require_agreement(Given(getattr(problem, name)), name, size, file)
    return _fitted(plan, problem, placement, {}, file)


def _sizes(plan: Plan) -> dict[str, int]:
    return {"devices": len(plan.orders), "stages": plan.index.stages, "microbatches": plan.index.microbatches}


def _fitted(plan: Plan, given: Problem, placement: Placement, values: Values, file: str) -> ImportedProblem:
    """Return the problem with as many stages as the plan, and the given one, whose placement must be the file's."""
    rule = given.slices.rule
    fitted = fitted_to(given if rule is None else replace(given, slices=rule.slices(plan.index.slices)), placement)
    if seeks_best(fitted) and fitted.stages > 1 and not (fitted.has_step or plan.index.scoped):
        from pipesched.results.best_cut import best_cut_of

        fitted = best_cut_of(fitted, plan)
    if given.placement is None:
        return ImportedProblem(fitted, given)
    actual = placement.in_blocks(given.stages)
    if given.placement != actual:
        what = f"{file} has its stages on devices {actual.said}, not {given.placement.said}"
        raise located(ConfigError(what, "placement"), values)
    return ImportedProblem(fitted, given)


def _require_agreement(given: Given, name: str, size: int, file: str) -> None:
    """Raise ConfigError for a size that is not the file's; what is no number is left to the checks of the problem."""
    if not isinstance(given.value, int):
        return
    agrees = given.value % size == 0 and given.value > 0 if name == "stages" else given.value == size
    if not agrees:
        raise ConfigError(f"{given.value} {name}, but {file} has {size}", name, where=given.where)
