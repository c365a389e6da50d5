"""The solves of a frontier: one after another, or in an executor, where budgets are solved before it is their turn.

Which budget comes next depends on the memory that the schedule of the last one uses. Mostly it is the next step down,
so the next steps are solved ahead, on workers that have nothing else to do; what turns out to be no budget of the
frontier is dropped. So the frontier is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor, Future, wait
from typing import Any, NamedTuple

from pipesched.core.clock import Clock
from pipesched.errors import NoSchedule, WorkerDied
from pipesched.executors.batches import BatchResult, CallBatch
from pipesched.executors.opening import cores_of_each, workers_of
from pipesched.pipeline.problem import Problem
from pipesched.results.outcome import Outcome
from pipesched.solver.budgets import within
from pipesched.solver.policy import DEFAULT
from pipesched.solver.search import Event, Listener
from pipesched.solver.solve import solve


class _Solve(NamedTuple):
    """A solve in a worker, and the seconds that it may take."""

    problem: Problem
    seconds: float
    settings: Mapping[str, Any]


class Points:
    """Solves a problem at the budgets of its frontier, with the `settings` of `solve`."""

    def __init__(
        self,
        problem: Problem,
        clock: Clock,
        listener: Listener | None,
        settings: Mapping[str, Any],
        pool: Executor | None,
    ) -> None:
        self.problem, self.clock, self.listener, self.settings, self.pool = problem, clock, listener, settings, pool
        self.policy = DEFAULT.frontier
        self._ahead: dict[int, Future[BatchResult[Outcome]]] = {}  # by the budget in grains
        self._dropped: list[Future[BatchResult[Outcome]]] = []  # that could not be cancelled

    def solved(self, budget: int | None, points: int, next_ones: Iterable[int]) -> Outcome:
        """Return the outcome at a budget in grains; None is no budget, or the problem's own.

        It has its share of the time that is left for so many `points`. Raises NoSchedule, and WorkerDied.
        """
        limited = self.problem if budget is None else within(self.problem, budget)
        heard = _labelled(self.listener, limited)
        if self.pool is None or budget is None:
            own: dict[str, Any] = {**self.settings, "listener": heard, "stop": self.clock.stop}
            return solve(limited, time_limit=self._share(points), advice=False, **own)
        self._drop_above(budget)
        self._send(budget, points)
        for other in next_ones:
            if self._busy >= workers_of(self.pool):
                break
            self._send(other, points)
        outcome = self._awaited(self._ahead.pop(budget), budget)
        if heard is not None and outcome.report is not None:
            report = outcome.report
            heard(Event("solved", self.clock.seconds, report.value, report.source, report.bound.value))
        return outcome

    def _share(self, points: int) -> float:
        """Return the seconds for a point when so many, at most, divide the time that is left."""
        share = self.clock.left * min(workers_of(self.pool) / points, 1)
        return max(min(max(share, self.policy.shortest), self.clock.left), self.policy.least)

    @property
    def _busy(self) -> int:
        return sum(not future.done() for future in [*self._ahead.values(), *self._dropped])

    def _drop_above(self, budget: int) -> None:
        for other in [other for other in self._ahead if other > budget]:
            future = self._ahead.pop(other)
            if not future.cancel():
                self._dropped.append(future)

    def _send(self, budget: int, points: int) -> None:
        """Let a worker solve a budget, unless one does already."""
        if budget in self._ahead or self.pool is None:
            return
        settings = {**self.settings, "workers": self.settings["workers"] or cores_of_each(self.pool)}
        call = _Solve(within(self.problem, budget), self._share(points), settings)
        self._ahead[budget] = self.pool.submit(CallBatch(_solved_there, [call]))

    def _awaited(self, future: Future[BatchResult[Outcome]], budget: int) -> Outcome:
        """Wait for the answer of a worker, until the clock is over."""
        try:
            while not wait([future], self.policy.look_every).done:
                if self.clock.is_stopped or self.clock.seconds > self.clock.limit + self.policy.grace:
                    raise NoSchedule("stopped before any schedule was found")
            answers = future.result()
        except WorkerDied as error:
            raise WorkerDied(f"the solve of a budget: {error}") from None
        finally:
            future.cancel()
        answers.raise_error()
        return answers.results[0]

    def close(self) -> None:
        """Drop what was solved ahead."""
        for future in self._ahead.values():
            future.cancel()


def _solved_there(call: _Solve) -> Outcome:
    return solve(call.problem, time_limit=call.seconds, advice=False, **call.settings)


def _labelled(listener: Listener | None, problem: Problem) -> Listener | None:
    """Return a listener whose events name the budget of the solve."""
    if listener is None:
        return None
    tell, budget = listener, problem.memory.budget
    label = "no budget" if budget is None else f"budget {float(budget[0]):.9g}"

    def hear(event: Event) -> None:
        tell(event._replace(step=f"{label}, {event.step}"))

    return hear
