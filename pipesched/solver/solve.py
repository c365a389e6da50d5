"""A solve: bounds, then the portfolio, then CP-SAT or improvement, each only if those before left a gap.

`solve` is where one begins. `solve_request` makes variants (the problem on one placement and one cut each) and a
`Search`, which keeps the best schedule and the bounds. `_run` goes through the steps: `_heuristics`, `search_in_turn`
(of which `prove` asks CP-SAT), `_shorten` and `lower_memory`. `_outcome` makes the report. A stop event, Ctrl-C and the
time limit end every step with the best schedule so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import chain
from operator import methodcaller
from threading import Event as StopEvent
from typing import Any

from pipesched.core.clock import Clock, TimeIsUp, check_deadline, deadline
from pipesched.errors import ConfigError, NoSchedule
from pipesched.executors.opening import FEWEST_OPERATIONS, lent
from pipesched.pipeline.bounds.bounds import Bound
from pipesched.pipeline.check.check import checked
from pipesched.pipeline.layers.layers import BEST
from pipesched.pipeline.layers.recut import all_cuts, can_be_cut, is_cut_open, layout_of, seeks_best, work_of_largest
from pipesched.pipeline.plan.message_programs import with_queues
from pipesched.pipeline.plan.schedule import Schedule, queued
from pipesched.pipeline.plan.step import BEST as BEST_ORDER, Messages
from pipesched.pipeline.problem.kinds import MemorySavings
from pipesched.pipeline.problem.problem import Problem, differs
from pipesched.pipeline.problem.quantities import Number, in_units, plain
from pipesched.results.outcome import (
    BestHeuristic,
    CutChoice,
    CutReport,
    Outcome,
    SolveReport,
    Status,
    StoppedBy,
    TriedCut,
    of_search,
)
from pipesched.results.timed_moves import shortened
from pipesched.solver.advice import advised, kept_seconds
from pipesched.solver.ahead import VariantsAhead
from pipesched.solver.bounds import raise_by_device
from pipesched.solver.cuts.tried import FamilyCuts, Tried, families_on, fused_for_families, of_families, tried
from pipesched.solver.feasible import AUTO, as_variants, feasible, least_step, placed, placed_with, with_fused, within
from pipesched.solver.periodic.search import PeriodicPhase, can_repeat
from pipesched.solver.portfolio import family_candidates, named_candidates
from pipesched.solver.request import SolveRequest
from pipesched.solver.search import Listener, Search, offer_initial, quick_rounds, raise_bounds
from pipesched.solver.variant import Candidate, Variant

PROVING, POLISHING = "CP-SAT", "polishing"
RECOMPUTED = MemorySavings(recompute=True)  # peaks may differ by as little as a checkpoint


def solve(
    problem: Problem,
    *,
    objective: str = "makespan",
    time_limit: float = 60.0,
    gap: float = 0.0,
    workers: int = 0,
    seed: int = 0,
    placement: str | Sequence[str] | None = None,
    split_backward: bool | None = None,
    offload: bool = False,
    recompute: bool = False,
    hint: Schedule | Outcome | str | Callable[..., Any] | None = None,
    method: str = "auto",
    polish: bool = True,
    listener: Listener | None = None,
    stop: StopEvent | None = None,
    jobs: int = 1,
    executor: Executor | str | None = None,
    advice: bool | None = None,
    budget: Number | str | Sequence[Number | str] | None = None,
    chunks: Sequence[int] | None = None,
    cuts: int | None = None,
) -> Outcome:
    """Find the schedule with the least objective within the budget, with what is proved about it.

    Args:
        problem: What to schedule.
        objective: "makespan", or "span" (Zero Bubble's cost: an iteration's time when iterations tile).
        time_limit: Seconds until the best so far is returned, checked. Only a first schedule may take longer, one of
            hundreds of thousands of operations: then the plan's `note` says so.
        gap: Relative gap to the bound that is good enough.
        workers: Threads of CP-SAT; 0: one a core. One worker and one job repeat the answer of a seed, unless the time
            ends the search.
        seed: Seed of the search.
        placement: Names of placements to choose from, where the problem leaves it open; default: all that suit the
            stages but bidirectional, which keeps two copies of the weights.
        split_backward: Whether the backward runs as I and W; default: as the costs are given.
        offload: Whether activations may go to host memory and come back; needs the cost of an offload.
        recompute: Whether forwards may run again before their backwards.
        hint: A schedule of the same model to begin from, or the algorithm that makes it: a name or a function.
        method: "auto"; "portfolio" (heuristics only), "periodic" (blocks that repeat, and which periods are too short),
            "cpsat" (no local search), "improve" (no proof).
        polish: Whether a schedule without a name, once found, is searched again for one of the same value that holds
            less memory.
        listener: Called with an Event whenever something better is known; never twice at once. What it raises ends the
            search, and is raised here.
        stop: Set it, from any thread, to cancel the search: the best schedule so far is returned at once.
        jobs: Processes of this machine that search placements side by side, this one among them; 0 is one a core. Of
            large variants they try the heuristics too. `workers` are then by default a share of the cores. What is
            proved is the same.
        executor: What does that instead: the text of `open_executor`, or what it returns. On a Dask cluster `workers`
            are by default one.
        advice: Whether the report says which changes would help; default: unless bounds settle the answer without a
            search.
        budget: Limit of activations and static memory, per device, instead of the problem's, as `make_problem` takes
            it.
        chunks: Stages of a device to try, each number with its placements, where the cut into stages is open (layers
            with `layout` best or balanced, a model with its own); default: the problem's own number.
        cuts: How many cuts are tried for each placement, where the cut is open: the balanced one, and those with the
            least bounds. Default 3, and where `layout` is best the best cuts of algorithms before them; 1 where it is
            given. The bound is about all cuts, tried or not.

    Returns:
        An outcome whose `report` says the status, the bound and what it rests on. Ctrl-C counts as `stop`.

    Raises:
        NoSchedule: Nothing fits the budget, or nothing was found before it was stopped.
        ConfigError: A bad argument, or two that do not go together; its `key` is the parameter.
    """
    return solve_request(SolveRequest(**locals()))


def solve_request(request: SolveRequest) -> Outcome:
    """Return the answer to a request. Raises what `solve` does.

    Where messages queue, it is found with free ones: of the best plans of all variants the shortest one then.
    """
    if request.problem.messages is not None and request.advice:
        raise ConfigError("has no effect where `messages` queue", "advice")
    messages = request.problem.messages
    request = request if messages is None else replace(request, problem=with_queues(request.problem, None))
    clock = Clock(request.limits.seconds, request.stop)
    given = _to_try(request, clock)
    variants = as_variants(given.problems, request.objective, request.allowed, request.policy)
    if request.method == "periodic" and not any(map(can_repeat, variants)):
        raise ConfigError("repeats blocks in one direction, not in both as `placement` bidirectional does", "method")
    if not all(variant.is_countable for variant in variants):
        request = replace(request, method="portfolio")
    clock.limit -= kept_seconds(request)
    search = Search(variants, request.limits._replace(seconds=clock.limit), clock, request.listener, given.others)
    search.cut_off_bounds += ["cuts"] * given.is_cut_off
    for number in range(len(variants)):
        search.raise_bound(number, given.least or search.bounds[number])
    for number, one in enumerate(given.first):
        if (schedule := variants[number].adopted(one.schedule)) is not None:
            search.offer(number, Candidate(one.name, schedule, one.name), heuristic=True)
    is_open = request.problem.placement is None and request.placement in (None, AUTO) and not given.chunks
    periods = PeriodicPhase(search, request.method, is_open=is_open and not can_be_cut(request.problem))
    with nullcontext() if request.runs is None else lent(request.runs, FEWEST_OPERATIONS) as pool:
        if pool is not None and isinstance(request.runs, str):
            clock.limit = max(clock.limit - 0.3, clock.limit / 2)  # seconds: to end the processes
        stopped_by = _run(search, request, pool, periods)
    if search.best is None:
        is_late = clock.is_over or not any(variant.problem.has_step for variant in variants)
        none = "no order was found that keeps the budget with what the step holds beside activations"
        raise NoSchedule("stopped before any schedule was found" if is_late else none)
    outcome = _outcome(search, request, given, stopped_by, periods)
    is_settled = stopped_by in (StoppedBy.PROOF, StoppedBy.GAP) and not search.is_begun
    if messages is None:
        return outcome if is_settled and request.advice is None else advised(outcome, request, search.tell)
    return _queued(outcome, search, Messages(messages.queue, messages.order or BEST_ORDER))


def _queued(outcome: Outcome, search: Search, messages: Messages) -> Outcome:
    """Return the outcome with the plan, of the best ones of variants, that takes least with its messages in queues."""
    report = outcome.report
    assert report is not None
    offered = search.candidates if outcome.cut is None else [search.best]
    found = sorted((one for one in offered if one is not None), key=lambda one: one.schedule.makespan)
    timed = [(one, queued(one.schedule, messages)) for one in found]

    def value(one: tuple[Candidate, Schedule]) -> Fraction:
        ticks = one[1].makespan_ticks if report.objective == "makespan" else one[1].span_ticks
        return Fraction(ticks, one[1].problem.ticks.per_unit)

    best, schedule = min(timed, key=value)
    ticks = int(value((best, schedule)) * report.bound.per_unit)
    source = f"{best.source}, planned with free messages, of {len(timed)} that were timed in queues"
    status = Status.OPTIMAL if ticks == report.bound.ticks else Status.FEASIBLE
    known = replace(report, value_ticks=ticks, status=status, source=source, heuristic=None, equal={}, repetition=None)
    return replace(outcome, schedule=checked(schedule), report=known)


def _to_try(request: SolveRequest, clock: Clock) -> Tried:
    """Return what is tried: problems, each on its placement and cut, and bounds on all cuts where the cut is open."""
    problem = request.split_problem
    named, chunks = request.placement, request.chunks
    placed_ones = placed_with(problem, named, chunks) if chunks else placed(problem, named)
    if request.keeps_cuts or not is_cut_open(problem):
        others = placed_ones if problem.shard is None else with_fused(problem, named, placed_ones)
        return Tried(feasible(others, request.allowed), None)
    count = 3 if request.cuts is None else request.cuts
    part, counts_ways = clock.part(0.4 * request.limits.seconds), request.objective == "makespan"
    if not seeks_best(problem):
        return tried(placed_ones, count, request.allowed, part, counts_ways=counts_ways)

    def families() -> FamilyCuts:
        slow = 0.6 if request.method == "portfolio" else 0.2  # of the time: for slow ones, which come last
        parts = (part * request.limits.seconds for part in (0.6, slow))
        return of_families(problem, placed_ones, *(clock.part(max(part, 2.0)) for part in parts))

    fused = [] if problem.has_units else fused_for_families(problem, placed_ones)
    return tried(placed_ones, count, request.allowed, part, fused=fused, families=families, counts_ways=counts_ways)


def _cuts(search: Search, number: int) -> CutReport:
    """Return what is known of the cut of the answer, and which cuts were tried."""
    tried = [
        TriedCut(
            chunks=variant.problem.stages // variant.problem.devices,
            placement=variant.name,
            layout=layout_of(variant.problem),
            work=in_units(work_of_largest(variant.problem), search.per_unit),
            makespan=None if candidate is None else candidate.schedule.makespan,
        )
        for variant, candidate in zip(search.variants, search.candidates, strict=True)
    ]
    bound = replace(search.bounds[number], ticks=min(search.bounds[number].ticks, search.value))
    status = Status.OPTIMAL if search.value == bound.ticks else Status.FEASIBLE
    return CutReport(tried[number].layout, tried[number].chunks, bound, status, tuple(tried))


def _run(search: Search, request: SolveRequest, pool: Executor | None, periods: PeriodicPhase) -> StoppedBy:
    """Go through all steps until one of them closes the gap, then lower the memory; return what ended them."""
    try:
        kept = 0.03 * search.clock.limit  # for the moves at the end
        search.clock.limit -= kept
        ahead = None if pool is None else VariantsAhead(pool, _try_portfolio, is_heuristic=True)
        with nullcontext() if ahead is None else closing(ahead):
            left = _heuristics(search, request.start, periods, ahead)
        first = None if search.best is None or search.rank is None else (search.rank.placement, search.best)
        if periods.numbers:
            periods.go_on()
        if request.method not in {"portfolio", "periodic"}:
            search_in_turn(search, request.method, pool)
        search.clock.limit += kept
        _shorten(search, first)  # and the first one, as the portfolio alone does
        stopped_by = _stopped_by(search)
        clock = search.clock.part(min(0.1 * search.limits.seconds, max(2.0, search.clock.seconds)))
        for number, candidates in left:  # named schedules left out at a bound: of equal values the one that holds least
            if search.best is not None and not clock.is_over and search.bounds[number].ticks <= search.value:
                search.tell(f"ties, {search.variants[number].name}")
                search.try_all(number, candidates, clock, heuristic=True, to_the_end=True)
        is_searched = request.polish and request.method != "portfolio"
        if is_searched and search.rank is not None and search.rank.is_anonymous:
            number = search.rank.placement
            search.tell(f"{POLISHING}, {search.variants[number].name}")
            lower_memory(search, number, search.clock.part(0.1 * search.limits.seconds))
            _shorten(search)
    except KeyboardInterrupt:
        if search.best is None or search.clock.is_stopped:
            raise
        return StoppedBy.INTERRUPT
    return stopped_by


def _stopped_by(search: Search) -> StoppedBy:
    """Return what ends the search, by what is open and what time is left."""
    if search.best is not None and not search.open:
        if search.value == search.bound.ticks:
            return StoppedBy.PROOF
        is_near = search.value <= search.bound.ticks * (1 + search.limits.gap)
        return StoppedBy.GAP if is_near else StoppedBy.SEARCH
    if search.clock.is_stopped:
        return StoppedBy.INTERRUPT
    is_cut_off = any(number in search.cut_off for number in search.open)
    is_over = search.clock.left <= search.policy.variants.end * search.limits.seconds
    return StoppedBy.TIME_LIMIT if is_cut_off or is_over else StoppedBy.SEARCH


def _heuristics(
    search: Search, hint: Schedule | None, periods: PeriodicPhase, ahead: VariantsAhead | None
) -> list[tuple[int, Iterator[Candidate]]]:
    """Bound every variant, then try the hint, then the portfolio until a bound is met or its time is up.

    On large variants, where some algorithms take long, the first rounds of the search for periods come before them.
    The named algorithms may take all the time: if it is enough for them, no answer is worse than one of theirs. Return
    the named candidates that were not tried, each with the number of its variant.
    """
    left: list[tuple[int, Iterator[Candidate]]] = []
    if hint is None and search.size > search.policy.portfolio.slow:
        offer_initial(search)
    search.tell("bounds")
    raise_bounds(search, range(len(search.variants)))
    if hint is not None:
        _take_hint(search, hint, is_open=periods.is_open)
    named: list[Iterator[Candidate]] = [*map(methodcaller("named_candidates"), search.variants)]
    if search.size > search.policy.portfolio.one_limit:
        named = _try_families_first(search, named)
    order = _try_quick_schedules(search)
    if ahead is not None:
        ahead.try_large(search, [*filter(search.open.__contains__, order)][1:])
        order.sort(key=ahead.sent.__contains__)  # what workers try comes last
    if search.size > search.policy.variants.large:
        periods.first_rounds(search.clock.part(0.35 * search.limits.seconds))  # before algorithms that take long
    for number in order:
        variant = search.variants[number]
        if search.clock.is_over:
            search.is_family_left = True
            break
        fed = variant.fed_candidates() if differs(variant.problem) else iter(())
        left.append((number, chain(named[number], fed)))
        is_open = search.best is None or number in search.open
        if is_open and not (ahead is not None and ahead.took(search, number)):
            _try_portfolio(search, number, named[number], fed)
    if search.best is None:
        find_initial(search)
    return left


def _shorten(search: Search, first: tuple[int, Candidate] | None = None) -> None:
    """Make the best schedule shorter by single moves in the order of a device, until none helps; then a `first` one."""
    if search.best is None or search.rank is None:
        return
    more = [] if first is None or first[1] is search.best else [first]
    for number, own in [(search.rank.placement, search.best), *more]:
        if search.value == search.bound.ticks or search.variants[0].objective != "makespan":
            return
        search.tell(f"moves, {search.variants[number].name}")
        candidates = (Candidate(f"{own.source}, moves", one) for one in shortened(own.schedule))
        search.try_all(number, candidates, search.clock)


def _try_families_first(search: Search, named: list[Iterator[Candidate]]) -> list[Iterator[Candidate]]:
    """Try named algorithms, fast ones first: of large variants they are quicker than lists; return those not tried."""
    if all(variant.keeps_activations for variant in search.variants):
        quick = [family_candidates(variant, slow=False) for variant in search.variants]
        _try_families(search, quick)
        named = [*map(chain, quick, (named_candidates(variant, slow=True) for variant in search.variants))]
    _try_families(search, named)
    return named


def _try_families(search: Search, named: Sequence[Iterator[Candidate]]) -> None:
    """Try the named algorithms of all variants, the least bound first."""
    for number in sorted(range(len(named)), key=lambda number: search.bounds[number].ticks):
        if search.best is None or number in search.open:
            search.tell(f"algorithms, {search.variants[number].name}")
            search.try_all(number, named[number], search.clock, heuristic=True)
            search.is_family_left |= search.clock.is_over


def _try_portfolio(
    search: Search, number: int, named: Iterator[Candidate] | None = None, fed: Iterator[Candidate] | None = None
) -> None:
    """Try named algorithms, for which there is all the time, then list scheduling, then best orders of microbatches."""
    variant, policy = search.variants[number], search.policy.portfolio
    search.tell(f"portfolio, {variant.name}")
    search.try_all(number, variant.named_candidates() if named is None else named, search.clock, heuristic=True)
    search.is_family_left |= search.clock.is_over
    seconds = policy.part * search.limits.seconds - search.clock.seconds
    if search.best is None:
        seconds = search.clock.left
    search.try_all(number, variant.ruled_candidates(), search.clock.part(seconds), heuristic=True)
    clock = search.clock.part(policy.part * search.limits.seconds)
    search.try_all(number, variant.fed_candidates() if fed is None else fed, clock, heuristic=True)


def _try_quick_schedules(search: Search) -> list[int]:
    """Offer what is made quickly for each variant, so that there is an answer soon; return the order of the variants.

    The least bound comes first; of large variants linear and loop, since families for v take long.
    """
    order = list(range(len(search.variants)))
    if search.size <= search.policy.portfolio.slow:
        order.sort(key=lambda number: search.bounds[number].ticks)
    for number, candidates in quick_rounds(search.variants, order):
        if search.clock.is_over:
            break
        if search.best is None or number in search.open:
            search.tell(f"quick schedules, {search.variants[number].name}")
            search.try_all(number, candidates, search.clock, heuristic=True)
    return order


def _take_hint(search: Search, hint: Schedule, *, is_open: bool) -> None:
    """Offer the user's hint, on its own cut if that is tried; an open placement may be the hint's.

    Raises ConfigError for another model or placement.
    """
    problem, own = hint.problem, hint.problem.settled_placement
    alike: list[tuple[int | None, Variant]] = [
        (number, variant)
        for number, variant in sorted(enumerate(search.variants), key=lambda one: one[1].problem.costs != problem.costs)
        if (variant.problem.devices, variant.problem.microbatches) == (problem.devices, problem.microbatches)
        and variant.problem.stages % hint.plan.index.stages == 0
    ]
    places = [(n, one) for n, one in alike if own.in_blocks(one.problem.stages) == one.problem.settled_placement]
    if is_open and not own.mirrored:
        fresh = (one for _, one in alike if one.problem.stages == problem.stages)
        places += [(None, replace(one, problem=replace(one.problem, placement=own))) for one in fresh]
    for place, variant in places:
        if (schedule := variant.adopted(hint)) is not None:
            search.offer(search.add(variant) if place is None else place, Candidate("hint", schedule))
            return
    raise ConfigError("is of another model, placement or way of backwards (`split_backward`) than the solve's", "hint")


def _outcome(
    search: Search, request: SolveRequest, given: Tried, stopped_by: StoppedBy, periods: PeriodicPhase
) -> Outcome:
    """Return the outcome; where the cut is open, with what is known of cuts."""
    assert search.best is not None
    is_open = bool(given.chunks)
    bound = search.bound
    if is_open and (search.others is None or bound.reason != search.others.reason):
        bound = replace(bound, reason=f"the least over all cuts: {bound.reason}")
    assert search.rank is not None
    number = search.rank.placement
    objective = search.variants[number].objective
    cuts, variant, choice = _cuts(search, number) if is_open else None, search.variants[number], None
    if cuts is not None and seeks_best(problem := search.best.schedule.problem):
        choice = CutChoice(cuts.layout, BEST, len(cuts.tried), all_cuts(problem))
    placements = tuple(dict.fromkeys(one.name for one in search.variants))
    equal, heuristic = sorted((held, name) for name, held in search.named.items()), None
    if search.heuristic is not None:
        heuristic = BestHeuristic(search.heuristic[1], in_units(search.heuristic[0].value, search.per_unit))
    cut_off: list[str] = []
    not_tried: list[str] = []
    if search.value != search.bound.ticks:
        exact = (f"{PROVING}, {search.variants[one].name}" for one in search.open if one in search.cut_off)
        cut_off = [*search.cut_off_bounds, *exact]
        left = families_on(request.split_problem, given.problems) if search.is_family_left else ()
        on_cuts = (f"{name} on its best cut" if name in search.seen else name for name in given.not_tried)
        not_tried = [*on_cuts, *(name for name in left if name not in search.seen)]
    return Outcome(
        "solve",
        search.best.schedule,
        cut=choice,
        report=SolveReport(
            objective=objective,
            status=Status.OPTIMAL if search.value == search.bound.ticks else Status.FEASIBLE,
            value_ticks=search.value,
            bound=bound,
            makespan_bound=search.bounds[number] if objective == "makespan" else Bound(0, "", search.per_unit),
            seconds=search.clock.seconds,
            stopped_by=stopped_by,
            source=search.best.source,
            heuristic=heuristic,
            placements=placements,
            equal={name: plain(held) for held, name in equal if name != search.best.family},
            repetition=periods.report(number) if periods.methods else None,
            cuts=cuts,
            cut_off=tuple(dict.fromkeys(cut_off)),  # searches for bounds that had too little time
            not_tried=tuple(dict.fromkeys(not_tried)),  # at all, or on their best cuts
            covers=of_search(variant.problem, request.allowed, placements, given.chunks),
        ),
    )


def search_in_turn(search: Search, method: str, pool: Executor | None) -> None:
    """Search open variants, the most promising first, until none is open, or the time is up.

    Each variant has a part of the time, the first one most; those that it cuts off divide what the others leave. With a
    pool, variants are searched in it before their turn.
    """
    waiting, cut_off = set(range(len(search.variants))), set[int]()
    unbegun: dict[int, float] = {}  # the time, in seconds, with which no model of a variant could be begun
    work = partial(_search_variant, clock=None, method=method)
    with nullcontext() if pool is None else closing(VariantsAhead(pool, work)) as ahead:
        at_a_time = 1 if ahead is None else ahead.at_a_time
        while search.best and search.clock.left > search.policy.variants.end * search.limits.seconds:
            numbers = [number for number in search.open if number in waiting]
            equal = min(at_a_time / max(len(numbers) or len(cut_off) + len(unbegun), 1), 1.0)
            share = search.clock.left * max(equal, search.policy.variants.first_part)  # the most promising one is first
            if numbers:
                search.is_begun = True
                clock = search.clock.part(share)
                search.cut_off.discard(numbers[0])
                if ahead is None:
                    _search_variant(search, numbers[0], clock, method)
                elif not ahead.took(search, numbers[0]):
                    given, search.limits = search.limits, ahead.limits(search.limits, len(numbers))
                    ahead.begin(search, numbers[1:], clock.left)
                    _search_variant(search, numbers[0], clock, method)
                    search.limits = given
                waiting.remove(numbers[0])
                if clock.seconds > 0.9 * clock.limit:
                    cut_off.add(numbers[0])
                elif numbers[0] in search.cut_off:
                    unbegun[numbers[0]] = clock.limit
            else:
                waiting = cut_off | {number for number, seconds in unbegun.items() if share > seconds}
                if not waiting:
                    return
                cut_off, unbegun = set(), {}


def _search_variant(search: Search, number: int, clock: Clock | None, method: str) -> None:
    """Search one variant: small ones by CP-SAT, which alone proves; on large ones local search is better."""
    variant, clock = search.variants[number], clock or search.clock
    size, improvements, policy = variant.index.size, variant.improvements, variant.policy.variants
    if method != "improve":
        raise_by_device(search, number, clock.part(0.25 * clock.left))
        if number not in search.open:
            return
    for improvement in improvements:
        is_last = improvement is improvements[-1]
        if variant.has_model and (method == "cpsat" or (method == "auto" and is_last and size <= policy.easy)):
            continue
        takes_all = method == "improve" or size > policy.large or not variant.has_model
        share = 1.0 if is_last and takes_all else improvement.part
        own, part = search.candidates[number], clock.part(share * clock.left)
        if own is not None and not own.schedule.plan.pairs:
            search.tell(f"{improvement.name}, {variant.name}")
            search.try_all(number, improvement.search(variant, own.schedule, search.limits, part), part)
    searches = not variant.keeps_activations or method == "cpsat" or size <= policy.large
    if searches and variant.has_model and number in search.open and not clock.is_over:
        search.tell(f"{PROVING}, {variant.name}")
        with suppress(TimeIsUp), deadline(clock):
            prove(search, number, clock)


def find_initial(search: Search) -> None:
    """Offer a schedule that fits; where no heuristic finds one, let CP-SAT look for it: of small variants with a step.

    Of others list scheduling finds one, if any order fits.
    """
    offer_initial(search)
    for number, variant in enumerate(search.variants if search.best is None else ()):
        if not variant.problem.has_step or not variant.has_model or variant.index.size > variant.policy.variants.large:
            continue
        search.tell(f"{PROVING}, {variant.name}")
        clock = search.clock.part(search.clock.left / (len(search.variants) - number))
        with suppress(TimeIsUp), deadline(clock):
            prove(search, number, clock)


def prove(search: Search, number: int, clock: Clock) -> None:
    """Search until `clock` is over for better schedules of a variant, and for a proof that there is none.

    Raises KeyboardInterrupt.

    The model has no overlapped pairs; where pairs take less than their parts, its bounds do not count.
    """
    variant, own = search.variants[number], search.candidates[number]
    search.cut_off.add(number)  # unless it comes to its end
    if not variant.can_begin(clock):
        return
    counts = variant.problem.costs.overlap is None
    least = search.bounds[number].ticks
    most = (
        variant.longest if search.best is None else variant.most_sought(search.value, least, is_own=search.best is own)
    )
    model = variant.model(least, most)
    if own is not None and not own.schedule.plan.pairs:
        model.hint([start // variant.quantum for start in variant.hint(own.schedule)])

    def on_schedule(starts: list[int], _objective: int, _bound: int) -> None:
        search.offer(number, Candidate(PROVING, variant.replay([start * variant.quantum for start in starts])))

    def on_bound(quanta: int) -> None:
        if counts:
            search.raise_bound(number, Bound(quanta * variant.quantum, PROVING))

    answer = model.solve(search.limits._replace(seconds=variant.seconds_for(clock)), on_schedule, on_bound)
    if answer.status in {"optimal", "infeasible"}:
        search.cut_off.discard(number)
    if answer.status == "infeasible" and counts:
        search.raise_bound(number, Bound(most + variant.quantum, PROVING))
    elif answer.status != "unknown":
        on_bound(answer.bound)
    if answer.interrupted and not search.clock.is_stopped:
        raise KeyboardInterrupt


def lower_memory(search: Search, number: int, clock: Clock) -> None:
    """Look for schedules of a variant with the best value known and less memory on the largest device.

    Budgets are halved between static memory and what the best schedule holds; each is tried by list scheduling, and on
    small variants by CP-SAT.
    """
    best = search.best
    if best is None:
        return
    variant, most = search.variants[number], max(best.schedule.memory_grains)
    step = least_step(variant.problem, RECOMPUTED)
    least = max(1, *variant.problem.static_grains)
    for _ in range(24):
        middle = most - max((most - least) // (2 * step), 1) * step
        if middle < least or clock.is_over:
            return
        found = _within(search, variant, middle, clock.part(0.34 * clock.left))
        if found is None:
            least = middle + step
            continue
        search.offer(number, Candidate(f"{best.source}, {POLISHING}", found))
        most = min(max(found.memory_grains), middle)


def _within(search: Search, variant: Variant, budget: int, clock: Clock) -> Schedule | None:
    """Return a schedule of the variant with the best value known that holds at most `budget` grains on every device."""
    with suppress(NoSchedule, TimeIsUp), deadline(clock):
        limited = replace(variant, problem=within(variant.problem, budget))
        for schedule in _fitting(search, limited, clock):
            check_deadline()
            if schedule.fits and limited.value(schedule) <= search.value:
                return replace(schedule, problem=replace(variant.problem, shard=schedule.problem.shard))
    return None


def _fitting(search: Search, variant: Variant, clock: Clock) -> Iterator[Schedule]:
    """Yield schedules within the budget of the variant."""
    for candidate in variant.ruled_candidates():
        yield candidate.schedule
    if variant.has_model and variant.index.size <= variant.policy.variants.large and variant.can_begin(clock):
        model = variant.model(min(search.bound.ticks, search.value), search.value)
        answer = model.solve(search.limits._replace(seconds=variant.seconds_for(clock), gap=1.0))
        if answer.starts:
            yield variant.replay([start * variant.quantum for start in answer.starts])
