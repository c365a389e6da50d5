"""The portfolio, all heuristics that apply: the families, and list scheduling by many rules under many limits.

Each candidate is a schedule of the variant's own problem, so that it can be compared, improved and handed to CP-SAT.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from operator import add
from random import Random
from typing import NamedTuple

from pipesched.core.clock import Clock, check_deadline
from pipesched.core.cpsat import Limits
from pipesched.core.listsched import list_schedule
from pipesched.core.tasks import TaskGraph, reversed_graph
from pipesched.core.timing import tails
from pipesched.errors import ConfigError, InvalidSchedule, NoSchedule, PipeschedWarning
from pipesched.pipeline.bounds.bounds import PassBounds
from pipesched.pipeline.bounds.memory import forward_headrooms, require_least_capacity, taken_by_backwards
from pipesched.pipeline.layers.recut import opened
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.pipeline.problem.ops import Op, OpIndex
from pipesched.pipeline.problem.placement import Placement
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.units import FORWARD_ONLY
from pipesched.schedulers.family import ANY, Family, prepare
from pipesched.schedulers.options import ORDER, labelled
from pipesched.schedulers.ordering import BEST, FedFamily, ordering_of
from pipesched.schedulers.plan_of import plan_of
from pipesched.schedulers.registry import compared
from pipesched.schedulers.side_work import side_schedule
from pipesched.solver.variant import Candidate, Variant, along_ways, in_given_numbers, orders_by_rule, variant_in_order

Rule = Callable[[Variant], list[int]]


def longest_tail(variant: Variant) -> list[int]:
    """Rank by the path to the end, the longest first."""
    return [-length for length in map(add, tails(variant.ordered), variant.graph.durations)]


def _by_kind(kinds: str, deep: int, variant: Variant, *, by_stage: bool = False) -> list[int]:
    """Rank by kind (B is as I), oldest microbatch, first stage (deep -1: last); `by_stage`: stage before microbatch."""
    stages, count = variant.index.stages, variant.index.units

    def keys(kind: str, stage: int) -> range:
        place = stage if deep > 0 else stages - 1 - stage
        start, step = (place * count, 1) if by_stage else (place, stages)
        first = kinds.index("I" if kind == "B" else kind) * count * stages + start
        return range(first, first + count * step, step)

    return variant.index.spread(keys)


RULES: dict[str, Rule] = {  # the best of the most variants first: of large problems only the first few are tried
    "backward-first": partial(_by_kind, "IFW", 1),
    "deepest-backward-first": partial(_by_kind, "IFW", -1, by_stage=True),
    "longest-tail": longest_tail,
    "forward-first": partial(_by_kind, "FIW", 1),
    "backward-deep-first": partial(_by_kind, "IFW", -1),
    "least-slack": lambda variant: [*map(add, variant.heads, longest_tail(variant))],  # early, and far from the end
    "weights-before-forward": partial(_by_kind, "IWF", -1),
}


TIES = ("dfs", "bfs", "fifo")
PLAIN_RULES = ("none", "mobility", "descendants")


class Pools(NamedTuple):
    """A task graph with its memory pools, and the capacity of each in grains: a device's, or a share of it.

    `rooms` is what stays free of its pool beside what each task takes (empty: nothing).
    """

    name: str
    graph: TaskGraph
    capacities: Sequence[int | None]
    rooms: Sequence[int] = ()


def named_candidates(variant: Variant, *, slow: bool | None = None) -> Iterator[Candidate]:
    """Yield the schedules of the named algorithms on a variant, with its backwards, within the budget or not.

    Of families only those that are `slow`, or are not; None: all.
    """
    yield from family_candidates(variant, slow=slow)
    yield from plain_lists(variant)


def plain_lists(variant: Variant) -> Iterator[Candidate]:
    """Yield the list schedules that `list` makes, unless a variant is large and has several stages a device."""
    if variant.problem.stages == variant.problem.devices or len(variant.graph) <= variant.policy.portfolio.one_limit:
        for fed in orders_by_rule(variant.problem)[:2]:
            other = variant_in_order(variant, fed.order)
            found = listed(other, "list (none, dfs)", pools(other)[-1], "none", "dfs")
            yield from in_given_numbers(variant, found, fed)


def quick_named_candidates(variant: Variant) -> Iterator[Candidate]:
    """Yield, unless a variant is large, the schedules of families that make one plan each, within the budget or not."""
    if len(variant.graph) <= variant.policy.portfolio.one_limit:
        yield from family_candidates(variant, slow=False)


def family_candidates(variant: Variant, *, slow: bool | None = None) -> Iterator[Candidate]:
    """Yield the schedule of each family that has a placement and applies to a variant: of those that are `slow` or not.

    None are all, those that are fast first. Microbatches that differ are fed as they are given, and by verl's rule.
    """
    for family in sorted(compared(variant.problem), key=lambda one: one.is_slow):
        if family.placement != ANY and slow in (None, family.is_slow):
            for fed in orders_by_rule(variant.problem)[:2]:
                yield from _of_family(variant, family, fed.option)


def fed_candidates(variant: Variant) -> Iterator[Candidate]:
    """Yield the schedule of each family with the best order of its microbatches, where they differ."""
    if len(orders_by_rule(variant.problem)) > 1:
        for family in compared(variant.problem):
            if not family.required:
                yield from _of_family(variant, family, BEST)


def ruled_candidates(variant: Variant) -> Iterator[Candidate]:
    """Yield list schedules by the rules of this file, under the budget and under shares of it.

    Of a small variant whose microbatches differ, in each order by rule.
    """
    orders = orders_by_rule(variant.problem)
    for fed in orders if len(variant.graph) <= variant.policy.portfolio.slow else orders[:2]:
        yield from in_given_numbers(variant, _ruled(variant_in_order(variant, fed.order)), fed)


def _ruled(variant: Variant) -> Iterator[Candidate]:
    every = pools(variant)
    for name, rule in RULES.items():
        keys = rule(variant)
        for choice in every:
            yield from listed(variant, f"list ({name}{choice.name})", choice, keys)
    if len(variant.graph) <= variant.policy.portfolio.slow:
        for plain in PLAIN_RULES:
            for tie in TIES:
                yield from listed(variant, f"list ({plain}, {tie})", every[-1], plain, tie)


def _of_family(variant: Variant, family: Family, order: str | None) -> Iterator[Candidate]:
    """Yield the schedule of a family, if there is one, by its name with the option `order`."""
    schedule = family_schedule(variant, family, order)
    if schedule is not None:
        name = labelled(family.name, {ORDER: order})
        yield Candidate(name, schedule, name)


def family_schedule(variant: Variant, family: Family, order: str | None = None) -> Schedule | None:
    """Return the schedule of a family on the variant's placement; None when the family does not apply there.

    `order` is a word of its option: how it feeds microbatches that differ. It is refined to the stages of the variant,
    unless it has pairs that are shorter than their parts. A plan that cannot run is a bug of the family: then this
    warns, and returns None.
    """
    problem = variant.problem
    if family.splits_backward and "I" not in variant.index.letters and problem.costs.overlap is None:
        return None  # it could not be refined
    try:
        fused = prepare(opened(problem), family)
        placement = None if problem.stages % fused.stages else fused.settled_placement.in_blocks(problem.stages)
        if placement != problem.settled_placement.by_number:
            return None
        if family.obeys_budget and problem.costs.chooses:  # whose halves may need more than the variant does
            require_least_capacity(fused)
        plan = _plan(fused, family, problem.settled_placement, order)
        if plan.pairs and problem.costs.overlap is not None:  # that pay: a schedule of the fused stages
            placement = replace(fused.settled_placement, second=problem.settled_placement.second)
            return side_schedule(replace(fused, placement=placement), plan)
        fine = refined(plan, variant.fine)
        return None if fine is None else side_schedule(problem, fine)
    except (ConfigError, NoSchedule):
        return None
    except InvalidSchedule as error:
        warn_of_bug(family.name, error)
        return None


def _plan(problem: Problem, family: Family, placement: Placement, order: str | None) -> Plan:
    """Return the plan of a family for a problem as it runs it; the microbatches go the ways of `placement`."""
    timed = side_schedule if problem.side else schedule_plan
    fed = FedFamily(problem, family, lambda one: plan_of(family, one, timed), timed)
    own = along_ways(placement, range(problem.microbatches))
    if order is not None:
        found = ordering_of(fed, order)
        own = own if found is None else along_ways(placement, found.order)
    return fed.positions if own == tuple(range(len(own))) else fed.plan(own)


def refined(plan: Plan, fine: OpIndex) -> Plan | None:
    """Return `plan` of fused stages as a plan of the operations of `fine`, without pairs.

    It is never later: a fused operation is its parts one after another, a pair its forward and then its backward, a
    full backward I and then W, where `fine` has no B. None when the plan splits a backward and `fine` does not, or has
    other slices, or where only one of the two runs backwards.
    """
    own = plan.index
    runs_backwards = [len(index.letters) > 1 for index in (own, fine)]
    if own.slices != fine.slices or ("I" in own.letters and "I" not in fine.letters) or len({*runs_backwards}) > 1:
        return None
    if not plan.pairs and own == fine:
        return plan
    size = fine.stages // own.stages
    orders = []
    for order in plan.orders:
        check_deadline()
        single = chain.from_iterable((one, plan.pairs[one]) if one in plan.pairs else (one,) for one in order)
        parts = (_parts(own.op(number), size, fine) for number in single)
        orders.append([*chain.from_iterable(parts)])
    return Plan(fine, orders)


def _parts(op: Op, size: int, fine: OpIndex) -> Iterator[int]:
    """Yield the parts of an operation of `size` fused stages, in the order in which they run."""
    stages = range(op.stage * size, (op.stage + 1) * size)
    for kind in "IW" if op.kind == "B" and "B" not in fine.letters else op.kind:
        for stage in stages if kind == "F" else reversed(stages):
            yield fine.row(kind, stage)[op.microbatch * fine.slices + op.slice]


def warn_of_bug(source: str, error: InvalidSchedule) -> None:
    """Warn that a heuristic made an illegal schedule, which is left out."""
    warnings.warn(f"{source} made an illegal schedule, please report it: {error}", PipeschedWarning, stacklevel=3)


def pools(variant: Variant) -> list[Pools]:
    """Return the choices of memory pools: shares for each stage, where devices hold several, then whole devices."""
    problem = variant.problem
    whole = Pools("", variant.graph, problem.capacity_grains, forward_headrooms(problem, variant.index))
    several = problem.stages > problem.devices and len(problem.settled_placement.ways) == 1
    several = several and problem.mode != FORWARD_ONLY
    if problem.memory.budget is None or not several:
        return [whole]
    longest, policy = max(variant.graph.durations), variant.policy.portfolio
    shares = [Pools(f", shares {pause}", *shared_out(variant, pause * longest)) for pause in policy.pauses]
    return [*shares, whole] if len(variant.graph) <= policy.one_limit else shares


def shared_out(variant: Variant, pause: int) -> tuple[TaskGraph, list[int | None], list[int]]:
    """Return the task graph with one memory pool a stage, what each may hold, and what each F leaves of it, in grains.

    Where a device holds several stages, a list scheduler under one limit fills the memory with early stages and then
    waits for memory for the late ones. A share for each stage, in proportion to how long its activations must stay,
    prevents that: on V placements it makes the difference between 15 % and 2 % above the bound. The shares of a
    device's stages sum up to its capacity at most. `pause` ticks are added to every residence: the
    more, the more alike the shares. Each share has the room that an I of its stage needs.
    """
    index, problem = variant.index, variant.problem
    caught, stays = taken_by_backwards(problem, index), _stays(variant)
    limits: list[int | None] = [None] * problem.stages
    for device, capacity in enumerate(problem.capacity_grains):
        if capacity is not None:
            stages = problem.settled_placement.stages_on(device)
            sizes = [problem.grains.largest["activation"][stage] for stage in stages]
            left = capacity - sum(caught[stage] for stage in stages)
            counts = _divide(left, sizes, [stays[stage] + pause for stage in stages], index.microbatches)
            for stage, count, size in zip(stages, counts, sizes, strict=True):
                limits[stage] = count * size + caught[stage]
    pools = index.spread(lambda _, stage: [stage] * index.units)
    rooms = index.spread(lambda kind, stage: [caught[stage] if kind == "F" else 0] * index.units)
    return variant.graph.changed(pools=pools), limits, rooms if any(caught) else []


def _stays(variant: Variant) -> list[int]:
    """Return how long the activations of each stage must stay, in ticks; of stages of devices with a limit."""
    index, stays = variant.index, [0] * variant.index.stages
    if not variant.problem.has_units:
        for window in PassBounds(variant.problem, index.letters, paired=False).windows(alone=False):
            for chunk in window.chunks:
                stays[chunk.stage] = chunk.path + chunk.weight
        return stays
    for stage in range(index.stages):
        rows = zip(index.row("F", stage), index.row(index.last, stage), strict=True)
        lasting = (variant.heads[last] + variant.graph.durations[last] - variant.heads[first] for first, last in rows)
        stays[stage] = sum(lasting) // index.units
    return stays


def _divide(capacity: int, sizes: Sequence[int], weights: Sequence[float], most: int) -> list[int]:
    """Return how many of each size: one each, then again and again one more where weight / count is largest."""
    counts, left = [1] * len(sizes), capacity - sum(sizes)
    while True:
        fitting = [number for number, size in enumerate(sizes) if 0 < size <= left and counts[number] < most]
        if not fitting:
            return counts
        chosen = max(fitting, key=lambda number: weights[number] / counts[number])
        counts[chosen] += 1
        left -= sizes[chosen]


def listed(
    variant: Variant, source: str, choice: Pools, priority: str | Sequence[int], tie: str = "input"
) -> Iterator[Candidate]:
    """Yield the list schedule of a variant by a rule within some pools, if there is one."""
    _, graph, limits, rooms = choice
    owners = variant.index.owners(variant.problem.batches)
    try:
        found = list_schedule(graph, priority=priority, tie=tie, capacities=limits, owners=owners, rooms=rooms)
    except NoSchedule:
        return
    yield Candidate(source, schedule_plan(variant.problem, Plan(variant.index, graph.by_resource(found.picked))))


SOURCE = "justification"


def justify(variant: Variant, schedule: Schedule, limits: Limits, clock: Clock) -> Iterator[Candidate]:
    """Yield ever better schedules of a variant by passes back and forth, under each choice of memory pools in turn."""
    random, policy = Random(limits.seed), variant.policy.portfolio
    longest, every = max(variant.graph.durations), pools(variant)
    best, least, fruitless = list(schedule.start_ticks), variant.value(schedule), 0
    while fruitless < policy.fruitless and not clock.is_over:
        noise = 0 if fruitless < len(every) else longest * random.randint(1, 8)
        fruitless += 1
        for candidate in _round(variant, every[fruitless % len(every)], best, noise, random):
            value = variant.value(candidate.schedule)
            if value < least and candidate.schedule.fits:
                best, least, fruitless = list(candidate.schedule.start_ticks), value, 0
                yield candidate


def _round(variant: Variant, choice: Pools, starts: Sequence[int], noise: int, random: Random) -> Iterator[Candidate]:
    """Yield the schedules of a pass backwards and a pass forwards."""
    graph, last = reversed_graph(choice.graph), len(variant.graph) - 1
    latest = [-starts[last - task] - graph.durations[task] for task in range(len(graph))]
    if noise:
        latest = [key + random.randint(0, noise) for key in latest]
    owners = variant.index.owners(variant.problem.batches)[::-1]
    try:
        back = list_schedule(graph, priority=latest, capacities=choice.capacities, owners=owners).starts
    except NoSchedule:
        return
    late = [-back[last - task] - variant.graph.durations[task] for task in range(len(graph))]
    yield Candidate(SOURCE, variant.replay(late))
    yield from listed(variant, SOURCE, choice, late)
