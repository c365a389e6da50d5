"""What is known of a setup before it is simulated: memory that no cut can do without, a time that none is shorter than.

`setup_bounds` makes the `SetupBounds` of any algorithm: `floor` in bytes, `least` and `once` in time (passes, and what
comes once a step). `FamilyBounds.time` is the least step under a family (an algorithm): prune.py asks it for a point.

Every bound holds for any cut into stages and any order. The devices together work for all items in each microbatch. A
stage keeps an activation from its forward until its backward ends, and all later stages come in between; so memory and
time bound each other.

What an algorithm can reach is less: layers are whole, and devices wait before and after their operations. A device has
as many layers as its time and its memory allow, with as many microbatches under way at once as the algorithm keeps. All
devices together must have all layers: the least time in which they can is a bound for any cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import groupby, pairwise
from math import inf
from operator import le, mul
from typing import Any

from pipesched.errors import PipeschedError
from pipesched.estimation.communication import boundary_time, data_terms, hop_times, reduce_terms
from pipesched.estimation.derived import GATHER, OPTIMIZER, REDUCE, TERMS, budget_of, step_terms
from pipesched.estimation.items import GB, HEAD, LAYER, MTP, Item, Items, hides_experts
from pipesched.estimation.memory import FRAGMENTATION, ItemMemory
from pipesched.estimation.setup import Setup
from pipesched.estimation.terms import PER_MS, Terms, total
from pipesched.estimation.times import ItemTimes, optimizer_terms
from pipesched.estimation.trace import held_counts
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.placement import Placement, named_placement
from pipesched.schedulers.family import ANY, Family
from pipesched.schedulers.registry import family

GIGA = Fraction(10**9)
HALVINGS = 12  # of the range in which the least time is looked for: to 0.1 %


def _back(items: Sequence[Item], *, whole: bool) -> float:
    """Return the time of a microbatch back through items; `whole`: where backwards are not split."""
    keys = ("backward_input", "backward_weight") if whole else ("backward_input",)
    return float(sum(item.time(key) for item in items for key in keys))


def _microseconds(terms: Terms) -> int:
    """Return a time not rounded up, so that the times of items do not add up to more than that of their stage."""
    return int(float(total(terms)) * PER_MS)


@dataclass(frozen=True)
class SetupBounds:
    """What is known of a setup whatever its algorithm. Times in microseconds, sizes in bytes.

    `paired`: of algorithms that run pairs F&B, where a device works at least what no pair hides. Operations one after
    another take their whole times in pairs too.
    """

    setup: Setup
    paired: bool = False

    @cached_property
    def items(self) -> Items:
        return Items(self.setup)

    @property
    def has_step(self) -> bool:
        """Whether gathers, reductions and optimizers are operations of the schedule; then nothing has two copies."""
        return self.setup.training.shard is not None

    @cached_property
    def head(self) -> int:
        """The microseconds of the gather before any pass."""
        return self.of_step(self._different[0], GATHER)

    @cached_property
    def hops(self) -> int:
        """What the reduction of a stage takes beside its bytes."""
        return _microseconds(reduce_terms(self.setup, Fraction(1), Fraction(0)))

    def of_step(self, item: Item, what: str = OPTIMIZER) -> int:
        """Return what an item adds to the optimizer of its stage, or to its gather or reduction."""
        return _microseconds(step_terms(self.setup, item, what))

    def reduced(self, item: Item) -> int:
        """Return what an item adds to the reduction of its stage."""
        one, experts = Fraction(1), Fraction(int(item.size("experts") > 0))
        return max(self.of_step(item, REDUCE) - _microseconds(reduce_terms(self.setup, one, experts)) - 1, 0)

    def in_turn(self, most: int, messages: float, *, whole: bool, alone: bool) -> float:
        """Return the least time of a step whose first stage has at most `most` microbatches under way at once.

        Each is under way there until it has been through every item and back, with `messages` each way. Behind the last
        backward come a reduction and an optimizer: those of the first stage, or where stages are `alone` on devices
        those of the stage with most layers, less the way back from there to the first stage.
        """
        setup, every = self.setup, self.items.each
        first, one = every[0], sum(item.time("forward") for item in every) + _back(every, whole=whole) + 2 * messages
        behind = float(self.of_step(first, REDUCE) + self.of_step(first))
        if alone:
            least = -(-setup.model.layers // setup.parallel.pipeline)  # layers of the stage with most
            fullest = self.hops + least * min(self.reduced(layer) + self.of_step(layer) for layer in self.layers)
            slowest = max(_back([layer], whole=whole) for layer in self.layers)
            left = _back([first], whole=whole) + (setup.model.layers - least) * slowest + messages
            behind = max(behind, fullest - left)
        return self.head + setup.microbatches * one / most + behind

    @cached_property
    def layers(self) -> tuple[Item, ...]:
        """The layers, those that are alike once."""
        return tuple(item for item in self._different if item.kind == LAYER)

    @cached_property
    def _different(self) -> tuple[Item, ...]:
        """The items, those that are alike once."""
        return tuple({id(item): item for item in self.items.each}.values())

    def work(self, item: Item) -> int:
        """Return the microseconds that a device works at least on an item, for a forward and a backward."""
        return item.alone if self.paired else item.work

    def _work_from(self, begin: int) -> float:
        return float(self.items.sum_of("alone" if self.paired else "work", begin, len(self.items)))

    @cached_property
    def quickest(self) -> int:
        """The microseconds of the layer that takes least work."""
        return min(map(self.work, self.layers))

    @cached_property
    def work_of_layers(self) -> float:
        """The microseconds of one microbatch in all items but the embedding."""
        return self._work_from(1)

    @cached_property
    def share_of_forward(self) -> float:
        """The least part of an item's work, but for the embedding's, that is its forward."""
        return min(item.time("forward") / item.work for item in self._different[1:])

    @cached_property
    def sizes(self) -> tuple[float, float, float, float]:
        """Bytes: of the states of the smallest layer; that a microbatch leaves in the layer that keeps least.

        Those that a device has for states and activations; and those of the states and logits of all items.
        """
        smallest, kept = min(item.states for item in self.layers), min(map(self._kept, self.layers))
        states = self.items.sum_of("states", 0, len(self.items)) + self.items.logits
        return float(smallest), float(kept), float(budget_of(self.setup)) * GB, float(states)

    @cached_property
    def signature(self) -> tuple[object, ...]:
        """All that schedules of a setup follow from: two setups with the same one have the same steps and memory."""
        setup, items = self.setup, self.items
        each = [(*map(item.time, ItemTimes._fields), *map(item.size, ItemMemory._fields)) for item in self._different]
        pieces = [item.pieces.jobs for item in self._different] if self.paired else []
        counts = [len([*alike]) for _, alike in groupby(map(id, items.each))]
        once = [*data_terms(setup, GIGA, GIGA), *optimizer_terms(setup, GIGA, GIGA)]
        across = [boundary_time(setup, across=across).value for across in (False, True)]
        of_step: tuple[object, ...] = ()
        if self.has_step:  # what gathers, reductions and optimizers follow from: a rate, and a time beside it
            terms = (terms(setup, size, size) for size in (GIGA, Fraction(1)) for terms in TERMS.values())
            of_step = (setup.shard_group(), setup.shard_group(experts=True), *(one.value for of in terms for one in of))
            of_step += (*(item.size("experts") for item in self._different), setup.model.tied and setup.parallel.tensor)
        return (
            *(setup.parallel.pipeline, setup.microbatches, setup.training, items.logits),
            *(tuple(each), tuple(pieces), tuple(counts), *(term.value for term in once), *across),
            *of_step,
        )

    @cached_property
    def floor(self) -> float:
        """The bytes that the fullest device holds at least: states and one microbatch, as even as can be."""
        items = self.items
        kept = items.sum_of("activation", 0, len(items))
        if self.setup.training.full_layers is not None:
            kept = sum(map(self._kept, items.each), Fraction(0))
        even = (self.sizes[-1] + float(kept)) / self.setup.parallel.pipeline
        ends = [item for item in self._different if item.kind in (MTP, HEAD)]
        alone = [item.states + self._kept(item) + items.logits for item in ends]
        layers = [item.states + self._kept(item) for item in self.layers]
        return max(even, *map(float, alone), *map(float, layers))

    def _kept(self, item: Item) -> Fraction:
        """Return the bytes that a microbatch leaves in an item, at least: where layers are recomputed, their inputs."""
        again = item.kind == LAYER and self.setup.training.full_layers is not None
        return item.size("checkpoint" if again else "activation")

    @cached_property
    def ideal(self) -> tuple[float, float]:
        """Microseconds that no pipeline is shorter than, in whatever memory: with one copy of the weights, with two."""
        setup, items = self.setup, self.items
        work, count = self._work_from(0), setup.microbatches
        longest = max(map(self.work, (items.each[0], *self.layers, items.each[-1])))
        there = items.sum_of("forward", 0, len(items)) + items.sum_of("backward_input", 0, len(items))
        even = max(work / setup.parallel.pipeline * count, float(there))
        return max(even, longest * count), max(even, longest * count / 2)  # copies have half the microbatches each

    @cached_property
    def updated(self) -> float:
        """Microseconds of passes and optimizers that a device has at least, where these are operations."""
        updates = sum(map(self.of_step, self.items.each))
        return (self._work_from(0) * self.setup.microbatches + updates) / self.setup.parallel.pipeline

    def least(self, *, whole: bool, copies: int = 1) -> float:
        """Return microseconds that no pipeline with so many copies of weights is below; `whole`: unsplit backwards."""
        _, _, room, states = self.sizes
        room = room * self.setup.parallel.pipeline - copies * states
        area = self._held[whole] / room if room > 0 else inf  # how long one microbatch holds all memory beside states
        return max(self.ideal[copies - 1], area * self.setup.microbatches)

    @cached_property
    def once(self) -> float:
        """Microseconds of the communication of gradients and of the optimizer, at least."""
        setup, size = self.setup, len(self.items)
        if self.has_step:  # behind the last pass of a device come a reduction and an optimizer, whatever it has
            reduction = min(self.of_step(item, REDUCE) for item in self._different)
            return self.head + reduction + min(map(self.of_step, self._different))
        count = self.items.sum_of("parameters", 0, size) / setup.parallel.pipeline
        experts = sum((item.size("experts") for item in self.items.each), Fraction(0)) / setup.parallel.pipeline
        dense = count - experts  # all of it in low precision at most
        terms = (data_terms(setup, dense, experts, dense), optimizer_terms(setup, dense, experts))
        return sum(float(total(one)) for one in terms) * PER_MS

    @cached_property
    def _held(self) -> tuple[float, float]:
        """The bytes x microseconds of a microbatch, with split backwards and with whole ones."""
        split = whole = after = after_whole = 0.0  # after: from an item's forward on, through all behind it and back
        for item in reversed(self.items.each):
            forth, own = item.time("forward") + item.time("backward_input"), item.time("backward_weight")
            kept = float(self._kept(item))
            after_whole += forth + own
            after += forth
            split += kept * (after + own)
            whole += kept * after_whole
        return split, whole


def setup_bounds(setup: Setup, *, has_pairs: bool = False) -> SetupBounds:
    """Return what is known of a setup; `has_pairs`: under algorithms that run pairs F&B."""
    return _bounds(setup, has_pairs and hides_experts(setup))


_bounds = lru_cache(maxsize=4096)(SetupBounds)


def misses(setup: Setup, floor: float) -> float:
    """Return by how many GB the fullest device misses its memory at least; 0 or less where it may fit."""
    return (floor / GB - float(budget_of(setup))) * (1 + float(FRAGMENTATION))


ENOUGH = 4  # rounds of the pipeline after which a device holds no more
Counts = tuple[int, ...]  # microbatches that each stage of a device keeps at one time


def most_of_first(placement: Placement, microbatches: int, algorithm: str) -> int | None:
    """Return how many microbatches the first stage holds at most at once; None where that grows with their number."""
    device, enough = placement.devices[0], _enough(placement, microbatches)
    numbers = {enough, min(microbatches, enough + placement.last + 1)}  # with another round of the pipeline no more
    each = {max(counts[0] for counts in _most_in_flight(placement, number, algorithm)[device]) for number in numbers}
    return each.pop() if len(each) == 1 else None


def _enough(placement: Placement, microbatches: int) -> int:
    rounds = ENOUGH * (placement.last + 1)
    return microbatches if microbatches <= rounds else rounds + microbatches % (placement.last + 1)


@lru_cache(maxsize=1024)
def _most_in_flight(placement: Placement, microbatches: int, algorithm: str | None) -> tuple[tuple[Counts, ...], ...]:
    """Return for each device what its stages hold at once, where no other time has as much of all of them.

    Without an algorithm, or where it makes no plan, that is one microbatch.
    """
    devices, plan = placement.last + 1, None
    stages = [placement.stages_on(device) for device in range(devices)]
    if algorithm is not None:
        counts: dict[str, Any] = {"devices": devices, "stages": len(placement.devices), "microbatches": microbatches}
        problem = make_problem(**counts, placement=placement, backward_input=1, backward_weight=1)
        chosen = family(algorithm)
        with suppress(PipeschedError):  # then the algorithm makes no plan
            if chosen.requires is not None:
                chosen.requires(problem)
            plan = chosen.plan(problem)
    if plan is None:
        return tuple(((1,) * len(here),) for here in stages)
    largest: list[list[Counts]] = []
    for device, here in enumerate(stages):
        found = {tuple(held.get(stage, 0) for stage in here) for held in held_counts(plan, device)}
        largest.append([])
        for one in sorted(found, reverse=True):  # none is below one that comes later
            if not any(all(map(le, one, other)) for other in largest[-1]):
                largest[-1].append(one)
    return tuple(tuple(reversed(own)) for own in largest)


@dataclass(frozen=True)
class FamilyBounds:
    """What a family can reach with a setup when it runs so many stages.

    With `updates`, optimizers count that are operations of the schedule, and reductions of devices with one stage. What
    devices wait behind their last pass does not count then, as these run meanwhile.
    """

    known: SetupBounds
    family: Family
    stages: int
    updates: bool = False

    @cached_property
    def time(self) -> float:
        """Microseconds that no step under the family is shorter than; infinite where memory holds no cut."""
        known, chosen, setup = self.known, self.family, self.known.setup
        passes = self.least + known.once
        if not known.has_step:
            return passes
        updates = replace(self, updates=True).least + known.head + (known.hops if self._is_alone else 0)
        most = most_of_first(self._placement, setup.microbatches, chosen.name) if self._is_settled else None
        if most is None:
            return max(passes, updates)
        whole = chosen.splits_backward is False and not known.paired  # pairs may hide gradients of weights
        messages = float(sum(hop_times(setup, pairwise(self._placement.devices)))) * PER_MS
        return max(passes, updates, known.in_turn(most, messages, whole=whole, alone=self._is_alone))

    @property
    def _is_settled(self) -> bool:
        """Whether the order of the family follows from these numbers alone."""
        setup = self.known.setup
        return self.family.settles(setup.parallel.pipeline, self.stages, setup.microbatches)

    @property
    def _is_alone(self) -> bool:
        return self.stages == self.known.setup.parallel.pipeline

    def _behind(self, item: Item) -> float:
        """Return what a device does for an item once a step, in microseconds a microbatch."""
        known = self.known
        if not self.updates:
            return 0.0
        return (known.of_step(item) + self._is_alone * known.reduced(item)) / known.setup.microbatches

    @cached_property
    def _behind_layer(self) -> float:
        return min(map(self._behind, self.known.layers))

    @cached_property
    def least(self) -> float:
        """Microseconds that no pipeline of the family is shorter than; infinite where memory holds no cut."""
        low = self.known.least(whole=self.family.splits_backward is False, copies=self.family.copies)
        if self.updates:
            low = max(low, self.known.updated)
        if self.family.copies > 1 and self.known.setup.parallel.pipeline % 2:
            return low  # the device in the middle is its own mirror
        if min(self._kept) < 0 or not self._holds(inf):
            return inf
        high = low
        while not self._holds(high):
            low, high = high, 2 * high
        for _ in range(HALVINGS if high > low else 0):
            middle = (low + high) / 2
            low, high = (low, middle) if self._holds(middle) else (middle, high)
        return low

    def _holds(self, time: float) -> bool:
        """Return whether the devices together can have all layers, in so many microseconds and within their memory."""
        layers, most = self.family.copies * self.known.setup.model.layers, 0
        work = self.known.quickest / self.family.copies + self._behind_layer  # of a layer, for a microbatch
        each = time / self.known.setup.microbatches
        for device, (kept, ends) in enumerate(zip(self._kept, self._ends, strict=True)):
            left = each - self._waits(device, each) - ends
            if left < 0:
                return False
            most += kept if time == inf else min(kept, int(left // work))
        return most >= layers

    def _waits(self, device: int, each: float) -> float:
        """Return how long a device waits at least for its first and after its last operation, over the microbatches."""
        before = min(self._stages[device])  # stages before the device's first, which have layers
        if not before or each == inf:
            return 0.0
        known = self.known
        work = float((before - 1) * known.quickest)
        if self.family.placement in ("linear", ANY):  # stages of a device follow each other
            work = max(work, known.work_of_layers - (len(self._kept) - device) * each)
        is_whole = self.family.splits_backward is False and not self.updates
        share = 1.0 if is_whole else known.share_of_forward  # whole: backwards through those stages come behind
        return share * work / known.setup.microbatches

    @cached_property
    def _ends(self) -> list[float]:
        """The work of the embedding and the head on each device."""
        known, ends = self.known, ((0, 0), (-1, self.stages - 1))
        of_devices = ([known.items.each[end] for end, stage in ends if stage in stages] for stages in self._stages)
        return [sum(known.work(end) / self.family.copies + self._behind(end) for end in own) for own in of_devices]

    @cached_property
    def _placement(self) -> Placement:
        name = "linear" if self.family.placement == ANY else self.family.placement
        return _named(name, self.known.setup.parallel.pipeline, self.stages)

    @cached_property
    def _stages(self) -> list[list[int]]:
        return _stages_of(self._placement)

    @cached_property
    def _kept(self) -> tuple[int, ...]:
        """The most layers that each device can hold; less than 0 where its fixed memory alone does not fit."""
        known, items, found = self.known, self.known.items, []
        smallest, kept_least, all_room, _ = known.sizes
        algorithm = self.family.name if self._is_settled else None
        held = _most_in_flight(self._placement, _enough(self._placement, known.setup.microbatches), algorithm)
        for stages, counts_of_device in zip(self._stages, held, strict=True):
            least = [int(0 < stage < self.stages - 1) for stage in stages]  # the others may have no layer
            ends = float(items.each[0].states) if 0 in stages else 0.0
            ends += float(items.each[-1].states + items.logits) if self.stages - 1 in stages else 0.0
            room, most = all_room - ends, inf
            for counts in counts_of_device:
                low = min(counts)  # microbatches that any layer here keeps; stages that must have a layer keep more
                kept = kept_least * (sum(map(mul, counts, least)) - low * sum(least))
                most = min(most, (room - kept) // (smallest + low * kept_least))
            found.append(int(most) if most >= sum(least) else -1)
        return tuple(found)


@lru_cache(maxsize=256)
def _stages_of(placement: Placement) -> list[list[int]]:
    return [placement.stages_on(device) for device in range(placement.last + 1)]


_named = lru_cache(maxsize=1024)(named_placement)
