"""Work that workers do before its turn: searches of variants, their portfolios, the budgets of a frontier.

`WorkAhead` is a pool of calls by keys, with which a frontier solves its next budgets; a solve has `VariantsAhead`.
Such work knows what is known when it begins, and counts only if this process would have found the same. So the answer
is the same, and proofs go on side by side. What turns out to be of no use is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from copy import copy
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Generic, TypeVar

from pipesched.core.clock import Clock, TimeIsUp
from pipesched.core.cpsat import Limits
from pipesched.errors import WorkerDied
from pipesched.executors import cores
from pipesched.executors.batches import PendingCall
from pipesched.executors.opening import others_at_a_time
from pipesched.pipeline.bounds.bounds import Bound
from pipesched.solver.search import Rank, Search
from pipesched.solver.variant import Candidate

Result = TypeVar("Result")
Work = Callable[[Search, int], None]  # on the variant with a number


class WorkAhead(Generic[Result]):
    """Calls that the workers of `pool` were sent, by the numbers of variants, or by budgets."""

    def __init__(self, pool: Executor | None) -> None:
        self.pool = pool
        self.sent: dict[int, PendingCall[Result]] = {}
        self._dropped: list[PendingCall[Result]] = []  # that were running already

    @property
    def under_way(self) -> int:
        return sum(not call.is_done for call in [*self.sent.values(), *self._dropped])

    def send(self, number: int, call: Callable[[], Result], name: str, clock: Clock) -> None:
        """Let a worker run a call, which can be pickled, unless one does already."""
        if number not in self.sent:
            self.sent[number] = PendingCall(self.pool, call, name, clock)

    def result(self, number: int) -> Result:
        """Wait for the result of a call. Raises TimeIsUp once its clock is over, and WorkerDied with its name."""
        try:
            return self.sent[number].result()
        finally:
            self.drop(number)

    def drop(self, number: int) -> None:
        """Cancel a call, if no worker runs it yet."""
        call = self.sent.pop(number)
        if not call.cancel():
            self._dropped.append(call)

    def close(self) -> None:
        for number in [*self.sent]:
            self.drop(number)


# What a worker has found of a variant: a better schedule, its bound, whether time was too short for it, and the memory
# of the named schedules of the same value.
AheadResult = tuple[Candidate | None, Bound, bool, dict[str, Fraction]]


class VariantsAhead(WorkAhead[AheadResult]):
    """Lets workers search variants by `work`. What they find counts if nothing better has become known meanwhile.

    If it `is_heuristic`, they try the portfolios of large variants, each alone: what they find counts as if found here.
    Heuristics use one core, and on large variants take most of the time.
    """

    def __init__(self, pool: Executor, work: Work, *, is_heuristic: bool = False) -> None:
        super().__init__(pool)
        self._work, self._is_heuristic = work, is_heuristic
        self._known: dict[int, tuple[Rank | None, Candidate | None]] = {}  # when the work on a variant began
        self.at_a_time = 1 + others_at_a_time(pool)

    def limits(self, limits: Limits, variants: int) -> Limits:
        """Return limits for one of so many variants here: without a number of threads, those at a time share cores."""
        if limits.workers or not getattr(self.pool, "shares_cores", False):
            return limits
        return limits._replace(workers=max(cores() // min(self.at_a_time, variants), 1))

    def begin(self, search: Search, numbers: Sequence[int], seconds: float) -> None:
        """Let workers begin with variants, each for so many seconds, as far as there are workers."""
        for number in numbers:
            if len(self.sent) >= self.at_a_time - 1:
                return
            if number in self.sent:
                continue
            workers = search.limits.workers or getattr(self.pool, "cores_each", 1)
            limits = search.limits._replace(stop=None, workers=workers)
            if self._is_heuristic:
                state, there = Search([replace(search.variants[number])], limits, Clock()), 0
                state.raise_bound(0, search.bounds[number])
            else:  # what is known, without what belongs to this process, and what variants keep of their graphs
                state, there = copy(search), number
                state.variants = [replace(variant) for variant in search.variants]
                state.limits, state.clock, state.listener, state.cut_off = limits, Clock(), None, set()
            self._known[number] = search.rank, search.candidates[number]
            work = partial(_work_on, state, there, seconds, self._work)
            self.send(number, work, search.variants[number].name, search.clock)

    def try_large(self, search: Search, numbers: Sequence[int]) -> None:
        """Let workers try those of these variants that are large, the first ones first, as far as there are workers."""
        for number in numbers:
            size = search.variants[number].index.size
            seconds = search.clock.left - 0.1 - 2e-6 * size  # to send a schedule back and to check it
            if size > search.policy.variants.large and seconds > 0:
                self.begin(search, [number], seconds)

    def took(self, search: Search, number: int) -> bool:
        """Take note of what a worker finds of a variant, and return whether that is all there is to do for it."""
        if number not in self.sent:
            return False
        rank, candidate = self._known[number]
        if not self._is_heuristic and (rank != search.rank or candidate is not search.candidates[number]):
            self.drop(number)
            return False
        search.tell(f"worker, {'portfolio, ' * self._is_heuristic}{search.variants[number].name}")
        try:
            better, bound, is_cut_off, named = self.result(number)
        except TimeIsUp:
            return True
        except WorkerDied:
            return False  # it is done here
        search.raise_bound(number, bound)
        if is_cut_off:
            search.cut_off.add(number)
        if better is not None:
            search.offer(number, better, heuristic=self._is_heuristic)
            if search.variants[number].value(better.schedule) == search.value:
                for name, memory in named.items():
                    search.named[name] = min(memory, search.named.get(name, memory))
        return True


def _work_on(search: Search, number: int, seconds: float, work: Work) -> AheadResult:
    """Work on a variant from what is known, in a worker."""
    search.clock, known = Clock(seconds), search.candidates[number]
    work(search, number)
    found = search.candidates[number]
    better = None if found is known else found
    return better, search.bounds[number], number in search.cut_off, search.named
