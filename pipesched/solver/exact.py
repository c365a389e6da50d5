"""CP-SAT on a whole case: the best schedule so far as hint and upper bound, the best bound as lower bound."""

from __future__ import annotations

from pipesched.pipeline.bounds import Bound
from pipesched.solver.model import full_model
from pipesched.solver.search import Find, Search
from pipesched.solver.transfers import SavingCase, saving_model

SOURCE = "CP-SAT"
NEAR = 1.1  # times the bound: from there a proof, or one better schedule, comes sooner than a series of them


def prove(search: Search, place: int, seconds: float) -> None:
    """Search for better schedules of a case, and for a proof that there is none. Raises KeyboardInterrupt.

    A model without overlapped pairs says nothing about schedules with them: then its bounds do not count.
    """
    case, find = search.cases[place], search.finds[place]
    counts = case.problem.costs.overlap is None
    least = search.bounds[place].ticks
    most = search.value if search.best is find else search.value - case.quantum
    if isinstance(case, SavingCase) and search.value <= NEAR * least:
        most = search.value - case.quantum
    model = saving_model(case, least, most) if isinstance(case, SavingCase) else full_model(case, least, most)
    if find is not None and not find.schedule.plan.pairs:
        starts = case.sorted_weights(case.sorted_rows(find.schedule.starts))
        model.hint([start // case.quantum for start in starts])

    def on_schedule(starts: list[int], _objective: int, _bound: int) -> None:
        search.offer(place, Find(SOURCE, case.replay([start * case.quantum for start in starts])))

    def on_bound(quanta: int) -> None:
        if counts:
            search.raise_bound(place, Bound(quanta * case.quantum, SOURCE))

    answer = model.solve(search.limits._replace(seconds=seconds), on_schedule, on_bound)
    if answer.status == "infeasible" and counts:
        search.raise_bound(place, Bound(most + case.quantum, SOURCE))
    elif answer.status != "unknown":
        on_bound(answer.bound)
    if answer.interrupted:
        raise KeyboardInterrupt
