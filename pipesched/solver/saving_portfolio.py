"""The portfolio with offload and recompute: schedules that fit as they are, and orders that fit once memory is saved.

The orders come from the families and from list scheduling under looser limits, because offload and recompute suit
orders that hold more activations than the budget allows; and, with one stage a device, from 1F1B with other warm-ups.
Early devices that run far ahead can recompute during the cool-down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

from pipesched.checks import shown
from pipesched.errors import Deadlock
from pipesched.pipeline.capacity import forward_headrooms
from pipesched.pipeline.kinds import Allowed
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.schedulers.orders import one_forward_one_backward, split_one_forward_one_backward
from pipesched.solver.case import Candidate, Case
from pipesched.solver.memory_saving import SavingRule, saving_rules, with_savings
from pipesched.solver.portfolio import Pools, family_candidates, listed, ruled_candidates
from pipesched.solver.rules import RULES

Adopt = Callable[[Schedule], Schedule | None]


def saving_candidates(case: Case, allowed: Allowed, adopt: Adopt) -> Iterator[Candidate]:
    """Yield schedules that fit the budget, if any order does; `adopt` turns a plain schedule into one of the case."""
    tries: dict[_WarmUps, int] = {}
    yield from _further_ahead(case, allowed, tries)
    for base in (*sorted(_bases(case), key=lambda base: case.value(base.schedule)), one_by_one(case)):
        yield from with_rules(case, base, allowed)
    yield from _device_by_device(case, allowed, tries)
    yield from (of_case(candidate, adopt) for candidate in ruled_candidates(case))


def quick_candidates(case: Case, allowed: Allowed) -> Iterator[Candidate]:
    """Yield schedules that fit the budget and are made quickly: at least one, if any order fits."""
    yield from _further_ahead(case, allowed, {})
    yield from with_rules(case, one_by_one(case), allowed)


def of_case(candidate: Candidate, adopt: Adopt) -> Candidate:
    """Return a candidate as one of a case; as it is, if it is over budget or cannot be adopted."""
    adopted = adopt(candidate.schedule) if candidate.schedule.fits else None
    return candidate if adopted is None else candidate._replace(schedule=adopted)


def with_rules(case: Case, base: Candidate, allowed: Allowed) -> Iterator[Candidate]:
    """Yield the schedules of `base` with its memory saved by each rule, as far as they fit."""
    if not base.schedule.plan.pairs:
        for rule in saving_rules(allowed):
            yield from _with_savings(case, base, allowed, rule)


def _with_savings(case: Case, base: Candidate, allowed: Allowed, rule: SavingRule) -> Iterator[Candidate]:
    """Yield the schedule of `base` with its memory saved by that rule, if it fits."""
    try:
        plan = with_savings(base.schedule, allowed, rule)
        schedule = None if plan is None else schedule_plan(case.problem, plan)
    except Deadlock:  # operations of no length
        return
    if schedule is not None and schedule.fits:
        yield Candidate(f"{base.source} with {rule}", schedule)


def _bases(case: Case) -> Iterator[Candidate]:
    """Yield orders of `case` to save memory in, whether they fit or not."""
    yield from (candidate for candidate in family_candidates(case) if not candidate.schedule.plan.pairs)
    rooms = forward_headrooms(case.problem, case.index)
    for name, rule in RULES.items():
        keys = rule(case)
        for factor in case.policy.portfolio.looser:
            limits = [
                None if capacity is None or factor is None else int(factor * capacity)
                for capacity in case.problem.capacity_grains
            ]
            yield from listed(case, f"list ({name})", Pools("", case.graph, limits, rooms), keys)


class _WarmUps(NamedTuple):
    """The number of forwards of each device before its first backward, and the rule that saves memory then."""

    counts: tuple[int, ...]
    rule: SavingRule

    def __str__(self) -> str:
        usual = self.counts == tuple(range(len(self.counts), 0, -1))
        return "1f1b" if usual else f"1f1b, warm-ups {shown(self.counts)}"


def _further_ahead(case: Case, allowed: Allowed, tries: dict[_WarmUps, int]) -> Iterator[Candidate]:
    """Yield, with one stage a device, 1F1B, then orders whose first devices run ahead: half of them, then others."""
    devices, count = case.problem.devices, case.index.microbatches
    placement = case.problem.settled_placement
    if placement.devices != tuple(range(devices)) or placement.mirrored:
        return
    for ahead in sorted(range(devices + 1), key=lambda ahead: ahead and abs(ahead - devices / 2) + 1):
        warm_ups = tuple(count if device < ahead else devices - device for device in range(devices))
        for rule in saving_rules(allowed):
            yield from _try(case, allowed, _WarmUps(warm_ups, rule), tries)


def _device_by_device(case: Case, allowed: Allowed, tries: dict[_WarmUps, int]) -> Iterator[Candidate]:
    """Yield the best of `tries` with another warm-up of a device, device by device."""
    count = case.index.microbatches
    warm_ups = range(count, 0, -max(count // case.policy.portfolio.warm_ups, 1))
    for device, warm_up in product(range(case.problem.devices if tries else 0), warm_ups):
        counts, rule = min(tries, key=tries.__getitem__)
        changed = (*counts[:device], warm_up, *counts[device + 1 :])
        yield from _try(case, allowed, _WarmUps(changed, rule), tries)


def _try(case: Case, allowed: Allowed, warm_ups: _WarmUps, tries: dict[_WarmUps, int]) -> Iterator[Candidate]:
    """Yield the candidate of these warm-ups, if it fits, and note its value in `tries`."""
    index = case.index
    orders = []
    for device, count in enumerate(warm_ups.counts):
        forwards, gradients, last = (index.row(kind, device) for kind in ("F", index.gradient, index.last))
        if gradients == last:
            orders.append(one_forward_one_backward(forwards, gradients, count - 1))
        else:
            orders.append(split_one_forward_one_backward(forwards, gradients, last, count - 1, 0))
    try:
        base = Candidate(str(warm_ups), schedule_plan(case.problem, Plan(index, orders)))
    except Deadlock:
        return
    for candidate in _with_savings(case, base, allowed, warm_ups.rule):
        tries[warm_ups] = case.value(candidate.schedule)
        yield candidate


def one_by_one(case: Case) -> Candidate:
    """Return the order of one microbatch after another: if any order fits, this does once its memory is saved."""
    index, order = case.index, list[int]()
    backwards = dict.fromkeys((index.gradient, index.last))
    for microbatch in range(index.microbatches):
        order += (index.row("F", stage)[microbatch] for stage in range(index.stages))
        order += (index.row(kind, stage)[microbatch] for stage in range(index.stages)[::-1] for kind in backwards)
    orders = case.graph.by_resource(order)
    return Candidate("one microbatch at a time", schedule_plan(case.problem, Plan(index, orders)))
