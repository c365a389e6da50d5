"""Portfolios of large cases that workers try, while this process tries that of another case.

Heuristics use one core, and on large cases take most of the time. A worker is sent a case alone, and brings back its
best schedule, which counts here as if it had been made here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from pipesched.core.clock import Clock
from pipesched.core.cpsat import Limits
from pipesched.errors import WorkerDied
from pipesched.executors.batches import BatchResult, CallBatch
from pipesched.executors.opening import others_at_a_time
from pipesched.pipeline.bounds import Bound
from pipesched.solver.case import Candidate, Case
from pipesched.solver.search import Search

TryPortfolio = Callable[[Search, int], None]


class Tried(NamedTuple):
    """What a portfolio has: its best schedule, and the named ones of the same value with the memory that they hold."""

    candidate: Candidate | None
    named: dict[str, Fraction]


class _Call(NamedTuple):
    """A case to try, what is known about it, and the seconds for it."""

    case: Case
    bound: Bound
    limits: Limits
    seconds: float
    try_portfolio: TryPortfolio


class PortfoliosAhead:
    """Lets the workers of an executor try the portfolios of cases; none without an executor, or for small cases."""

    def __init__(self, pool: Executor | None, try_portfolio: TryPortfolio) -> None:
        self._pool, self._try = pool, try_portfolio
        self._sent: dict[int, Future[BatchResult[Tried]]] = {}

    def send(self, search: Search, numbers: Sequence[int]) -> None:
        """Let workers try these cases, the first ones first, as far as there are workers."""
        policy = search.policy.ahead
        for number in numbers:
            case = search.cases[number]
            seconds, is_small = search.clock.left - policy.way_back, case.index.size <= policy.portfolio_least
            seconds -= policy.way_back_each * case.index.size
            if self._pool is None or is_small or len(self._sent) >= others_at_a_time(self._pool):
                return
            if seconds > 0:
                limits = search.limits._replace(stop=None)
                call = _Call(replace(case), search.bounds[number], limits, seconds, self._try)
                self._sent[number] = self._pool.submit(CallBatch(_tried, [call]))

    def last(self, numbers: Sequence[int]) -> list[int]:
        """Return the numbers of cases with those last that were sent."""
        return sorted(numbers, key=lambda number: number in self._sent)

    def took(self, search: Search, number: int) -> bool:
        """Take note of what a worker finds of a case, and return whether one was sent it and is done."""
        future = self._sent.pop(number, None)
        if future is None:
            return False
        search.at(f"worker, portfolio, {search.cases[number].name}")
        while not wait([future], search.policy.ahead.portfolio_look_every).done:
            if search.clock.is_over:
                future.cancel()
                return True
        try:
            answers = future.result()
            answers.raise_error()
        except WorkerDied:
            return False  # it is tried here
        found = answers.results[0]
        if found.candidate is not None:
            search.offer(number, found.candidate, heuristic=True)
            search.add_named(found.named, search.cases[number].value(found.candidate.schedule))
        return True

    def close(self) -> None:
        """Drop what was sent."""
        for future in self._sent.values():
            future.cancel()


def _tried(call: _Call) -> Tried:
    search = Search([call.case], call.limits, Clock(call.seconds))
    search.raise_bound(0, call.bound)
    call.try_portfolio(search, 0)
    return Tried(search.best, search.named)
