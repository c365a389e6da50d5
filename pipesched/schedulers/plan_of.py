"""The plan of a family by `plan_of`: of passes alone. No family knows what else a step has: gathers, reductions, ..

A family that obeys a budget is asked again with less (`_plan_within`) where the step, which comes to its order
afterwards, then holds too much. Where the costs give the whole backward beside its halves, and it takes less than both,
a W that directly follows its I may be joined with it (`joined`). That frees all of an activation at its end, and its
gradient is there no sooner. Last stands what families share: 1F1B for a device, say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain, pairwise
from typing import Any

from pipesched.core.arrays import column, np
from pipesched.core.timing import Retiming, Times
from pipesched.errors import ConfigError, Deadlock, InvalidSchedule, NoSchedule
from pipesched.pipeline.plan.lowering import lower_plan
from pipesched.pipeline.plan.plan import Plan, with_parts
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.pipeline.problem.costs import STATIC_PARTS, STEP_TIMES
from pipesched.pipeline.problem.kinds import KINDS, LETTERS
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import canonical, to_fraction
from pipesched.pipeline.problem.units import FORWARD_ONLY
from pipesched.schedulers.family import Family

Timing = Callable[[Problem, Plan], Schedule]  # makes the schedule of a plan

MOST_TRIES = 4  # plans under ever smaller budgets


def plan_of(family: Family, problem: Problem, timed: Timing = schedule_plan, **options: Any) -> Plan:
    """Return the plan of a family for a problem as it runs it; `timed` says what its step takes and holds.

    Where the costs give the whole backward beside its halves, some may be joined. Raises what the family does.
    """
    if not problem.has_step:
        plan = family.plan(problem, **options)
    elif not family.obeys_budget or problem.memory.budget is None:
        plan = family.plan(of_passes(problem, [0] * problem.devices), **options)
    else:  # `schedule_plan` runs side work first, `timed` perhaps elsewhere: each leaves passes another budget
        plans = [_plan_within(family, problem, one, options) for one in dict.fromkeys((timed, schedule_plan))]
        plan = plans[0] if len(plans) == 1 else min(plans, key=lambda one: _worth(problem, one, timed))
    other = joined(problem, plan) if problem.costs.chooses else plan
    return plan if other is plan else min(plan, other, key=lambda one: _worth(problem, one, timed))


def _plan_within(family: Family, problem: Problem, timed: Timing, options: Mapping[str, Any]) -> Plan:
    """Return the plan under the budget, or under ever less of it until the step fits too."""
    less = [0] * problem.devices
    plan = family.plan(of_passes(problem, less), **options)
    for _ in range(MOST_TRIES):
        try:
            schedule = timed(problem, plan)
        except Deadlock:
            return plan
        limits = zip(schedule.peak_grains, problem.capacity_grains, strict=True)
        beyond = [0 if capacity is None else max(peak - capacity, 0) for peak, capacity in limits]
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


def of_passes(problem: Problem, less: Sequence[int]) -> Problem:
    """Return the passes of a problem on its placement, on the same scales, with so many grains less of each budget.

    All that stays counts as the static memory of one stage of its device.
    """
    scale, memory = problem.grains.per_unit, problem.memory
    there = problem.settled_placement.devices
    static = [
        canonical(Fraction(problem.static_grains[device], scale)) if stage == there.index(device) else 0
        for stage, device in enumerate(there)
    ]
    budget = memory.budget and tuple(
        canonical(max(to_fraction(limit) - Fraction(grains, scale), Fraction(0)))
        for limit, grains in zip(memory.budget, less, strict=True)
    )
    parts: dict[str, Any] = {**dict.fromkeys(STATIC_PARTS, (0,) * problem.stages), "static": tuple(static)}
    memory = replace(memory, **parts, budget=budget, resolution=scale)
    absent: dict[str, Any] = dict.fromkeys((*STEP_TIMES, "tied"))
    costs = replace(problem.costs, **absent, resolution=problem.ticks.per_unit)
    return replace(problem, costs=costs, memory=memory, shard=None, clip=None, side=())


MOST_REPLAYED = 4_000_000  # operations, in all timings of a plan with one join less


def joined(problem: Problem, plan: Plan) -> Plan:
    """Return a plan of passes, or the same with every W joined that directly follows its I, whichever is shorter.

    Then single joins are undone, the latest first, while that makes it shorter still.
    """
    if not problem.costs.chooses or "W" not in plan.index.letters:
        return plan
    ticks, row = problem.model.ticks, plan.index.of_kind("I")
    is_shorter = (ticks["backward"] < ticks["backward_input"] + ticks["backward_weight"]).ravel()
    pairs = [  # each I, and its W, that follow each other on a device and take longer than the whole
        (before, after)
        for before, after in chain.from_iterable(map(pairwise, plan.orders))
        if before in row and after == plan.index.counterpart(before, "W") and is_shorter[before - row.start]
    ]
    if not pairs:
        return plan
    graph = lower_plan(problem, plan)
    replay = Retiming(graph, plan.machines)
    try:
        apart = replay.times()
    except InvalidSchedule:  # for who times it to say
        return plan
    lasts = {KINDS[letter].cost: ticks[KINDS[letter].cost].ravel() for letter in "BIW"}
    ends = plan.index.stages * plan.index.units
    durations = graph.duration.copy()
    inputs, weights = (column(numbers) for numbers in zip(*pairs, strict=True))
    durations[inputs], durations[weights] = lasts["backward"][inputs % ends], 0
    times = replay.changed(apart, durations, 0)
    left, weight_of = dict.fromkeys(i for i, _ in pairs), dict(pairs)
    effort = MOST_REPLAYED // len(graph)
    while effort > 0:
        critical = replay.critical(times)
        on_path = sorted((one for one in left if critical[one]), key=lambda one: -int(times.start[one]))
        for one in on_path[:effort]:
            effort -= 1
            changed = durations.copy()
            for number, cost in ((one, "backward_input"), (weight_of[one], "backward_weight")):
                changed[number] = lasts[cost][number % ends]
            found = replay.changed(times, changed, int(times.start[one]))
            if _length(found) < _length(times):
                times, durations = found, changed
                del left[one]
                break
        else:
            break
    return with_joins(plan, {one: weight_of[one] for one in left}) if _length(times) < _length(apart) else plan


def _length(times: Times) -> int:
    return int(times.end.max())


def with_joins(plan: Plan, joins: dict[int, int]) -> Plan:
    """Return a plan of passes in which each of these I runs with the W that it maps to as one whole backward."""
    letters = "".join(letter for letter in LETTERS if letter in {*plan.index.letters, "B"})
    index, gone = replace(plan.index, letters=letters), {*joins.values()}
    shifts = {letter: index.of_kind(letter).start - plan.index.of_kind(letter).start for letter in plan.index.letters}
    shift = np.repeat([*shifts.values()], plan.index.stages * plan.index.units)
    number = np.arange(plan.index.passes) + shift
    for one in joins:
        number[one] = index.counterpart(number[one], "B")

    def named(numbers: list[int] | range) -> list[int]:
        return number[[one for one in numbers if one not in gone]].tolist()  # type: ignore[no-any-return]

    pairs = {int(number[forward]): int(number[backward]) for forward, backward in plan.pairs.items()}
    return with_parts(plan, index=index, orders=[named([*order]) for order in plan.orders], pairs=pairs)


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


def one_forward_one_backward(forwards: Sequence[int], backwards: Sequence[int], warm_up: int) -> list[int]:
    """Return `warm_up` forwards (all, if fewer); then a forward and a backward in turn; then the backwards left."""
    warm_up = min(warm_up, len(forwards))
    steady = len(forwards) - warm_up
    order = [*forwards, *backwards]
    order[warm_up : warm_up + 2 * steady : 2] = forwards[warm_up:]
    order[warm_up + 1 : warm_up + 2 * steady : 2] = backwards[:steady]
    order[warm_up + 2 * steady :] = backwards[steady:]
    return order


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
