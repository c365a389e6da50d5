"""Which periods no block of one microbatch has on a V: all phases are tried, by dynamic programming over devices.

Prints a table of the cases of bench_solver_next.py that are given, each up to the first period that is possible.
"""

from __future__ import annotations

import argparse
import time
from itertools import permutations, product
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench_solver_next import CASES
from pipesched import make_problem
from pipesched.core.clock import check_deadline
from pipesched.solver.periodic.beam import BlockOperations
from pipesched.solver.recompute_offload import PlainVariant

Array = NDArray[Any]
UNLIMITED, IMPOSSIBLE = 30_000, -1  # periods
DOWN, UP, BACK_DOWN, BACK_UP = range(4)  # F of the first chunk, F of the second, their B in the order of time


class _Device(NamedTuple):
    """A device on the way down: its four operations, what their activations take, and what it may hold (grains)."""

    numbers: list[int]
    sizes: tuple[int, int]
    capacity: int | None


class DownAndUp:
    """The question for one microbatch on a V of two chunks a device, with whole backwards that take time."""

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
        """Return the levels of a device from those of the one before."""
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
        """Return the phases that lead to a choice of the last device and a number of periods above it."""
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


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["n4", "n1"], help="cases with two stages a device")
    parser.add_argument("--states", type=int, default=12_000, help="choices of phases of a device, at most")
    options = parser.parse_args()
    print("| case | no block of one microbatch up to | possible | seconds |\n| --- | --- | --- | --- |")
    for name in options.names:
        variant = PlainVariant(make_problem(**{**CASES[name], "placement": "v"}))
        block = BlockOperations(variant, 1)
        decision, begin = DownAndUp(block), time.process_time()
        period, phases = block.least_period - 1, None
        while phases is None and decision.states(period + 1) <= options.states:
            period += 1
            phases = decision.phases(period)
        per_unit = variant.problem.ticks.per_unit / variant.quantum
        refuted = (period if phases is None else period - 1) / per_unit
        least = "?" if phases is None else f"{period / per_unit:g}"
        print(f"| {name} | {refuted:g} | {least} | {time.process_time() - begin:.1f} |", flush=True)


if __name__ == "__main__":
    main()
