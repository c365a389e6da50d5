"""The plan of a family: of passes alone where the problem has a step, so that each family orders passes and no more.

A family that obeys a budget is asked again with less where the step, which comes to its order afterwards, then holds
too much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pipesched.errors import ConfigError, Deadlock, NoSchedule
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import canonical, to_fraction
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.pipeline.units import FORWARD_ONLY
from pipesched.schedulers.family import Family
from pipesched.schedulers.joining import joined

Timing = Callable[[Problem, Plan], Schedule]  # makes the schedule of a plan
Arranged = tuple[list[int], dict[int, int]]  # the order of a device, and its pairs as forward -> backward

MOST_TRIES = 4  # plans under ever smaller budgets


def plan_of(family: Family, problem: Problem, timed: Timing = schedule_plan, **options: Any) -> Plan:
    """Return the plan of a family for a problem as it runs it; `timed` says what its step takes and holds.

    Where the costs give the whole backward beside its halves, some may be joined. Raises what the family does.
    """
    plan = _apart(family, problem, timed, options)
    other = joined(problem, plan)
    return plan if other is plan else min(plan, other, key=lambda one: _worth(problem, one, timed))


def _apart(family: Family, problem: Problem, timed: Timing, options: Mapping[str, Any]) -> Plan:
    """Return the plan as the family makes it."""
    if not problem.has_step:
        return family.plan(problem, **options)
    if not family.obeys_budget or problem.memory.budget is None:
        return family.plan(of_passes(problem, [0] * problem.devices), **options)
    plans = [_plan_within(family, problem, one, options) for one in dict.fromkeys((timed, schedule_plan))]
    return plans[0] if len(plans) == 1 else min(plans, key=lambda plan: _worth(problem, plan, timed))


def _plan_within(family: Family, problem: Problem, timed: Timing, options: Mapping[str, Any]) -> Plan:
    """Return the plan under the budget, or under ever less of it until the step fits too."""
    less = [0] * problem.devices
    plan = family.plan(of_passes(problem, less), **options)
    for _ in range(MOST_TRIES):
        beyond = _beyond(problem, plan, timed)
        if not any(beyond):
            return plan
        less = [*map(sum, zip(less, beyond, strict=True))]
        try:
            plan = family.plan(of_passes(problem, less), **options)
        except (NoSchedule, ConfigError):  # passes alone need more, or nothing is left
            return plan
    return plan


def _worth(problem: Problem, plan: Plan, timed: Timing) -> tuple[bool, int]:
    """Return what decides between plans: whether one exceeds the budget, and how long it takes."""
    try:
        schedule = timed(problem, plan)
    except Deadlock:
        return True, 0
    return not schedule.fits, schedule.makespan_ticks


def _beyond(problem: Problem, plan: Plan, timed: Timing) -> list[int]:
    """Return how many grains beyond its budget each device holds with the step."""
    try:
        schedule = timed(problem, plan)
    except Deadlock:
        return [0] * problem.devices
    limits = zip(schedule.peak_grains, problem.capacity_grains, strict=True)
    return [max(peak - capacity, 0) if capacity is not None else 0 for peak, capacity in limits]


def of_passes(problem: Problem, less: Sequence[int]) -> Problem:
    """Return the passes of a problem on its placement, on the same scales, with so many grains less of each budget.

    All that stays counts as the static memory of one stage of its device.
    """
    scale, memory, nothing = problem.grains.per_unit, problem.memory, (0,) * problem.stages
    there = problem.settled_placement.devices
    static = [
        canonical(Fraction(problem.static_grains(device), scale)) if stage == there.index(device) else 0
        for stage, device in enumerate(there)
    ]
    budget = memory.budget and tuple(
        canonical(max(to_fraction(limit) - Fraction(grains, scale), Fraction(0)))
        for limit, grains in zip(memory.budget, less, strict=True)
    )
    memory = replace(memory, static=tuple(static), budget=budget, resolution=scale)
    memory = replace(memory, weights=nothing, gradients=nothing, states=nothing)
    costs = replace(
        problem.costs, gather=None, reduce=None, optimizer=None, tied=None, resolution=problem.ticks.per_unit
    )
    return replace(problem, costs=costs, memory=memory, shard=None, clip=None, side=())


def one_forward_one_backward(forwards: Sequence[int], backwards: Sequence[int], warm_up: int) -> list[int]:
    """Return `warm_up` forwards (all, if fewer); then a forward and a backward in turn; then the backwards left."""
    warm_up = min(warm_up, len(forwards))
    steady = len(forwards) - warm_up
    order = [*forwards, *backwards]
    order[warm_up : warm_up + 2 * steady : 2] = forwards[warm_up:]
    order[warm_up + 1 : warm_up + 2 * steady : 2] = backwards[:steady]
    order[warm_up + 2 * steady :] = backwards[steady:]
    return order


def plain_index(problem: Problem) -> OpIndex:
    """Return numbers for F and B of every unit; where only forwards run, for those."""
    letters = "F" if problem.mode == FORWARD_ONLY else "FB"
    return OpIndex(letters, problem.stages, problem.microbatches, problem.slices.count)


def last_slice_first(index: OpIndex, row: Sequence[int]) -> Sequence[int]:
    """Return a row of operations with the slices of each microbatch from last to first, as backwards run."""
    if index.slices == 1:
        return row
    order, slices = [*row], index.slices
    for part in range(slices):
        order[part::slices] = row[slices - 1 - part :: slices]
    return order


def linear_plan(problem: Problem, warm_up: Callable[[int], int]) -> Plan:
    """Return the plan of one stage a device that runs `warm_up(d)` forwards, then a forward and a backward in turn."""
    index = plain_index(problem)
    backwards = (last_slice_first(index, row) for row in index.rows("B"))
    warm_ups = map(warm_up, range(problem.devices))
    return Plan(index, [*map(one_forward_one_backward, index.rows("F"), backwards, warm_ups)])


def of_devices(index: OpIndex, arranged: Iterable[Arranged], note: str = "") -> Plan:
    """Return the plan of these devices."""
    orders, pairs = zip(*arranged, strict=True)
    return Plan(index, [*orders], {first: second for own in pairs for first, second in own.items()}, note)


def forwards_over_backwards(forwards: Sequence[int], backwards: Sequence[int], warm_up: int) -> Arranged:
    """Return that order with each steady forward and backward as a pair."""
    warm_up = min(warm_up, len(forwards))
    steady = len(forwards) - warm_up
    pairs = dict(zip(forwards[warm_up:], backwards, strict=False))
    return [*forwards, *backwards[steady:]], pairs


def split_one_forward_one_backward(
    forwards: Sequence[int], inputs: Sequence[int], weights: Sequence[int], warm_up: int, delay: int
) -> list[int]:
    """Return `warm_up` forwards; then for each I a forward if any is left, the I, and the W of the I `delay` before it.

    The W that are left come last.
    """
    warm_up = min(warm_up, len(forwards))
    order = list(forwards[:warm_up])
    for position, backward in enumerate(inputs):
        order += forwards[warm_up + position : warm_up + position + 1]
        order.append(backward)
        if position >= delay:
            order.append(weights[position - delay])
    return [*order, *weights[max(len(inputs) - delay, 0) :]]
