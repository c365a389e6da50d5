"""Phases for a period by beam search over the devices: each device in turn gets the phases of its operations.

On every device all operations must fit on a circle of the length of the period. An operation whose input comes from a
device before takes the first free place after it, one whose result goes to a device before the last free place before
that; operations follow in a random order of priority. Of many such choices for each of many beginnings, those are kept
that make activations wait least, where waiting is weighted by the devices whose memory it fills.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesched.core.clock import look
from pipesched.solver.periodic.operations import NO_HOP, BlockOperations

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
        self.policy = block.case.policy.periods
        self.after: list[list[int]] = [[] for _ in range(len(block))]
        for number, before in enumerate(block.before):
            if before != NO_HOP:
                self.after[before].append(number)

    def run(self, prices: NDArray[Any], devices: Sequence[int], second: float) -> NDArray[Any]:
        """Return the best phases, a row each; none if no choice fits. `prices` is what memory costs on each device.

        All devices get their phases one after another, in the order of `devices`.
        """
        weights = self.block.cover @ prices
        placed = [False] * len(self.block)
        phases = np.zeros((self.policy.width, len(self.block)), dtype=np.int64)
        costs = np.zeros(self.policy.width)
        for device in devices:
            look()
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
        block, before = self.block, self.block.before[number]
        if before != NO_HOP and placed[before]:
            return Anchor(before, 1, block.gaps[number])
        for after in self.after[number]:
            if placed[after]:
                return Anchor(after, -1, block.gaps[after])
        if before != NO_HOP and block.devices[before] == block.devices[number]:
            return Anchor(before, 1, block.gaps[number])
        return Anchor(NO_HOP, 1, 0)

    def _place(
        self, phases: NDArray[Any], numbers: Sequence[int], anchors: dict[int, Anchor], second: float
    ) -> NDArray[Any]:
        """Fill in the phases of a device's operations, and return in which rows all found a place."""
        rows, period = np.arange(len(phases)), self.period
        order = np.array(numbers)[self._priorities(len(phases), numbers, anchors)]
        lengths = np.array(self.block.durations)[order]
        table = np.array([anchors.get(number, Anchor(NO_HOP, 1, 0)) for number in range(len(self.block))])
        taken = np.zeros_like(order)
        fits = np.ones(len(phases), dtype=bool)
        for place in range(len(numbers)):
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

    def _priorities(self, rows: int, numbers: Sequence[int], anchors: dict[int, Anchor]) -> NDArray[Any]:
        """Return random orders of a device's operations, long ones rather first, none before its anchor."""
        lengths = np.array([self.block.durations[number] for number in numbers])
        keys = self.random.random((rows, len(numbers)))
        keys += 1.5 * len(numbers) / self.period * self.random.random((rows, 1)) * lengths
        place = {number: column for column, number in enumerate(numbers)}
        for number in self.block.order:
            if number in place and (other := anchors[number].other) in place:
                keys[:, place[number]] = np.minimum(keys[:, place[number]], keys[:, place[other]] - 1e-9)
        return np.argsort(-keys, axis=1)

    def _choice(self, waits: NDArray[Any], second: float) -> NDArray[Any]:
        """Return in each row the place with the shortest wait, or at random the second."""
        choice: NDArray[Any] = waits.argmin(axis=1)
        if not second or waits.shape[1] < 2:
            return choice
        rows = np.flatnonzero(self.random.random(len(waits)) < second)
        others = waits[rows]
        others[np.arange(len(rows)), choice[rows]] = NEVER
        next_best = others.argmin(axis=1)
        is_free = others[np.arange(len(rows)), next_best] < NEVER
        choice[rows[is_free]] = next_best[is_free]
        return choice

    def _costs(
        self, phases: NDArray[Any], numbers: Sequence[int], placed: Sequence[bool], weights: NDArray[Any]
    ) -> NDArray[Any]:
        """Return the cost of the hops whose second end has just been placed."""
        block, own = self.block, set(numbers)
        hops = [
            number
            for number, before in enumerate(block.before)
            if before != NO_HOP and placed[before] and placed[number] and (number in own or before in own)
        ]
        before = [block.before[number] for number in hops]
        gaps = np.array([block.gaps[number] for number in hops], dtype=np.int64)
        costs: NDArray[Any] = ((phases[:, hops] - phases[:, before] - gaps) % self.period) @ weights[hops]
        return costs

    def _kept(
        self, phases: NDArray[Any], costs: NDArray[Any], numbers: Sequence[int]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the best rows; of those that are alike on the last device but for a shift, one."""
        best = np.argsort(costs, kind="stable")[: 4 * self.policy.width]
        phases, costs = phases[best], costs[best]
        if not len(phases):
            return phases, costs
        shape = (phases[:, numbers] - phases[:, numbers[:1]]) % self.period
        kept = np.sort(np.unique(shape, axis=0, return_index=True)[1])[: self.policy.width]
        return phases[kept], costs[kept]


def _free(
    tries: NDArray[Any], length: NDArray[Any], starts: NDArray[Any], lengths: NDArray[Any], period: int
) -> NDArray[Any]:
    """Return which tries of an operation of some `length` overlap none of the operations there, on the circle."""
    behind = tries[:, :, None] - starts[:, None, :]
    behind += period * (behind < 0)
    free: NDArray[Any] = ((behind >= lengths[:, None, :]) & (period - behind >= length[:, None, None])).all(axis=2)
    return free
