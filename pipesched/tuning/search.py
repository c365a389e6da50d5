"""The search of a space: points that may be the best, in the order of what they may reach, until none can be better.

`tune` makes a `SpaceSearch` and runs it; prune.py says which points are open, trial.py simulates one.

The best rate so far drops all points that cannot reach it. A point is chosen from the results of the points that
stand AHEAD places before it and earlier, so what is simulated does not depend on how many workers there are. Algorithms
that try many orders take seconds each, so they come last, when there is a good one to beat.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, NamedTuple

from pipesched.config.estimate import DEFAULTS
from pipesched.core.clock import Clock, TimeIsUp
from pipesched.estimation.result import Estimate
from pipesched.executors.batches import PendingCall
from pipesched.schedulers.registry import family
from pipesched.tuning import prune
from pipesched.tuning.space import LIKELY, Parallelism, Space, first_of_each
from pipesched.tuning.trial import Trial, TrialTask, simulate, until_end

AHEAD = 16  # simulations that are under way at once
NEAREST = 5


class Progress(NamedTuple):
    """How far a search is: points simulated and left, the best so far, what was pruned by reason, and what is done."""

    simulated: int
    left: int
    best: Trial | None
    pruned: Mapping[str, int]
    step: str = "search"


Told = Callable[[Progress], None]
Noted = Callable[[Trial | prune.PrunedPoints], None]


class SpaceSearch:
    """The state of a search of a space, or of `points`, with `known` trials, for rates of `least` or more."""

    def __init__(
        self,
        space: Space,
        known: Mapping[str, Trial],
        note: Noted,
        tell: Told,
        *,
        points: prune.PointsOfLayouts | None = None,
        least: float = 0.0,
    ) -> None:
        self.space, self.known, self.note, self.tell = space, known, note, tell
        self._points, self._least = points, least
        self.pruned = Counter(dict.fromkeys(prune.REASONS, 0))
        self._said: dict[str, str] = {}  # of each algorithm of a user: why it did not apply at first
        self.trials: list[Trial] = []
        self.best: Trial | None = None
        self.most = 0.0  # the best rate of what fits, surely or not
        self.estimate: Estimate | None = None  # of the best one, where it was simulated now
        self.forbidden: list[prune.PrunedPoints] = []  # by memory
        self.outside: list[prune.PrunedPoints] = []  # what is unlike all that was measured
        self.is_widened = False
        self.legal = 0  # points that divide, also those that memory forbids
        self._surely = space.surely  # by whose budget a point surely fits
        self._quick: list[tuple[float, int, prune.OpenPoint]] = []  # heaps: what may be fastest is first
        self._slow: list[tuple[float, int, prune.OpenPoint]] = []  # of algorithms that try many orders

    @property
    def left(self) -> int:
        """The points of which nothing is settled yet."""
        return self.space.points - len(self.trials) - sum(self.pruned.values())

    @property
    def bar(self) -> float:
        """The rate that a point must reach: the best so far, of what surely fits where that is asked for."""
        return max(self._least, self.best.rate) if self.best is not None and self.counts(self.best) else self._least

    def counts(self, trial: Trial) -> bool:
        """Whether a trial that fits may be the first row."""
        return trial.sure or self.space.fits == LIKELY

    def run(self, executor: Executor | None, clock: Clock) -> None:
        """Search until no point is left, or time is up; where nothing fits also what is unlike all measurements."""
        self._search(executor, clock)
        if self.outside and self.best is None and not clock.is_over:
            self.is_widened = True
            self._points, self.outside = [(one.layout, one.algorithms) for one in self.outside], []
            self._search(executor, clock)

    def _search(self, executor: Executor | None, clock: Clock) -> None:
        """Simulate points, AHEAD of them at once, until none may be better, or time is up."""
        self._sift(clock)
        begun = deque[PendingCall[Any]]()  # in their order; the call of a trial that is known just returns it
        try:
            while True:
                while len(begun) < AHEAD and (open_point := self._next(clock)):
                    known, name = self.known.get(open_point.point.key), "{}, {}".format(*open_point.point)
                    task = TrialTask(*open_point[:2], self.space.given, until_end(clock), self.bar, self.space.only)
                    call = partial(simulate, task) if known is None else partial(tuple, (known, None))
                    begun.append(PendingCall(executor if known is None else None, call, name, clock))
                if not begun:
                    break
                if (found := begun.popleft().result()) is None:
                    raise TimeIsUp
                self._take(*found)
        except TimeIsUp:
            pass
        finally:
            for run in begun:
                run.cancel()
        if not clock.is_over:
            self._prune_rest()

    def _sift(self, clock: Clock) -> None:
        """Put open points into their queues, and count what is pruned."""
        for number, one in enumerate(prune.sift(self.space, self._points)):
            if isinstance(one, prune.PrunedPoints):
                self._prune(one)
            else:
                queue = self._quick if family(one.point.algorithm).settled_order else self._slow
                queue.append((-one.most, number, one))
                self.legal += 1
            if not number % 1000:
                self.report()
                if clock.is_over:
                    break
        heapify(self._quick)
        heapify(self._slow)

    def _prune(self, points: prune.PrunedPoints) -> None:
        """Count points that are pruned; those unlike all measurements wait until something else fits."""
        if points.reason == prune.EVIDENCE:
            self.outside.append(points)  # they are left until something inside fits
            return
        self.pruned[points.reason] += len(points.algorithms)
        self.note(points)
        if points.reason == prune.MEMORY:
            self.forbidden.append(points)
            self.legal += len(points.algorithms)

    def _next(self, clock: Clock) -> prune.OpenPoint | None:
        """Return the next point to simulate; None where none can reach the bar. Raises TimeIsUp."""
        for queue in (self._quick, self._slow):
            while queue:
                if clock.is_over:
                    raise TimeIsUp
                _, number, open_point = heappop(queue)
                if open_point.most < self.bar:
                    heappush(queue, (-open_point.most, number, open_point))
                    break  # no other of this queue can reach the bar: the heap has the fastest first
                if not open_point.close:
                    closer = prune.looked_at(self.space, open_point)
                elif open_point.most < self.most and not open_point.surely:
                    # slower than one that fits, surely or not: it helps only as the first that surely fits
                    closer = prune.looked_at(self._surely, open_point._replace(surely=True))
                else:
                    return open_point
                if isinstance(closer, prune.PrunedPoints):
                    self._prune(closer)
                else:
                    heappush(queue, (-closer.most, number, closer))
        return None

    def _take(self, trial: Trial, estimate: Estimate | None) -> None:
        """Count a trial, and keep it where its algorithm applies and the trainer takes its schedule."""
        if trial.step is None or not trial.suits(self.space.only):
            why, algorithm = prune.MEMORY if trial.is_short else prune.DIVISIBILITY, trial.point.algorithm
            if trial.reason and hasattr(algorithm, "family"):  # of a user: what it said first
                why = self._said.setdefault(algorithm, trial.reason)
            self.pruned[why] += 1
        else:
            self.trials.append(trial)
            if trial.fits:
                self.most = max(self.most, trial.rate)
            if trial.fits and (self.best is None or self.order(trial) < self.order(self.best)):
                for points in self.outside if self.best is None else ():
                    self.pruned[prune.EVIDENCE] += len(points.algorithms)
                    self.note(points)
                self.best, self.estimate = trial, estimate
        if trial.point.key not in self.known:
            self.note(trial)
        self.report()

    def _prune_rest(self) -> None:
        """Prune all points that cannot reach the best, one for each layout."""
        rest: dict[object, list[prune.OpenPoint]] = {}
        for _, _, open_point in sorted((*self._quick, *self._slow), key=lambda entry: entry[1]):
            rest.setdefault(open_point.point.layout, []).append(open_point)
        for here in rest.values():
            most = max(one.most for one in here)
            names = tuple(one.point.algorithm for one in here)
            text = f"at most {most:.1f} tokens/s/GPU"
            self._prune(prune.PrunedPoints(here[0].point.layout, names, prune.BOUND, text, most=most))
        self._quick, self._slow = [], []
        self.report()

    def report(self, step: str = "search") -> None:
        self.tell(Progress(len(self.trials), self.left, self.best, self.pruned, step))

    def fitting(self) -> list[Trial]:
        """Return the trials that fit, best first: where that is asked for, those that surely fit come first."""
        return sorted((trial for trial in self.trials if trial.fits), key=self.order)

    def order(self, trial: Trial) -> tuple[float, tuple[bool, float, float, str]]:
        """Return the sort key of what fits: the likeliest first among those that may not be the first row."""
        return -inf if self.counts(trial) else -trial.margin, trial.rank

    def nearest(self) -> list[tuple[Parallelism, str, float]]:
        """Return the points that miss their memory by least, and GB: those simulated, then others, at least."""
        over = sorted((trial for trial in self.trials if not trial.fits), key=lambda trial: -trial.spare)
        known = [(trial.point.layout, trial.point.algorithm, -trial.spare) for trial in over]
        pruned = sorted((one for one in self.forbidden if one.over > 0), key=lambda one: one.over)
        for one in pruned:
            usual = next((name for name in DEFAULTS if name in one.algorithms), one.algorithms[0])
            known.append((one.layout, usual, one.over))
        return first_of_each(known, lambda miss: miss[0])[:NEAREST]
