"""Cases of a solve side by side: the same answers, work sent ahead, workers that die, and shared cores."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from functools import partial
from threading import Event as StopEvent
from typing import Any

import pytest

import pipesched
from pipesched import Event, WorkerDied
from pipesched.cli.groups import GROUPS
from pipesched.core.clock import Clock, TimeIsUp
from pipesched.core.cpsat import Limits
from pipesched.executors.opening import chosen
from pipesched.pipeline.problem.kinds import KEEP_ONLY
from pipesched.solver import ahead as ahead_module
from pipesched.solver.ahead import VariantsAhead, WorkAhead
from pipesched.solver.feasible import feasible, placed, variants_of
from pipesched.solver.policy import DEFAULT, SolvePolicy, VariantPolicy
from pipesched.solver.recompute_offload import PlainVariant
from pipesched.solver.search import Search
from pipesched.solver.solve import _try_portfolio
from tests.executors.work import workers_left

SEVERAL: dict[str, Any] = {"devices": 3, "stages": 6, "microbatches": 5, "forward": 5, "backward": 10, "budget": 2.5}


class Workers(Executor):
    """Processes of this machine, as far as anybody can tell: calls run at once, as in another process by pickles."""

    workers, cores_each, shares_cores = 2, 2, True

    def __init__(self) -> None:
        self.calls = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.calls += 1
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def search_of(policy: SolvePolicy = DEFAULT, **values: Any) -> Search:
    problems = feasible(placed(pipesched.make_problem(**values), None), KEEP_ONLY)
    cases = [PlainVariant(problem, policy=policy) for problem in problems]
    return Search(cases, Limits(seconds=60), Clock(60))


@pytest.mark.parametrize(("given", "cases", "threads"), [(0, 5, 3), (0, 2, 3), (0, 1, 6), (4, 5, 4)])
def test_threads_share_the_cores(given: int, cases: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of six cores each of two searches at a time has three, a search alone all; a number that is given stays."""
    monkeypatch.setattr(ahead_module, "cores", lambda: 6)
    ahead = VariantsAhead(Workers(), lambda *_: None)
    assert ahead.limits(Limits(workers=given), cases).workers == threads


def test_a_portfolio_elsewhere_is_a_portfolio_here() -> None:
    """What a worker brings back counts as what this process finds: the best, its heuristic, and its equals."""
    policy = SolvePolicy(variants=VariantPolicy(large=0))
    here, there, pool = search_of(**SEVERAL), search_of(policy, **SEVERAL), Workers()
    ahead = VariantsAhead(pool, _try_portfolio, is_heuristic=True)
    _try_portfolio(here, 0)
    ahead.try_large(there, [0, 1])
    assert pool.calls == 1
    assert [*ahead.sent] == [0]
    assert ahead.took(there, 0)
    assert not ahead.took(there, 1)
    assert here.best is not None
    assert there.best is not None
    assert here.best.schedule.plan.orders == there.best.schedule.plan.orders
    assert (here.value, here.best.source, here.heuristic, here.named) == (
        there.value, there.best.source, there.heuristic, there.named,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.nightly
def test_stopped_with_jobs() -> None:
    """An event ends the processes too, and the best so far is the answer."""
    stop, steps = StopEvent(), list[str]()

    def listen(event: Event) -> None:
        steps.append(event.step)
        if event.step.startswith("portfolio") and event.value is not None:
            stop.set()

    problem = pipesched.make_problem(devices=8, stages=16, microbatches=256, forward=1, backward=2, p2p=0.2, budget=6)
    outcome = pipesched.solve(problem, jobs=2, stop=stop, listener=listen, time_limit=120)
    assert outcome.report is not None
    assert outcome.report.stopped_by == "interrupt"
    assert pipesched.check(outcome) == []
    assert not workers_left()


def test_a_frontier_of_heuristics_with_jobs() -> None:
    """They take no threads, so workers are asked for none."""
    problem = pipesched.make_problem(**SEVERAL)
    alone, together = (
        pipesched.frontier(problem, method="portfolio", executor=executor) for executor in (None, Workers())
    )
    assert len(together) > 1
    assert [(point.budget, point.value) for point in together] == [(point.budget, point.value) for point in alone]


def test_the_command_line_asks_for_the_same() -> None:
    """`--jobs` is the `jobs` of the library, as an executor; without it both search in this process."""
    for text, jobs in (("1", 1), ("2", 2), (None, 1)):
        executor = GROUPS["executor"].read({"jobs": text})
        assert (executor or "local:1") == (chosen(None, jobs) or "local:1")


# What is sent ahead: a worker that dies, time that is up, what is known meanwhile, and what is dropped.

SEVERAL_ahead = pipesched.make_problem(devices=3, stages=6, microbatches=5, forward=5, backward=10, budget=2.5)
EVERY_SIZE = SolvePolicy(variants=VariantPolicy(large=0))


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


def search_of_ahead(seconds: float = 60) -> Search:
    """A search of two placements."""
    return Search(variants_of(SEVERAL_ahead, None, KEEP_ONLY, EVERY_SIZE), Limits(seconds=seconds), Clock(seconds))


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
    pool, search = ByHand(), search_of_ahead()
    ahead = VariantsAhead(pool, _try_portfolio, is_heuristic=portfolios)
    ahead.begin(search, [0, 1], 60)
    pool.kill(0)
    assert not ahead.took(search, 0)
    assert search.best is None
    pool.run(1)
    assert ahead.took(search, 1)
    assert search.best is not None


def test_a_search_counts_unless_something_better_is_known() -> None:
    """A portfolio always does."""
    for counts in (False, True):
        pool, search = ByHand(), search_of_ahead()
        ahead = VariantsAhead(pool, _try_portfolio, is_heuristic=counts)
        ahead.begin(search, [1], 60)
        _try_portfolio(search, 0)
        pool.run(0)
        assert ahead.took(search, 1) == counts
        assert not ahead.sent


def test_a_case_that_is_late_is_not_begun_again() -> None:
    """There is no time for it here either."""
    pool, search = ByHand(), search_of_ahead(0.02)
    ahead = VariantsAhead(pool, _try_portfolio)
    ahead.begin(search, [0], 60)
    assert ahead.took(search, 0)
    assert search.best is None
    assert pool.given[0][1].cancelled()
