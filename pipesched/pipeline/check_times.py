"""What operations last and hold and edges cost, for the check: restated from the problem as it was given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import Exact, to_fraction
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
            factors = self._factors("activation" if moves else "work")
            times = self._products(costs, factors, shares)
            self._rows[name] = [self._ticks(time, to_fraction(speed), more) for time in times]
        return self._rows[name]

    def pair(self, stage: int, device: int) -> int:
        """Return the ticks of a pair on a device by the stage of its forward, where the problem gives them."""
        pairs, speeds = self.problem.costs.overlap, self.problem.speed
        assert pairs is not None
        return self._ticks(to_fraction(pairs[stage]), Fraction(1) if speeds is None else to_fraction(speeds[device]))

    def hops(self, stage: int, before: int, after: int) -> list[int]:
        """Return the latency of the boundary behind a stage from one device to another, one for each unit."""
        cost: Given = self.problem.costs.p2p[stage]
        link = 0 if self.problem.links is None else self.problem.links[before][after]
        name = ("p2p", cost, link, before == after)
        if name not in self._rows:
            count, tokens = self.problem.microbatches, self.problem.slices.tokens
            costs = [Fraction(0) if before == after else one + to_fraction(link) for one in _each(cost, count)]
            each = zip(costs, self._factors("message"), strict=True)
            self._rows[name] = [int(one * factor * part * self._per_unit) for one, factor in each for part in tokens]
        return self._rows[name]

    def held(self, stage: int, share: Exact) -> list[int]:
        """Return a part of the activation of a stage in grains, one for each unit."""
        problem = self.problem
        size: Given = problem.memory.activation[stage]
        name = ("memory", size, share)
        if name not in self._rows:
            scale = to_fraction(share) * problem.grains.per_unit
            each = zip(_each(size, problem.microbatches), self._factors("activation"), strict=True)
            wholes = [one * factor * scale for one, factor in each]
            self._rows[name] = [int(whole * part) for whole in wholes for part in problem.slices.tokens]
        return self._rows[name]

    def _factors(self, key: str) -> list[Fraction]:
        sizes: Any = self.problem.sizes
        return [Fraction(1)] * self.problem.microbatches if sizes is None else [*map(to_fraction, getattr(sizes, key))]

    def _products(
        self, costs: Sequence[Given], factors: Sequence[Fraction], shares: Sequence[Sequence[Fraction]]
    ) -> Iterator[Fraction]:
        """Yield for each unit the sum over the costs of cost x factor x share."""
        columns = [_each(cost, len(factors)) for cost in costs]
        for microbatch, factor in enumerate(factors):
            for part in range(len(shares[0])):
                pairs = zip(columns, shares, strict=True)
                yield factor * sum((column[microbatch] * share[part] for column, share in pairs), Fraction(0))

    @cached_property
    def _per_unit(self) -> int:
        return self.problem.ticks.per_unit

    def _ticks(self, time: Fraction, speed: Fraction, more: Fraction = Fraction(0)) -> int:
        return int(((time if speed == 1 else _quotient(time, speed)) + more) * self._per_unit)


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


def _each(cost: Given, count: int) -> list[Fraction]:
    return [*map(to_fraction, cost)] if isinstance(cost, tuple) else [to_fraction(cost)] * count


def _quotient(cost: Fraction, speed: Fraction) -> Fraction:
    """Return a cost divided by a speed, half up to nine digits."""
    by_nine = Context(prec=9, rounding=ROUND_HALF_UP)
    top, bottom = cost.numerator * speed.denominator, cost.denominator * speed.numerator
    return Fraction(by_nine.divide(Decimal(top), Decimal(bottom)))
