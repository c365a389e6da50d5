"""What is legal in a problem, and probably not meant, or not measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pipesched.checks import joined
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import plain, to_fraction


def doubts(problem: Problem) -> Iterator[str]:
    """Yield a sentence for each value that is legal and unlikely: a latency above every forward, say."""
    latency, forward = max(problem.costs.p2p, default=0), max(problem.costs.forward)
    if forward and latency > forward:
        yield f"`costs.p2p` {plain(latency)} is longer than a forward ({plain(forward)}): is it in the same unit?"


def other_models(field: str, problems: Sequence[Problem]) -> str | None:
    """Return a sentence about a sweep over numbers of stages that changes the model, None where it does not.

    `field` is the key that is varied, `problems` are those of its values.
    """
    works = {sum(map(to_fraction, (*problem.costs.forward, *problem.costs.backward))) for problem in problems}
    if field not in ("stages", "chunks") or len(works) == 1:
        return None
    return f"{field}: costs are one a stage, so each value trains a model of another size; `layers` keeps the model"


def assumed_halves(plans: Iterable[tuple[str, Plan]]) -> str | None:
    """Return a sentence about halves of a backward that was given whole, None where no plan runs them.

    `plans` are plans of a problem whose config gives `backward` alone, each with the name of what made it.
    """
    names = list(dict.fromkeys(name for name, plan in plans if "W" in plan.index.letters))
    if not names:
        return None
    return (
        f"{joined(names, 40)}: each half of the backward counts as half of `costs.backward`;"
        " give `costs.backward_input` and `costs.backward_weight` if you have measured them"
    )
