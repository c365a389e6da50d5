"""Recompute and offload as options of every family: the stages that each of them gets.

`full` is all stages, a number that many of the first, whose activations are held longest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pipesched.errors import ConfigError, NotApplicable
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family
from pipesched.schedulers.options import FULL, OFFLOAD, RECOMPUTE


class Savings(NamedTuple):
    """The stages whose activations are recomputed, and those whose are offloaded: never the same."""

    recompute: range
    offload: range


def savings(problem: Problem, family: Family, recompute: Any, offload: Any) -> Savings:
    """Return which stages a family recomputes and offloads by these options; one of them is not None.

    `problem` is the one that the family runs, with its number of stages. Where both are given, the smaller number takes
    the first stages and the larger those behind them. Raises NotApplicable for more stages than there are, for the same
    number twice, and for a family that obeys a budget; ConfigError where the problem has no cost of an offload.
    """
    _require_use(problem, family, OFFLOAD if recompute is None else RECOMPUTE)
    if offload is not None and problem.costs.offload is None:
        raise ConfigError("needs `costs.offload`, which says what one transfer takes", OFFLOAD)
    again = first_stages(problem, family, RECOMPUTE, recompute)
    away = first_stages(problem, family, OFFLOAD, offload)
    if again == away:
        raise NotApplicable(
            f"recompute and offload both take the first {again} stages of {family.name}; give different numbers: the"
            " smaller takes the first stages, the larger those behind them",
            OFFLOAD,
        )
    return Savings(range(away if away < again else 0, again), range(again if again < away else 0, away))


def first_stages(problem: Problem, family: Family, key: str, value: Any) -> int:
    """Return how many stages an option names: all of them for `full`, none where it is not given."""
    if value is None:
        return 0
    number: int = problem.stages if value == FULL else value
    if number > problem.stages:
        raise NotApplicable(
            f"{family.name} runs {problem.stages} stages here, so {key} takes {FULL} or at most {problem.stages}, not"
            f" {number}",
            key,
        )
    return number


def _require_use(problem: Problem, family: Family, key: str) -> None:
    """Raise NotApplicable for a family that has already fitted all activations into a budget."""
    if family.obeys_budget and problem.memory.budget is not None:
        raise NotApplicable(
            f"{family.name} fits its whole activations into the budget, so {key} would only take time; solve with"
            f" {key} decides both together",
            key,
        )
