"""The search of a space: points that may be the best, in the order of what they may reach, until none can be better.

Points are looked at more closely, and simulated, in waves of a fixed number, so that what is simulated does not depend
on how many workers there are. After a wave the best rate so far drops all points that cannot reach it. Algorithms that
try many orders take seconds each, so they come last, when there is a good one to beat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from heapq import heapify, heappop, heappush
from math import inf
from time import time
from typing import NamedTuple

from pipesched.core.clock import Clock, TimeIsUp
from pipesched.executors.batches import map_batches
from pipesched.tuning.bounds import SETTLED
from pipesched.tuning.point import Layout
from pipesched.tuning.prune import BOUND, DIVISIBILITY, MEMORY, REASONS, Dropped, Hope, looked_at, sift
from pipesched.tuning.space import Space
from pipesched.tuning.trial import Task, Trial, simulate

WAVE, SLOW_WAVE = 32, 12
NEAREST = 5


class Progress(NamedTuple):
    """How far a search is: points simulated and left, the best so far, what was dropped by reason, and what is done."""

    simulated: int
    left: int
    best: Trial | None
    pruned: Mapping[str, int]
    step: str = "search"


Told = Callable[[Progress], None]
Noted = Callable[[Trial | Dropped], None]


class Search:
    """The state of a search. `known` are trials of an earlier run, by the keys of their points."""

    def __init__(self, space: Space, known: Mapping[str, Trial], note: Noted, tell: Told) -> None:
        self.space, self.known, self.note, self.tell = space, known, note, tell
        self.pruned = Counter(dict.fromkeys(REASONS, 0))
        self.trials: list[Trial] = []
        self.best: Trial | None = None
        self.forbidden: list[Dropped] = []
        self.legal = 0
        self._quick: list[tuple[float, int, Hope]] = []
        self._slow: list[tuple[float, int, Hope]] = []

    @property
    def left(self) -> int:
        """The points of which nothing is settled yet."""
        return self.space.points - len(self.trials) - sum(self.pruned.values())

    @property
    def bar(self) -> float:
        """The rate that a point must reach: the best so far."""
        return 0.0 if self.best is None else self.best.rate

    def run(self, executor: Executor | None, clock: Clock) -> None:
        """Search until no point is left, or time is up."""
        self._sift(clock)
        for queue, size in ((self._quick, WAVE), (self._slow, SLOW_WAVE)):
            while wave := self._wave(queue, size, clock):
                for trial in self._simulated(wave, executor, clock):
                    self._take(trial)
                if clock.is_over:
                    return
        if not clock.is_over:
            self._drop_rest()

    def _sift(self, clock: Clock) -> None:
        """Fill the queues with the points that may be the best."""
        for number, one in enumerate(sift(self.space)):
            if isinstance(one, Dropped):
                self._drop(one)
            else:
                queue = self._quick if one.point.algorithm in SETTLED else self._slow
                queue.append((-one.most, number, one))
                self.legal += 1
            if not number % 1000:
                self.report()
                if clock.is_over:
                    break
        heapify(self._quick)
        heapify(self._slow)

    def _drop(self, dropped: Dropped) -> None:
        self.pruned[dropped.reason] += len(dropped.algorithms)
        self.note(dropped)
        if dropped.reason == MEMORY:
            self.forbidden.append(dropped)
            self.legal += len(dropped.algorithms)

    def _wave(self, queue: list[tuple[float, int, Hope]], size: int, clock: Clock) -> list[Hope]:
        """Return the next points to simulate: none where none can reach the bar."""
        wave: list[Hope] = []
        while queue and len(wave) < size and not clock.is_over:
            _, number, hope = heappop(queue)
            if hope.most < self.bar:
                heappush(queue, (-hope.most, number, hope))
                break  # they stand in the order of what they may reach
            if hope.close:
                wave.append(hope)
                continue
            closer = looked_at(hope)
            if isinstance(closer, Dropped):
                self._drop(closer)
            else:
                heappush(queue, (-closer.most, number, closer))
        return wave

    def _simulated(self, wave: Sequence[Hope], executor: Executor | None, clock: Clock) -> Iterator[Trial]:
        """Yield the trials of a wave in its order, those that are known without simulating them again."""
        until = time() + clock.left if clock.limit < inf else inf
        tasks = [
            Task(hope.point, hope.setup, self.space.given, until) for hope in wave if hope.point.key not in self.known
        ]
        with closing(map_batches(executor, simulate, tasks, _name, clock)) as fresh:
            for hope in wave:
                known = self.known.get(hope.point.key)
                try:
                    trial = next(fresh) if known is None else known
                except TimeIsUp:
                    return
                if trial is None:
                    return
                yield trial

    def _take(self, trial: Trial) -> None:
        """Count a trial, and keep it where its algorithm applies."""
        if trial.step is None:
            self.pruned[DIVISIBILITY] += 1
        else:
            self.trials.append(trial)
            if trial.fits and (self.best is None or trial.rank < self.best.rank):
                self.best = trial
        if trial.point.key not in self.known:
            self.note(trial)
        self.report()

    def _drop_rest(self) -> None:
        """Drop all points that cannot reach the best, one for each layout."""
        rest: dict[object, list[Hope]] = {}
        for _, _, hope in sorted((*self._quick, *self._slow), key=lambda entry: entry[1]):
            rest.setdefault(hope.point.layout, []).append(hope)
        for hopes in rest.values():
            most = max(hope.most for hope in hopes)
            names = tuple(hope.point.algorithm for hope in hopes)
            text = f"at most {most:.1f} tokens/s/GPU"
            self._drop(Dropped(hopes[0].point.layout, names, BOUND, text, most=most))
        self.report()

    def report(self, step: str = "search") -> None:
        """Tell how far the search is."""
        self.tell(Progress(len(self.trials), self.left, self.best, self.pruned, step))

    def fitting(self) -> list[Trial]:
        """Return the trials that fit, best first."""
        return sorted((trial for trial in self.trials if trial.fits), key=lambda trial: trial.rank)

    def nearest(self) -> list[tuple[Layout, str, float]]:
        """Return the points that miss their memory by least, and GB: those simulated, then others, at least."""
        over = sorted((trial for trial in self.trials if not trial.fits), key=lambda trial: -trial.spare)
        known = [(trial.point.layout, trial.point.algorithm, -trial.spare) for trial in over]
        dropped = sorted((one for one in self.forbidden if one.over > 0), key=lambda one: one.over)
        known += [(one.layout, one.algorithms[0], one.over) for one in dropped]
        return known[:NEAREST]


def _name(task: Task) -> str:
    return f"{task.point.layout}, {task.point.algorithm}"
