"""The problems that a solve tries: each number of chunks, each placement, the balanced cut and the next best ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from heapq import heappop, heappush
from itertools import accumulate, chain as chained, groupby, pairwise
from math import ceil, inf
from typing import NamedTuple

from pipesched.core.arrays import round_up
from pipesched.core.clock import Clock, TimeIsUp, look, under
from pipesched.errors import ConfigError, Deadlock, NoSchedule
from pipesched.pipeline.bounds import Bound
from pipesched.pipeline.capacity import require_least_capacity
from pipesched.pipeline.kinds import KEEP_ONLY, Allowed
from pipesched.pipeline.placement import Placement
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import to_fraction
from pipesched.pipeline.recut import cut_at, ends_of, items_of
from pipesched.pipeline.schedule import Schedule
from pipesched.results.outcome import run
from pipesched.schedulers.registry import compared
from pipesched.solver.cuts.chain import SLACK, Chain, Devices
from pipesched.solver.cuts.in_order import CutsInOrder, RankedCut, cuts_in_order
from pipesched.solver.feasible import feasible
from pipesched.solver.policy import CutPolicy


def least_by_work(chain: Chain) -> int:
    """Return ticks in which all devices can do all work, and no fewer than those of the longest item alone.

    Each device also waits for its first microbatch, and after its last for the gradient to come home: each stage before
    its first one has an item at least.
    """
    speeds = chain.devices.speed
    work = [chain.microbatches * (after - before) for before, after in pairwise(chain.least_work)]
    rates = [1 / chain.least_time(speed) for speed in speeds]
    waits = [rate * _waiting(chain, device) for device, rate in enumerate(rates)] if chain.has_ways else []
    spread = ceil((sum(work) + sum(waits, Fraction(0))) / sum(rates))
    alone = int(max(work) * chain.fastest) // (2 if chain.devices.mirrored else 1)
    return round_up(max(spread, alone), chain.quantum)


def _waiting(chain: Chain, device: int) -> int:
    """Return the ticks in which a device waits at least, at its begin and at its end."""
    stages: Sequence[int] = chain.devices.of_stages
    first = stages.index(device)
    way, hop = chain.ways[first], chain.hops[first]
    latency = sum(chain.least_latency(stage) for stage in range(1, first + 1))
    goes_home = not any(chain.items.weight)
    return way.there + hop.there + latency + (way.back + hop.back + latency if goes_home else 0)


def cuts_near(chain: Chain, ends: tuple[int, ...], most: int) -> Iterator[RankedCut]:
    """Yield cuts by their bounds, then their largest work, of `most` that are looked at, beginning from a cut."""
    seen, queue = {ends}, [RankedCut(*chain.bound_of(ends), ends)]
    while queue:
        best = heappop(queue)
        yield best
        for near in _moved(best.ends):
            if near not in seen and len(seen) < most:
                look()
                seen.add(near)
                heappush(queue, RankedCut(*chain.bound_of(near), near))


def _moved(ends: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the cuts in which one stage but the last ends an item earlier or later, and none is empty."""
    for stage, (begin, end, behind) in enumerate(zip((0, *ends), ends, ends[1:], strict=False)):
        for moved in (end - 1, end + 1):
            if begin < moved < behind:
                yield (*ends[:stage], moved, *ends[stage + 1 :])


ONE_BY_ONE = "the least over all cuts: first input, work and way home of a device"
WORK = "the least over all cuts: all work, divided among all devices"


class FamilyCut(NamedTuple):
    """A problem on the best cut of an algorithm, and what that makes of it."""

    name: str
    problem: Problem
    schedule: Schedule

    @property
    def makespan(self) -> Fraction:
        """How long it takes."""
        return Fraction(self.schedule.makespan_ticks, self.problem.ticks.per_unit)


class Tried(NamedTuple):
    """The problems to try, and a bound on other cuts, if there are any; the first of them are of families.

    Then comes the balanced cut of each placement.
    """

    problems: list[Problem]
    others: Bound | None
    first: Sequence[FamilyCut] = ()


class OtherCuts(NamedTuple):
    """Cuts of a placement beside the balanced one: those to try, and a bound on all that are not tried (None: none)."""

    problems: Sequence[Problem]
    bound: Bound | None


def of_families(problem: Problem, problems: Sequence[Problem], clock: Clock, slow: Clock) -> list[FamilyCut]:
    """Return a problem on the best cuts of algorithms, the shortest first: one for each placement of `problems`.

    Algorithms that are fast come first, the others while the clock of `slow` ones is not over.
    """
    found: dict[Placement, FamilyCut] = {}
    for family in sorted(compared(problem), key=lambda one: one.is_slow):
        if family.required or (family.splits_backward and not problem.costs.split):
            continue
        try:
            with under(slow if family.is_slow else clock):
                outcome = run(problem, family.name)
        except TimeIsUp:
            break
        except (ConfigError, NoSchedule, Deadlock):
            continue
        own = replace(outcome.problem, costs=replace(outcome.problem.costs, split=problem.costs.split))
        cut, placement = FamilyCut(family.name, own, outcome.schedule), own.settled_placement
        is_tried = any(
            not one.stages % own.stages and placement.in_blocks(one.stages) == one.settled_placement.by_number
            for one in problems
        )
        if is_tried and cut.schedule.fits and (placement not in found or cut.makespan < found[placement].makespan):
            found[placement] = cut
    return sorted(found.values(), key=lambda one: one.makespan)


def tried(
    problems: Sequence[Problem],
    cuts: int,
    policy: CutPolicy,
    allowed: Allowed,
    clock: Clock,
    *,
    first: Sequence[FamilyCut] = (),
    counts_ways: bool = True,
) -> Tried:
    """Return what is tried of problems on their placements: `first`, and of each so many cuts, also the balanced one.

    Each has an equal share of the time that `clock` leaves. All are on one scale of ticks. Raises NoSchedule where none
    of the problems holds one microbatch.
    """
    found = [one.problem for one in first]
    with suppress(*([NoSchedule] if found else [])):
        found += _others(feasible(problems, allowed), found)
    bounds: list[Bound] = []
    for number, problem in enumerate(problems):
        share = clock.part(clock.left / (len(problems) - number))
        others = other_cuts(problem, cuts - 1, policy, share, allowed, counts_ways=counts_ways)
        found += _others(others.problems, found)
        bounds += [others.bound] if others.bound else []
    scale = max(problem.ticks.per_unit for problem in found)
    if any(problem.ticks.per_unit != scale for problem in found):
        found = [replace(problem, costs=replace(problem.costs, resolution=scale)) for problem in found]
    least = min(bounds, key=_value, default=None)
    return Tried(found, least and Bound(int(_value(least) * scale), least.reason, scale), first)


def _others(problems: Iterable[Problem], known: Sequence[Problem]) -> list[Problem]:
    """Return the problems whose placement and cut none of those that are known has."""
    own = {(one.settled_placement, ends_of(one)) for one in known}
    return [one for one in problems if (one.settled_placement, ends_of(one)) not in own]


def _value(bound: Bound) -> Fraction:
    return Fraction(bound.ticks, bound.per_unit)


def chain_of(problem: Problem, allowed: Allowed = KEEP_ONLY, *, counts_ways: bool = True) -> Chain:
    """Return the items of a problem whose cut is open, on its placement."""
    placement, budget, items = problem.settled_placement, problem.memory.budget, items_of(problem)
    devices = Devices(
        of_stages=placement.devices,
        speed=[*map(to_fraction, problem.speed or (1,) * problem.devices)],
        room=None if budget is None else [*map(to_fraction, budget)],
        links=items.links if problem.links is None else [[*map(to_fraction, row)] for row in problem.links],
        mirrored=placement.mirrored,
    )
    return Chain(items, devices, problem.microbatches, counts_ways, not any(allowed))


def other_cuts(
    problem: Problem,
    count: int,
    policy: CutPolicy,
    clock: Clock,
    allowed: Allowed = KEEP_ONLY,
    *,
    counts_ways: bool = True,
) -> OtherCuts:
    """Return up to `count` cuts beside that of a problem, by their bounds, with which one microbatch fits.

    Where microbatches differ or are cut there are none, and the bound of the others is that of all work.
    Where cuts can be gone through one by one, in time, the bound of the others is that of the next one, else that of
    all work.
    """
    if problem.has_units:
        return OtherCuts((), work_bound(problem))
    chain = chain_of(problem, allowed, counts_ways=counts_ways)
    fitting = _Fitting(problem, count, allowed)
    least, reason = float(least_by_work(chain)), WORK
    with suppress(TimeIsUp), under(clock.part(policy.ordered_part * clock.left)):
        for above in policy.margins:
            order = _order(chain, fitting.own, above, policy)
            if order is None:
                break
            least, reason = max(least, _next_bound(chain, fitting, order, policy)), ONE_BY_ONE
            if len(fitting.found) == count and least != order.lanes.most:  # what comes next is known
                break
    if len(fitting.found) < count:
        with suppress(TimeIsUp), under(clock):
            fitting.take(cuts_near(chain, fitting.own, policy.most_near))
    return OtherCuts([*fitting.found.values()], None if least == inf else Bound(int(least), reason, chain.per_unit))


def work_bound(problem: Problem) -> Bound:
    """Return the bound on all cuts of a problem with units: all work, divided among all devices."""
    lasts, per_unit = replace(problem, speed=None).unit_ticks.lasts, problem.unit_ticks.per_unit
    scale = Fraction(per_unit, replace(problem, speed=None).unit_ticks.per_unit)
    work = sum(sum(map(sum, lasts[key])) for key in ("forward", "backward"))
    if "overlap" in lasts:  # a forward takes its own time, or that of its pair
        pairs = zip(chained.from_iterable(lasts["forward"]), chained.from_iterable(lasts["overlap"]), strict=True)
        work = min(work, sum(map(min, pairs)))
    speeds = [*map(to_fraction, problem.speed or (1,) * problem.devices)]
    exactly = Fraction(1) if {*speeds} == {1} else 1 - SLACK
    return Bound(int(exactly * work * scale / sum(speeds)), WORK, per_unit)


def _next_bound(chain: Chain, fitting: _Fitting, order: CutsInOrder, policy: CutPolicy) -> float:
    """Take cuts in order, and return a bound of all others."""
    runs = _runs(chain)
    cuts = order.within(policy.most_begun)
    if len(runs) == chain.stages:
        following = fitting.take(cuts)
        return order.ahead if following is None else following
    fitting.take(cut._replace(ends=_parts(cut.ends, runs)) for cut in cuts)
    return _in_parts(order.least, chain)  # what stands side by side on a device may be cut in other ways


class _Fitting:
    """Takes the first cuts with which one microbatch fits, but for that of a problem, as problems into `found`.

    These stand by the ends of their stages.
    """

    def __init__(self, problem: Problem, count: int, allowed: Allowed) -> None:
        self.problem, self.count, self.allowed = problem, count, allowed
        self.own, self.found = ends_of(problem), dict[tuple[int, ...], Problem]()

    def take(self, cuts: Iterable[RankedCut]) -> int | None:
        """Take cuts until there are `count` of them, and return the bound of the next one, if there is one."""
        for cut in cuts:
            if cut.ends in (self.own, ()) or cut.ends in self.found:
                continue
            made = cut_at(self.problem, cut.ends)
            if not _fits(made, self.allowed):
                continue
            if len(self.found) == self.count:
                return cut.bound
            self.found[cut.ends] = made
        return None


def _fits(problem: Problem, allowed: Allowed) -> bool:
    try:
        require_least_capacity(problem, allowed)
    except NoSchedule:
        return False
    return True


def _runs(chain: Chain) -> list[int]:
    """Return the numbers of stages that stand side by side on a device, where those are all of its stages."""
    runs = [len([*group]) for _, group in groupby(chain.devices.of_stages)]
    return runs if len(runs) == len(chain.devices.speed) else [1] * chain.stages


def _order(chain: Chain, own: Sequence[int], above: float, policy: CutPolicy) -> CutsInOrder | None:
    """Return the cuts in order whose bounds are at most so much `above` that of a cut; None where there are too many.

    Stages that stand side by side on a device are one.
    """
    lasts = [stage - 1 for stage in accumulate(_runs(chain))]
    of_stages = tuple(chain.devices.of_stages[stage] for stage in lasts)
    joined = replace(chain, devices=chain.devices._replace(of_stages=of_stages))
    bound = joined.bound_of([own[stage] for stage in lasts])[0]
    return cuts_in_order(
        joined, inf if above == inf else int(bound * (1 + above)), policy.most_moves, policy.most_starts
    )


def _in_parts(least: float, chain: Chain) -> float:
    """Return a bound of joined stages for stages whose durations are rounded one by one."""
    is_exact = all(map(chain.is_exact, chain.devices.speed))
    return least if is_exact or least == inf else int(least * (1 - SLACK))


def _parts(ends: Sequence[int], runs: Sequence[int]) -> tuple[int, ...]:
    """Return where stages end that are even parts of each run of items; nothing where a run has too few items."""
    found: list[int] = []
    for (begin, end), count in zip(pairwise((0, *ends)), runs, strict=True):
        if end - begin < count:
            return ()
        found += [begin + (part + 1) * (end - begin) // count for part in range(count)]
    return tuple(found)
