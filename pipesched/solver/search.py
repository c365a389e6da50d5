"""The state of a solve while it runs (`Search`): the best schedule, a bound for each variant, what is still open.

Steps of a solve `offer` schedules and raise bounds; a variant is `open` until both meet. `offer_initial`, the second
part, makes a first schedule that fits: a solve without one ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from fractions import Fraction
from itertools import chain, product
from math import inf
from typing import NamedTuple

from pipesched.core.clock import Clock, TimeIsUp, check_deadline, deadline
from pipesched.core.cpsat import Limits
from pipesched.errors import InvalidSchedule
from pipesched.pipeline.bounds.bounds import Bound, work_bounds
from pipesched.pipeline.bounds.memory import least_capacity, taken_by_backwards
from pipesched.pipeline.check.check import checked
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.plan.schedule import schedule_plan, timed_schedule
from pipesched.pipeline.problem.quantities import in_units
from pipesched.pipeline.problem.units import FORWARD_ONLY
from pipesched.solver.portfolio import warn_of_bug
from pipesched.solver.variant import Candidate, Variant


class Event(NamedTuple):
    """The state of a solve at a moment: the best value (None: no schedule yet), its source, and the bound.

    Values and bounds are in the user's time unit.
    """

    step: str
    seconds: float
    value: int | float | None
    source: str
    bound: int | float

    @property
    def gap(self) -> float | None:
        """(value - bound) / bound, where both are known."""
        return None if self.value is None or not self.bound else (self.value - self.bound) / self.bound


Listener = Callable[[Event], None]


class Rank(NamedTuple):
    """What makes a schedule better than another one, in this order.

    Its value, in ticks; what its largest device holds, in the user's memory unit; that it has the name of a family;
    that its placement is tried before the other's.
    """

    value: int
    memory: Fraction
    is_anonymous: bool
    placement: int


class Search:
    """The state of a solve over variants of one model. `listener` is called with every better schedule or bound.

    Variants are known by their numbers. CP-SAT reports from other threads, one at a time and while this one waits, so a
    listener is never called twice at once. `others` is a bound on all that is no variant: on cuts that are not tried.
    """

    def __init__(
        self,
        variants: Sequence[Variant],
        limits: Limits,
        clock: Clock,
        listener: Listener | None = None,
        others: Bound | None = None,
    ) -> None:
        self.variants, self.limits, self.clock, self.listener = variants, limits, clock, listener
        self.others, self.policy = others, variants[0].policy
        self.per_unit = variants[0].problem.ticks.per_unit
        self.size = max(variant.index.size for variant in variants)  # operations of the largest one
        self.bounds = [Bound(0, "", self.per_unit) for _ in variants]
        self.candidates: list[Candidate | None] = [None for _ in variants]  # the best of each variant
        self.ranks: list[Rank | None] = [None for _ in variants]  # of those
        self.best: Candidate | None = None
        self.value = 0  # of the best, in ticks
        self.rank: Rank | None = None  # of the best
        self.heuristic: tuple[Rank, str] | None = None  # the best one that no search made
        self.named: dict[str, Fraction] = {}  # the memory of named schedules whose value is that of the best
        self.is_begun = False  # whether a variant was searched, beyond bounds and heuristics
        self.step = ""
        self.cut_off_bounds: list[str] = []  # searches for bounds that had too little time to end
        self.seen: set[str] = set()  # the families of which a schedule was offered
        self.is_family_left = False  # whether there was no time for some of them
        self.cut_off: set[int] = set()  # the variants whose exact search had too little time to begin, or to end

    @property
    def bound(self) -> Bound:
        """The least bound of all: no schedule on any of the placements, and on any cut, has a smaller objective."""
        others = [self.others] if self.others else []
        least = min([*self.bounds, *others], key=lambda bound: bound.ticks)
        return replace(least, ticks=min(least.ticks, self.value)) if self.best else least

    @property
    def open(self) -> list[int]:
        """The variants where something better may be found, the most promising first."""
        within = 1 + self.limits.gap
        numbers = [n for n, bound in enumerate(self.bounds) if self.best is None or self.value > bound.ticks * within]
        values = [inf if rank is None else rank.value for rank in self.ranks]
        return sorted(numbers, key=lambda number: (values[number], self.bounds[number].ticks))

    def tell(self, step: str | None = None) -> None:
        """Tell the listener where the solve stands, as it begins a step, or has found something better."""
        self.step = self.step if step is None else step
        if self.listener is not None:
            source, value = (self.best.source, in_units(self.value, self.per_unit)) if self.best else ("", None)
            self.listener(Event(self.step, self.clock.seconds, value, source, self.bound.value))

    def try_all(
        self,
        number: int,
        candidates: Iterable[Candidate],
        clock: Clock,
        *,
        heuristic: bool = False,
        to_the_end: bool = False,
    ) -> None:
        """Offer candidates of a variant until it is closed (or `to_the_end`), or `clock` is over; none once it is."""
        if clock.left <= 0:
            return
        with suppress(TimeIsUp), deadline(clock):
            for candidate in candidates:
                self.offer(number, candidate, heuristic=heuristic)
                is_closed = self.best is not None and number not in self.open
                if clock.is_over or (is_closed and not to_the_end):
                    return

    def offer(self, number: int, candidate: Candidate, *, heuristic: bool = False) -> bool:
        """Take note of a schedule of a variant, and return whether it is the best of that variant.

        `heuristic` says that no search made it. A schedule that breaks a rule is a bug of its source: it is left out,
        with a warning.
        """
        if candidate.family is not None:
            self.seen.add(candidate.family)
        schedule = candidate.schedule
        if not schedule.fits:
            return False
        value, held = self.variants[number].value(schedule), max(schedule.memory_grains)
        rank = Rank(value, Fraction(held, schedule.problem.grains.per_unit), candidate.family is None, number)
        is_better = self.rank is None or rank < self.rank
        if is_better:
            try:
                with deadline(Clock()) if self.best is None else nullcontext():  # the first counts, however late
                    checked(schedule)
            except InvalidSchedule as error:
                warn_of_bug(candidate.source, error)
                return False
        if heuristic and (self.heuristic is None or rank < self.heuristic[0]):
            self.heuristic = rank, candidate.source
        own = self.ranks[number]
        is_best_of_variant = own is None or rank < own
        if is_best_of_variant:
            self.candidates[number], self.ranks[number] = candidate, rank
        if is_better:
            if self.best is None or rank.value < self.value:
                self.named.clear()
            self.best, self.value, self.rank = candidate, rank.value, rank
            self.tell()
        if candidate.family is not None and value == self.value:
            self.named[candidate.family] = min(rank.memory, self.named.get(candidate.family, rank.memory))
        return is_best_of_variant

    def add(self, variant: Variant) -> int:
        """Take one more variant, with its bound, and return its number."""
        number = len(self.variants)
        self.variants = [*self.variants, variant]
        self.bounds.append(Bound(0, "", self.per_unit))
        self.candidates.append(None)
        self.ranks.append(None)
        raise_bounds(self, [number])
        return number

    def raise_bound(self, number: int, bound: Bound) -> None:
        if bound.ticks > self.bounds[number].ticks:
            before = self.bound.ticks
            self.bounds[number] = replace(bound, per_unit=self.per_unit)
            if self.bound.ticks > before:
                self.tell()


def raise_bounds(search: Search, numbers: Sequence[int]) -> None:
    """Bound these variants: by the work of devices in any time, then by what takes longer, up to a part of the time."""
    for number, variant in ((number, search.variants[number]) for number in numbers):
        paired = variant.problem.costs.overlap is not None
        spans = work_bounds(variant.problem, variant.letters, paired=paired)
        search.raise_bound(number, max(spans, key=lambda bound: bound.ticks))
    clock = search.clock.part(0.4 * search.limits.seconds)
    for number, variant in ((number, search.variants[number]) for number in numbers):
        own = Clock(max(clock.left, 0.05), search.clock.stop)  # enough for a single microbatch
        with suppress(TimeIsUp):
            with deadline(own):
                bound = replace(variant.bound(), per_unit=search.per_unit)
            search.raise_bound(number, bound)
            search.bounds[number] = max(bound, search.bounds[number], key=lambda one: one.ticks)  # its reason says more
        if own.is_over:
            search.cut_off_bounds.append(f"bounds, {variant.name}")


Orders = list[list[int]]


def quick_rounds(variants: Sequence[Variant], order: Sequence[int]) -> Iterator[tuple[int, Iterator[Candidate]]]:
    """Yield the number of each variant with a list schedule of it, then each again with the families that are quick."""
    yield from ((number, variants[number].quick_ruled_candidates()) for number in order)
    yield from ((number, variants[number].quick_named_candidates()) for number in order)


def offer_initial(search: Search) -> None:
    """Offer a schedule that fits, unless the solve is stopped; its plan says where it took longer than the limit."""
    clock = Clock(stop=search.clock.stop)
    for number, variant in enumerate(search.variants):
        search.tell(f"first schedule, {variant.name}")
        with suppress(TimeIsUp), deadline(clock):
            if any(search.offer(number, candidate, heuristic=True) for candidate in initial_candidates(variant)):
                candidate = search.candidates[number]
                if search.clock.is_over and candidate is not None and not search.clock.is_stopped:
                    schedule = candidate.schedule
                    what = f"to make and check one schedule of {schedule.plan.index.size:,} operations"
                    plan = replace(schedule.plan, note=f"{what} takes longer than the `time_limit`: no other was tried")
                    noted = timed_schedule(schedule.problem, plan, schedule.times, schedule.graph)
                    search.candidates[number] = search.best = candidate._replace(schedule=noted)
                return


class Way(NamedTuple):
    """Microbatches that go the same way, and the stages that each device runs for them, in order."""

    microbatches: range
    stages: list[list[int]]


def initial_candidates(variant: Variant) -> Iterator[Candidate]:
    """Yield schedules of a variant, the quickest to make first; at least one fits, if any order does."""
    ways, placement, count = list[Way](), variant.problem.settled_placement, variant.index.microbatches
    for microbatches in placement.directions(count):
        of_devices: list[list[int]] = [[] for _ in range(variant.problem.devices)]
        for stage in range(variant.problem.stages if microbatches else 0):
            of_devices[placement.device(stage, microbatches[0], count)].append(stage)
        ways.append(Way(microbatches, of_devices))
    together = min(_fitting(variant, way, device) for way in ways for device in range(variant.problem.devices))
    if together > 0:
        devices = placement.devices
        in_order = devices == tuple(sorted(devices)) and len({*devices}) == variant.problem.devices  # each comes once
        is_linear = in_order and len(ways) == 1 and variant.index.slices == 1 and len(variant.index.letters) > 1
        source = "1f1b within the budget" if is_linear else f"groups of {together}"
        orders = _one_forward_one_backward(variant, ways[0]) if is_linear else _in_groups(variant, ways, together)
        yield Candidate(source, schedule_plan(variant.problem, Plan(variant.index, orders)))
    yield from variant.quick_ruled_candidates()


def _fitting(variant: Variant, way: Way, device: int) -> int:
    """Return how many microbatches of a way a device may hold at once on all of its stages.

    Beside them there is room for what the I of one takes. Without a limit it is the number of all microbatches.
    """
    problem, count = variant.problem, variant.index.microbatches
    capacity, stages = problem.capacity_grains[device], way.stages[device]
    size = sum(problem.grains.largest["activation"][stage] for stage in stages)
    if problem.rounds > 1:  # of which one after another may keep less than several in flight
        return problem.batches if capacity is None or not problem.memory.kv else 1
    if capacity is None or not size or problem.mode == FORWARD_ONLY:
        return count
    if problem.has_units:
        return min(1 + (capacity - least_capacity(problem, device)) // size, count)
    caught = max(problem.grains.largest["caught"][stage] for stage in stages) if problem.costs.split else 0
    return min((capacity - caught) // size, count)


def _one_forward_one_backward(variant: Variant, way: Way) -> Orders:
    """Return 1F1B with fewer warm-ups where the budget holds fewer, and nowhere more than on the device before."""
    orders: Orders = []
    ahead = [variant.index.microbatches] * variant.index.microbatches
    for device, stages in enumerate(way.stages):
        check_deadline()
        ahead = _ahead(variant, device, stages, ahead)
        forwards = [*zip(*(variant.index.row("F", stage) for stage in stages), strict=True)]
        rows = [row for stage in reversed(stages) for row in _backward_rows(variant, stage)]
        order: list[int] = []
        for begin, end, backward in zip([0, *ahead], ahead, zip(*rows, strict=True), strict=False):
            order += chain.from_iterable(forwards[begin:end])
            order += backward
        orders.append(order)
    return orders


def _ahead(variant: Variant, device: int, stages: Sequence[int], before: Sequence[int]) -> list[int]:
    """Return how many forwards a device runs before each backward, which on the device before are `before`.

    They are as many as in 1F1B, and as the budget holds beside what an I takes, but at least that of the backward.
    """
    problem = variant.problem
    taken, capacity = taken_by_backwards(problem, variant.index), problem.capacity_grains[device]
    room = inf if capacity is None else capacity - max(taken[stage] for stage in stages)
    sizes = problem.model.sizes["activation"][[*stages]].sum(axis=0).tolist()
    ahead, held, begun = list[int](), 0, 0
    for number, size in enumerate(sizes):
        most = min(before[number], number + problem.devices - device)
        while begun < most and (begun <= number or held + sizes[begun] <= room):
            held += sizes[begun]
            begun += 1
        ahead.append(begun)
        held -= size
    return ahead


def _in_groups(variant: Variant, ways: Sequence[Way], size: int) -> Orders:
    """Return all forwards of so many microbatches, stage by stage, then their backwards; groups of ways take turns."""
    index, count = variant.index, variant.index.slices
    orders: Orders = [[] for _ in range(variant.problem.devices)]
    for first, way in product(range(0, max(len(way.microbatches) for way in ways), size), ways):
        group = way.microbatches[first : first + size]
        if not group:
            continue
        if variant.problem.rounds > 1 and size == 1:  # all rounds of a microbatch before the next one
            number = first % variant.problem.rounds * variant.problem.batches + first // variant.problem.rounds
            group = range(number, number + 1)
        units = [microbatch * count + part for microbatch in group for part in reversed(range(count))]
        for stages, order in zip(way.stages, orders, strict=True):
            check_deadline()
            order.extend(chain.from_iterable(index.row("F", stage)[index.in_units(group)] for stage in stages))
            rows = (_backward_rows(variant, stage) for stage in reversed(stages))
            order.extend(row[unit] for own in rows for unit in units for row in own)
    return orders


def _backward_rows(variant: Variant, stage: int) -> list[range]:
    """Return the row of B, or those of I and W, or of forwards alone none."""
    return [variant.index.row(kind, stage) for kind in variant.index.letters if kind != "F"]
