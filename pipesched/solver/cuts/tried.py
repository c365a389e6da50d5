"""The problems that a solve tries: each number of chunks, each placement, the balanced cut and the next best ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, groupby, pairwise
from math import inf
from typing import NamedTuple

from pipesched.core.clock import TimeIsUp
from pipesched.errors import NoSchedule
from pipesched.pipeline.bounds import Bound
from pipesched.pipeline.capacity import require_least_capacity
from pipesched.pipeline.kinds import KEEP_ONLY, Allowed
from pipesched.pipeline.open_cuts import cut_at, ends_of, items_of
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import to_fraction
from pipesched.solver.cuts.chain import SLACK, Chain, Devices
from pipesched.solver.cuts.every_cut import least_by_work
from pipesched.solver.cuts.in_order import CutsInOrder, RankedCut, cuts_in_order
from pipesched.solver.cuts.near import cuts_near
from pipesched.solver.feasible import feasible
from pipesched.solver.policy import CutPolicy

ONE_BY_ONE = "the least over all cuts: first input, work and way home of a device"
WORK = "the least over all cuts: all work, divided among all devices"


class Tried(NamedTuple):
    """The problems to try, the balanced cut of each placement first, and a bound on other cuts, if there are any."""

    problems: list[Problem]
    others: Bound | None


class OtherCuts(NamedTuple):
    """Cuts of a placement beside the balanced one: those to try, and a bound on all that are not tried (None: none)."""

    problems: Sequence[Problem]
    bound: Bound | None


def tried(
    problems: Sequence[Problem], cuts: int, policy: CutPolicy, allowed: Allowed, *, counts_ways: bool = True
) -> Tried:
    """Return what is tried of problems on their placements: of each so many cuts, the balanced one among them.

    All are on one scale of ticks. Raises NoSchedule where none of the problems holds one microbatch.
    """
    found = [*feasible(problems, allowed)]
    bounds: list[Bound] = []
    for problem in problems:
        others = other_cuts(problem, cuts - 1, policy, allowed, counts_ways=counts_ways)
        found += others.problems
        bounds += [others.bound] if others.bound else []
    scale = max(problem.ticks.per_unit for problem in found)
    if any(problem.ticks.per_unit != scale for problem in found):
        found = [replace(problem, costs=replace(problem.costs, resolution=scale)) for problem in found]
    least = min(bounds, key=_value, default=None)
    return Tried(found, least and Bound(int(_value(least) * scale), least.reason, scale))


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
    problem: Problem, count: int, policy: CutPolicy, allowed: Allowed = KEEP_ONLY, *, counts_ways: bool = True
) -> OtherCuts:
    """Return up to `count` cuts beside that of a problem, by their bounds, with which one microbatch fits.

    Where cuts can be gone through one by one, the bound of the others is that of the next one, else that of all work.
    """
    chain = chain_of(problem, allowed, counts_ways=counts_ways)
    found: list[Problem] = []
    least: float = least_by_work(chain)
    reason = WORK
    fitting = _Fitting(problem, count, allowed, found)
    try:
        runs = _runs(chain)
        order = _order(chain, runs, fitting.own, policy)
        if order is None:
            fitting.next_bound(cuts_near(chain, fitting.own, policy.most_near))
        elif len(runs) == chain.stages:
            following = fitting.next_bound(order.within(policy.most_begun))
            least, reason = (order.ahead if following is None else following), ONE_BY_ONE
        else:  # of the ways to cut what stands side by side on a device only the evenest is tried
            least, reason = max(least, _in_parts(order.least, chain)), ONE_BY_ONE
            fitting.next_bound(cut._replace(ends=_parts(cut.ends, runs)) for cut in order.within(policy.most_begun))
    except TimeIsUp:
        pass
    return OtherCuts(found, None if least == inf else Bound(int(least), reason, chain.per_unit))


class _Fitting:
    """Takes the first cuts with which one microbatch fits, but for that of a problem, as problems into `found`."""

    def __init__(self, problem: Problem, count: int, allowed: Allowed, found: list[Problem]) -> None:
        self.problem, self.count, self.allowed, self.found = problem, count, allowed, found
        self.own = ends_of(problem)

    def next_bound(self, cuts: Iterable[RankedCut]) -> int | None:
        """Take cuts until there are `count` of them, and return the bound of the next one, if there is one."""
        for cut in cuts:
            if cut.ends == self.own or not cut.ends:
                continue
            made = cut_at(self.problem, cut.ends)
            if not _fits(made, self.allowed):
                continue
            if len(self.found) == self.count:
                return cut.bound
            self.found.append(made)
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


def _order(chain: Chain, runs: Sequence[int], own: Sequence[int], policy: CutPolicy) -> CutsInOrder | None:
    """Return the cuts in order whose bounds are not much above that of a cut; None where there are too many.

    Stages that stand side by side on a device are one.
    """
    lasts = [stage - 1 for stage in accumulate(runs)]
    of_stages = tuple(chain.devices.of_stages[stage] for stage in lasts)
    joined = replace(chain, devices=chain.devices._replace(of_stages=of_stages))
    ends = [own[stage] for stage in lasts]
    bound = joined.bound_of(ends)[0]
    for above in policy.margins:
        order = cuts_in_order(joined, int(bound * (1 + above)), policy.most_moves, policy.most_starts)
        if order is not None:
            return order
    return None


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
