"""The main path: a problem and the name of an algorithm become a checked schedule with its bound.

`run` fuses the stages, chooses cut, slices and the order of microbatches where they are open, asks the family for a
Plan, times it and checks it. Its answer is an `Outcome`; a solve adds a `SolveReport` with what it found and proved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

from pipesched.checks import (
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
from pipesched.core.clock import check_deadline
from pipesched.display import Displayable, HasPage
from pipesched.errors import ConfigError, Deadlock, NoSchedule, NotApplicable, PipeschedError
from pipesched.pipeline.bounds.bounds import Bound, lower_bound
from pipesched.pipeline.bounds.memory import require_kept, require_least_capacity
from pipesched.pipeline.check.check import checked, over_budget
from pipesched.pipeline.layers.recut import is_cut_open, seeks_best
from pipesched.pipeline.plan.message_programs import with_queues
from pipesched.pipeline.plan.plan import Plan, with_parts
from pipesched.pipeline.plan.schedule import Schedule, queued, schedule_plan
from pipesched.pipeline.problem.costs import fields_of
from pipesched.pipeline.problem.kinds import MemorySavings
from pipesched.pipeline.problem.problem import Problem, differs, require_problem, require_size
from pipesched.pipeline.problem.quantities import canonical, in_units, plain
from pipesched.results import covered
from pipesched.results.best_cut import CutChoice, best_cut
from pipesched.results.status import Status, StoppedBy
from pipesched.schedulers.family import Family, prepare
from pipesched.schedulers.options import COMMON, OBJECTIVES, OFFLOAD, ORDER, RECOMPUTE, SIDE_RULE, checked_options
from pipesched.schedulers.ordering import BEST, FedFamily, Ordering, ordering_of
from pipesched.schedulers.plan_of import Timing, joined, plan_of
from pipesched.schedulers.registry import called, family


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


def with_best_slices(
    problem: Problem, plan: Callable[[Problem], Plan], timed: Callable[[Problem, Plan], Schedule]
) -> Problem:
    """Return `problem` with the number of slices whose plan is shortest, of all of its rule. May raise."""
    rule = problem.slices.rule
    assert rule is not None
    require_size(problem.letters, problem.stages, problem.microbatches, rule.most)
    tried, refusals = dict[int, Fraction](), list[PipeschedError]()
    for count in range(1, rule.most + 1):
        check_deadline()
        sliced = replace(problem, slices=rule.slices(count))
        try:
            schedule = timed(sliced, plan(sliced))
        except (NotApplicable, NoSchedule, Deadlock) as error:
            refusals.append(error)
        else:
            tried[count] = Fraction(schedule.makespan_ticks, sliced.ticks.per_unit)
    if not tried:
        raise refusals[0]
    best = rule.slices(min(tried, key=lambda count: tried[count]))
    makespans = tuple((count, plain(canonical(makespan))) for count, makespan in tried.items())
    return replace(problem, slices=replace(best, tried=makespans))


GROUPS = "group_size"  # the option
FOR_THIS_CUT = f"{Status.OPTIMAL} for this cut"
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


@dataclass(frozen=True)
class SolveReport(Displayable):
    """What a solve reports beside its schedule.

    `objective` is "makespan" or "span", and `value` its number. `bound` is the best lower bound on it over all
    `placements` that were tried; `makespan_bound` is one on the makespan for the placement of the schedule. `seconds`
    is the time that the solve took, and `stopped_by` what ended it. `source` is what found the schedule; `heuristic` is
    the best schedule within the budget that the portfolio found before any search. `equal` are the named schedules of
    the same value, each with what its largest device holds, in the user's memory unit. `repetition` is what is known
    about periodic schedules on the placement of the schedule, if they were searched. `advice` are changes that would
    help, the best first, or None where none were tried. `cuts` says which cuts were tried, where the cut was open:
    `bound` and `status` then are about all cuts, `makespan_bound` is about that of the schedule. `covers` says in words
    which schedules `bound` is about, `cut_off` which searches for bounds had too little time, and `not_tried` for which
    algorithms there was none. Raises ConfigError, about the field at fault, for a value of another type.
    """

    objective: str
    status: Status
    value_ticks: int
    bound: Bound
    makespan_bound: Bound
    seconds: float
    stopped_by: StoppedBy
    source: str
    heuristic: BestHeuristic | None
    placements: tuple[str, ...]
    equal: Mapping[str, int | float] = field(default_factory=dict, hash=False)
    repetition: Repetition | None = None
    advice: tuple[Advice, ...] | None = field(default=None, hash=False)
    cuts: CutReport | None = None
    covers: str = covered.CHOSEN
    cut_off: tuple[str, ...] = ()
    not_tried: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_name(OBJECTIVES, self.objective, "objective", "objective")
        require_whole(self.value_ticks, "value_ticks")
        require_number(self.seconds, "seconds")
        require_label(self.source, "source")
        require_label(self.covers, "covers")
        require_type(self.status, Status, "a Status", "status")
        require_type(self.bound, Bound, "a Bound", "bound")
        require_type(self.makespan_bound, Bound, "a Bound", "makespan_bound")
        require_type(self.stopped_by, StoppedBy, "a StoppedBy", "stopped_by")
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

    @property
    def value(self) -> int | float:
        """The objective of the schedule, in the user's time unit."""
        return in_units(self.value_ticks, self.bound.per_unit)

    @property
    def lower_bound(self) -> int | float:
        """The best lower bound on the objective, in the user's time unit."""
        return self.bound.value

    @property
    def gap(self) -> float:
        """The distance to the bound: (value - bound) / bound."""
        return (self.value_ticks - self.bound.ticks) / self.bound.ticks if self.bound.ticks else 0.0

    @property
    def standing(self) -> str:
        """The status in words: where the cut was open, with what it is about."""
        if self.cuts is None:
            return str(self.status)
        if self.status == Status.OPTIMAL:
            return f"{Status.OPTIMAL} over all cuts"
        return FOR_THIS_CUT if self.cuts.status == Status.OPTIMAL else str(self.status)

    def __repr__(self) -> str:
        return f"SolveReport({self.objective} {self.value}, bound {self.bound.value}, {self.standing})"


@dataclass(frozen=True, repr=False)
class Outcome(HasPage):
    """A schedule with the name of the algorithm that made it, and the report of a solve that found it.

    `ordering` is how its microbatches are fed, where an order was asked for and they are not all alike; `cut` how its
    layers were cut, where that was open. `is_grouped`: its algorithm found the group size, which none was given for.
    """

    algorithm: str
    schedule: Schedule
    report: SolveReport | None = None
    ordering: Ordering | None = None
    is_grouped: bool = False
    cut: CutChoice | None = None

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

    @cached_property
    def bound(self) -> Bound:
        """The best lower bound on the makespan of schedules on this cut and placement."""
        own = lower_bound(self.schedule)
        return own if self.report is None else max(own, self.report.makespan_bound, key=lambda bound: bound.ticks)

    @property
    def covers(self) -> str:
        """Which schedules `bound` is about, in words."""
        return covered.of_schedule(self.schedule)

    @property
    def claim(self) -> covered.Claim:
        """The bound that is shown: of a solve the one that it reports, about all that it chose from; else its own."""
        if self.report is not None and self.report.objective == "makespan":
            return covered.Claim(self.report.bound, self.report.covers)
        return covered.Claim(self.bound, self.covers)

    @property
    def lower_bound(self) -> int | float:
        """The best lower bound on the makespan, in the user's time unit."""
        return self.bound.value

    @property
    def gap(self) -> float:
        """The distance to the bound: (makespan - bound) / bound."""
        return (self.schedule.makespan_ticks - self.bound.ticks) / self.bound.ticks if self.bound.ticks else 0.0

    @property
    def status(self) -> Status:
        """The status of a solve's report; without one, optimal if the makespan equals the bound, else heuristic."""
        if self.report is not None:
            return self.report.status
        return Status.OPTIMAL if self.schedule.makespan_ticks == self.bound.ticks else Status.HEURISTIC

    @property
    def standing(self) -> str:
        """The status in words: where the cut was open, with what it is about."""
        if self.report is not None:
            return self.report.standing
        is_open = self.status == Status.OPTIMAL and is_cut_open(self.problem)
        return FOR_THIS_CUT if is_open else str(self.status)

    @property
    def metrics(self) -> dict[str, Any]:
        """Every metric by its name in the JSON document, in the user's units."""
        numbers = ("makespan", "span", "ideal", "bubble", "bubble_over_ideal", "bubble_span")
        others = ("idle", "busy", "peak_memory", "memory", "imbalance", "utilization", "bottleneck", "fits")
        found = {key: getattr(self.schedule, key) for key in numbers}
        found |= {"lower_bound": self.lower_bound, "gap": self.gap}
        found |= {key: getattr(self.schedule, key) for key in others}
        if self.problem.rounds > 1:
            found |= {key: getattr(self.schedule, key) for key in ("round_time", "throughput")}
        if self.problem.costs.chooses:
            found["joined"] = self.schedule.joined
        if len(self.schedule.held) > 1:  # the peak of each class of memory
            found |= {f"peak_{what}": self.schedule.peak_of(what) for what in self.schedule.held}
        if self.schedule.step is not None:
            found["step"] = self.schedule.step.document
        return found


def run(problem: Problem, algorithm: str | Callable[..., Any], **options: Any) -> Outcome:
    """Schedule `problem` by one algorithm.

    Args:
        problem: What to schedule; stages are fused to the number that the algorithm needs.
        algorithm: A name or alias of `algorithms()`, or a function as `pipesched.family` takes it.
        **options: Options of the algorithm: `group_size` (interleaved and its relatives; "best" finds it), `lifo`
            (naive), `priority`, `tie` and `seed` (list), `objective` (zb-auto and the V schedules), `period`,
            `forward`, `backward`, .. (block). Every algorithm takes `recompute` and `offload`: "full" is all stages, a
            number so many of the first; of a problem by layers, `recompute` takes so many layers of each stage. Every
            one takes `order`, in which it feeds the microbatches: "given" (default), "verl" (the rule of that library),
            "longest" or "shortest" (by work), "best" (the shortest schedule), or a list of them; and `side_rule`, where
            side work stands: "bubbles" (default: where devices would wait) or "first" (before and behind all passes).
            One that is None is not given: it has its default.

    Raises:
        NotApplicable: The algorithm does not suit the problem, has no such option, or fewer stages than that.
        ConfigError: An unknown name, or a bad value.
        NoSchedule: The algorithm obeys the budget, and finds no schedule within it.

    Where messages queue, it plans with free ones, and the same orders get their times in the queues.
    """
    chosen = family(algorithm)
    given = checked_options(chosen, options)
    messages = require_problem(problem).messages
    problem = problem if messages is None else with_queues(problem, None)  # families plan with free ones
    fitted, cut, wanted = prepare(problem, chosen), None, given.get(ORDER)
    for key in (RECOMPUTE, OFFLOAD):
        if given.get(key) is not None:
            require_kept(fitted, key)
    rule, timed = given.get(SIDE_RULE), schedule_plan
    if fitted.side:
        from pipesched.schedulers.side_work import side_schedule

        timed = partial(side_schedule, rule=rule)
    elif rule is not None:
        raise ConfigError("has no effect without side work (`side`)", SIDE_RULE)
    saved = MemorySavings(offload=given.get(OFFLOAD) is not None, recompute=given.get(RECOMPUTE) is not None)
    plan: Callable[[Problem], Plan] = partial(_plan, chosen=chosen, options=given, timed=timed)
    with _explained(chosen, given):
        if seeks_best(fitted) and fitted.stages > 1:
            plan = cache(plan)
            is_settled = chosen.settles(fitted.devices, fitted.stages, fitted.microbatches)
            is_settled &= not (fitted.has_step or any(saved) or wanted not in (None, BEST))
            is_settled &= not (fitted.costs.chooses and chosen.splits_backward is not False)  # joins follow from costs
            is_settled &= not (chosen.has_pairs and fitted.cutter is not None)  # whose pairs depend on two stages
            own = {key: value for key, value in given.items() if key not in COMMON}
            passes = cache(lambda one: plan_of(chosen, one, timed, **own)) if any(saved) else plan
            made = partial(_scheduled, chosen, given, plan, timed)
            fitted, cut = best_cut(fitted, passes, made, is_settled=is_settled)
        if given.get(RECOMPUTE) is not None:
            from pipesched.schedulers.saved_plan import with_fewer_layers

            fitted = with_fewer_layers(fitted, chosen, given[RECOMPUTE])
    if fitted.slices.rule is not None:
        nested = {key: value for key, value in given.items() if key != GROUPS or value != BEST}  # beside the slices
        fitted = with_best_slices(fitted, partial(_plan, chosen=chosen, options=nested, timed=timed), timed)
    fed = FedFamily(fitted, chosen, plan, timed)
    with _explained(chosen, given):
        ordering = None if wanted is None else ordering_of(fed, wanted)
        if messages is not None and not (fitted.has_step or any(saved)):  # timed once, in the queues
            fed.timed = lambda one, made: schedule_plan(with_queues(one, messages), made)
        schedule = fed.schedule(None if ordering is None else ordering.order)
    schedule = checked(schedule if schedule.problem.messages or messages is None else queued(schedule, messages))
    is_grouped = GROUPS in chosen.options and given.get(GROUPS, BEST) == BEST
    if chosen.obeys_budget and not schedule.fits:
        whole = schedule.problem
        split = replace(whole, costs=replace(whole.costs, split=True)) if chosen.splits_backward else whole
        require_least_capacity(split, saved)
        raise NoSchedule(
            f"{chosen.name} found no order that keeps the budget with what the step holds beside activations:"
            f" {over_budget(schedule)[0]}",
            device=schedule.over_budget[0],
        )
    return Outcome(str(chosen.name), schedule, ordering=ordering, is_grouped=is_grouped, cut=cut)


def _scheduled(
    chosen: Family, options: Mapping[str, Any], plan: Callable[[Problem], Plan], timed: Timing, problem: Problem
) -> Schedule:
    """Return the schedule of a family on a cut, with its options as given, and an order that is open as given."""
    if options.get(RECOMPUTE) is not None:
        from pipesched.schedulers.saved_plan import with_fewer_layers

        problem = with_fewer_layers(problem, chosen, options[RECOMPUTE])
    fed, wanted = FedFamily(problem, chosen, plan, timed), options.get(ORDER)
    ordering = None if wanted in (None, BEST) else ordering_of(fed, wanted)
    schedule = fed.schedule(None if ordering is None else ordering.order)
    if chosen.obeys_budget and not schedule.fits:
        raise NoSchedule(f"{chosen.name} found no order that keeps the budget on this cut")
    return schedule


@contextmanager
def _explained(chosen: Family, options: Mapping[str, Any]) -> Iterator[None]:
    """Let a deadlock, inside the block, say which options of a family it is from."""
    try:
        yield
    except Deadlock as error:
        said = ", ".join(f"`{name}` {value}" for name, value in options.items())
        raise NotApplicable(f"{chosen.name} with {said or 'these numbers'} has no valid order here: {error}") from None


def _plan(problem: Problem, chosen: Family, options: Mapping[str, Any], timed: Timing) -> Plan:
    """Return the plan of a family, with recompute and offload where its options ask for them."""
    own = {key: value for key, value in options.items() if key not in COMMON}
    recompute, offload = options.get(RECOMPUTE), options.get(OFFLOAD)

    def saved(plan: Plan) -> Plan:
        if recompute is None and offload is None:
            return plan
        from pipesched.schedulers.saved_plan import saved_plan, savings

        return saved_plan(plan, savings(problem, chosen, recompute, offload))

    if GROUPS in chosen.options:
        own["judge"] = lambda plan: timed(problem, saved(joined(problem, plan)))
    return with_parts(saved(plan_of(chosen, problem, timed, **own)), name=str(chosen.name))
