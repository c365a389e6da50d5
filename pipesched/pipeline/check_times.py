"""What operations last and edges cost, for the check: restated from the costs, the speeds and the links as given."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from pipesched.pipeline.ops import Op
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import to_fraction

_COLUMNS = {
    "F": "forward",
    "I": "backward_input",
    "W": "backward_weight",
    "R": "recompute",
    "O": "offload",
    "L": "reload",
}


class CheckedTimes:
    """What operations last on a device and edges cost between two, in ticks, from the costs as they were given."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.costs = problem, problem.costs
        self.known: dict[tuple[Any, ...], int] = {}

    def length(self, kind: str, stage: int, device: int) -> int:
        """Return the ticks of an operation: of O and L the cost itself; 0 of a transfer that has none."""
        if kind == "B":
            cost = to_fraction(self.costs.backward_input[stage]) + to_fraction(self.costs.backward_weight[stage])
        else:
            column = getattr(self.costs, _COLUMNS[kind])
            cost = Fraction(0) if column is None else to_fraction(column[stage])
        return self.ticks(cost, None if kind in "OL" else device)

    def ticks(self, cost: Fraction, device: int | None) -> int:
        """Return a cost in ticks: on a device of another speed than 1 their quotient, half up to nine digits."""
        speed = None if device is None or self.problem.speed is None else to_fraction(self.problem.speed[device])
        key = cost, speed
        if key not in self.known:
            exactly = cost if speed in (None, 1) else _quotient(cost, speed)
            self.known[key] = int(exactly * self.problem.ticks.per_unit)
        return self.known[key]

    def hop(self, stage: int, before: int, after: int) -> int:
        """Return the latency of a boundary on the way from one device to another."""
        if before == after:
            return 0
        link = Fraction(0) if self.problem.links is None else to_fraction(self.problem.links[before][after])
        return self.ticks(to_fraction(self.costs.p2p[stage]) + link, None)

    def pair(self, forward: Op, backward: Op, device: int) -> int:
        """Return the ticks of a pair: `overlap` by the stage of its forward, or else the sum."""
        if self.costs.overlap is not None:
            return self.ticks(to_fraction(self.costs.overlap[forward.stage]), device)
        return self.length("F", forward.stage, device) + self.length("B", backward.stage, device)


def _quotient(cost: Fraction, speed: Fraction) -> Fraction:
    by_nine = Context(prec=9, rounding=ROUND_HALF_UP)
    top, bottom = cost.numerator * speed.denominator, cost.denominator * speed.numerator
    return Fraction(by_nine.divide(Decimal(top), Decimal(bottom)))
