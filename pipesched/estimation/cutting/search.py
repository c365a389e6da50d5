"""Cuts of any items by OR-Tools CP-SAT, from a good cut on: proved where the search ends in time."""

from __future__ import annotations

from pipesched.core.clock import Clock
from pipesched.estimation.cutting.anneal import annealed
from pipesched.estimation.cutting.costs import Costs, Ends, Judgement, Question
from pipesched.estimation.cutting.cpsat import Model, least_total, possible_chunks
from pipesched.estimation.cutting.one_each import one_each


def search(costs: Costs, clock: Clock) -> tuple[list[Ends], bool]:
    """Return the best cut that was found before the clock is over, and whether it is proved to be the best."""
    ends = annealed(costs, _smallest_chunks(costs), clock.part(clock.left / 3))
    is_proved = True
    if costs.judge(ends) != _ideal(costs):
        for place in range(3):
            if place or costs.judge(ends).excess:
                ends, is_best = _improved(costs, ends, place, clock)
                is_proved = is_proved and is_best
    return [ends], is_proved


def _smallest_chunks(costs: Costs) -> Ends:
    """Return the cut with the least largest chunk."""
    stages = costs.stages
    alone = Question(costs.items, costs.at, tuple(range(stages)), (((1,),),) * stages, (None,) * stages)
    return one_each(Costs(alone))[0]


def _ideal(costs: Costs) -> Judgement:
    """Return what no cut is better than: as if the work of all items could be shared equally."""
    single = max(costs.at(item, item + 1).work for item in range(costs.items))
    devices = len(costs.question.capacity)
    return Judgement(0, max(single, -(-least_total(costs) // devices)), single)


def _improved(costs: Costs, ends: Ends, place: int, clock: Clock) -> tuple[Ends, bool]:
    """Return a cut with the least number `place` of its judgement, those before it kept; and whether that is proved."""
    choices = possible_chunks(costs, costs.judge(ends), place)
    if choices is None or not clock.left:
        return ends, False
    found, is_best = Model(costs, ends, choices, place).solve(clock)
    return min(ends, found, key=costs.judge), is_best
