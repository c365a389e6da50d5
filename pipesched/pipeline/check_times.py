"""What operations last and edges cost, for the check: restated from the costs, the speeds and the links as given."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import Exact, to_fraction


class CheckedTimes:
    """What costs become on a device, and edges between two, in ticks."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._known: dict[tuple[Exact, Exact], int] = {}

    def of(self, cost: Exact, device: int | None) -> int:
        """Return a cost in ticks: on a device of another speed than 1 their quotient, half up to nine digits.

        With no device it is the cost itself, as of transfers.
        """
        speeds = self.problem.speed
        key = cost, 1 if device is None or speeds is None else speeds[device]
        if key not in self._known:
            exactly, speed = map(to_fraction, key)
            time = exactly if speed == 1 else _quotient(exactly, speed)
            self._known[key] = int(time * self.problem.ticks.per_unit)
        return self._known[key]

    def hop(self, stage: int, before: int, after: int) -> int:
        """Return the latency of the boundary behind a stage on the way from one device to another."""
        if before == after:
            return 0
        links = self.problem.links
        return self.of(self.problem.costs.p2p[stage], None) + (
            0 if links is None else self.of(links[before][after], None)
        )


def _quotient(cost: Fraction, speed: Fraction) -> Fraction:
    by_nine = Context(prec=9, rounding=ROUND_HALF_UP)
    top, bottom = cost.numerator * speed.denominator, cost.denominator * speed.numerator
    return Fraction(by_nine.divide(Decimal(top), Decimal(bottom)))
