"""What operations last and hold and edges cost, for the check: restated from the problem as it was given."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import cached_property
from itertools import chain, pairwise
from operator import mul
from typing import NamedTuple

from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import Exact, in_one_scale, to_fraction
from pipesched.pipeline.schedule import Schedule

Given = Exact | tuple[Exact, ...]  # a cost of all microbatches, or of each
SLICED = ("forward", "backward_input", "backward_weight")  # costs of which each slice has a share
TRANSFERS = ("offload", "reload")


class CheckedTimes:
    """What costs become on a device, and edges between two, in ticks."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._rows: dict[tuple[object, ...], list[int]] = {}

    def row(self, names: Sequence[str], stage: int, device: int) -> list[int]:
        """Return what operations of these costs last on a stage and a device, one for each slice of each microbatch.

        Where the problem has no such cost they last nothing.
        """
        slices = self.problem.slices
        columns = [getattr(self.problem.costs, name) for name in names]
        if None in columns:
            return [0] * (self.problem.microbatches * slices.count)
        costs = [column[stage] for column in columns]
        is_sliced, moves = names[0] in SLICED, names[0] in TRANSFERS
        shares = [slices.of(name, stage) if is_sliced else (Fraction(1),) * slices.count for name in names]
        speed = 1 if moves or self.problem.speed is None else self.problem.speed[device]
        more = to_fraction(slices.overhead) if is_sliced else Fraction(0)
        name = (*names, *costs, *shares, speed)
        if name not in self._rows:
            products = _products(costs, self._factors("activation" if moves else "work"), shares)
            self._rows[name] = self._of_all(self._ticks_of(products, to_fraction(speed), more))
        return self._rows[name]

    def pair(self, stage: int, device: int) -> int:
        """Return the ticks of a pair on a device by the stage of its forward, where the problem gives them."""
        pairs, speeds = self.problem.costs.overlap, self.problem.speed
        assert pairs is not None
        return self._ticks(to_fraction(pairs[stage]), Fraction(1) if speeds is None else to_fraction(speeds[device]))

    def scaled(self, time: Exact, speed: Exact) -> int:
        """Return the ticks of a time of the step that a device, or a lane, of this speed takes."""
        return self._ticks(to_fraction(time), to_fraction(speed))

    def hops(self, stage: int, before: int, after: int) -> list[int]:
        """Return the latency of the boundary behind a stage from one device to another, one for each unit."""
        cost: Given = self.problem.costs.p2p[stage]
        link = 0 if self.problem.links is None else self.problem.links[before][after]
        name = ("p2p", cost, link, before == after)
        if name not in self._rows:
            costs: list[Given] = [0] if before == after else [cost, link]
            products = _products(costs, self._factors("message"), [self.problem.slices.tokens] * len(costs))
            self._rows[name] = self._of_all(products.times(Fraction(self._per_unit)))
        return self._rows[name]

    def held(self, stage: int, share: Exact) -> list[int]:
        """Return a part of the activation of a stage in grains, one for each unit."""
        problem = self.problem
        size: Given = problem.memory.activation[stage]
        name = ("memory", size, share)
        if name not in self._rows:
            products = _products([size], self._factors("activation"), [problem.slices.tokens])
            self._rows[name] = self._of_all(products.times(to_fraction(share) * problem.grains.per_unit))
        return self._rows[name]

    def _factors(self, key: str) -> tuple[list[int], int]:
        """Return a factor of each microbatch, or one for all, as multiples of 1/scale, and the scale."""
        sizes = self.problem.sizes
        return ([1], 1) if sizes is None else sizes.wholes[key]

    def _of_all(self, amounts: list[int]) -> list[int]:
        """Return the amounts of all units, of these or of one microbatch's slices, which then stands for all."""
        count = self.problem.slices.count
        return amounts * self.problem.microbatches if len(amounts) == count else amounts

    def _ticks_of(self, products: Products, speed: Fraction, more: Fraction) -> list[int]:
        """Return products in ticks on a device of this speed, with what each operation lasts beside its cost."""
        if speed == 1:
            return products.times(Fraction(self._per_unit), int(more * self._per_unit))
        known = {one: self._ticks(Fraction(one, products.scale), speed, more) for one in {*products.amounts}}
        return [known[one] for one in products.amounts]

    @cached_property
    def _per_unit(self) -> int:
        return self.problem.ticks.per_unit

    def _ticks(self, time: Fraction, speed: Fraction, more: Fraction = Fraction(0)) -> int:
        return int(((time if speed == 1 else _quotient(time, speed)) + more) * self._per_unit)


class Products(NamedTuple):
    """Amounts of all units as whole numbers of 1/scale; of the slices of one microbatch where all are alike."""

    amounts: list[int]
    scale: int

    def times(self, by: Fraction, more: int = 0) -> list[int]:
        """Return each amount, multiplied by a number, and `more`."""
        up, down = (by / self.scale).as_integer_ratio()
        return [amount * up // down + more for amount in self.amounts]


def _products(costs: Sequence[Given], factors: tuple[list[int], int], shares: Sequence[Sequence[Fraction]]) -> Products:
    """Return for each unit the sum over the costs of cost x factor x share.

    A cost and the factors are of each microbatch, or one for all; each cost has its own share of each slice.
    """
    listed = [cost if isinstance(cost, tuple) else (cost,) for cost in costs]
    by, of_factors = factors
    count = max(map(len, (*listed, by)))
    numbers, of_costs = in_one_scale(chain(*listed))
    parts, of_parts = in_one_scale(chain(*shares))
    columns = []
    for cost in listed:
        own, numbers = numbers[: len(cost)], numbers[len(cost) :]
        share, parts = parts[: len(shares[0])], parts[len(shares[0]) :]
        wholes = map(mul, own * (count // len(own)), by * (count // len(by)))
        columns.append([whole * part for whole in wholes for part in share])
    amounts = columns[0] if len(columns) == 1 else [*map(sum, zip(*columns, strict=True))]
    return Products(amounts, of_factors * of_costs * of_parts)


def halves(schedule: Schedule) -> list[range]:
    """Return the units that run on the same devices: all, or of a bidirectional problem each half of microbatches.

    Where its microbatches are fed in another order, each run of those that go the same way.
    """
    count, slices = schedule.plan.index.microbatches, schedule.plan.index.slices
    placement = schedule.problem.settled_placement
    if not placement.mirrored:
        return [range(count * slices)]
    back = {*(range(count // 2, count) if placement.second is None else placement.second)}
    cuts = [one * slices for one in range(1, count) if (one in back) != (one - 1 in back)]
    return [range(begin, end) for begin, end in pairwise([0, *cuts, count * slices])]


def device_of(schedule: Schedule, stage: int, units: range) -> int:
    """Return the device of a stage for units of the same half."""
    index = schedule.plan.index
    return schedule.problem.settled_placement.device(stage, units[0] // index.slices, index.microbatches)


def _quotient(cost: Fraction, speed: Fraction) -> Fraction:
    """Return a cost divided by a speed, half up to nine digits."""
    by_nine = Context(prec=9, rounding=ROUND_HALF_UP)
    top, bottom = cost.numerator * speed.denominator, cost.denominator * speed.numerator
    return Fraction(by_nine.divide(Decimal(top), Decimal(bottom)))
