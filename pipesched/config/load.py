"""Loading the Problem of a config, a file or its text, with overrides on top."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.checks import shown
from pipesched.config.choices import Choices, take_choices
from pipesched.config.rounding import rounding_note
from pipesched.config.trust_section import TrustSection, read_trust
from pipesched.config.values import (
    Source,
    Values,
    assumes_alike_memory,
    assumes_halves,
    has_setup,
    override,
    problem_of,
    source_of,
    values_of,
)
from pipesched.errors import ConfigError
from pipesched.pipeline.problem import Problem

if TYPE_CHECKING:
    from pipesched.config.algorithm import Algorithm
    from pipesched.estimation.setup import Setup


class Config(NamedTuple):
    """What a config says: the problem, and the algorithm that it asks for, if any.

    `assumes_halves`: the backward was given whole, and not by the built-in default, so its halves are not measured.
    `setup` is the training run that the problem was derived from, if it was, and `notes` say what to know of that;
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
    trust: TrustSection = TrustSection()
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
    """Return the problem, as `load` does, and the algorithm that the config asks for, if any. Raises ConfigError.

    `chooses`: there may be several numbers of chunks, of which the problem has the first.
    """
    values = load_values(config, overrides)
    choices = take_choices(values) if chooses else Choices()
    if not has_setup(values):
        problem = problem_of(values)  # which refuses what is no number
        rounded = rounding_note(values)
        alike = assumes_alike_memory(values, problem)
        return Config(
            problem,
            algorithm_of(values),
            assumes_halves(values),
            rounded=rounded,
            choices=choices,
            assumes_alike_memory=alike,
        )
    from pipesched.config.derived import derived

    problem, setup, notes = derived(values)
    trust = read_trust(values["trust"].value if "trust" in values else None)
    halves, rounded, alike = assumes_halves(values), rounding_note(values), assumes_alike_memory(values, problem)
    return Config(problem, algorithm_of(values), halves, setup, notes, rounded, trust, choices, alike)


def load_values(config: str | Path | Source | None, overrides: Mapping[str, Any]) -> Values:
    """Return what a config or the built-in default gives, with overrides on top. Raises ConfigError."""
    if config is not None and not isinstance(config, (str, Path, Source)):
        raise ConfigError(f"must be the name of a file, or YAML, not {shown(config)}", "path_or_text")
    try:
        source = source_of(config) if isinstance(config, (str, Path)) else config
    except ConfigError as error:
        raise error.about("path_or_text") from None
    values = values_of(source)  # what is wrong there names the file and the line
    override(values, overrides)
    return values


def algorithm_of(values: Values) -> Algorithm | None:
    """Return the algorithm that a config asks for, if any."""
    algorithm: Algorithm | None = values["algorithm"].value if "algorithm" in values else None
    return algorithm
