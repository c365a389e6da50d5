"""What a solve reports beside its schedule: a `SolveReport` of what it found and proved, tried, and what would help.

Its `bound` is on the objective, of all that it chose from; its `makespan_bound` is of the placement of its answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pipesched.checks import (
    require_fields,
    require_label,
    require_name,
    require_number,
    require_sequence,
    require_type,
    require_whole,
)
from pipesched.display import Displayable
from pipesched.pipeline.bounds.bounds import Bound
from pipesched.pipeline.plan.plan import Together
from pipesched.pipeline.problem.quantities import in_units
from pipesched.results.standing import CHOSEN, FOR_THIS_CUT, Status, StoppedBy
from pipesched.schedulers.options import OBJECTIVES


class TriedCut(NamedTuple):
    """A cut that was tried: the layers of each stage, and the largest work of a device for one microbatch.

    `makespan` is that of the best schedule found on it, None where it was not scheduled. Times are in the user's unit.
    """

    chunks: int
    placement: str
    layout: tuple[int, ...]
    work: int | float
    makespan: int | float | None


class CutReport(NamedTuple):
    """The cut of a solve's answer, the bound and the status of schedules on it and its placement alone; all `tried`."""

    layout: tuple[int, ...]
    chunks: int
    bound: Bound
    status: Status
    tried: tuple[TriedCut, ...]

    @property
    def chunks_tried(self) -> tuple[int, ...]:
        """The numbers of stages a device that were tried."""
        return tuple(sorted({cut.chunks for cut in self.tried}))


class BestHeuristic(NamedTuple):
    """The best schedule that a solve had before it searched: what found it, and its value in the user's time unit."""

    source: str
    value: int | float


class Repetition(NamedTuple):
    """What a solve knows about periodic schedules of a placement: blocks that repeat without end within the budget.

    A block of so many `microbatches` was found that repeats after `period`. No schedule whose microbatches all run
    alike, one after another at equal intervals, repeats after `refuted` or less: that is proved. It bounds only those
    schedules: a block of more microbatches, and a schedule that does not repeat, may take less for a microbatch. Times
    are in the user's unit.
    """

    placement: str
    period: int | float
    microbatches: int
    refuted: int | float


class Advice(NamedTuple):
    """A change that would make the schedule of a solve shorter, by a checked schedule that heuristics found.

    `change` is its name. A solve with it reaches `makespan_at_most`, which is `difference` (less than 0) from the
    makespan of the answer. `solve` holds the parameters of `solve` that make the change, `problem` those of
    `make_problem` with their new values, to be laid over what was given. Times are in the user's unit.
    """

    change: str
    makespan_at_most: int | float
    difference: int | float
    solve: Mapping[str, Any] = {}
    problem: Mapping[str, Any] = {}


@dataclass(frozen=True, repr=False)
class SolveReport(Displayable):
    """What a solve reports beside its schedule.

    Where the cut was open, `bound` and `status` are about all cuts, and `makespan_bound` is about that of the schedule.
    Raises ConfigError, about the field at fault, for a value of another type.
    """

    objective: str  # "makespan" or "span"
    status: Status
    value_ticks: int  # of the objective
    bound: Bound  # the best lower bound on the objective, over all placements that were tried
    makespan_bound: Bound  # on the makespan, for the placement of the schedule
    seconds: float  # that the solve took
    stopped_by: StoppedBy  # what ended it
    source: str  # what found the schedule
    heuristic: BestHeuristic | None  # the best schedule within the budget that the portfolio found before any search
    placements: tuple[str, ...]  # those that were tried
    equal: Mapping[str, int | float] = field(default_factory=dict, hash=False)  # named ones of this value: their memory
    repetition: Repetition | None = None  # what is known of periodic schedules, if they were searched
    advice: tuple[Advice, ...] | None = field(default=None, hash=False)  # changes that would help; None: none was tried
    cuts: CutReport | None = None  # which cuts were tried, where the cut was open
    covers: str = CHOSEN  # which schedules `bound` is about, in words
    cut_off: tuple[str, ...] = ()  # searches for bounds that had too little time
    not_tried: tuple[str, ...] = ()  # algorithms for which there was no time

    def __post_init__(self) -> None:
        require_name(OBJECTIVES, self.objective, "objective", "objective")
        require_whole(self.value_ticks, "value_ticks")
        require_number(self.seconds, "seconds")
        require_label(self.source, "source")
        require_label(self.covers, "covers")
        kinds = {"status": Status, "bound": Bound, "makespan_bound": Bound, "stopped_by": StoppedBy}
        for key, kind in kinds.items():
            require_type(getattr(self, key), kind, f"a {kind.__name__}", key)
        require_type(self.equal, Mapping, "a mapping of memory by names", "equal")
        require_fields(self, heuristic=BestHeuristic, repetition=Repetition, cuts=CutReport)
        if self.advice is not None:
            object.__setattr__(self, "advice", tuple(require_sequence(self.advice, "advice")))
            for advice in self.advice:
                require_type(advice, Advice, "an Advice", "advice")
        for key in ("placements", "cut_off", "not_tried"):
            object.__setattr__(self, key, tuple(require_sequence(getattr(self, key), key)))
            for name in getattr(self, key):
                require_label(name, key)

    def _found(self) -> dict[str, Any]:
        standing = str(self.status)
        if self.cuts is not None and self.status == Status.OPTIMAL:
            standing = f"{Status.OPTIMAL} over all cuts"
        elif self.cuts is not None and self.cuts.status == Status.OPTIMAL:
            standing = FOR_THIS_CUT
        gap = (self.value_ticks - self.bound.ticks) / self.bound.ticks if self.bound.ticks else 0.0
        value = in_units(self.value_ticks, self.bound.per_unit)
        return {"value": value, "lower_bound": self.bound.value, "gap": gap, "standing": standing}

    value = Together[int | float](_found, "The objective of the schedule, in the user's time unit.")
    lower_bound = Together[int | float](_found, "The best lower bound on the objective, in the user's time unit.")
    gap = Together[float](_found, "The distance to the bound: (value - bound) / bound.")
    standing = Together[str](_found, "The status in words: where the cut was open, with what it is about.")

    def __repr__(self) -> str:
        return f"SolveReport({self.objective} {self.value}, bound {self.bound.value}, {self.standing})"
