"""The answer of `run` and of a solve: an `Outcome` is a schedule with its bound, and says how good that is.

A solve adds a `SolveReport`: what it found and proved, which cuts it tried, and what would help. Its `bound` is on the
objective, of all that it chose from; its `makespan_bound` is of the placement of its answer. `Outcome.bound` is the
larger of the latter and of the schedule's own one, `Outcome.claim` the bound that is shown. What a bound is below
stands in words here alone, for documents, pages and tables (`of_schedule`, `of_search`, `of_packing`): what all
schedules have that it is about, behind "every schedule of" or "bound of".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from pipesched.checks import (
    joined,
    require_fields,
    require_flag,
    require_label,
    require_name,
    require_number,
    require_sequence,
    require_type,
    require_whole,
    shown,
)
from pipesched.display import Displayable, HasPage
from pipesched.pipeline.bounds.bounds import Bound, lower_bound
from pipesched.pipeline.layers.layers import BEST
from pipesched.pipeline.layers.recut import is_cut_open
from pipesched.pipeline.plan.plan import Together
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.costs import fields_of
from pipesched.pipeline.problem.kinds import KEEP_ONLY, MemorySavings
from pipesched.pipeline.problem.problem import Problem, differs
from pipesched.pipeline.problem.quantities import in_units
from pipesched.schedulers.options import OBJECTIVES
from pipesched.schedulers.ordering import Ordering
from pipesched.schedulers.registry import called

WHOLE, HALVES, BOTH = "backwards whole", "backwards in halves", "backwards whole or in halves"
NO_PAIRS = "without pairs of F and B"
CHOSEN = "all that the solve chose from"  # of a document that does not say what that was
WITHIN, WITHOUT = "within the budget", "without the budget"


class Claim(NamedTuple):
    """A bound on the makespan, and what schedules it is about, in words."""

    bound: Bound
    covers: str

    def gap(self, ticks: int) -> float:
        """Return the distance of a makespan to the bound: (makespan - bound) / bound."""
        return (ticks - self.bound.ticks) / self.bound.ticks if self.bound.ticks else 0.0


def of_schedule(schedule: Schedule) -> str:
    """Return what the bound of a schedule is about: schedules of its kinds on its own stages, as long as they fit."""
    problem, plan = schedule.problem, schedule.plan
    is_paired = bool(plan.pairs) or problem.costs.overlap is None
    here = "this cut and placement" if problem.layers is not None or is_cut_open(problem) else "this placement"
    parts = [here, *_backwards(plan.index.letters), *([] if is_paired else [NO_PAIRS])]
    if problem.slices.rule is not None:
        parts.append(f"{problem.slices.count} slices")
    if schedule.own_lengths:
        parts.append("these lengths of operations")
    elif problem.memory.budget is not None:
        parts += [*_memory(MemorySavings.of(plan.index.letters))] if schedule.fits else [WITHOUT]
    return ", ".join(parts)


def of_search(
    problem: Problem, allowed: MemorySavings, placements: Collection[str], chunks: Sequence[int] | None = None
) -> str:
    """Return what the bound of a solve over placements is about; `chunks` are those whose cuts all count, if any do."""
    limited = "" if problem.memory.budget is None else " for the budget"
    balanced = f"cuts into {problem.stages} stages balanced{limited}" if is_cut_open(problem) else ""
    cut = balanced or ("this cut" if problem.layers is not None else "")
    cut = f"all cuts, {in_chunks(chunks)}" if chunks else cut
    places = f"{'placement' if len(placements) == 1 else 'placements'} {joined([*placements])}"
    letters = "BIW" if problem.costs.chooses else problem.letters
    parts = [*([cut] if cut else []), places, *_backwards(letters)]
    return ", ".join([*parts, *(_memory(allowed) if problem.memory.budget is not None else ())])


def of_packing(letters: str, microbatches: int, *, is_cut: bool) -> str:
    """Return what the bound of a packing is about, whose ranks have schedules of these passes."""
    stays = "with " * bool({*"BI"} & {*letters}) + ", ".join([*_backwards(letters), "stages where they are"])
    return f"{microbatches} microbatches a rank{' on this cut' * is_cut}, {stays}"


def in_chunks(chunks: Sequence[int]) -> str:
    """Return numbers of stages a device in words."""
    return f"{' or '.join(map(str, chunks))} chunk{'s' * (tuple(chunks) != (1,))}"


def _backwards(letters: str) -> Iterator[str]:
    """Yield which backwards passes have, if any."""
    if "B" in letters or "I" in letters:
        yield BOTH if {"B", "I"} <= {*letters} else WHOLE if "B" in letters else HALVES


def _memory(allowed: MemorySavings) -> Iterator[str]:
    """Yield that the budget counts, and what may be done with activations to keep it."""
    yield WITHIN
    if allowed == KEEP_ONLY:
        yield "activations kept"


class Word(str, Enum):
    """An enumeration whose members are texts, and print as them."""

    __str__ = str.__str__


class Status(Word):
    """What is known about a result: proved optimal, the best that a search found, or one algorithm's answer."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    HEURISTIC = "heuristic"


class StoppedBy(Word):
    """What ended a search: a proof, a good enough gap, the time, a stop or Ctrl-C, or that nothing was left to try."""

    PROOF = "proof"
    GAP = "gap"
    TIME_LIMIT = "time limit"
    INTERRUPT = "interrupt"
    SEARCH = "search"


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


FOR_THIS_CUT = f"{Status.OPTIMAL} for this cut"
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
        require_fields(self, report=SolveReport, ordering=Ordering, cut=CutChoice)
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
