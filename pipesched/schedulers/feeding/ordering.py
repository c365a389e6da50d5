"""How the microbatches of a schedule are fed: what the option `order` came to."""

from __future__ import annotations

from typing import NamedTuple

from pipesched.schedulers.feeding.fed_plan import BEST, GIVEN, VERL, Order


class Ordering(NamedTuple):
    """The order in which microbatches are fed, and its `rule`: given (or listed), verl, longest, shortest or best.

    Of the best one, `exact` says whether all orders were tried, else it is the best of a search; `tried` is how many
    orders that were. `given` and `verl` are the makespans of these rules, in the user's unit; None where there is none.
    """

    order: Order
    rule: str = GIVEN
    exact: bool = False
    tried: int = 0
    given: int | float | None = None
    verl: int | float | None = None

    def source(self, algorithm: str) -> str:
        """Return in words where the order is from: "the best of all 720 for 1f1b"."""
        if self.rule != BEST:
            return {GIVEN: "as given", VERL: "verl's rule"}.get(self.rule, f"{self.rule} first")
        return f"the best of all {self.tried:,} for {algorithm}" if self.exact else f"searched: {self.tried:,} orders"
