"""The answer of `run` and of a solve: an `Outcome` is a schedule with its bound, and says how good that is.

A solve adds a `SolveReport` (report.py). `Outcome.bound` is the larger of the report's `makespan_bound` and of the
schedule's own one, `Outcome.claim` the bound that is shown. Words for both stand in standing.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.checks import require_fields, require_flag, require_label, require_type, shown
from pipesched.display import HasPage
from pipesched.pipeline.bounds.bounds import Bound, lower_bound
from pipesched.pipeline.layers.layers import BEST
from pipesched.pipeline.layers.recut import is_cut_open
from pipesched.pipeline.plan.plan import Together
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.costs import fields_of
from pipesched.pipeline.problem.problem import Problem, differs
from pipesched.results.standing import FOR_THIS_CUT, Claim, Status, of_schedule
from pipesched.schedulers.ordering import Ordering
from pipesched.schedulers.registry import called

if TYPE_CHECKING:
    from pipesched.results.report import SolveReport

METRICS = (
    "makespan", "span", "ideal", "bubble", "bubble_over_ideal", "bubble_span", "lower_bound", "gap", "idle", "busy",
    "peak_memory", "memory", "imbalance", "utilization", "bottleneck", "fits",
)  # fmt: skip
MEASURED = "measured"  # the algorithm of a schedule that a run recorded, whose operations have lengths of their own


class Quartiles(NamedTuple):
    """The first quartile, the median and the third quartile of measured lengths, in the unit of what has them."""

    q1: int | float
    median: int | float
    q3: int | float


class CutChoice(NamedTuple):
    """The cut that an algorithm runs on: the layers of each stage, by a rule, the best of so many that were tried.

    Where the order of the algorithm follows from costs, only some are planned anew; all others were timed under the
    order of one of them.
    """

    layout: tuple[int, ...]
    rule: str
    tried: int
    all: int | None  # the number of all cuts (None: above 2^53)
    planned: int | None = None  # how many were planned anew

    @property
    def is_exact(self) -> bool:
        """Whether no other cut is better."""
        return self.planned is None and self.tried == self.all

    @property
    def said(self) -> str:
        """What is known of it, in words."""
        if self.rule != BEST:
            return self.rule
        if self.planned is not None:
            return f"the best of {self.planned} planned, of {self.tried:,} retimed"
        return f"the best of all {self.all:,}" if self.is_exact else f"the best of {self.tried:,} tried, by search"


@dataclass(frozen=True, repr=False)
class Outcome(HasPage):
    """A schedule with the name of the algorithm that made it, and the report of a solve that found it.

    `run` and the solver make it; documents/ reads it back.
    """

    algorithm: str
    schedule: Schedule
    report: SolveReport | None = None
    ordering: Ordering | None = None  # how its microbatches are fed, where an order was asked for and they differ
    is_grouped: bool = False  # its algorithm found the group size, for which none was given
    cut: CutChoice | None = None  # how its layers were cut, where that was open

    def __post_init__(self) -> None:
        require_label(self.algorithm, "algorithm")
        require_type(self.schedule, Schedule, "a Schedule", "schedule")
        if self.report is not None:  # a run does without that file
            from pipesched.results.report import SolveReport

            require_type(self.report, SolveReport, "a SolveReport or None", "report")
        require_fields(self, ordering=Ordering, cut=CutChoice)
        require_flag(self.is_grouped, "is_grouped")

    def __repr__(self) -> str:
        return f"Outcome({shown(self.algorithm)}, makespan {self.schedule.makespan}, {self.standing})"

    def __getstate__(self) -> dict[str, Any]:
        return fields_of(self)

    @property
    def title(self) -> str:
        """What people call the algorithm, and the name of the problem if it has one."""
        return f"{called(self.algorithm)} {self.problem.name}".rstrip()

    @property
    def problem(self) -> Problem:
        """The problem as it was scheduled: with its placement, and with fused stages if the algorithm needs that."""
        return self.schedule.problem

    @property
    def order(self) -> tuple[int, ...]:
        """The order in which the microbatches are fed: the one that was asked for, else that of the schedule."""
        return self.schedule.order if self.ordering is None else self.ordering.order

    @property
    def feeding(self) -> Ordering | None:
        """How the microbatches are fed: as was asked for, or as they differ in the order of the schedule; else None."""
        return self.ordering or (Ordering(self.schedule.order) if differs(self.problem) else None)

    def _bounds(self) -> dict[str, Any]:
        ticks, bound = self.schedule.makespan_ticks, lower_bound(self.schedule)
        if self.report is not None and self.report.makespan_bound.ticks > bound.ticks:
            bound = self.report.makespan_bound
        gap = (ticks - bound.ticks) / bound.ticks if bound.ticks else 0.0
        return {"bound": bound, "lower_bound": bound.value, "gap": gap, "covers": of_schedule(self.schedule)}

    bound = Together[Bound](_bounds, "The best lower bound on the makespan of schedules on this cut and placement.")
    lower_bound = Together[int | float](_bounds, "The same in the user's time unit.")
    gap = Together[float](_bounds, "The distance to the bound: (makespan - bound) / bound.")
    covers = Together[str](_bounds, "Which schedules the bound is about, in words.")

    def _stands(self) -> dict[str, Any]:
        if self.report is not None:
            return {"status": self.report.status, "standing": self.report.standing}
        is_best = self.schedule.makespan_ticks == self.bound.ticks
        status = Status.OPTIMAL if is_best else Status.HEURISTIC
        return {"status": status, "standing": FOR_THIS_CUT if is_best and is_cut_open(self.problem) else str(status)}

    status = Together[Status](_stands, "That of the report; without one, optimal if the makespan equals the bound.")
    standing = Together[str](_stands, "The status in words: where the cut was open, with what it is about.")

    @property
    def claim(self) -> Claim:
        """The bound that is shown: of a solve the one that it reports, about all that it chose from; else its own."""
        if self.report is not None and self.report.objective == "makespan":
            return Claim(self.report.bound, self.report.covers)
        return Claim(self.bound, self.covers)

    @property
    def metrics(self) -> dict[str, Any]:
        """Every metric by its name in the JSON document, in the user's units."""
        schedule, problem = self.schedule, self.schedule.problem
        own, of_rounds = ("lower_bound", "gap"), ("round_time", "throughput") if problem.rounds > 1 else ()
        found = {key: getattr(self if key in own else schedule, key) for key in (*METRICS, *of_rounds)}
        if problem.costs.chooses:
            found["joined"] = schedule.joined
        if len(held := schedule.held) > 1:  # the peak of each class of memory
            found |= {f"peak_{what}": schedule.peak_of(what) for what in held}
        if schedule.step is not None:
            found["step"] = schedule.step.document
        return found
