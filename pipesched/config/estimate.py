"""The estimate of a config: what a model on GPUs costs and holds, and how long its step takes under an algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipesched.config.load import Config
from pipesched.errors import ConfigError
from pipesched.estimation.changes import FittingChange, changes_that_fit
from pipesched.estimation.derived import SetupCutter, budget_of, outline, side_static, with_budget
from pipesched.estimation.items import GB
from pipesched.estimation.result import Estimate
from pipesched.estimation.setup import Setup
from pipesched.pipeline.quantities import to_fraction
from pipesched.pipeline.units import FORWARD_ONLY
from pipesched.results.outcome import run

DEFAULTS = ("1f1b", "interleaved")  # with one stage a device, and with several


def estimate_of(
    config: Config, algorithm: str | Callable[..., Any] | None = None, *, whole: bool = False, **options: Any
) -> Estimate:
    """Return the estimate of a config that was read, without how sure it is. `options` are those of the algorithm.

    Raises ConfigError for a config without a model, and NotApplicable.
    """
    setup = config.setup
    if not isinstance(setup, Setup):
        raise ConfigError("is missing; `estimate` derives costs and memory from a model: model: llama-3-8b", "model")
    require_training(config.problem.mode)
    notes = config.notes[1:]  # the first says that there is an estimate
    if config.algorithm is not None:
        asked = config.algorithm.or_named(algorithm, options)
        with asked.located():
            return Estimate(run(config.problem, asked.name, **asked.options), whole, notes, asked.options)
    name = algorithm or default_algorithm(setup)
    return Estimate(run(config.problem, name, **options), whole, notes, options)


def require_training(mode: str) -> None:
    """Raise ConfigError for forward passes alone: speed, memory and evidence of an estimate are those of training."""
    if mode == FORWARD_ONLY:
        what = "estimates are of steps of training; `run` schedules forward passes alone"
        raise ConfigError(f"must be train: {what}", "mode")


def default_algorithm(setup: Setup) -> str:
    """Return what schedules a pipeline where nothing is asked for."""
    return DEFAULTS[setup.parallel.chunks > 1]


def changes(estimate: Estimate) -> list[FittingChange]:
    """Return the three fastest changes of an estimate's setup with which it fits; none where it does already."""
    if estimate.fits:
        return []
    cutter = estimate.problem.cutter
    replaced = dict(cutter.replaced) if isinstance(cutter, SetupCutter) else {}
    limits = set(estimate.problem.memory.budget or ())
    given = to_fraction(limits.pop()) if len(limits) == 1 else None  # one for each device says nothing of other layouts
    if given not in (None, budget_of(estimate.setup)):
        replaced["budget"] = given

    def again(setup: Setup) -> Estimate:
        asked = estimate.outcome.algorithm
        name = default_algorithm(setup) if asked in DEFAULTS else asked
        options = estimate.options if name == asked else {}
        return Estimate(run(outline(setup, replaced), name, **options), estimate.whole)

    return changes_that_fit(with_budget(estimate.setup, given), again, side_static(replaced) * GB)
