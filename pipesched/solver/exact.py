"""CP-SAT on a whole case: the best schedule so far as hint and upper bound, the best bound as lower bound."""

from __future__ import annotations

from pipesched.core.clock import Clock
from pipesched.pipeline.bounds import Bound
from pipesched.solver.candidate import Candidate
from pipesched.solver.search import Search

SOURCE = "CP-SAT"
BEFORE = 3e-4  # seconds an operation to make the model, and before CP-SAT looks at its limit: with less none is made


def prove(search: Search, number: int, clock: Clock) -> None:
    """Search until `clock` is over for better schedules of a case, and for a proof that there is none.

    Raises KeyboardInterrupt.

    The model has no overlapped pairs; where pairs take less than their parts, its bounds do not count.
    """
    case, own = search.cases[number], search.candidates[number]
    if clock.left < BEFORE * case.index.size:
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

    answer = model.solve(search.limits._replace(seconds=clock.left), on_schedule, on_bound)
    if answer.status == "infeasible" and counts:
        search.raise_bound(number, Bound(most + case.quantum, SOURCE))
    elif answer.status != "unknown":
        on_bound(answer.bound)
    if answer.interrupted and not search.clock.is_stopped:
        raise KeyboardInterrupt
