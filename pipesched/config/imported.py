"""The problem of a schedule that another program wrote: its sizes and placement, with the costs of a config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pipesched.checks import shown
from pipesched.config.load import load_values
from pipesched.config.values import Source, Values, counts_blocks, default_values, has_setup, override, problem_of
from pipesched.errors import ConfigError
from pipesched.pipeline.placement import Placement
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.recut import can_be_cut, fitted_to
from pipesched.text.given import Given, located

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
        values = {name: given for name, given in default_values().items() if name not in SIZES}
        override(values, overrides)
    else:
        values = load_values(config, overrides)
    if has_setup(values):
        return _of_setup(plan, placement, values, file)
    is_open = not {"layers", "layer", "chunks", "layout"}.isdisjoint(
        values
    )  # the stages are known once there is a problem
    for name, size in _sizes(plan).items():
        if name != "stages" or not is_open:
            _require_agreement(values.setdefault(name, Given(size)), name, size, file)
        elif counts_blocks(values):  # whose number is not that of the stages that they are cut into
            values.setdefault(name, Given(size))
    problem = problem_of(values)
    if not can_be_cut(problem):
        _require_agreement(Given(problem.stages), "stages", plan.index.stages, file)
    return _fitted(plan, problem, placement, values, file)


def _of_setup(plan: Plan, placement: Placement, values: Values, file: str) -> ImportedProblem:
    """Return the problem of `plan` under the costs that are derived from a training run. Raises ConfigError."""
    from pipesched.config.derived import derived

    problem, setup, _ = derived(values)
    keys = {"devices": "parallel.pipeline", "microbatches": "batch.global"}
    for name, key in keys.items():
        size, own = _sizes(plan)[name], getattr(problem, name)
        if size != own:
            raise ConfigError(f"{setup.name} has {own} {name}, but {file} has {size}", key)
    return _fitted(plan, problem, placement, values, file)


def timed_by(plan: Plan, placement: Placement, problem: Problem, file: str) -> ImportedProblem:
    """Return the problem of `plan` with the costs of `problem`, whose sizes must agree with it. Raises ConfigError."""
    for name, size in _sizes(plan).items():
        if name == "stages" and can_be_cut(problem):
            continue
        try:
            _require_agreement(Given(getattr(problem, name)), name, size, file)
        except ConfigError as error:
            raise ConfigError(error.message, "problem") from None
    return _fitted(plan, problem, placement, {}, file)


def _sizes(plan: Plan) -> dict[str, int]:
    return {"devices": len(plan.orders), "stages": plan.index.stages, "microbatches": plan.index.microbatches}


def _fitted(plan: Plan, given: Problem, placement: Placement, values: Values, file: str) -> ImportedProblem:
    rule = given.slices.rule
    fitted = fitted_to(given if rule is None else replace(given, slices=rule.slices(plan.index.slices)), placement)
    if given.placement is None:
        return ImportedProblem(fitted, given)
    actual = placement.in_blocks(given.stages)
    if given.placement != actual:
        error = ConfigError(
            f"{file} has its stages on devices {shown(actual.devices)}, not"
            f" {shown(given.placement.devices)}{' in both directions' * given.placement.mirrored}",
            "placement",
        )
        raise located(error, values)
    return ImportedProblem(fitted, given)


def _require_agreement(given: Given, name: str, size: int, file: str) -> None:
    """Raise ConfigError for a size that is not the file's; what is no number is left to the checks of the problem."""
    if not isinstance(given.value, int):
        return
    agrees = given.value % size == 0 and given.value > 0 if name == "stages" else given.value == size
    if not agrees:
        raise ConfigError(f"{given.value} {name}, but {file} has {size}", name, where=given.where)
