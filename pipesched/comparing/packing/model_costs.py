"""The costs of documents for a model on GPUs: its stages estimated at the cap, the core of attention apart."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from pipesched.errors import ConfigError
from pipesched.estimation.core_times import core_time
from pipesched.estimation.derived import SetupCutter
from pipesched.estimation.items import Stage
from pipesched.estimation.terms import PER_MS
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import to_fraction
from pipesched.pipeline.recut import recut
from pipesched.results.document_costs import ModelCosts
from pipesched.schedulers.family import Family, prepare

KEYS = ("forward", "backward_input", "backward_weight", "recompute")


def is_of_model(problem: Problem) -> bool:
    """Return whether the costs of a problem are derived from a model."""
    return isinstance(problem.cutter, SetupCutter)


def model_costs(problem: Problem, chosen: Family, cap: int) -> tuple[Problem, ModelCosts]:
    """Return the problem of a model for one document of `cap` tokens, cut for an algorithm, and what documents cost.

    A time that was given in place of the model's own grows with the tokens alone. Raises ConfigError about `cap` for
    more tokens than the model takes.
    """
    cutter = problem.cutter
    assert isinstance(cutter, SetupCutter)
    try:
        setup = replace(cutter.setup, batch=replace(cutter.setup.batch, sequence=cap, micro=1))
    except ConfigError as error:
        raise ConfigError(error.message, "cap") from None
    whole = replace(problem, cutter=replace(cutter, setup=setup), placement=None)
    fitted = prepare(whole, chosen) if problem.placement is None else recut(whole, problem.placement, chosen.name)
    fitted = prepare(fitted, chosen)
    assert isinstance(fitted.cutter, SetupCutter)
    stages, given = fitted.cutter.stages, {*cutter.replaced}
    linear, core = dict[str, tuple[Fraction, ...]](), dict[str, tuple[Fraction, ...]]()
    for key in KEYS:
        own = not given & ({key, "backward"} if key.startswith("backward") else {key})
        times = [*map(to_fraction, getattr(fitted.costs, key))]
        core[key] = tuple(_core(stage, key) if own else Fraction(0) for stage in stages)
        linear[key] = tuple(time - part for time, part in zip(times, core[key], strict=True))
    plain = replace(fitted, cutter=None, layers=None, costs=replace(fitted.costs, overlap=None))
    return plain, ModelCosts(cap, linear, core)


def _core(stage: Stage, key: str) -> Fraction:
    return Fraction(core_time(stage, key), PER_MS)
