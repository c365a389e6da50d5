"""CP-SAT on a whole case: the best schedule so far as hint and upper bound, the best bound as lower bound."""

from __future__ import annotations

from pipesched.core.clock import Clock
from pipesched.pipeline.bounds import Bound
from pipesched.solver.case import Candidate, Case
from pipesched.solver.search import Search

SOURCE = "CP-SAT"


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
    most = case.most_sought(search.value, least, is_own=search.best is own)
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
