"""The periodic method of a solve: short periods by a beam search and an exact model, made schedules.

A block, the operations of a few microbatches, repeats every period. `PeriodicPhase.go_on` is where a solve begins: it
has a `PeriodSearch` for each variant, that a `Seeker` for each size of block. `unrolled` makes a block a schedule of
all microbatches. `PeriodModel` refutes periods; `other_orders` looks for shorter ones by another way back on a V.

If a period is possible, every longer one is too: keep the phases and the numbers of periods, and let the rest of the
circle idle. So each block has a least period, between one that was found and those that are too short.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, combinations, pairwise
from typing import Any, NamedTuple

import numpy as np

from pipesched.core.arrays import ceil_div, lists
from pipesched.core.clock import Clock, TimeIsUp, deadline
from pipesched.core.cpsat import Limits, TaskModel
from pipesched.core.listsched import insert_in_order
from pipesched.core.tasks import reversed_graph
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.placement import Placement
from pipesched.pipeline.problem.quantities import in_units
from pipesched.results.outcome import Repetition
from pipesched.solver.model import sorted_rows
from pipesched.solver.periodic.beam import NO_HOP, Beam, BlockOperations, DownAndUp
from pipesched.solver.search import Search
from pipesched.solver.variant import PERIODIC, Candidate, Variant

NEVER_FULL = 2**62


class PeriodicSchedule(NamedTuple):
    """The starts of a block's operations, its period, both in quanta, and how many microbatches it has."""

    starts: list[int]
    period: int
    microbatches: int


class Seeker:
    """Looks for schedules of a block with a given period; what it learns about devices it keeps for other periods."""

    def __init__(self, variant: Variant, microbatches: int, random: np.random.Generator) -> None:
        self.block, self.random, self.runs = BlockOperations(variant, microbatches), random, 0
        self.policy = variant.policy.periods
        self.least = self.block.least_period
        self.least_refuted = self.least - 1  # no period up to this one is possible
        self.prices = np.ones(variant.problem.devices)  # of memory
        self.excess = NEVER_FULL  # grains that devices held too much, in all: the least in the last search

    def seek(self, period: int, runs: int) -> PeriodicSchedule | None:
        """Return a schedule with the period that fits memory, if one is found in so many beam searches."""
        self.excess = NEVER_FULL
        if period <= self.least_refuted:
            return None
        beam, second = Beam(self.block, period, self.random), self.policy.second
        devices = range(len(self.prices))
        for _ in range(runs):
            order = devices if self.runs % 2 else devices[::-1]
            phases = beam.run(self.prices, order, second[self.runs % len(second)])
            self.runs += 1
            if not len(phases):
                continue
            starts = self.block.starts(phases, period)
            peaks = self.block.peaks(starts, period)
            limits = np.array([NEVER_FULL if most is None else most for most in self.block.capacities])
            excess = np.maximum(peaks - limits, 0).sum(axis=1)
            self.excess = min(self.excess, int(excess.min()))
            if not self.excess:
                return PeriodicSchedule(starts[int(excess.argmin())].tolist(), period, self.block.microbatches)
            shares = [  # memory of devices that hold too much gets dearer, that of others cheaper
                0.0 if most is None else (peak - most) / max(most, 1)
                for peak, most in zip(peaks[0].tolist(), self.block.capacities, strict=True)
            ]
            self.prices *= np.exp(np.clip(shares, -1, 1))
            self.prices /= self.prices.mean()
        return None


class PeriodModel(TaskModel):
    """The question whether a block can repeat with a period (in quanta). `starts` are phases."""

    def __init__(self, block: BlockOperations, period: int) -> None:
        super().__init__()
        self.block, self.period = block, period
        self.starts = [self.model.new_int_var(0, period - 1, "") for _ in block.durations]
        self.turns: dict[int, Any] = {}  # whole periods between an operation and the one that it waits for
        self.first: dict[tuple[int, int], Any] = {}  # whether one of two on a device comes first on the circle
        self.hops()
        self.devices()
        self.memory()
        self.model.add(self.starts[block.order[0]] == 0)  # where the circle begins is free

    def hops(self) -> None:
        """Start each operation after what it waits for, so many whole periods later."""
        for number, (before, gap) in enumerate(zip(self.block.before, self.block.gaps, strict=True)):
            if before != NO_HOP:
                least, most = ceil_div(gap - self.period + 1, self.period), ceil_div(gap + self.period - 1, self.period)
                turns = self.turns[number] = self.model.new_int_var(least, most, "")
                self.model.add(self.starts[number] + self.period * turns >= self.starts[before] + gap)

    def devices(self) -> None:
        """Run one operation at a time on each device, around the circle."""
        for device in range(len(self.block.residences)):
            for one, other in combinations(self.block.on(device), 2):
                first = self.model.new_bool_var("")
                self.first[one, other], self.first[other, one] = first, first.Not()
                for before, after in ((one, other), (other, one)):
                    order = self.first[before, after]
                    ends = self.starts[before] + self.block.durations[before]
                    self.model.add(ends <= self.starts[after]).only_enforce_if(order)
                    around = self.starts[after] + self.block.durations[after]
                    self.model.add(around <= self.starts[before] + self.period).only_enforce_if(order)

    def memory(self) -> None:
        """Keep what a device holds within its capacity as each forward starts."""
        for stays, capacity in zip(self.block.residences, self.block.capacities, strict=True):
            if capacity is not None:
                counts = [sum(self.turns[number] for number in self.block.path(stay)) for stay in stays]
                for forward in (stay.first for stay in stays if not stay.from_end):
                    begun = [1 if stay.first == forward else self.first[stay.first, forward] for stay in stays]
                    held = [
                        stay.size * (count + has_begun - self.first[stay.last, forward])
                        for stay, count, has_begun in zip(stays, counts, begun, strict=True)
                    ]
                    self.model.add(sum(held) <= capacity)


class PeriodSearch:
    """A search for short periods that goes on from round to round. `best` is what it has found so far."""

    def __init__(self, variant: Variant, limits: Limits) -> None:
        self.variant, self.policy, self.random = variant, variant.policy.periods, np.random.default_rng(limits.seed)
        self.limits = limits
        self.last_unrolled: PeriodicSchedule | None = None  # the last one whose unrolling came to its end
        problem = variant.problem
        widest = max(len(problem.settled_placement.stages_on(device)) for device in range(problem.devices))
        fitting = self.policy.most_on_device // (widest * len(variant.index.letters))
        largest = min(self.policy.most_microbatches, fitting, problem.microbatches // 3)
        self.sizes = range(1, max(largest, 1) + 1)  # of the blocks that are tried, in microbatches
        self._seekers: dict[int, Seeker] = {}
        self.best: PeriodicSchedule | None = None
        self.shortest_of_one: int | None = None  # the shortest period of one microbatch that was found
        self.runs = 2  # beam searches: for a period, in this round
        self.fruitless = 0  # rounds: one after another that came to their end and found nothing

    def take(self, found: PeriodicSchedule) -> None:
        if self.best is None or found.period * self.best.microbatches < self.best.period * found.microbatches:
            self.best = found
        if found.microbatches == 1 and (self.shortest_of_one is None or found.period < self.shortest_of_one):
            self.shortest_of_one = found.period

    def seeker(self, microbatches: int) -> Seeker:
        if microbatches not in self._seekers:
            self._seekers[microbatches] = Seeker(self.variant, microbatches, self.random)
        return self._seekers[microbatches]

    @property
    def is_over(self) -> bool:
        """Whether another round is not worth it: the effort is spent, nothing was found, or no period is shorter."""
        if self.runs == 2:
            return False
        if self.runs > self.policy.most_runs or self.best is None:
            return True
        return all(seeker.least_refuted >= self._most(seeker) for seeker in map(self.seeker, self.sizes))

    def may_beat(self, other: PeriodSearch) -> bool:
        """Return whether one microbatch may repeat sooner here than in the best block of another variant."""
        best, least = other.best, self.seeker(1).least * self.variant.quantum
        return best is None or least * best.microbatches < best.period * other.variant.quantum

    def round(self) -> Iterator[PeriodicSchedule]:
        """Yield ever fewer quanta for a microbatch, with twice the effort of the round before."""
        before = self.best
        if before is None:
            yield from self._first()
        for size in self.sizes:
            if self.best is not None:
                yield from self._shortened(self.seeker(size))
        self.runs *= 2
        self.fruitless = self.fruitless + 1 if self.best is before else 0

    def _most(self, seeker: Seeker) -> int:
        """Return the longest period of a block that is better than the best."""
        assert self.best is not None
        return ceil_div(self.best.period * seeker.block.microbatches, self.best.microbatches) - 1

    def _first(self) -> Iterator[PeriodicSchedule]:
        """Yield a schedule with the first period that is found, from the bound upwards."""
        seeker, longer = self.seeker(1), 0
        most = 2 * (sum(seeker.block.gaps) + max(seeker.block.durations))  # of a microbatch alone, and once more
        while seeker.least + longer <= max(most, seeker.least):
            found = seeker.seek(seeker.least + longer, self.runs)
            if found is not None:
                self.take(found)
                yield found
                return
            longer = 2 * longer + ceil_div(seeker.least, 50)

    def _shortened(self, seeker: Seeker) -> Iterator[PeriodicSchedule]:
        """Yield shorter schedules of a block: by bisection, or of a large variant each by twice as much as before."""
        least, step, is_large = seeker.least_refuted + 1, 1, len(self.variant.graph) > self.policy.unrolled
        while least <= (most := self._most(seeker)):
            period = max(most + 1 - step, least) if is_large else (least + most) // 2
            found = seeker.seek(period, self.runs)
            if found is None:
                least, step = period + 1, 1
            else:
                self.take(found)
                yield found
                step *= 2

    def candidates(self, clock: Clock) -> Iterator[Candidate]:
        """Yield the schedules of the next round of the search, which has the time of `clock`."""
        if len(self.variant.graph) <= self.policy.unrolled:
            for found in self.round():
                yield from self.unrolled(found)
            return
        if self.best is self.last_unrolled:
            with suppress(TimeIsUp), deadline(clock.part(0.6 * clock.limit)):
                deque(self.round(), maxlen=0)
        if self.best is not None and self.best is not self.last_unrolled:
            yield from self.unrolled(self.best)

    def unrolled(self, found: PeriodicSchedule) -> Iterator[Candidate]:
        """Yield schedules of all microbatches that a block gives."""
        block = self.seeker(found.microbatches).block
        words = "1 microbatch" if found.microbatches == 1 else f"{found.microbatches} microbatches"
        for schedule in unrolled(self.variant, block, found):
            yield Candidate(f"{PERIODIC}, {words}", schedule, search=PERIODIC)
        self.last_unrolled = found

    def refute(self, clock: Clock) -> Iterator[Candidate]:
        """Refute periods of one microbatch, and yield the schedules of shorter ones that are found instead.

        On a V all phases are tried, from the shortest period on, as long as they are few; then CP-SAT is asked, from
        both ends. Raises KeyboardInterrupt.
        """
        yield from self._exhausted()
        seeker = self.seeker(1)
        shortest, part = self.shortest_of_one, 0.5
        most = seeker.least_refuted if shortest is None else shortest - 1
        while seeker.least_refuted < most and clock.left > 2e-3 * len(seeker.block):  # CP-SAT begins
            period = most if part < 1 else seeker.least_refuted + 1
            answer = PeriodModel(seeker.block, period).solve(self.limits._replace(seconds=part * clock.left, gap=0.0))
            if answer.interrupted and not clock.is_stopped:
                raise KeyboardInterrupt
            if answer.status == "infeasible":
                seeker.least_refuted = period
            elif answer.starts:
                found = self._found(answer.starts, period)
                yield from self.unrolled(found)
                most = period - 1
            elif part < 1:
                part = 1.0
            else:
                return

    def _exhausted(self) -> Iterator[Candidate]:
        """Refute the shortest periods on a V by trying all phases, until one is possible, or they are too many."""
        seeker = self.seeker(1)
        if not DownAndUp.applies(seeker.block):
            return
        decision, shortest = DownAndUp(seeker.block), self.shortest_of_one
        serial = sum(seeker.block.gaps) + max(seeker.block.durations)
        most = serial if shortest is None else shortest - 1  # below any that was found
        while seeker.least_refuted < most:
            period = seeker.least_refuted + 1
            if decision.states(period) > 12_000:  # which take about 20 s on 16 devices
                return
            phases = decision.phases(period)
            if phases is not None:
                yield from self.unrolled(self._found(phases, period))
                return
            seeker.least_refuted = period

    def _found(self, phases: list[int], period: int) -> PeriodicSchedule:
        starts = self.seeker(1).block.starts(np.array([phases]), period)[0]
        found = PeriodicSchedule(starts.tolist(), period, 1)
        self.take(found)
        return found


def unrolled(variant: Variant, block: BlockOperations, found: PeriodicSchedule) -> Iterator[Schedule]:
    """Yield schedules of all microbatches: the block as it repeats, then ever shorter ones.

    What waits only for its period moves into gaps, in the order of the repeated block. Then all operations move as far
    back as they can, the last one first, and forwards again (justification, by insertion in place of list scheduling).
    That shortens the ramps at the beginning and at the end, where the block leaves devices idle.
    """
    starts = sorted_rows(variant, block.repeated(found.starts, found.period))
    yield variant.replay(starts)
    moved = _moved_up(variant, starts)
    if moved is None:
        return
    schedule = variant.replay(moved)
    yield schedule
    for _ in range(8):
        again = _moved_back(variant, schedule.start_ticks)
        moved = None if again is None else _moved_up(variant, again)
        if moved is None:
            return
        shorter = variant.replay(moved)
        gain = variant.value(schedule) - variant.value(shorter)
        schedule = shorter
        yield schedule
        if 2_000 * gain <= variant.value(schedule):
            return


def _moved_up(variant: Variant, starts: Sequence[int]) -> list[int] | None:
    """Return starts with each operation, in the order of `starts`, as early as there is a place."""
    order = np.lexsort(np.array([variant.rank, starts]))
    inserted = insert_in_order(variant.graph, order, variant.problem.capacity_grains)
    return None if inserted is None else inserted[0]


def _moved_back(variant: Variant, starts: Sequence[int]) -> list[int] | None:
    """Return starts with each operation, the last end first, as late as there is a place."""
    order = np.lexsort(np.array([variant.rank, starts + variant.graph.duration]))
    inserted = insert_in_order(
        reversed_graph(variant.graph), len(order) - 1 - order[::-1], variant.problem.capacity_grains
    )
    if inserted is None:
        return None
    back = np.array(inserted[0][::-1]) + variant.graph.duration
    return lists(back.max() - back)


def can_repeat(variant: Variant) -> bool:
    """Return whether blocks of the variant can be repeated: in one direction, of whole microbatches that are alike.

    Activations are kept, and no step is beside them.
    """
    problem = variant.problem
    is_plain = problem.are_alike and not problem.has_step
    return variant.keeps_activations and is_plain and variant.letters == variant.index.letters


def pays(variant: Variant) -> bool:
    """Return whether a periodic schedule may be better than list schedules: under a budget, with a steady state."""
    problem = variant.problem
    limits = [most for most in problem.capacity_grains if most is not None]
    is_steady = problem.devices > 1 and problem.microbatches >= 2 * problem.devices and bool(limits)
    return is_steady and len(variant.graph) > variant.policy.variants.easy and can_repeat(variant)


def other_orders(variant: Variant, period: int, limits: Limits) -> Iterator[PeriodSearch]:
    """Yield searches that found ever shorter periods of a microbatch, up to `period`, with another way back on a V.

    The way back passes the devices in parts: the last part first, each in the order of the first half. A V has parts of
    one device. Regular divisions come first. Those that hold least beyond the capacities are changed, or searched on.
    """
    devices, random = variant.problem.settled_placement.devices, np.random.default_rng(limits.seed)
    half = len(devices) // 2
    first = [*dict.fromkeys(devices[:half])]
    count = len(first)
    if count < 3 or sorted(first * (half // count)) != sorted(devices[half:]):
        return
    most, known, fruitless = variant.policy.periods.most_runs // 2, dict[frozenset[int], PeriodSearch](), 0
    while fruitless < 8 * most:
        if fruitless % most == 0:
            trials = _regular_cuts(count)
        cuts = trials.pop(0) if trials else _next_cuts(known, count, random)
        if cuts not in known:
            parts = [first[begin:end] for begin, end in pairwise([0, *sorted(cuts), count])]
            second = (device for part in parts[::-1] for device in part for _ in range(half // count))
            other = replace(variant, problem=replace(variant.problem, placement=Placement((*devices[:half], *second))))
            known[cuts] = PeriodSearch(other, limits._replace(seed=limits.seed + len(known)))
        search, fruitless = known[cuts], fruitless + 1
        while (found := search.seeker(1).seek(period, 2)) is not None:
            search.take(found)
            period, fruitless = found.period - 1, 0
        if not fruitless:
            yield search
            known = {}


def _regular_cuts(count: int) -> list[frozenset[int]]:
    """Return regular divisions of devices: V, every eighth exchanged, three parts and the last one, equal parts."""
    single = frozenset(range(1, count))
    equal = (range(size, count, size) for size in sorted({2, *(ceil_div(count, parts) for parts in range(2, 7))}))
    longer = (count - 1) // 3 - 1, 2 * (count - 1) // 3 - 1, count - 1  # each by one device
    return [single, single - {*range(min(8, count // 2), count, 8)}, *(single & {*cuts} for cuts in (longer, *equal))]


def _next_cuts(known: dict[frozenset[int], PeriodSearch], count: int, random: np.random.Generator) -> frozenset[int]:
    """Return one of the best divisions, as it is or with one or two cuts made, taken away or moved."""
    best = sorted(known, key=lambda cuts: known[cuts].seeker(1).excess)
    cuts = best[min(int(random.exponential()), len(best) - 1)]
    for _ in range(random.integers(1, 3) if random.random() < 0.7 else 0):
        cut = int(random.integers(1, count))
        cuts ^= {cut}
        if cut not in cuts and random.random() < 0.5:
            cuts |= {min(max(cut + int(random.integers(-2, 3)), 1), count - 1)}
    return cuts


class PeriodicPhase:
    """Searches periodic schedules in those variants of a search where the method of the solve has them.

    Where the placement `is_open`, it adds a variant to the search for the best other placement that it finds.
    """

    def __init__(self, search: Search, method: str, *, is_open: bool = False) -> None:
        suits = {"auto": pays, "periodic": can_repeat}.get(method)
        self.search, self.policy, self.alone = search, search.policy.periods, method == "periodic"
        self.is_open = is_open
        self.numbers = [number for number, variant in enumerate(search.variants) if suits and suits(variant)]
        self.methods: dict[int, PeriodSearch] = {}

    def go_on(self) -> None:
        """Let every variant have a round, then the best more; as the only method, also refute periods."""
        part = 0.8 if self.alone else self.policy.part  # the rest is to refute periods
        clock = self.search.clock.part(part * self.search.clock.left)
        self.first_rounds(clock.part(0.2 * self.search.limits.seconds))
        if self.is_open:
            self.exchange(clock)
        while not clock.is_over:  # beside other methods only where a block is the best
            numbers = [number for number in self.search.open if self._goes_on(number)]
            if not numbers:
                break
            self._round(numbers[0], clock)
        number = next((number for number in self.search.open if number in self.methods), None)
        if self.alone and number is not None and not self.search.clock.is_over:
            self.search.tell(f"{PERIODIC}, shorter periods, {self.search.variants[number].name}")
            refuted = self.methods[number].refute(self.search.clock)
            self.search.try_all(number, refuted, self.search.clock, to_the_end=True)

    def first_rounds(self, clock: Clock) -> None:
        """Let every open variant without a round have one, the most promising first, with half of what is left."""
        waiting = [number for number in self.search.open if number in self.numbers and number not in self.methods]
        for done, number in enumerate(waiting):
            if clock.is_over:
                return
            method = PeriodSearch(self.search.variants[number], self.search.limits)
            if self.alone or all(method.may_beat(other) for other in self.methods.values()):
                self.methods[number] = method
                self._round(number, clock.part(clock.left / min(len(waiting) - done, 2)))

    def exchange(self, clock: Clock) -> None:
        """Let the variant with the shortest period compete with others, with devices exchanged on its way."""
        known = [
            (method.variant.quantum * method.best.period / method.best.microbatches, number)
            for number, method in self.methods.items()
            if number in self.search.open and method.best is not None
        ]
        if not known or clock.is_over:
            return
        self.search.tell(f"{PERIODIC}, other placements")
        period, number = min(known)
        variant, shorter = self.search.variants[number], list[PeriodSearch]()
        with suppress(TimeIsUp), deadline(clock.part(0.75 * clock.left)):
            shorter.extend(other_orders(variant, math.ceil(period / variant.quantum) - 1, self.search.limits))
        if shorter and (best := shorter[-1].best) is not None:
            number = self.search.add(shorter[-1].variant)
            method = self.methods[number] = shorter[-1]
            others = (method.seeker(1).seek(best.period, 2) for _ in range(16))  # their ramps differ
            found = (candidate for one in chain([best], others) if one for candidate in method.unrolled(one))
            self.search.try_all(number, found, clock)

    def _goes_on(self, number: int) -> bool:
        best, method = self.search.candidates[number], self.methods.get(number)
        if method is None or method.is_over:
            return False
        wins = best is not None and best is self.search.best and best.search == PERIODIC
        return self.alone or (wins and method.fruitless < 2)

    def _round(self, number: int, clock: Clock) -> None:
        self.search.tell(f"{PERIODIC}, {self.search.variants[number].name}")
        self.search.try_all(number, self.methods[number].candidates(clock), clock)

    def report(self, number: int) -> Repetition | None:
        """Return what was found and refuted of periodic schedules of a variant; None if nothing was found."""
        found = self.methods.get(number)
        if found is None or found.best is None:
            return None
        quantum, per_unit = found.variant.quantum, found.variant.problem.ticks.per_unit
        return Repetition(
            placement=found.variant.name,
            period=in_units(found.best.period * quantum, per_unit),
            microbatches=found.best.microbatches,
            refuted=in_units(found.seeker(1).least_refuted * quantum, per_unit),
        )
