"""Large neighbourhood search: free the operations of a window of time, solve, keep the better order, repeat.

Windows are drawn at random. They grow while CP-SAT solves them to optimality and shrink when it does not. Each is
solved by one worker, for a short time; with more workers, windows that do not overlap are solved side by side.
"""

from __future__ import annotations

import os
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random

from pipesched.core.clock import Clock
from pipesched.core.cpsat import Limits, SearchAnswer
from pipesched.pipeline.schedule import Schedule
from pipesched.solver.case import Candidate, Case
from pipesched.solver.neighbourhood import TimeWindow, WindowModel

SOURCE = "improvement"


def improve(case: Case, schedule: Schedule, limits: Limits, clock: Clock) -> Iterator[Candidate]:
    """Yield ever better schedules of a case until many windows in turn gain nothing, or the time is up."""
    search, policy = _WindowSearch(case, schedule, limits.seed), case.policy.windows
    least, workers = case.value(schedule), limits.workers or os.cpu_count() or 1
    longest = 0.0 if "ortools" in sys.modules else policy.loading  # seconds: what comes before the search of a window
    with ThreadPoolExecutor(workers) as pool:
        while search.fruitless < policy.fruitless and clock.left > longest:
            models, answers = [], []
            for window in search.windows(policy.each * workers if workers > 1 else 1):
                began = clock.seconds
                if clock.left <= longest:
                    break
                models.append(WindowModel(case, search.current, window))
                longest = max(longest, clock.seconds - began)
                given = limits._replace(seconds=clock.left, gap=0.0, effort=policy.effort, workers=1)
                answers.append(pool.submit(models[-1].solve, given))
            found = [answer.result() for answer in answers]
            search.take(models, found)
            if case.value(search.current) < least and search.current.fits:
                least, search.fruitless = case.value(search.current), 0
                yield Candidate(SOURCE, search.current)
            if any(answer.interrupted for answer in found) and not clock.is_stopped:
                raise KeyboardInterrupt
            sizes = [len(model.free) for model, answer in zip(models, found, strict=True) if answer.status == "optimal"]
            if len(case.graph) in sizes:  # the window was the whole schedule, and its best order is known
                return


class _WindowSearch:
    """The state of the search: the `current` schedule, the size of windows, how many have been `fruitless` in turn."""

    def __init__(self, case: Case, schedule: Schedule, seed: int) -> None:
        self.case, self.policy, self.random = case, case.policy.windows, Random(seed)
        self.current = case.replay(schedule.start_ticks)
        self.size, self.fruitless = float(self.policy.first_size), 0

    def windows(self, count: int) -> list[TimeWindow]:
        """Draw up to `count` windows of which no two overlap; at least one."""
        windows = [self._window()]
        for _ in range(self.policy.draws * (count - 1)):
            if len(windows) == count:
                break
            window = self._window()
            if all(window.end <= other.start or other.end <= window.start for other in windows):
                windows.append(window)
        return windows

    def _window(self) -> TimeWindow:
        """Return a random window of about `size` operations, every other time at a pause of the busiest device."""
        size, starts = int(self.size), sorted(self.current.start_ticks)
        last_first = max(len(starts) - size, 0)
        first = self.random.randint(-size // 2, last_first + size // 2)
        if self.random.random() < self.policy.pause_part and (pauses := _pauses(self.current)):
            first = bisect_left(starts, self.random.choice(pauses)) - size // 2
        first = min(max(first, 0), last_first)
        end = starts[first + size] if first + size < len(starts) else starts[-1] + 1
        return TimeWindow(starts[first], max(end, starts[first] + 1))

    def take(self, models: Sequence[WindowModel], answers: Sequence[SearchAnswer]) -> None:
        """Put the orders of windows that do not overlap into the current schedule, one after another.

        Each alone makes it no worse. Two may use the same slack, so an order that makes it worse is left out.
        """
        for model, answer in zip(models, answers, strict=True):
            if answer.starts:
                changed = model.schedule(answer.starts, self.current)
                if self._rank(changed) <= self._rank(self.current):
                    self.current = changed
            self.fruitless += 1
            if answer.status == "optimal":
                self.size = min(self.size * self.policy.growth, self.policy.most_size)
            else:
                self.size = max(self.size * self.policy.shrinkage, self.policy.least_size)

    def _rank(self, schedule: Schedule) -> tuple[int, int]:
        """Return the objective, and the sum of the ends of all devices."""
        return self.case.value(schedule), sum(ends[-1] for ends in schedule.slot_end_ticks if ends)


def _pauses(schedule: Schedule) -> list[int]:
    """Return when the pauses of the busiest device begin."""
    device = schedule.busy_ticks.index(max(schedule.busy_ticks))
    slots = zip(schedule.slot_end_ticks[device], schedule.slot_start_ticks[device][1:], strict=False)
    return [end for end, start in slots if start > end]
