"""What a solve knows while it runs: the best schedule, a bound for each placement, and whether to go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import NamedTuple

from pipesched.core.cpsat import Limits
from pipesched.pipeline.bounds import Bound
from pipesched.pipeline.check import checked
from pipesched.pipeline.schedule import Schedule
from pipesched.solver.case import Case


class Find(NamedTuple):
    """A schedule, and what found it."""

    source: str
    schedule: Schedule


class Event(NamedTuple):
    """What is known at a moment of a solve; the value and the bound in ticks, of a problem with `scale`."""

    stage: str
    seconds: float
    value: int | None
    source: str
    bound: int
    scale: int


Listener = Callable[[Event], None]


class Search:
    """The state of a solve over several cases of one model. A better schedule or bound is told to `listener`."""

    def __init__(self, cases: Sequence[Case], limits: Limits, listener: Listener | None = None) -> None:
        self.cases, self.limits, self.listener = cases, limits, listener
        self.bounds = [Bound(0, "") for _ in cases]
        self.finds: list[Find | None] = [None for _ in cases]
        self.best: Find | None = None
        self.value = 0  # of the best, in ticks
        self.heuristic: tuple[str, int] | None = None  # the best one and its value
        self.stage = ""
        self.began = monotonic()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return monotonic() - self.began

    @property
    def left(self) -> float:
        """Seconds until the limit."""
        return max(self.limits.seconds - self.seconds, 0.0)

    @property
    def bound(self) -> Bound:
        """No schedule on any of the placements has a smaller objective."""
        least = min(self.bounds, key=lambda bound: bound.ticks)
        return least._replace(ticks=min(least.ticks, self.value)) if self.best else least

    @property
    def open(self) -> list[int]:
        """The places of the cases where something better may be found, the most promising first."""
        places = [place for place, bound in enumerate(self.bounds) if not self._is_settled(bound)]
        return sorted(places, key=lambda place: (self.value_of(place), self.bounds[place].ticks))

    def _is_settled(self, bound: Bound) -> bool:
        return self.best is not None and self.value <= bound.ticks * (1 + self.limits.gap)

    def value_of(self, place: int) -> float:
        """The objective of the best schedule of a case; infinite without one."""
        find = self.finds[place]
        return float("inf") if find is None else self.cases[place].value(find.schedule)

    def at(self, stage: str) -> None:
        """The solve is at this stage now."""
        self.stage = stage
        self._tell()

    def offer(self, place: int, find: Find, *, heuristic: bool = False) -> bool:
        """Take note of a schedule of a case; whether it is the best of that case. `heuristic`: no search made it."""
        value = self.cases[place].value(find.schedule)
        if not find.schedule.fits:
            return False
        if heuristic and (self.heuristic is None or value < self.heuristic[1]):
            self.heuristic = find.source, value
        if value >= self.value_of(place):
            return False
        self.finds[place] = find
        if self.best is None or value < self.value:
            checked(find.schedule)
            self.best, self.value = find, value
            self._tell()
        return True

    def raise_bound(self, place: int, bound: Bound) -> None:
        """Take note of a bound on the objective of a case."""
        if bound.ticks > self.bounds[place].ticks:
            before = self.bound.ticks
            self.bounds[place] = bound
            if self.bound.ticks > before:
                self._tell()

    def _tell(self) -> None:
        if self.listener is not None:
            source, value = (self.best.source, self.value) if self.best else ("", None)
            scale = self.cases[0].problem.costs.scale
            self.listener(Event(self.stage, self.seconds, value, source, self.bound.ticks, scale))
