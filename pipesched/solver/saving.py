"""The portfolio with offload and recompute: what fits as it is, and what does not after it was relieved.

The orders come from the families and from list scheduling under looser caps, because an order that holds more
activations than the budget allows is what offload and recompute are for; and, with one stage a device, from 1F1B with
other numbers of warm-up forwards. Early devices that run far ahead have the time of the cool-down to recompute in.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from pipesched.errors import Deadlock
from pipesched.pipeline.bounds import Bound, problem_bounds, work_bounds
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.quantities import shown
from pipesched.pipeline.schedule import schedule_plan
from pipesched.schedulers.family import ANY
from pipesched.schedulers.orders import one_forward_one_backward, split_one_forward_one_backward
from pipesched.schedulers.registry import all_families
from pipesched.solver.bounds import alone
from pipesched.solver.portfolio import Room, by_names, by_rules, family_schedule, listed
from pipesched.solver.relieve import Way, relieved, ways
from pipesched.solver.rules import RULES
from pipesched.solver.search import Find
from pipesched.solver.transfers import SavingCase

LOOSER = (1.5, 2, 3, None)  # caps of list scheduling, in budgets
MOST_TRIES = 16  # warm-ups of a device


def saving_bound(case: SavingCase) -> Bound:
    """The best bound on the objective of `case`, rounded up to a multiple of the quantum."""
    best = max(_bounds(case), key=lambda bound: bound.ticks)
    return best._replace(ticks=-(-best.ticks // case.quantum) * case.quantum)


def _bounds(case: SavingCase) -> Iterator[Bound]:
    """Without relief more is known about the budget, and about when devices other than the first one start."""
    problem, paired = case.problem, case.problem.costs.overlap is not None
    if case.objective == "makespan":
        yield from problem_bounds(problem, case.full.kinds, paired=paired)
        return
    yield from work_bounds(problem, case.full.kinds, paired=paired)
    if not paired and not problem.home().mirrored:
        yield alone(case, problem.home().devices[0], 0)


def saving_by_names(case: SavingCase) -> Iterator[Find]:
    """What the algorithms that have names find without relief."""
    yield from (of_case(case, find) for find in by_names(case))


def saving_by_rules(case: SavingCase) -> Iterator[Find]:
    """Schedules that fit the budget, relieved where that takes it; some, if any order fits."""
    tries: dict[_WarmUps, int] = {}
    yield from _further_ahead(case, tries)
    for base in (*sorted(_bases(case), key=lambda base: case.value(base.schedule)), _one_by_one(case)):
        for way in ways(case.relief):
            yield from _relieved(case, base, way)
    yield from _device_by_device(case, tries)
    yield from (of_case(case, find) for find in by_rules(case))


def of_case(case: SavingCase, find: Find) -> Find:
    """A find without relief as one of `case`; with overlapped pairs, or if it does not fit, it stays as it is."""
    adopted = case.adopted(find.schedule) if find.schedule.fits else None
    return find if adopted is None else find._replace(schedule=adopted)


def _relieved(case: SavingCase, base: Find, way: Way) -> Iterator[Find]:
    """The schedule of `base` relieved that way, if it fits."""
    try:
        plan = relieved(base.schedule, case.relief, way)
        schedule = None if plan is None else schedule_plan(case.problem, plan)
    except Deadlock:  # operations of no length
        return
    if schedule is not None and schedule.fits:
        yield Find(f"{base.source} with {way}", schedule)


def _bases(case: SavingCase) -> Iterator[Find]:
    """Orders of `case`, whether they fit or not."""
    for family in all_families():
        schedule = None if family.placement == ANY else family_schedule(case, family)
        if schedule is not None and not schedule.plan.pairs:
            yield Find(family.name, schedule)
    for name, rule in RULES.items():
        keys = rule(case)
        for factor in LOOSER:
            caps = [None if room is None or factor is None else int(factor * room) for room in case.problem.room()]
            yield from listed(case, f"list ({name})", Room("", case.graph, caps), keys)


class _WarmUps(NamedTuple):
    """How many forwards each device runs before its first backward, and how that is relieved."""

    counts: tuple[int, ...]
    way: Way

    def __str__(self) -> str:
        usual = self.counts == tuple(range(len(self.counts), 0, -1))
        return "1f1b" if usual else f"1f1b, warm-ups {shown(self.counts)}"


def _further_ahead(case: SavingCase, tries: dict[_WarmUps, int]) -> Iterator[Find]:
    """With one stage a device: 1F1B, then with the first devices all the way ahead, half of them or so first."""
    devices, count = case.problem.devices, case.index.microbatches
    if case.problem.home().devices != tuple(range(devices)) or case.problem.home().mirrored:
        return
    for ahead in sorted(range(devices + 1), key=lambda ahead: ahead and abs(ahead - devices / 2) + 1):
        warm_ups = tuple(count if device < ahead else devices - device for device in range(devices))
        for way in ways(case.relief):
            yield from _try(case, _WarmUps(warm_ups, way), tries)


def _device_by_device(case: SavingCase, tries: dict[_WarmUps, int]) -> Iterator[Find]:
    """The best of `tries` with another warm-up of one device, again and again."""
    for device, warm_up in product(range(case.problem.devices if tries else 0), _spread(case.index.microbatches)):
        counts, way = min(tries, key=lambda one: tries[one])
        yield from _try(case, _WarmUps((*counts[:device], warm_up, *counts[device + 1 :]), way), tries)


def _spread(count: int) -> range:
    """Numbers up to `count`, not too many."""
    return range(count, 0, -max(count // MOST_TRIES, 1))


def _try(case: SavingCase, warm_ups: _WarmUps, tries: dict[_WarmUps, int]) -> Iterator[Find]:
    """The find of these warm-ups, if there is one; its value goes to `tries`."""
    index = case.index
    orders = []
    for device, count in enumerate(warm_ups.counts):
        forwards, *backwards = (index.row(kind, device) for kind in index.kinds)
        if len(backwards) == 1:
            orders.append(one_forward_one_backward(forwards, backwards[0], count - 1))
        else:
            orders.append(split_one_forward_one_backward(forwards, backwards[0], backwards[1], count - 1, 0))
    try:
        base = Find(str(warm_ups), schedule_plan(case.problem, Plan(index, orders)))
    except Deadlock:
        return
    for find in _relieved(case, base, warm_ups.way):
        tries[warm_ups] = case.value(find.schedule)
        yield find


def _one_by_one(case: SavingCase) -> Find:
    """Each microbatch alone, forth and back: if anything fits, this does after it was relieved."""
    index, orders = case.index, [list[int]() for _ in range(case.problem.devices)]
    for microbatch in range(index.microbatches):
        forth = [index.row("F", stage)[microbatch] for stage in range(index.stages)]
        back = [index.row(kind, stage)[microbatch] for stage in range(index.stages)[::-1] for kind in index.kinds[1:]]
        for number in (*forth, *back):
            orders[case.graph.resources[number]].append(number)
    return Find("one microbatch at a time", schedule_plan(case.problem, Plan(index, orders)))
