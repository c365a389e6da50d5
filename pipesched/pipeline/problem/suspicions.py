"""What is legal in a problem, and probably not meant, or not measured: sentences, which commands print as notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from pipesched.checks import joined, shown
from pipesched.pipeline.layers.recut import is_cut_open, items_of, layout_of
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.costs import in_one
from pipesched.pipeline.problem.problem import Problem, differs
from pipesched.pipeline.problem.quantities import plain, to_fraction


def suspicions(problem: Problem) -> Iterator[str]:
    """Yield a sentence for each value that is legal and unlikely: a latency above every forward, say."""
    latency = max(in_one(problem.costs.p2p)) if any(problem.costs.p2p) else 0
    if latency and latency > (forward := max(in_one(problem.costs.forward))) > 0:
        longer = f"{shown(plain(latency))} is longer than a forward ({shown(plain(forward))})"
        yield f"`costs.p2p` {longer}: is it in the same unit?"


def other_models(field: str, problems: Sequence[Problem]) -> str | None:
    """Return a sentence about a sweep over numbers of stages that changes the model, None where it does not.

    `field` is the key that is varied, `problems` are those of its values.
    """
    if field not in ("stages", "chunks") or len({*map(_work, problems)}) <= 1:
        return None
    return f"{field}: costs are one a stage, so each value trains a model of another size; `layers` keeps the model"


def other_stages(why: str, now: Problem, before: Problem) -> str | None:
    """Return a sentence about costs one a stage that other numbers of stages make another model, None where not."""
    was = _work(before)
    if not was or _work(now) == was:
        return None
    times = f"{float(_work(now) / was):.4g} times that of {before.stages}"
    return f"{why}: costs are one a stage, and {now.stages} of them are a model {times}; `layers` keeps the model"


def _work(problem: Problem) -> Fraction:
    return sum(map(to_fraction, in_one((*problem.costs.forward, *problem.costs.backward))), Fraction())


def fused_stages(given: Problem, schedules: Iterable[tuple[str, Schedule]]) -> str | None:
    """Return a sentence about stages of `given` that differ, where they are fused; None where they are not.

    `schedules` each have the name of what made it.
    """
    costs = given.costs
    works = {*zip(costs.forward, costs.backward_input, costs.backward_weight, strict=True)}
    if given.layers is not None or given.cutter is not None or len(works) == 1:
        return None
    by_name = {name: schedule.problem.stages for name, schedule in schedules}
    fused = {name: stages for name, stages in by_name.items() if stages < given.stages and not given.stages % stages}
    if not fused:
        return None
    into = joined([*map(str, sorted({*fused.values()}))], 40)
    return (
        f"{joined(list(fused), 40)}: {given.stages} stages that differ are fused into {into};"
        " `layout` balanced cuts them by their work"
    )


ALIKE_MEMORY = "memory: alike for every microbatch; `sizes.activation` says otherwise"


def assumed_of_order(problem: Problem) -> Iterator[str]:
    """Yield a sentence for what an order lacked that came alone: its cut, and the names of microbatches that differ."""
    if is_cut_open(problem) and len(items_of(problem).forward) != problem.stages:
        counts = ",".join(map(str, layout_of(problem)))
        yield f"the file holds no cut, so this one is taken, {counts}; if it was made for another, give `layout`"
    if differs(problem):
        yield (
            "the file numbers microbatches as they are fed, and they are taken for those of the config in its order; if"
            " it was written with another `order`, give `sizes` in that one, or keep a JSON document"
        )


def assumed_halves(schedules: Iterable[tuple[str, Schedule]]) -> str | None:
    """Return a sentence about halves of a backward that was given whole, None where no schedule runs them.

    `schedules` are of a problem whose config gives `backward` alone, each with the name of what made it.
    """
    by_name = {name: schedule.problem for name, schedule in schedules if "W" in schedule.plan.index.letters}
    if not by_name:
        return None
    section = "costs" if any(problem.layers is None for problem in by_name.values()) else "layer"
    return (
        f"{joined(list(by_name), 40)}: each half of the backward counts as half of `{section}.backward`;"
        f" give `{section}.backward_input` and `{section}.backward_weight` if you have measured them"
    )
