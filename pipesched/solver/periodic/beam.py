"""The starts within a block of microbatches that repeats, found device by device by a beam search (`Beam`).

search.py makes `BlockOperations` and calls `Beam.run` for phases. Behind it stands `DownAndUp`: for one microbatch on a
V it finds phases for a period, or proves that there are none. Times are in quanta of the variant.

A periodic schedule starts every operation again after a period T. The start of an operation is its phase in [0, T) and
a number of whole periods. Given the phases, the least numbers of periods follow along the chain of a microbatch, and
with them how long each activation stays. So phases are all that is to choose, whatever the number of microbatches.

On every device all operations must fit on a circle of the length of the period. An operation whose input comes from a
device before takes the first free place after it, one whose result goes to a device before the last free place before
that. Operations follow in a random order of priority. Of many such choices for each of many beginnings, those are kept
that make activations wait least, where waiting is weighted by the devices whose memory it fills.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations, product
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesched.core.arrays import ceil_div
from pipesched.core.clock import check_deadline
from pipesched.core.timing import topological_order
from pipesched.pipeline.bounds.memory import Residence, residences
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.solver.variant import Variant

NO_HOP = -1  # a hop leads to an operation from the one that it waits for last
Array = NDArray[Any]


class BlockOperations:
    """The operations of a block of so many microbatches of a variant whose activations are kept.

    Operation i + k * (operations of a microbatch) is operation i of the microbatch k. `durations` and `devices` are
    theirs, `capacities` what each device may hold (grains; None: no limit). Operation i starts `gaps[i]` or more after
    the start of `before[i]`, the one that it waits for last: NO_HOP for the first of a microbatch. `order` has each
    behind what it waits for.
    """

    def __init__(self, variant: Variant, microbatches: int) -> None:
        self.variant, self.microbatches = variant, microbatches
        single = replace(variant, problem=replace(variant.problem, microbatches=1))
        self.single, self.quantum = single, variant.quantum
        order, count, each = topological_order(single.graph), len(single.graph), range(microbatches)
        self.order = [number + copy * count for copy in each for number in order]
        before, gaps = [NO_HOP] * count, [0] * count
        rank = {number: place for place, number in enumerate(order)}
        for number in order:
            if waits := single.graph.predecessors[number]:  # all else that it waits for comes before its last wait
                last, lag = max(waits, key=lambda wait: rank[wait[0]])
                before[number], gaps[number] = last, (single.graph.durations[last] + lag) // self.quantum
        self.durations = [time // self.quantum for time in single.graph.durations] * microbatches
        self.devices = list(single.graph.pools) * microbatches
        self.before = [last + copy * count if last >= 0 else NO_HOP for copy in each for last in before]
        self.gaps = gaps * microbatches
        stays = (residences(single.problem, single.index, device) for device in range(variant.problem.devices))
        self.residences = [
            [one._replace(first=one.first + copy * count, last=one.last + copy * count) for copy in each for one in own]
            for own in stays
        ]
        self.capacities = variant.problem.capacity_grains
        self.cover = np.zeros((len(self), len(self.residences)))  # grains, by the operation whose hop keeps them there
        for device, own in enumerate(self.residences):
            for stay in own:
                for number in self.path(stay):
                    self.cover[number, device] += stay.size

    def __len__(self) -> int:
        return len(self.durations)

    def on(self, device: int) -> list[int]:
        return [number for number, there in enumerate(self.devices) if there == device]

    def path(self, stay: Residence) -> list[int]:
        """Return the operations whose hops a residence lasts, the last one first."""
        numbers, number = [], stay.last
        while number != stay.first:
            numbers.append(number)
            number = self.before[number]
        return numbers

    def length(self, stay: Residence) -> int:
        """Return the shortest time that a residence lasts."""
        skipped = self.durations[stay.first] if stay.from_end else 0
        return sum(self.gaps[number] for number in self.path(stay)) + self.durations[stay.last] - skipped

    @property
    def least_period(self) -> int:
        """A bound on the period (at least 1): the work of a device, and its memory x time over its capacity."""
        least = 1
        for device, stays in enumerate(self.residences):
            least = max(least, sum(self.durations[number] for number in self.on(device)))
            capacity = self.capacities[device]
            if capacity:
                least = max(least, ceil_div(sum(stay.size * self.length(stay) for stay in stays), capacity))
        return least

    def starts(self, phases: Array, period: int) -> Array:
        """Return the earliest starts with these phases; both have a row for each choice of phases."""
        starts = np.zeros_like(phases, dtype=np.int64)
        for number in self.order:
            before = self.before[number]
            if before == NO_HOP:
                starts[:, number] = phases[:, number]
            else:
                ready = starts[:, before] + self.gaps[number]
                starts[:, number] = ready + (phases[:, number] - ready) % period
        return starts

    def unevenness(self, phases: Array, device: int, period: int) -> Array:
        """Return by how much (grains x quanta) the peak of a device x period exceeds its memory x time in a period.

        With b and e the phases of the ends of a residence of length L, at a moment m as many of it are there as
        (L + (m - e) mod T - (m - b) mod T) / T. So the excess follows from the phases on the device alone.
        """
        stays = self.residences[device]
        if not stays:
            return np.zeros(len(phases), dtype=np.int64)
        since_begins, since_ends, sizes = self._since(phases, stays)
        excess: Array = ((since_ends % period - since_begins % period) * sizes).sum(axis=2).max(axis=1)
        return excess

    def peaks(self, starts: Array, period: int) -> Array:
        """Return the most that each device ever holds (grains) when the block repeats, for each row of starts."""
        peaks = np.zeros((len(starts), len(self.residences)), dtype=np.int64)
        for device, stays in enumerate(self.residences):
            if stays:
                since_begins, since_ends, sizes = self._since(starts, stays)
                counts = since_begins // period - since_ends // period
                peaks[:, device] = (counts * sizes).sum(axis=2).max(axis=1)
        return peaks

    def _since(self, starts: Array, stays: Sequence[Residence]) -> tuple[Array, Array, Array]:
        """Return for each row and each begin of a residence the times since all begins and all ends, and the sizes."""
        waits = np.array([self.durations[stay.first] if stay.from_end else 0 for stay in stays])
        begins = starts[:, [stay.first for stay in stays]] + waits
        ends = starts[:, [stay.last for stay in stays]] + np.array([self.durations[stay.last] for stay in stays])
        moments = begins[:, :, None]
        return moments - begins[:, None, :], moments - ends[:, None, :], np.array([stay.size for stay in stays])

    def repeated(self, starts: Sequence[int], period: int) -> list[int]:
        """Return the start of each operation of the variant, in ticks, when a block of these starts repeats."""
        index, count = self.variant.index, len(self) // self.microbatches
        blocks = [starts[copy * count : (copy + 1) * count] for copy in range(self.microbatches)]
        blocks.sort(key=min)
        numbers = OpIndex(index.letters, index.stages, 1)

        def row(kind: str, stage: int) -> list[int]:
            number = numbers.row(kind, stage)[0]
            turns = (divmod(microbatch, self.microbatches) for microbatch in range(index.microbatches))
            return [(blocks[copy][number] + turn * period) * self.quantum for turn, copy in turns]

        return index.spread(row)


NEVER = 2**62  # a wait that is longer than any


class Anchor(NamedTuple):
    """Where an operation would start best: `gap` after `other` (sign 1), or before it (-1); anywhere for NO_HOP."""

    other: int
    sign: int
    gap: int


class Beam:
    """A beam search for the phases of a block, with a random generator that each run draws from."""

    def __init__(self, block: BlockOperations, period: int, random: np.random.Generator) -> None:
        self.block, self.period, self.random = block, period, random
        self.policy = block.variant.policy.periods
        self.after: list[list[int]] = [[] for _ in range(len(block))]
        for number, before in enumerate(block.before):
            if before != NO_HOP:
                self.after[before].append(number)

    def run(self, prices: Array, devices: Sequence[int], second: float) -> Array:
        """Return the best phases, a row each; none if no choice fits. `prices` is what memory costs on each device.

        All devices get their phases one after another, in the order of `devices`.
        """
        weights = self.block.cover @ prices
        placed = [False] * len(self.block)
        phases = np.zeros((self.policy.width, len(self.block)), dtype=np.int64)
        costs = np.zeros(self.policy.width)
        for device in devices:
            check_deadline()
            numbers = self.block.on(device)
            anchors = {number: self._anchor(number, placed) for number in numbers}
            children = self.policy.children
            phases, costs = np.repeat(phases, children, axis=0), np.repeat(costs, children)
            fits = self._place(phases, numbers, anchors, second)
            for number in numbers:
                placed[number] = True
            costs += self._costs(phases, numbers, placed, weights)
            if prices[device]:
                costs += prices[device] * self.block.unevenness(phases, device, self.period)
            phases, costs = self._kept(phases[fits], costs[fits], numbers)
        return phases

    def _anchor(self, number: int, placed: Sequence[bool]) -> Anchor:
        """Return where an operation starts best, by the operations that have their phases already."""
        block, before = self.block, self.block.before[number]
        if before != NO_HOP and placed[before]:
            return Anchor(before, 1, block.gaps[number])
        for after in self.after[number]:
            if placed[after]:
                return Anchor(after, -1, block.gaps[after])
        if before != NO_HOP and block.devices[before] == block.devices[number]:
            return Anchor(before, 1, block.gaps[number])
        return Anchor(NO_HOP, 1, 0)

    def _place(self, phases: Array, numbers: Sequence[int], anchors: dict[int, Anchor], second: float) -> Array:
        """Fill in the phases of a device's operations, and return in which rows all found a place."""
        rows, period = np.arange(len(phases)), self.period
        order = np.array(numbers)[self._priorities(len(phases), numbers, anchors)]
        lengths = np.array(self.block.durations)[order]
        table = np.zeros((len(self.block), 3), dtype=np.int64)
        table[numbers] = [anchors[number] for number in numbers]
        taken = np.zeros_like(order)
        fits = np.ones(len(phases), dtype=bool)
        for place in range(len(numbers)):  # of each row the next in its order: at its best phase, or beside one there
            number, length = order[:, place], lengths[:, place]
            other, sign, gap = table[number].T
            best = np.where(
                other == NO_HOP, self.random.integers(0, period, len(rows)), phases[rows, other] + sign * gap
            )
            before = taken[:, :place]
            forward = sign[:, None] > 0
            edges = np.where(forward, before + lengths[:, :place], before - length[:, None])
            tries = np.concatenate([best[:, None], edges], axis=1) % period
            waits = ((tries - best[:, None]) * sign[:, None]) % period
            waits[~_free(tries, length, before, lengths[:, :place], period)] = NEVER
            choice = self._choice(waits, second)
            fits &= waits[rows, choice] < NEVER
            taken[:, place] = phases[rows, number] = tries[rows, choice]
        return fits

    def _priorities(self, rows: int, numbers: Sequence[int], anchors: dict[int, Anchor]) -> Array:
        """Return random orders of a device's operations, long ones rather first, none before its anchor."""
        lengths = np.array([self.block.durations[number] for number in numbers])
        keys = self.random.random((rows, len(numbers)))
        keys += 1.5 * len(numbers) / self.period * self.random.random((rows, 1)) * lengths
        place = {number: column for column, number in enumerate(numbers)}
        for number in self.block.order:
            if number in place and (other := anchors[number].other) in place:
                keys[:, place[number]] = np.minimum(keys[:, place[number]], keys[:, place[other]] - 1e-9)
        return np.argsort(-keys, axis=1)

    def _choice(self, waits: Array, second: float) -> Array:
        """Return in each row the place with the shortest wait, or at random the second."""
        choice: Array = waits.argmin(axis=1)
        if not second or waits.shape[1] < 2:
            return choice
        rows = np.flatnonzero(self.random.random(len(waits)) < second)
        others = waits[rows]
        others[np.arange(len(rows)), choice[rows]] = NEVER
        next_best = others.argmin(axis=1)
        is_free = others[np.arange(len(rows)), next_best] < NEVER
        choice[rows[is_free]] = next_best[is_free]
        return choice

    def _costs(self, phases: Array, numbers: Sequence[int], placed: Sequence[bool], weights: Array) -> Array:
        """Return the cost of the hops whose second end has just been placed."""
        block, own = self.block, set(numbers)
        hops = [
            number
            for number, before in enumerate(block.before)
            if before != NO_HOP and placed[before] and placed[number] and (number in own or before in own)
        ]
        before = [block.before[number] for number in hops]
        gaps = np.array([block.gaps[number] for number in hops], dtype=np.int64)
        costs: Array = ((phases[:, hops] - phases[:, before] - gaps) % self.period) @ weights[hops]
        return costs

    def _kept(self, phases: Array, costs: Array, numbers: Sequence[int]) -> tuple[Array, Array]:
        """Return the best rows; of those that are alike on the last device but for a shift, one."""
        best = np.argsort(costs, kind="stable")[: 4 * self.policy.width]
        phases, costs = phases[best], costs[best]
        if not len(phases):
            return phases, costs
        shape = (phases[:, numbers] - phases[:, numbers[:1]]) % self.period
        kept = sorted({row.tobytes(): at for at, row in reversed([*enumerate(shape)])}.values())[: self.policy.width]
        return phases[kept], costs[kept]


def _free(tries: Array, length: Array, starts: Array, lengths: Array, period: int) -> Array:
    """Return which tries of an operation of some `length` overlap none of the operations there, on the circle."""
    behind = tries[:, :, None] - starts[:, None, :]
    behind += period * (behind < 0)
    free: Array = np.all((behind >= lengths[:, None, :]) & (period - behind >= length[:, None, None]), axis=2)
    return free


UNLIMITED, IMPOSSIBLE = 30_000, -1  # periods
DOWN, UP, BACK_DOWN, BACK_UP = range(4)  # F of the first chunk, F of the second, their B in the order of time


class _Device(NamedTuple):
    """A device on the way down: its four operations, what their activations take, and what it may hold (grains)."""

    numbers: list[int]
    sizes: tuple[int, int]
    capacity: int | None


class DownAndUp:
    """The question for one microbatch of a variant on a V of two chunks a device. Use it if `applies` to the block.

    `phases` goes down the devices. Of each it keeps levels: for a choice of its phases (row) and so many whole periods
    on the way above it (column), how many may pass on the way below it, for its memory and that of devices before.
    """

    def __init__(self, block: BlockOperations) -> None:
        self.block = block
        index, problem = block.single.index, block.variant.problem
        devices, largest = problem.settled_placement.devices, problem.grains.largest["activation"]
        self.way: list[_Device] = []
        for stage in range(problem.devices):
            second = problem.stages - 1 - stage
            rows = [index.row(kind, one)[0] for kind, one in (("F", stage), ("F", second), ("B", second), ("B", stage))]
            sizes = largest[stage], largest[second]
            self.way.append(_Device(rows, sizes, problem.capacity_grains[devices[stage]]))

    @staticmethod
    def applies(block: BlockOperations) -> bool:
        """Return whether a block is one microbatch on a V, with whole backwards, and all operations take time."""
        problem = block.variant.problem
        devices, count = problem.settled_placement.devices, problem.devices
        is_v = len(devices) == 2 * count and len({*devices[:count]}) == count and devices[::-1] == devices
        plain = block.microbatches == 1 and block.variant.index.letters == "FB" and all(block.durations)
        return is_v and plain and problem.are_alike

    def states(self, period: int) -> int:
        """Return how many choices of phases the device with most of them has."""
        works = [sum(self.block.durations[number] for number in device.numbers) for device in self.way]
        return max(period * 6 * comb(period - work + 3, 3) if work <= period else 0 for work in works)

    def phases(self, period: int) -> list[int] | None:
        """Return phases of all operations that fit, or None: then the period is impossible."""
        choices = [self._choices(device, period) for device in self.way]
        chosen = choices[0][:, DOWN] == 0  # where the circle begins is free
        choices[0] = choices[0][chosen]
        levels = [self._first_levels(choices[0], period)]
        for place in range(1, len(self.way)):
            self._limit(levels[-1], place - 1, choices[place - 1], period)
            levels.append(self._step(levels[-1], place, choices, period))
        self._limit(levels[-1], len(self.way) - 1, choices[-1], period)
        ends = np.argwhere(levels[-1] >= 0)
        return self._traced(ends[0], levels, choices, period) if len(ends) else None

    def _choices(self, device: _Device, period: int) -> Array:
        """Return all phases of a device's operations, a row each: orders on the circle, pauses, rotations."""
        lengths = [self.block.durations[number] for number in device.numbers]
        shapes = []
        for order in permutations(range(1, 4)):
            idle = period - sum(lengths)
            for pauses in (three for three in product(range(idle + 1), repeat=3) if sum(three) <= idle):
                shape, end = [0] * 4, lengths[0]
                for number, pause in zip(order, pauses, strict=True):
                    shape[number] = end + pause
                    end += pause + lengths[number]
                shapes.append(shape)
        if not shapes:
            return np.zeros((0, 4), dtype=np.int64)
        turned = np.array(shapes)[None] + np.arange(period)[:, None, None]
        phases: Array = turned.reshape(-1, 4) % period
        return phases

    def _first_levels(self, choices: Array, period: int) -> Array:
        """Return for each choice and number of periods above the first device how many may pass below it."""
        gap = self.block.gaps[self.way[0].numbers[BACK_DOWN]]
        above = _turns(choices[:, UP], gap, choices[:, BACK_DOWN], period)
        size = sum(self.way[0].sizes)
        capacity = self.way[0].capacity
        most = 2 * len(self.way) * (max(self.block.gaps) // period + 2)  # a hop takes no more
        if capacity is not None and size:
            most = min(most, capacity // size + 2)
        levels = np.full((len(choices), int(max(above.max(initial=0), most)) + 1), IMPOSSIBLE, dtype=np.int16)
        levels[np.arange(len(choices)), above] = UNLIMITED
        return levels

    def _limit(self, levels: Array, place: int, choices: Array, period: int) -> None:
        """Lower levels to what the memory of a device allows; IMPOSSIBLE where the way below takes longer."""
        device = self.way[place]
        own, both = device.sizes[0], sum(device.sizes)
        if device.capacity is not None:
            above = np.arange(levels.shape[1])[None, :]
            left = device.capacity - both * above - self._begun(device, choices)[:, None]
            most = np.where(left < 0, IMPOSSIBLE, left // own if own else UNLIMITED)
            np.minimum(levels, np.clip(most, IMPOSSIBLE, UNLIMITED), out=levels, casting="unsafe")
        levels[levels < self._least_below(place, choices, period)[:, None]] = IMPOSSIBLE

    def _begun(self, device: _Device, choices: Array) -> Array:
        """Return what a device holds at most beyond whole periods, as one of its forwards starts."""
        held = []
        for forward in (DOWN, UP):
            total = np.zeros(len(choices), dtype=np.int64)
            for size, first, last in zip(device.sizes, (DOWN, UP), (BACK_UP, BACK_DOWN), strict=True):
                total += size * (choices[:, first] <= choices[:, forward])
                total -= size * (choices[:, last] < choices[:, forward])
            held.append(total)
        most: Array = np.maximum(*held)
        return most

    def _least_below(self, place: int, choices: Array, period: int) -> Array:
        """Return how many periods pass on the way to the last device and back when nothing waits there."""
        gaps = self.block.gaps
        forward = sum(gaps[device.numbers[DOWN]] for device in self.way[place + 1 :])
        forward += sum(gaps[device.numbers[UP]] for device in self.way[place:])
        backward = sum(gaps[device.numbers[BACK_DOWN]] for device in self.way[place + 1 :])
        backward += sum(gaps[device.numbers[BACK_UP]] for device in self.way[place:])
        down = _turns(choices[:, DOWN], forward, choices[:, UP], period)
        back = _turns(choices[:, BACK_DOWN], backward, choices[:, BACK_UP], period)
        both: Array = down + back
        return both

    def _tables(self, place: int, period: int) -> list[Array]:
        """Return the whole periods of each hop to or from the device before, by its phase (row) and this one's."""
        gaps, own, before = self.block.gaps, self.way[place].numbers, self.way[place - 1].numbers
        here, there = np.arange(period)[None, :], np.arange(period)[:, None]
        hops = ((there, own[DOWN], here), (here, before[UP], there), (there, own[BACK_DOWN], here),
                (here, before[BACK_UP], there))  # fmt: skip
        return [_turns(start, gaps[number], after, period).astype(np.int16) for start, number, after in hops]

    def _step(self, levels: Array, place: int, choices: list[Array], period: int) -> Array:
        """Return the levels of a device from those of the one before.

        Hops between both add to what passes above; what they take in all is gone from what may pass below.
        """
        tables, columns = self._tables(place, period), 256  # looked at together, which bounds memory
        alive = np.flatnonzero((levels >= 0).any(axis=1))
        result = np.full((len(choices[place]), levels.shape[1]), IMPOSSIBLE, dtype=np.int16)
        for begin in range(0, len(choices[place]), columns):
            check_deadline()
            there, here = choices[place - 1][alive], choices[place][begin : begin + columns]
            above, below = _hops(tables, there, here)
            for number in range(levels.shape[1]):
                allowed = levels[alive, number]
                rows = np.flatnonzero(allowed >= 0)
                if len(rows):
                    left, turns = allowed[rows, None] - below[rows], above[rows]
                    for more in range(int(turns.max()) + 1):
                        if number + more < levels.shape[1]:
                            best = np.where(turns == more, left, IMPOSSIBLE).max(axis=0)
                            part = result[begin : begin + columns, number + more]
                            np.maximum(part, best, out=part)
        return result

    def _traced(self, end: Array, levels: list[Array], choices: list[Array], period: int) -> list[int]:
        """Return the phases that lead to `end`: a choice of the last device and a number of periods above it."""
        phases = [0] * len(self.block)
        row, number = map(int, end)
        for place in range(len(self.way) - 1, -1, -1):
            for operation, phase in zip(self.way[place].numbers, choices[place][row].tolist(), strict=True):
                phases[operation] = phase
            if place:
                here = choices[place][row][None, :]
                above, below = _hops(self._tables(place, period), choices[place - 1], here)
                rows = np.arange(len(above))
                numbers = number - above[:, 0].astype(np.int64)
                before = np.where(numbers >= 0, levels[place - 1][rows, numbers], IMPOSSIBLE)
                row = int(np.flatnonzero((before >= 0) & (before - below[:, 0] >= levels[place][row, number]))[0])
                number = int(numbers[row])
        return phases


def _hops(tables: list[Array], there: Array, here: Array) -> tuple[Array, Array]:
    """Return the whole periods of the hops that count above a device, and of all four, which count below it."""
    down, up, back_down, back_up = (table[there[:, one]][:, here[:, one]] for one, table in enumerate(tables))
    above = up + back_down
    return above, above + down + back_up


def _turns(start: Array, gap: int, after: Array, period: int) -> Array:
    """Return how many whole periods later an operation starts than its phase `after` says."""
    turns: Array = -((after - start - gap) // period)
    return turns
