"""What is sent ahead: a worker that dies, time that is up, what is known meanwhile, and what is dropped."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

import pytest

import pipesched
from pipesched.core.clock import Clock, TimeIsUp
from pipesched.core.cpsat import Limits
from pipesched.errors import WorkerDied
from pipesched.pipeline.problem.kinds import KEEP_ONLY
from pipesched.solver.ahead import CasesAhead, PortfoliosAhead, WorkAhead
from pipesched.solver.feasible import cases_of
from pipesched.solver.policy import CasePolicy, SolvePolicy
from pipesched.solver.search import Search
from pipesched.solver.solve import _try_portfolio

SEVERAL = pipesched.make_problem(devices=3, stages=6, microbatches=5, forward=5, backward=10, budget=2.5)
EVERY_SIZE = SolvePolicy(cases=CasePolicy(large=0))


class ByHand(Executor):
    """An executor of three workers whose calls end when a test says so."""

    workers = 3

    def __init__(self) -> None:
        self.given: list[tuple[Any, Future[Any]]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.given.append((partial(fn, *args, **kwargs), future))
        return future

    def run(self, number: int) -> None:
        """Do a call."""
        call, future = self.given[number]
        future.set_result(call())

    def kill(self, number: int) -> None:
        """Let the worker of a call die."""
        self.given[number][1].set_exception(WorkerDied("its process ended twice"))


def search_of(seconds: float = 60) -> Search:
    """A search of two placements."""
    return Search(cases_of(SEVERAL, None, KEEP_ONLY, EVERY_SIZE), Limits(seconds=seconds), Clock(seconds))


def test_calls_by_number() -> None:
    """A call is sent once; one that runs when it is dropped is still under way."""
    pool = ByHand()
    ahead = WorkAhead[int](pool)
    for number in (1, 2, 3, 1):
        ahead.send(number, partial(int, number), "a call", Clock())
    assert len(pool.given) == ahead.under_way == 3
    pool.run(0)
    assert ahead.result(1) == 1
    pool.given[1][1].set_running_or_notify_cancel()
    ahead.drop(2)
    assert (ahead.under_way, [*ahead.sent]) == (2, [3])
    ahead.close()
    assert pool.given[2][1].cancelled()
    assert ahead.under_way == 1


def test_a_call_whose_worker_dies_is_named() -> None:
    pool = ByHand()
    ahead = WorkAhead[int](pool)
    ahead.send(1, partial(int, 1), "the solve of a budget", Clock())
    pool.kill(0)
    with pytest.raises(WorkerDied, match=r"^the solve of a budget: its process ended twice$"):
        ahead.result(1)
    assert not ahead.sent


def test_a_call_that_is_late() -> None:
    """Its clock ends the wait, and the call is cancelled."""
    pool = ByHand()
    ahead = WorkAhead[int](pool)
    ahead.send(1, partial(int, 1), "a call", Clock(0.01))
    with pytest.raises(TimeIsUp):
        ahead.result(1)
    assert pool.given[0][1].cancelled()


@pytest.mark.parametrize("portfolios", [False, True])
def test_a_case_whose_worker_dies_is_done_here(portfolios: bool) -> None:
    pool, search = ByHand(), search_of()
    ahead = (PortfoliosAhead if portfolios else CasesAhead)(pool, _try_portfolio)
    ahead.begin(search, [0, 1], 60)
    pool.kill(0)
    assert not ahead.took(search, 0)
    assert search.best is None
    pool.run(1)
    assert ahead.took(search, 1)
    assert search.best is not None


def test_a_search_counts_unless_something_better_is_known() -> None:
    """A portfolio always does."""
    for make, counts in ((CasesAhead, False), (PortfoliosAhead, True)):
        pool, search = ByHand(), search_of()
        ahead = make(pool, _try_portfolio)
        ahead.begin(search, [1], 60)
        _try_portfolio(search, 0)
        pool.run(0)
        assert ahead.took(search, 1) == counts
        assert not ahead.sent


def test_a_case_that_is_late_is_not_begun_again() -> None:
    """There is no time for it here either."""
    pool, search = ByHand(), search_of(0.02)
    ahead = CasesAhead(pool, _try_portfolio)
    ahead.begin(search, [0], 60)
    assert ahead.took(search, 0)
    assert search.best is None
    assert pool.given[0][1].cancelled()
