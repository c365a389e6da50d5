"""Time limits by a clock on which every look at it takes a second, so that nothing depends on the machine."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest

import pipesched
from pipesched.core.clock import EVERY, Clock, TimeIsUp, under, watched
from pipesched.core.cpsat import Limits
from pipesched.pipeline.problem.kinds import Allowed
from pipesched.results.status import StoppedBy
from pipesched.solver.policy import DEFAULT
from pipesched.solver.saving_portfolio import KeepingCase, SavingCase
from pipesched.solver.search import Search
from pipesched.solver.solve import can_begin, prove, seconds_for

UNEVEN: dict[str, Any] = {
    "devices": 4, "stages": 8, "microbatches": 80, "forward": [3, 2, 2, 2, 2, 2, 2, 4], "backward": 5, "p2p": 0.5,
    "budget": 5,
}  # fmt: skip


def test_watched_looks_again_and_again() -> None:
    """All items, in order, and a look at least every 4096 of them."""
    items = list(range(3 * EVERY))
    assert list(watched(items)) == items
    assert list(watched([])) == []
    with under(Clock(0.0)), pytest.raises(TimeIsUp):
        list(watched(items))


def search_of(case: KeepingCase | SavingCase, seconds: float) -> Search:
    search = Search([case], Limits(seconds=seconds, workers=1), Clock(seconds))
    search.offer(0, next(case.quick_ruled_candidates()))
    return search


def test_no_model_is_made_that_cannot_be_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """With less time than presolve takes, no model is begun, and it is noted that time was short."""
    case = KeepingCase(pipesched.make_problem(**UNEVEN, placement="v"))
    monkeypatch.setattr(KeepingCase, "model", lambda *_: pytest.fail("a model was made"))
    search = search_of(case, 0.9 * DEFAULT.exact.before * case.index.size)
    prove(search, 0, search.clock)
    assert search.cut_off == {0}


def test_a_model_with_recompute_counts_all_operations() -> None:
    """What may run counts, so a larger model needs more time before it begins, and ends earlier."""
    problem = pipesched.make_problem(**UNEVEN, placement="v")
    keeping, saving = KeepingCase(problem), SavingCase(problem, allowed=Allowed(recompute=True))
    assert saving.most_operations == 3 * keeping.most_operations // 2
    between = Clock(1.2 * DEFAULT.exact.before * keeping.most_operations)
    assert can_begin(keeping, between)
    assert not can_begin(saving, between)
    assert seconds_for(saving, between) < seconds_for(keeping, between) < between.limit


def test_what_is_not_begun_is_the_time_limit() -> None:
    """A search that leaves a model out for lack of time was stopped by its limit, not by itself."""
    problem = pipesched.make_problem(**UNEVEN, placement="linear")
    outcome = pipesched.solve(problem, time_limit=0.4, workers=1, method="cpsat", polish=False)
    assert outcome.report is not None
    assert outcome.report.stopped_by in {StoppedBy.TIME_LIMIT, StoppedBy.PROOF}


def test_a_hint_counts_though_time_is_up() -> None:
    """A schedule that is given is checked and taken, whatever the limit, and though the solve was stopped before."""
    problem = pipesched.make_problem(**UNEVEN, placement="linear", activation=1)
    given = pipesched.run(problem, "list")
    stop = Event()
    stop.set()
    several: list[dict[str, Any]] = [{"time_limit": 1e-6}, {"stop": stop}]
    for settings in several:
        outcome = pipesched.solve(problem, hint=given, **settings)
        assert outcome.report is not None
        assert outcome.report.source == "hint"
        assert outcome.schedule.makespan == given.schedule.makespan


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_large_models_have_no_linear_relaxations(workers: int) -> None:
    """CP-SAT would derive them from all paths before it first looks at its limit; smaller ones have them."""
    for microbatches, has in ((80, False), (40, True)):
        case = KeepingCase(pipesched.make_problem(**{**UNEVEN, "microbatches": microbatches}, placement="v"))
        model = case.model(0, 10 * case.bound().ticks)
        parameters = model.cp.CpSolver().parameters
        model.tune(parameters, Limits(workers=workers))
        assert bool(parameters.linearization_level) is has
        assert ("feasibility_pump" in parameters.ignore_subsolvers) is not has
        assert all(name.endswith("no_lp") is not has for name in parameters.subsolvers)
