"""Candidates of a case whose microbatches differ, fed in other orders than that of their numbers.

A case in another order is a case of the problem whose i-th microbatch is `order[i]`. Its candidates then get the
numbers back that their data have, so that they are ones of the case itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from pipesched.pipeline.feeding import differs, equals, in_order, renumbered
from pipesched.pipeline.placement import Placement
from pipesched.pipeline.plan import without_step
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import schedule_plan
from pipesched.schedulers.feeding.every_order import in_turn
from pipesched.schedulers.feeding.rules import VERL, Order, rules
from pipesched.solver.case import Candidate, Case


class FedOrder(NamedTuple):
    """An order of microbatches, and what it is called: as the option of a family, and of list schedules."""

    order: Order
    option: str | None
    words: str


NAMES = ((None, ""), (VERL, f", {VERL}'s order"), (None, ", by rising work"), (None, ", by falling work"))


def orders_by_rule(problem: Problem) -> list[FedOrder]:
    """Return the orders by rule that differ, as the microbatches are given first; that alone where they are alike.

    Each keeps the ways that the placement has for the microbatches.
    """
    placement = problem.settled_placement
    own = along_ways(placement, range(problem.microbatches))
    found = {own: FedOrder(own, None, "")}
    if differs(problem):
        equal = equals(problem)
        for order, names in zip(rules(problem), NAMES, strict=True):
            sorted_order = along_ways(placement, in_turn(order, equal))
            found.setdefault(sorted_order, FedOrder(sorted_order, *names))
    return [*found.values()]


def along_ways(placement: Placement, order: Sequence[int]) -> Order:
    """Return an order with the microbatches that go the second way behind the others."""
    count = len(order)
    return tuple(sorted(order, key=lambda one: placement.is_second(one, count)))


def in_given_numbers(case: Case, candidates: Iterator[Candidate], fed: FedOrder) -> Iterator[Candidate]:
    """Yield the candidates of `case_in_order` as ones of the case."""
    if fed.order == tuple(range(len(fed.order))):
        yield from candidates
        return
    for candidate in candidates:
        plan = renumbered(without_step(candidate.schedule.plan), fed.order)
        yield Candidate(f"{candidate.source}{fed.words}", schedule_plan(case.problem, plan))


def case_in_order(case: Case, order: Order) -> Case:
    """Return the case of the same problem whose microbatches stand in an order that keeps their ways."""
    if order == tuple(range(len(order))):
        return case
    problem = in_order(case.problem, order)
    return replace(case, problem=replace(problem, placement=case.problem.settled_placement.by_number))
