"""The problem of a schedule that another program wrote: its own sizes and placement, with the costs of a config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pipesched.config.load import Given, default_values, override, problem_of, read_config
from pipesched.errors import ConfigError
from pipesched.pipeline.fuse import fuse
from pipesched.pipeline.placement import Placement
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import shown


def imported_problem(
    plan: Plan, placement: Placement, path: str | None, overrides: Mapping[str, str], source: str
) -> tuple[Problem, Problem]:
    """The problem of `plan` under the costs of a config with options on top (None: the built-in default's costs), and
    the same before it was fused.

    What the config says of devices, stages, microbatches and placement must agree with the file `source`; of a multiple
    of its stages, each is a group of that many, as in every algorithm. Raises ConfigError.
    """
    sizes = {
        "devices": len(plan.orders),
        "stages": plan.index.stages,
        "microbatches": plan.index.microbatches,
    }
    values = read_config(path) if path is not None else default_values()
    if path is None:
        values = {name: given for name, given in values.items() if name not in sizes}
    override(values, overrides)
    for name, size in sizes.items():
        _require_agreement(name, size, values.setdefault(name, Given(size, source)), source)
    given = problem_of(values)
    fitted = replace(fuse(given, plan.index.stages), placement=placement)
    _require_placement(given, fitted, values, source)
    return fitted, given


def _require_agreement(name: str, size: int, given: Given, source: str) -> None:
    """A size of the config must be that of the file. What is no number is for the problem to refuse."""
    if not isinstance(given.value, int):
        return
    agrees = given.value % size == 0 and given.value > 0 if name == "stages" else given.value == size
    if not agrees:
        raise ConfigError(f"{given.where}: {given.value} {name}, but {source} has {size}")


def _require_placement(given: Problem, fitted: Problem, values: Mapping[str, Given], source: str) -> None:
    """A placement that the config spells out must be the one in the file."""
    if given.placement is None:
        return
    size = given.stages // fitted.stages
    found = tuple(home for home in fitted.home().devices for _ in range(size))
    if given.placement.mirrored or given.placement.devices != found:
        raise ConfigError(
            f"{values['placement'].where}: {source} has its stages on devices {shown(found)}, not"
            f" {shown(given.placement.devices)}{' in both directions' * given.placement.mirrored}"
        )
