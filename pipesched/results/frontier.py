"""The best schedules by rising budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipesched.checks import require_label, require_name, require_sequence, require_type
from pipesched.display import DisplayableRows
from pipesched.pipeline.recut import is_cut_open
from pipesched.results.covered import CHOSEN
from pipesched.results.outcome import Outcome
from pipesched.results.status import Status
from pipesched.schedulers.options import OBJECTIVES


@dataclass(frozen=True)
class FrontierPoint:
    """The best schedule at a budget (the same for every device, static memory included), up to the next point's.

    `value` and `bound` are of the objective; numbers are in the user's units. A point that was read from a document has
    its `row` and no outcome.
    """

    budget: int | float
    value: int | float
    bound: int | float
    gap: float
    status: Status
    placement: str
    source: str
    outcome: Outcome | None = field(default=None, repr=False)
    row: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, repr=False)
class Frontier(DisplayableRows[FrontierPoint]):
    """Points by rising budget, each better than all before it; `objective` is "makespan" or "span".

    `covers` says in words which schedules the bounds are about; each is of schedules within the budget of its point.
    """

    _rows = "points"

    points: tuple[FrontierPoint, ...]
    objective: str = "makespan"
    time_unit: str = ""
    memory_unit: str = ""
    covers: str = CHOSEN

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", tuple(require_sequence(self.points, "points")))
        for point in self.points:
            require_type(point, FrontierPoint, "a FrontierPoint", "points")
        require_name(sorted(OBJECTIVES), self.objective, "objective", "objective")
        require_label(self.time_unit, "time_unit")
        require_label(self.memory_unit, "memory_unit")
        require_label(self.covers, "covers")

    @property
    def proved(self) -> str:
        """What a point is that nothing better can beat, in words: where the cut is open, that holds for its cuts."""
        outcomes = (point.outcome for point in self.points)
        is_open = any(outcome is not None and is_cut_open(outcome.problem) for outcome in outcomes)
        return f"{Status.OPTIMAL} for these cuts" if is_open else str(Status.OPTIMAL)

    def __repr__(self) -> str:
        steps = ", ".join(f"{point.budget}: {point.value}" for point in self.points)
        return f"Frontier({self.objective} by budget {steps})"
