"""The problems that a solve tries (`tried`): each number of chunks, each placement, the balanced cut and the next.

`tried` asks `other_cuts` for the best cuts of each placement, in the order of their bounds (chain.py) or near the
balanced one (`cuts_near`), and for a bound on those not tried. The best cuts of algorithms (`of_families`) come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from heapq import heappop, heappush
from itertools import accumulate, groupby, pairwise
from math import ceil, inf
from typing import NamedTuple

from pipesched.core.arrays import ceil_div, np, round_up, total
from pipesched.core.clock import Clock, TimeIsUp, check_deadline, deadline
from pipesched.errors import ConfigError, Deadlock, NoSchedule
from pipesched.pipeline.bounds.bounds import Bound
from pipesched.pipeline.bounds.memory import require_least_capacity
from pipesched.pipeline.layers.recut import cut_at, ends_of, items_of
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.kinds import KEEP_ONLY, MemorySavings
from pipesched.pipeline.problem.placement import Placement
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import to_fraction
from pipesched.results.run import run
from pipesched.schedulers.family import Family, prepare
from pipesched.schedulers.registry import compared
from pipesched.solver.cuts.chain import SLACK, Chain, CutsInOrder, Devices, RankedCut, cuts_in_order
from pipesched.solver.feasible import feasible

ONE_BY_ONE = "the least over all cuts: first input, work and way home of a device"
WORK = "the least over all cuts: all work, and its longest parts, divided among all devices"


class FamilyCut(NamedTuple):
    """A problem on the best cut of an algorithm, and what that makes of it."""

    name: str
    problem: Problem
    schedule: Schedule

    def length(self) -> Fraction:
        return Fraction(self.schedule.makespan_ticks, self.problem.ticks.per_unit)


class Tried(NamedTuple):
    """The problems to try: those of families, then the balanced cut of each placement, then the next best ones."""

    problems: list[Problem]
    others: Bound | None  # on the makespan with other cuts, if there are any
    first: Sequence[FamilyCut] = ()  # those of families
    least: Bound | None = None  # on all cuts, without a search
    chunks: tuple[int, ...] = ()  # how many stages a device these bounds are for
    is_cut_off: bool = False  # the time was over before `others` was found
    not_tried: Sequence[str] = ()  # families for which the time was over


class OtherCuts(NamedTuple):
    """Cuts of a placement beside the balanced one: those to try, and a bound on all that are not tried (None: none).

    `least` is a bound on all cuts. `is_cut_off`: time was over before the bound was found.
    """

    problems: Sequence[Problem]
    bound: Bound | None
    least: Bound
    is_cut_off: bool = False


# A problem on the best cuts of algorithms, the shortest first, and the algorithms for which there was no time.
FamilyCuts = tuple[list[FamilyCut], list[str]]


def tried(
    problems: Sequence[Problem],
    cuts: int,
    allowed: MemorySavings,
    clock: Clock,
    *,
    fused: Sequence[Problem] = (),
    families: Callable[[], FamilyCuts] = lambda: ([], []),
    counts_ways: bool = True,
) -> Tried:
    """Return what is tried of problems on their placements: what `families` have, and of each so many cuts.

    The balanced one is one of them. Bounds come first, since they must not depend on the time that families take; of
    `fused` problems too, whose cuts only families try. All are on one scale of ticks. Raises NoSchedule where none of
    the problems holds one microbatch.
    """
    every = [other_cuts(one, cuts - 1, clock, allowed, counts_ways=counts_ways) for one in problems]
    bounds = [one.bound for one in every if one.bound]
    for one in fused:
        others, own = other_cuts(one, 0, clock, allowed, counts_ways=counts_ways), chain_of(one, allowed)
        every.append(others)
        bounds += [
            Bound(own.bound_of(ends_of(one))[0], ONE_BY_ONE, own.per_unit),
            *([others.bound] if others.bound else []),
        ]
    first, not_tried = families()
    found = [one.problem for one in first]
    with suppress(*([NoSchedule] if found else [])):
        found += _unknown(feasible(problems, allowed), found)
    for others in every:
        found += _unknown(others.problems, found)
    chunks = tuple(sorted({one.stages // one.devices for one in (*problems, *fused)}))
    scale = max(problem.ticks.per_unit for problem in found)
    if any(problem.ticks.per_unit != scale for problem in found):
        found = [replace(problem, costs=replace(problem.costs, resolution=scale)) for problem in found]
    least = min(bounds, key=_value, default=None)
    bound, of_all = (
        one and Bound(int(_value(one) * scale), one.reason, scale)
        for one in (least, min((one.least for one in every), key=_value))
    )
    return Tried(found, bound, first, of_all, chunks, any(others.is_cut_off for others in every), not_tried)


def _unknown(problems: Iterable[Problem], known: Sequence[Problem]) -> list[Problem]:
    """Return the problems whose placement and cut none of those that are known has."""
    own = {(one.settled_placement, ends_of(one)) for one in known}
    return [one for one in problems if (one.settled_placement, ends_of(one)) not in own]


def _value(bound: Bound) -> Fraction:
    return Fraction(bound.ticks, bound.per_unit)


def other_cuts(
    problem: Problem, count: int, clock: Clock, allowed: MemorySavings = KEEP_ONLY, *, counts_ways: bool = True
) -> OtherCuts:
    """Return up to `count` cuts beside that of a problem, by their bounds, with which one microbatch fits.

    Where microbatches differ or are cut there are none. The bound of the others is that of the next cut where cuts can
    be gone through one by one, in time; else that of all work.
    """
    if problem.has_units:
        return OtherCuts((), work_bound(problem), work_bound(problem))
    chain = chain_of(problem, allowed, counts_ways=counts_ways)
    fitting = _Fitting(problem, count, allowed)
    by_work = least_by_work(chain)
    least, reason, is_cut_off = float(by_work), WORK, True
    with suppress(TimeIsUp), deadline(clock):
        lasts = [stage - 1 for stage in accumulate(_runs(chain))]
        of_stages = tuple(chain.devices.of_stages[stage] for stage in lasts)
        joined = replace(chain, devices=chain.devices._replace(of_stages=of_stages))
        balanced = joined.bound_of([fitting.own[stage] for stage in lasts])[0]
        for above in (0.0, 0.05, inf):  # cuts whose bound is so much above the balanced one's at most
            most = inf if above == inf else int(balanced * (1 + above))
            order = cuts_in_order(joined, most, most_moves=100_000, most_starts=2_000)
            if order is None:  # too many
                break
            least, reason = max(least, _next_bound(chain, fitting, order)), ONE_BY_ONE
            if len(fitting.found) == count and least != order.lanes.most:  # what comes next is known
                break
        is_cut_off = False
    if len(fitting.found) < count:
        with suppress(TimeIsUp), deadline(clock):
            fitting.take(cuts_near(chain, fitting.own, most=600))
    bound = None if least == inf else Bound(int(least), reason, chain.per_unit)
    return OtherCuts([*fitting.found.values()], bound, Bound(by_work, WORK, chain.per_unit), is_cut_off)


def chain_of(problem: Problem, allowed: MemorySavings = KEEP_ONLY, *, counts_ways: bool = True) -> Chain:
    """Return the items of a problem whose cut is open, on its placement."""
    placement, budget, items = problem.settled_placement, problem.memory.budget, items_of(problem)
    devices = Devices(
        of_stages=placement.devices,
        speed=[*map(to_fraction, problem.speed or (1,) * problem.devices)],
        room=None if budget is None else [*map(to_fraction, budget)],
        links=items.links if problem.links is None else [[*map(to_fraction, row)] for row in problem.links],
        second=placement.ways[1] if len(placement.ways) > 1 else (),
    )
    return Chain(items, devices, problem.microbatches, counts_ways, not any(allowed))


def _next_bound(chain: Chain, fitting: _Fitting, order: CutsInOrder) -> float:
    """Take cuts in order, and return a bound of all others."""
    runs = _runs(chain)
    cuts = order.within(5_000)
    if len(runs) == chain.stages:
        following = fitting.take(cuts)
        return order.ahead if following is None else following
    fitting.take(cut._replace(ends=_parts(cut.ends, runs)) for cut in cuts)
    # What stands side by side on a device may be cut in other ways, and its durations are rounded one by one.
    is_exact = order.least == inf or all(map(chain.is_exact, chain.devices.speed))
    return order.least if is_exact else int(order.least * (1 - SLACK))


class _Fitting:
    """Takes the first cuts with which one microbatch fits as problems into `found`, by the ends of their stages."""

    def __init__(self, problem: Problem, count: int, allowed: MemorySavings) -> None:
        self.problem, self.count, self.allowed = problem, count, allowed
        self.own, self.found = ends_of(problem), dict[tuple[int, ...], Problem]()

    def take(self, cuts: Iterable[RankedCut]) -> int | None:
        """Take cuts until there are `count` of them, and return the bound of the next one, if there is one."""
        for cut in cuts:
            if cut.ends in (self.own, ()) or cut.ends in self.found:
                continue
            made = cut_at(self.problem, cut.ends)
            try:
                require_least_capacity(made, self.allowed)
            except NoSchedule:
                continue
            if len(self.found) == self.count:
                return cut.bound
            self.found[cut.ends] = made
        return None


def _runs(chain: Chain) -> list[int]:
    """Return the numbers of stages that stand side by side on a device, where those are all of its stages."""
    runs = [len([*group]) for _, group in groupby(chain.devices.of_stages)]
    return runs if len(runs) == len(chain.devices.speed) else [1] * chain.stages


def _parts(ends: Sequence[int], runs: Sequence[int]) -> tuple[int, ...]:
    """Return where stages end that are even parts of each run of items; nothing where a run has too few items."""
    found: list[int] = []
    for (begin, end), count in zip(pairwise((0, *ends)), runs, strict=True):
        if end - begin < count:
            return ()
        found += [begin + (part + 1) * (end - begin) // count for part in range(count)]
    return tuple(found)


def cuts_near(chain: Chain, ends: tuple[int, ...], most: int) -> Iterator[RankedCut]:
    """Yield cuts by their bounds, then their largest work, of `most` that are looked at, beginning from a cut."""
    seen, queue = {ends}, [RankedCut(*chain.bound_of(ends), ends)]
    while queue:
        best = heappop(queue)
        yield best
        here = best.ends
        for stage, (begin, end, behind) in enumerate(zip((0, *here), here, here[1:], strict=False)):
            for moved in (end - 1, end + 1):  # one stage but the last ends an item earlier or later, none is empty
                near = (*here[:stage], moved, *here[stage + 1 :])
                if begin < moved < behind and near not in seen and len(seen) < most:
                    check_deadline()
                    seen.add(near)
                    heappush(queue, RankedCut(*chain.bound_of(near), near))


def least_by_work(chain: Chain) -> int:
    """Return ticks in which all devices can do all work, and no fewer than those of items that one must have together.

    Each device also waits for its first microbatch, and after its last for the gradient to come home: each stage before
    its first one has an item at least. Of the longest n items of so many devices, one has ceil(n / devices) at least;
    where a second copy goes the other way, two devices share what they have.
    """
    speeds = chain.devices.speed
    work = [chain.microbatches * (after - before) for before, after in pairwise(chain.least_work)]
    rates = [1 / chain.least_time(speed) for speed in speeds]
    waits, stages = Fraction(0), [*chain.devices.of_stages]
    for device, rate in enumerate(rates) if chain.has_ways else ():
        first = stages.index(device)
        way = chain.way(first, first, sum(chain.is_crossed[: first + 1]) * min(chain.latencies, default=0))
        waits += rate * (way.there + (0 if any(chain.items.weight) else way.back))
    spread = ceil((sum(work) + waits) / sum(rates))
    sharing = 2 if chain.devices.second else 1
    holders, falling = ceil_div(len(speeds), sharing), sorted(work, reverse=True)
    sums = [0, *accumulate(falling)]
    together = max(sums[n] - sums[n - ceil_div(n, holders)] for n in range(1, len(sums), holders))
    return round_up(max(spread, int(together * chain.fastest) // sharing), chain.quantum)


def work_bound(problem: Problem) -> Bound:
    """Return the bound on all cuts of a problem with units: all work, divided among all devices."""
    ticks, per_unit = replace(problem, speed=None).ticks, problem.ticks.per_unit
    work = sum(total(ticks.each(key).ravel()) for key in ("forward", "backward"))
    if "overlap" in ticks.rows:  # a forward takes its own time, or that of its pair
        work = min(work, total(np.minimum(ticks.each("forward"), ticks.each("overlap")).ravel()))
    speeds = [*map(to_fraction, problem.speed or (1,) * problem.devices)]
    exactly = Fraction(1) if {*speeds} == {1} else 1 - SLACK
    return Bound(int(exactly * work * per_unit / (ticks.per_unit * sum(speeds))), WORK, per_unit)


def of_families(problem: Problem, problems: Sequence[Problem], clock: Clock, slow: Clock) -> FamilyCuts:
    """Return a problem on the best cuts of algorithms: one for each placement of `problems`.

    Algorithms that are fast come first, the others while the clock of `slow` ones is not over.
    """
    found: dict[Placement, FamilyCut] = {}
    families = sorted(_families(problem), key=lambda one: one.is_slow)
    for number, family in enumerate(families):
        try:
            with deadline(slow if family.is_slow else clock):
                outcome = run(problem, family.name)
        except TimeIsUp:
            return sorted(found.values(), key=FamilyCut.length), [one.name for one in families[number:]]
        except (ConfigError, NoSchedule, Deadlock):
            continue
        own = replace(outcome.problem, costs=replace(outcome.problem.costs, split=problem.costs.split))
        cut, placement = FamilyCut(family.name, own, outcome.schedule), own.settled_placement
        if _is_among(own, problems) and cut.schedule.fits:
            found[placement] = min(found.get(placement, cut), cut, key=FamilyCut.length)
    return sorted(found.values(), key=FamilyCut.length), []


def fused_for_families(problem: Problem, problems: Sequence[Problem]) -> list[Problem]:
    """Return a problem with the stages of each algorithm that has fewer, on a placement of `problems`."""
    own = {one.placement: one for one in families_on(problem, problems).values()}
    for placement in {one.settled_placement for one in problems} & own.keys():
        del own[placement]
    return [replace(one, costs=replace(one.costs, split=problem.costs.split)) for one in own.values()]


def families_on(problem: Problem, problems: Sequence[Problem]) -> dict[str, Problem]:
    """Return a problem as algorithms run it on the stages of one of others, or on blocks of them, by their names."""
    found = dict[str, Problem]()
    for family in _families(problem):
        with suppress(ConfigError):
            own = prepare(problem, family)
            if own.placement is not None and _is_among(own, problems):
                found[family.name] = own
    return found


def _families(problem: Problem) -> list[Family]:
    """Return the algorithms whose schedules a solve of a problem may take."""
    is_split = problem.costs.split
    return [one for one in compared(problem) if not one.required and (is_split or not one.splits_backward)]


def _is_among(problem: Problem, problems: Sequence[Problem]) -> bool:
    """Return whether the stages of a problem are those of another one, or blocks of them, where they stand there."""
    placement = problem.settled_placement
    return any(
        not one.stages % problem.stages and placement.in_blocks(one.stages) == one.settled_placement.by_number
        for one in problems
    )
