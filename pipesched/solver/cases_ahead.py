"""Cases of a solve that workers search before it is their turn.

A case is searched from what is known when it begins. What a worker finds counts if nothing better has become known by
the turn of its case; else the case is searched anew. So the answer is the same, and proofs go on side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, wait
from copy import copy
from dataclasses import replace
from typing import NamedTuple

from pipesched.core.clock import Clock
from pipesched.core.cpsat import Limits
from pipesched.errors import WorkerDied
from pipesched.executors.batches import BatchResult, CallBatch
from pipesched.executors.opening import cores_of_each, others_at_a_time, shares_cores
from pipesched.executors.spec import cores
from pipesched.pipeline.bounds import Bound
from pipesched.solver.case import Candidate
from pipesched.solver.search import Rank, Search

SearchCase = Callable[[Search, int, Clock], None]


class Found(NamedTuple):
    """What the search of a case has found: its best schedule, its bound, and whether time was too short for it."""

    candidate: Candidate | None
    bound: Bound
    is_cut_off: bool


class _Call(NamedTuple):
    """A search from a state, of the case with a number, in so many seconds."""

    state: Search
    number: int
    seconds: float
    search_case: SearchCase


class _Sent(NamedTuple):
    """A search in a worker, and what was known when it began."""

    future: Future[BatchResult[Found]]
    rank: Rank | None
    candidate: Candidate | None


class CasesAhead:
    """Lets the workers of an executor search cases with `search_case`; none without an executor."""

    def __init__(self, pool: Executor | None, search_case: SearchCase) -> None:
        self._pool, self._search_case = pool, search_case
        self._sent: dict[int, _Sent] = {}

    def share(self, search: Search, cases: int) -> float:
        """Return the seconds for the next of so many cases; this process and the workers search some at a time.

        It has most of the time that is left, since the most promising one is first.
        """
        equal = min(self._at_a_time / cases, 1.0) if cases else 1.0
        return search.clock.left * max(equal, search.policy.cases.first_part)

    @property
    def _at_a_time(self) -> int:
        return 1 if self._pool is None else 1 + others_at_a_time(self._pool)

    def limits(self, limits: Limits, cases: int) -> Limits:
        """Return limits for the search of one of so many cases here: those at a time divide the cores of this machine.

        A number of threads that is given stays.
        """
        if limits.workers or self._pool is None or not shares_cores(self._pool):
            return limits
        return limits._replace(workers=max(cores() // min(self._at_a_time, cases), 1))

    def send(self, search: Search, numbers: Sequence[int], seconds: float) -> None:
        """Let workers search cases from what is known now, each for so many seconds, as far as there are workers."""
        for number in numbers:
            if self._pool is None or len(self._sent) >= others_at_a_time(self._pool):
                return
            if number not in self._sent:
                threads = search.limits.workers or cores_of_each(self._pool)
                state = _state(search, search.limits._replace(stop=None, workers=threads))
                future = self._pool.submit(CallBatch(_searched, [_Call(state, number, seconds, self._search_case)]))
                self._sent[number] = _Sent(future, search.rank, search.candidates[number])

    def took(self, search: Search, number: int) -> bool:
        """Take note of what a worker finds of a case, and return whether it counts."""
        sent = self._sent.pop(number, None)
        if sent is None or sent.rank != search.rank or sent.candidate is not search.candidates[number]:
            return False
        search.at(f"worker, {search.cases[number].name}")
        while not wait([sent.future], search.policy.ahead.look_every).done:
            if search.clock.is_over:
                sent.future.cancel()
                return False
        try:
            answers = sent.future.result()
            answers.raise_error()
        except WorkerDied:
            return False  # it is searched here
        found = answers.results[0]
        search.raise_bound(number, found.bound)
        if found.is_cut_off:
            search.cut_off.add(number)
        if found.candidate is not None:
            search.offer(number, found.candidate)
        return True

    def close(self) -> None:
        """Drop what was sent."""
        for sent in self._sent.values():
            sent.future.cancel()


def _state(search: Search, limits: Limits) -> Search:
    """Return what is known, without what belongs to this process."""
    state = copy(search)
    state.cases = [replace(case) for case in search.cases]  # without what they keep of their graphs
    state.limits, state.clock, state.listener, state.cut_off = limits, Clock(), None, set()
    return state


def _searched(call: _Call) -> Found:
    search, number = call.state, call.number
    search.clock = Clock(call.seconds)
    known = search.candidates[number]
    call.search_case(search, number, search.clock)
    candidate = search.candidates[number]
    return Found(None if candidate is known else candidate, search.bounds[number], number in search.cut_off)
