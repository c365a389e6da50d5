"""The portfolio, all heuristics that apply: the families, and list scheduling by many rules under many limits.

A solve asks for `named_candidates` (families), for `ruled_candidates` (list scheduling), then for `fed_candidates`
(families with the best order of microbatches); `justify` improves the best by scheduling back and forth. Each is a
schedule of the variant's own problem, so that it can be compared, improved and handed to CP-SAT.
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

from pipesched.core.arrays import np
from pipesched.core.clock import Clock, check_deadline
from pipesched.core.cpsat import Limits
from pipesched.core.listsched import list_schedule
from pipesched.core.tasks import TaskGraph, reversed_graph
from pipesched.core.timing import tails
from pipesched.errors import ConfigError, InvalidSchedule, NoSchedule, PipeschedWarning
from pipesched.pipeline.bounds.bounds import PassBounds
from pipesched.pipeline.bounds.memory import forward_headrooms, require_least_capacity, taken_by_backwards
from pipesched.pipeline.layers.recut import opened
from pipesched.pipeline.plan.plan import Plan, renumbered, without_step
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.placement import Placement
from pipesched.pipeline.problem.problem import Problem, differs, equals, in_order
from pipesched.pipeline.problem.units import FORWARD_ONLY
from pipesched.schedulers.family import ANY, Family, prepare
from pipesched.schedulers.options import ORDER, labelled
from pipesched.schedulers.ordering import BEST, VERL, FedFamily, Order, in_turn, ordering_of, rules
from pipesched.schedulers.plan_of import plan_of
from pipesched.schedulers.registry import compared
from pipesched.schedulers.side_work import side_schedule
from pipesched.solver.variant import Candidate, Variant

Rule = Callable[[Variant], list[int]]


def longest_tail(variant: Variant) -> list[int]:
    """Rank by the path to the end, the longest first."""
    return [-length for length in map(add, tails(variant.ordered), variant.graph.durations)]


def _by_kind(kinds: str, deep: int, variant: Variant, *, by_stage: bool = False) -> list[int]:
    """Rank by kind (B is as I), oldest microbatch, first stage (deep -1: last); `by_stage`: stage before microbatch."""
    index = variant.index
    stage, unit = np.indices((index.stages, index.units))
    place = stage if deep > 0 else index.stages - 1 - stage
    within = place * index.units + unit if by_stage else unit * index.stages + place
    firsts = (kinds.index("I" if kind == "B" else kind) * within.size for kind in index.letters)
    return np.concatenate([first + within.ravel() for first in firsts]).tolist()  # type: ignore[no-any-return]


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
        yield from _in_orders(variant, 2, lambda one: listed(one, "list (none, dfs)", pools(one)[-1], "none", "dfs"))


def quick_named_candidates(variant: Variant) -> Iterator[Candidate]:
    """Yield, unless a variant is large, the schedules of families that make one plan each, within the budget or not."""
    if len(variant.graph) <= variant.policy.portfolio.one_limit:
        yield from family_candidates(variant, slow=False)


def family_candidates(variant: Variant, *, slow: bool | None = None, best: bool = False) -> Iterator[Candidate]:
    """Yield the schedule of each family that has a placement and applies to a variant: of those that are `slow` or not.

    None are all, those that are fast first. Microbatches that differ are fed as they are given, and by verl's rule; or
    in the `best` order, by all families.
    """
    found = compared(variant.problem)
    chosen: list[tuple[Family, str | None]]
    if best:
        chosen = [(family, BEST) for family in found if not family.required]
    else:
        fed = [option for _, option, _ in orders_by_rule(variant.problem)[:2]] if differs(variant.problem) else (None,)
        families = sorted((one for one in found if one.placement != ANY), key=lambda one: one.is_slow)
        chosen = [(one, order) for one in families if slow in (None, one.is_slow) for order in fed]
    for family, order in chosen:
        if (schedule := family_schedule(variant, family, order)) is not None:
            name = labelled(family.name, {ORDER: order}) if order else family.name
            yield Candidate(name, schedule, name)


def fed_candidates(variant: Variant) -> Iterator[Candidate]:
    """Yield the schedule of each family with the best order of its microbatches, where they differ."""
    if len(orders_by_rule(variant.problem)) > 1:
        yield from family_candidates(variant, best=True)


def ruled_candidates(variant: Variant) -> Iterator[Candidate]:
    """Yield list schedules by the rules of this file, under the budget and under shares of it.

    Of a small variant whose microbatches differ, in each order by rule.
    """
    yield from _in_orders(variant, 4 if len(variant.graph) <= variant.policy.portfolio.slow else 2, _ruled)


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


NAMES = ((None, ""), (VERL, f", {VERL}'s order"), (None, ", by rising work"), (None, ", by falling work"))


def orders_by_rule(problem: Problem) -> list[tuple[Order, str | None, str]]:
    """Return the orders by rule that differ, as the microbatches are given first; that alone where they are alike.

    With each stands its name, as the option of a family and in list schedules. It keeps the ways of the placement.
    """
    placement = problem.settled_placement
    own = _along_ways(placement, range(problem.microbatches))
    found: dict[Order, tuple[str | None, str]] = {own: NAMES[0]}
    if differs(problem):
        equal = equals(problem)
        for order, names in zip(rules(problem), NAMES, strict=True):
            sorted_order = _along_ways(placement, in_turn(order, equal))
            found.setdefault(sorted_order, names)
    return [(order, *names) for order, names in found.items()]


def _along_ways(placement: Placement, order: Sequence[int]) -> Order:
    """Return an order with the microbatches that go the second way behind the others."""
    count = len(order)
    return tuple(sorted(order, key=lambda one: placement.is_second(one, count)))


def _in_orders(variant: Variant, most: int, search: Callable[[Variant], Iterator[Candidate]]) -> Iterator[Candidate]:
    """Yield what a search finds of a variant; where its microbatches differ, in each of so many orders by rule."""
    problem, placement = variant.problem, variant.problem.settled_placement
    if not (placement.second or differs(problem)):
        yield from search(variant)
        return
    for order, _, words in orders_by_rule(problem)[:most]:
        if order == tuple(range(problem.microbatches)):
            yield from search(variant)
            continue
        sorted_problem = replace(in_order(problem, order), placement=placement.by_number)
        for candidate in search(replace(variant, problem=sorted_problem)):
            plan = renumbered(without_step(candidate.schedule.plan), order)
            yield Candidate(f"{candidate.source}{words}", schedule_plan(problem, plan))


def family_schedule(variant: Variant, family: Family, order: str | None = None) -> Schedule | None:
    """Return the schedule of a family on the variant's placement; None when the family does not apply there.

    `order` is a word of its option: how it feeds microbatches that differ. It is refined to the stages of the variant,
    unless it has pairs that are shorter than their parts. A plan that cannot run is a bug of the family: then this
    warns, and returns None.
    """
    problem, placement = variant.problem, variant.problem.settled_placement
    if family.splits_backward and "I" not in variant.index.letters and problem.costs.overlap is None:
        return None  # it could not be refined
    timed = side_schedule if problem.side else schedule_plan
    try:
        fused = prepare(opened(problem), family)
        theirs = None if problem.stages % fused.stages else fused.settled_placement.in_blocks(problem.stages)
        if theirs != placement.by_number:
            return None
        if family.obeys_budget and problem.costs.chooses:  # whose halves may need more than the variant does
            require_least_capacity(fused)
        if order is None and not placement.second:
            plan = plan_of(family, fused, timed)
        else:
            fed = FedFamily(fused, family, lambda one: plan_of(family, one, timed), timed)
            found = None if order is None else ordering_of(fed, order)
            along = _along_ways(placement, range(problem.microbatches) if found is None else found.order)
            plan = fed.positions if along == tuple(range(len(along))) else fed.plan(along)
        if plan.pairs and problem.costs.overlap is not None:  # that pay: a schedule of the fused stages
            own = replace(fused.settled_placement, second=placement.second)
            return timed(replace(fused, placement=own), plan)
        fine = refined(plan, variant.fine)
        return None if fine is None else timed(problem, fine)
    except (ConfigError, NoSchedule):
        return None
    except InvalidSchedule as error:
        warn_of_bug(family.name, error)
        return None


def refined(plan: Plan, fine: OpIndex) -> Plan | None:
    """Return `plan` of fused stages as a plan of the operations of `fine`, without pairs.

    It is never later. A fused operation is its parts one after another, a pair its forward and then its backward, a
    full backward I and then W, where `fine` has no B. None when the plan splits a backward and `fine` does not, or has
    other slices, or where only one of the two runs backwards.
    """
    own = plan.index
    runs_backwards = [len(index.letters) > 1 for index in (own, fine)]
    if own.slices != fine.slices or ("I" in own.letters and "I" not in fine.letters) or len({*runs_backwards}) > 1:
        return None
    if not plan.pairs and own == fine:
        return plan
    size, parts = fine.stages // own.stages, list[list[int]]()  # of each row of `own` the first numbers of its parts
    for kind in own.letters:
        kinds = "IW" if kind == "B" and "B" not in fine.letters else kind
        for first in range(0, fine.stages, size):
            stages = range(first, first + size)[:: 1 if kind == "F" else -1]
            parts.append([fine.row(part, stage).start for part in kinds for stage in stages])
    orders = []
    for order in plan.orders:
        check_deadline()
        single = chain.from_iterable((one, plan.pairs[one]) if one in plan.pairs else (one,) for one in order)
        places = (divmod(number, own.units) for number in single)
        orders.append([part + unit for row, unit in places for part in parts[row]])
    return Plan(fine, orders)


def warn_of_bug(source: str, error: InvalidSchedule) -> None:
    """Warn that a heuristic made an illegal schedule, which is left out."""
    warnings.warn(f"{source} made an illegal schedule, please report it: {error}", PipeschedWarning, stacklevel=3)


def pools(variant: Variant) -> list[Pools]:
    """Return the choices of memory pools: shares for each stage, where devices hold several, then whole devices.

    Where a device holds several stages, a list scheduler under one limit fills the memory with early stages and then
    waits for memory for the late ones. A share for each stage, in proportion to how long its activations must stay,
    prevents that: on V placements it makes the difference between 15 % and 2 % above the bound. A pause is added to
    every residence: the more, the more alike the shares. Each share has the room that an I of its stage needs.
    """
    problem, index = variant.problem, variant.index
    whole = Pools("", variant.graph, problem.capacity_grains, forward_headrooms(problem, index))
    several = problem.stages > problem.devices and len(problem.settled_placement.ways) == 1
    if problem.memory.budget is None or not several or problem.mode == FORWARD_ONLY:
        return [whole]
    longest, policy, caught = max(variant.graph.durations), variant.policy.portfolio, taken_by_backwards(problem, index)
    stays = [0] * problem.stages  # how long the activations of each stage must stay, in ticks
    if problem.has_units:
        for stage in range(index.stages):
            rows = zip(index.row("F", stage), index.row(index.last, stage), strict=True)
            ends = ((variant.heads[last] + variant.graph.durations[last], variant.heads[first]) for first, last in rows)
            stays[stage] = sum(end - begin for end, begin in ends) // index.units
    else:  # of stages of devices with a limit
        windows = PassBounds(problem, index.letters, paired=False).windows(alone=False)
        for chunk in chain.from_iterable(window.chunks for window in windows):
            stays[chunk.stage] = chunk.path + chunk.weight
    graph = variant.graph.changed(pools=index.spread(lambda _, stage: [stage] * index.units))
    rooms = index.spread(lambda kind, stage: [caught[stage] if kind == "F" else 0] * index.units) if any(caught) else []
    shares = [
        Pools(f", shares {pause}", graph, _shared(variant, caught, [stay + pause * longest for stay in stays]), rooms)
        for pause in policy.pauses
    ]
    return [*shares, whole] if len(variant.graph) <= policy.one_limit else shares


def _shared(variant: Variant, caught: Sequence[int], weights: Sequence[int]) -> list[int | None]:
    """Return what each stage may hold, in grains: in proportion to `weights`, the capacity of its device in all.

    That is one activation each, then again and again one more where weight / count is largest.
    """
    problem = variant.problem
    sizes, limits = problem.grains.largest["activation"], list[int | None]([None] * problem.stages)
    for device, capacity in enumerate(problem.capacity_grains):
        if capacity is None:
            continue
        counts = dict.fromkeys(problem.settled_placement.stages_on(device), 1)
        left = capacity - sum(caught[stage] + sizes[stage] for stage in counts)
        most = variant.index.microbatches
        while fitting := [one for one, count in counts.items() if 0 < sizes[one] <= left and count < most]:
            chosen = max(fitting, key=lambda stage: weights[stage] / counts[stage])
            counts[chosen] += 1
            left -= sizes[chosen]
        for stage, count in counts.items():
            limits[stage] = count * sizes[stage] + caught[stage]
    return limits


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
