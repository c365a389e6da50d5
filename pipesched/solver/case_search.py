"""The search of cases: local search, CP-SAT, then the least memory at the same objective."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial

from pipesched.core.clock import Clock, TimeIsUp, look, under
from pipesched.errors import NoSchedule
from pipesched.pipeline.bounds import Bound
from pipesched.pipeline.kinds import Allowed
from pipesched.pipeline.schedule import Schedule
from pipesched.solver.ahead import CasesAhead
from pipesched.solver.bounds import raise_by_device
from pipesched.solver.case import Candidate, Case
from pipesched.solver.feasible import least_step, within
from pipesched.solver.search import Search

SOURCE = "CP-SAT"


def search_in_turn(search: Search, method: str, pool: Executor | None) -> None:
    """Search open cases, the most promising first, until none is open, or the time is up.

    Each case has a part of the time, the first one most; those that it cuts off divide what the others leave. With a
    pool, cases are searched in it before their turn.
    """
    waiting, cut_off = set(range(len(search.cases))), set[int]()
    unbegun: dict[int, float] = {}  # the time, in seconds, with which no model of a case could be begun
    policy = search.policy.cases
    with closing(CasesAhead(pool, partial(_search_case, clock=None, method=method))) as ahead:
        while search.best and search.clock.left > policy.end_part * search.limits.seconds:
            numbers = [number for number in search.open if number in waiting]
            if numbers:
                search.is_begun = True
                clock = search.clock.part(ahead.share(search, len(numbers)))
                search.cut_off.discard(numbers[0])
                if not ahead.took(search, numbers[0]):
                    given, search.limits = search.limits, ahead.limits(search.limits, len(numbers))
                    ahead.begin(search, numbers[1:], clock.left)
                    _search_case(search, numbers[0], clock, method)
                    search.limits = given
                waiting.remove(numbers[0])
                if clock.seconds > policy.used_part * clock.limit:
                    cut_off.add(numbers[0])
                elif numbers[0] in search.cut_off:
                    unbegun[numbers[0]] = clock.limit
            else:
                share = ahead.share(search, len(cut_off) + len(unbegun))
                waiting = cut_off | {number for number, seconds in unbegun.items() if share > seconds}
                if not waiting:
                    return
                cut_off, unbegun = set(), {}


def _search_case(search: Search, number: int, clock: Clock | None, method: str) -> None:
    """Search one case: small ones by CP-SAT, which alone proves; on large ones local search is better."""
    case, clock = search.cases[number], clock or search.clock
    size, improvements, policy = case.index.size, case.improvements, case.policy.cases
    if method != "improve":
        raise_by_device(search, number, clock.part(policy.device_part * clock.left))
        if number not in search.open:
            return
    for improvement in improvements:
        is_last = improvement is improvements[-1]
        if case.has_model and (method == "cpsat" or (method == "auto" and is_last and size <= policy.easy)):
            continue
        takes_all = method == "improve" or size > policy.large or not case.has_model
        share = 1.0 if is_last and takes_all else improvement.part
        own, part = search.candidates[number], clock.part(share * clock.left)
        if own is not None and not own.schedule.plan.pairs:
            search.at(f"{improvement.name}, {case.name}")
            search.try_all(number, improvement.search(case, own.schedule, search.limits, part), part)
    searches = not case.keeps_activations or method == "cpsat" or size <= policy.large
    if searches and case.has_model and number in search.open and not clock.is_over:
        search.at(f"{SOURCE}, {case.name}")
        with suppress(TimeIsUp), under(clock):
            prove(search, number, clock)


def find_first(search: Search) -> None:
    """Let CP-SAT look for a schedule where no heuristic found one that fits: of cases with a step, if they are small.

    Of others list scheduling finds one, if any order fits.
    """
    for number, case in enumerate(search.cases):
        if not case.problem.has_step or not case.has_model or case.index.size > case.policy.cases.large:
            continue
        search.at(f"{SOURCE}, {case.name}")
        clock = search.clock.part(search.clock.left / (len(search.cases) - number))
        with suppress(TimeIsUp), under(clock):
            prove(search, number, clock)


def can_begin(case: Case, clock: Clock) -> bool:
    """Return whether the model of a case can be made, and CP-SAT begin to search, before `clock` is over."""
    policy = case.policy.exact
    return clock.left > (policy.before + policy.after) * case.most_operations


def seconds_for(case: Case, clock: Clock) -> float:
    """Return the time limit of CP-SAT with which it ends before `clock` is over."""
    return max(clock.left - case.policy.exact.after * case.most_operations, 0.0)


def prove(search: Search, number: int, clock: Clock) -> None:
    """Search until `clock` is over for better schedules of a case, and for a proof that there is none.

    Raises KeyboardInterrupt.

    The model has no overlapped pairs; where pairs take less than their parts, its bounds do not count.
    """
    case, own = search.cases[number], search.candidates[number]
    search.cut_off.add(number)  # unless it comes to its end
    if not can_begin(case, clock):
        return
    counts = case.problem.costs.overlap is None
    least = search.bounds[number].ticks
    most = case.longest if search.best is None else case.most_sought(search.value, least, is_own=search.best is own)
    model = case.model(least, most)
    if own is not None and not own.schedule.plan.pairs:
        model.hint([start // case.quantum for start in case.hint(own.schedule)])

    def on_schedule(starts: list[int], _objective: int, _bound: int) -> None:
        search.offer(number, Candidate(SOURCE, case.replay([start * case.quantum for start in starts])))

    def on_bound(quanta: int) -> None:
        if counts:
            search.raise_bound(number, Bound(quanta * case.quantum, SOURCE))

    answer = model.solve(search.limits._replace(seconds=seconds_for(case, clock)), on_schedule, on_bound)
    if answer.status in {"optimal", "infeasible"}:
        search.cut_off.discard(number)
    if answer.status == "infeasible" and counts:
        search.raise_bound(number, Bound(most + case.quantum, SOURCE))
    elif answer.status != "unknown":
        on_bound(answer.bound)
    if answer.interrupted and not search.clock.is_stopped:
        raise KeyboardInterrupt


POLISHING = "polishing"
RECOMPUTED = Allowed(recompute=True)  # peaks may differ by as little as a checkpoint


def polish(search: Search, number: int, clock: Clock) -> None:
    """Look for schedules of a case with the best value known and less memory on the largest device.

    Budgets are halved between static memory and what the best schedule holds; each is tried by list scheduling, and on
    small cases by CP-SAT.
    """
    best = search.best
    if best is None:
        return
    case, most = search.cases[number], max(best.schedule.memory_grains)
    policy = search.policy.polish
    step = least_step(case.problem, RECOMPUTED)
    least = max(1, *map(case.problem.static_grains, range(case.problem.devices)))
    for _ in range(policy.rounds):
        middle = most - max((most - least) // (2 * step), 1) * step
        if middle < least or clock.is_over:
            return
        found = _within(search, case, middle, clock.part(policy.round_part * clock.left))
        if found is None:
            least = middle + step
            continue
        search.offer(number, Candidate(f"{best.source}, {POLISHING}", found))
        most = min(max(found.memory_grains), middle)


def _within(search: Search, case: Case, budget: int, clock: Clock) -> Schedule | None:
    """Return a schedule of the case with the best value known that holds at most `budget` grains on every device."""
    with suppress(NoSchedule, TimeIsUp), under(clock):
        limited = replace(case, problem=within(case.problem, budget))
        for schedule in _tries(search, limited, clock):
            look()
            if schedule.fits and limited.value(schedule) <= search.value:
                return replace(schedule, problem=replace(case.problem, shard=schedule.problem.shard))
    return None


def _tries(search: Search, case: Case, clock: Clock) -> Iterator[Schedule]:
    """Yield schedules within the budget of the case."""
    for candidate in case.ruled_candidates():
        yield candidate.schedule
    if case.has_model and case.index.size <= case.policy.cases.large and can_begin(case, clock):
        model = case.model(min(search.bound.ticks, search.value), search.value)
        answer = model.solve(search.limits._replace(seconds=seconds_for(case, clock), gap=1.0))
        if answer.starts:
            yield case.replay([start * case.quantum for start in answer.starts])
