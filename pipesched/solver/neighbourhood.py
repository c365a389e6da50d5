"""Large neighbourhood search (`improve`): the operations of a window of time are free, all others keep their order.

`improve` draws some windows that do not overlap, solves a `NeighbourhoodModel` of each, and takes what is no worse.
What runs before the neighbourhood gives the free operations heads; what runs after it keeps its order and gives them
tails, so that the model's objective is the whole schedule's.
"""

from __future__ import annotations

import os
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from random import Random
from typing import NamedTuple

from pipesched.core.clock import Clock, check_deadline, watched
from pipesched.core.cpsat import Limits, SearchAnswer
from pipesched.pipeline.bounds.memory import residences, says_all
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.solver.model import TunedModel
from pipesched.solver.variant import Candidate, Variant


class Neighbourhood(NamedTuple):
    """An interval of time, in ticks: operations with starts in [start, end) are free."""

    start: int
    end: int


class NeighbourhoodModel(TunedModel):
    """The model of the free operations, which are its tasks in the order of `free`; times are in quanta."""

    def __init__(self, variant: Variant, schedule: Schedule, neighbourhood: Neighbourhood) -> None:
        super().__init__(variant)
        self.old, self.quantum = schedule, variant.quantum
        starts = schedule.start_ticks
        begin, end = neighbourhood  # of each task: -1 before it, 0 free, 1 behind it
        self.side = [-1 if start < begin else int(start >= end) for start in starts]
        self.orders = [[task for task in order if not self.side[task]] for order in schedule.plan.orders]
        self.free = [task for order in self.orders for task in order]
        self.number = {task: number for number, task in enumerate(self.free)}
        self.value = variant.value(schedule)
        self._tasks()
        for task in self.free:
            for after, lag in variant.ordered.successors[task]:
                if after in self.number:
                    self.after(self.number[task], self.number[after], lag // self.quantum)
        for order in self.orders:
            self.one_at_a_time([self.number[task] for task in order])
        self._memory()
        self._objective()
        self.hint([starts[task] // self.quantum for task in self.free])

    def schedule(self, starts: Sequence[int], around: Schedule) -> Schedule:
        """Return the schedule `around` the neighbourhood with its operations in the order of `starts`, by tasks.

        `around` is that of the model, maybe with other orders in neighbourhoods that do not overlap this one.
        """

        def key(task: int) -> tuple[int, bool, int]:
            number = self.number[task]
            return starts[number], self.durations[number] > 0, self.variant.rank[task]

        orders = []
        for old, free in zip(around.plan.orders, self.orders, strict=True):
            ordered = iter(sorted(free, key=key))
            orders.append([next(ordered) if task in self.number else task for task in old])
        return schedule_plan(self.variant.problem, Plan(self.variant.index, orders))

    def _tasks(self) -> None:
        """Start each free operation after its inputs and what ran before on its device, and in time for its tail."""
        graph, ends = self.variant.ordered, self.old.end_ticks
        self.tails = self._old_tails()
        for old, free in zip(self.old.plan.orders, self.orders, strict=True):
            check_deadline()
            idle = max((ends[task] for task in old if self.side[task] < 0), default=0)
            for task in free:
                ready = (ends[before] + lag for before, lag in graph.predecessors[task] if self.side[before] < 0)
                first, time = max(idle, *ready, 0), graph.durations[task]
                last = self.value - self.tails[task] - time
                self.task(time // self.quantum, first // self.quantum, last // self.quantum)

    def _old_tails(self) -> list[int]:
        """Return the ticks from each operation to the last end of a device, less its origin, in the old order."""
        graph, starts = self.variant.ordered, self.old.start_ticks
        firsts = zip(self.old.first_start_ticks, self.variant.origins, strict=True)
        origin = [first if device.tasks else 0 for first, device in firsts]
        tails = [-origin[device] for device in graph.pools]
        following: dict[int, int] = {}
        for old, free in zip(self.old.plan.orders, self.orders, strict=True):
            check_deadline()
            suffix = [task for task in old if self.side[task] > 0]
            following.update(pairwise(suffix))
            following.update(dict.fromkeys(free, suffix[0]) if suffix else {})
        kept = [task for task, side in enumerate(self.side) if side >= 0]
        kept.sort(key=lambda task: (starts[task], self.old.end_ticks[task], self.variant.rank[task]), reverse=True)
        for task in watched(kept):
            if task in following:
                tails[task] = max(tails[task], graph.durations[following[task]] + tails[following[task]])
            for after, lag in graph.successors[task]:
                if self.side[after] > 0:
                    tails[task] = max(tails[task], lag + graph.durations[after] + tails[after])
        return tails

    def _memory(self) -> None:
        """Keep residences that reach into the neighbourhood within the capacity that those around all of it leave."""
        problem, forever = self.variant.problem, self.value // self.quantum * 2
        for device, capacity in enumerate(problem.capacity_grains):
            check_deadline()
            if capacity is None or not self.orders[device] or says_all(problem, device, self.variant.index):
                continue
            intervals, sizes, left = [], [], capacity
            for residence in residences(problem, self.variant.index, device):
                first, last = self.side[residence.first], self.side[residence.last]
                if first < 0 < last:
                    left -= residence.size
                elif first <= 0 <= last:
                    begin = 0 if first else self.begin(residence._replace(first=self.number[residence.first]))
                    end = forever if last else self.end(self.number[residence.last])
                    intervals.append(self.between(begin, end, forever))
                    sizes.append(residence.size)
            self.hold(intervals, sizes, left)

    def _objective(self) -> None:
        """Minimize the objective, and among equals the sum of its values device by device."""
        most = self.value // self.quantum
        goal = self.model.new_int_var(0, most, "")
        ends = [self.model.new_int_var(-most, most, "") for order in self.orders if order]
        for order, end in zip((order for order in self.orders if order), ends, strict=True):
            for task in order:
                self.model.add(self.end(self.number[task]) + self.tails[task] // self.quantum <= end)
            self.model.add(end <= goal)
        self.model.minimize(goal * (len(ends) + 1) * 4 + sum(ends))


SOURCE = "improvement"


def improve(variant: Variant, schedule: Schedule, limits: Limits, clock: Clock) -> Iterator[Candidate]:
    """Yield ever better schedules of a variant until many neighbourhoods in turn gain nothing, or the time is up."""
    search, policy = _NeighbourhoodSearch(variant, schedule, limits.seed), variant.policy.neighbourhoods
    least, workers = variant.value(schedule), limits.workers or os.cpu_count() or 1
    longest = 0.0 if "ortools" in sys.modules else 0.4  # seconds: to load OR-Tools, or what comes before a search
    with ThreadPoolExecutor(workers) as pool:
        while search.fruitless < policy.fruitless and clock.left > longest:
            models, answers = [], []
            for neighbourhood in search.neighbourhoods(2 * workers if workers > 1 else 1):
                began = clock.seconds
                if clock.left <= longest:
                    break
                models.append(NeighbourhoodModel(variant, search.current, neighbourhood))
                longest = max(longest, clock.seconds - began)
                given = limits._replace(seconds=clock.left, gap=0.0, effort=policy.effort, workers=1)
                answers.append(pool.submit(models[-1].solve, given))
            found = [answer.result() for answer in answers]
            search.take(models, found)
            if variant.value(search.current) < least and search.current.fits:
                least, search.fruitless = variant.value(search.current), 0
                yield Candidate(SOURCE, search.current)
            if any(answer.interrupted for answer in found) and not clock.is_stopped:
                raise KeyboardInterrupt
            sizes = [len(model.free) for model, answer in zip(models, found, strict=True) if answer.status == "optimal"]
            if len(variant.graph) in sizes:  # the neighbourhood was the whole schedule, and its best order is known
                return


class _NeighbourhoodSearch:
    """The search: the `current` schedule, the size of neighbourhoods, how many have been `fruitless` in turn."""

    def __init__(self, variant: Variant, schedule: Schedule, seed: int) -> None:
        self.variant, self.policy, self.random = variant, variant.policy.neighbourhoods, Random(seed)
        self.current = variant.replay(schedule.start_ticks)
        self.size, self.fruitless = float(self.policy.first_size), 0

    def neighbourhoods(self, count: int) -> list[Neighbourhood]:
        """Draw up to `count` neighbourhoods of which no two overlap; at least one."""
        neighbourhoods = [self._neighbourhood()]
        for _ in range(8 * (count - 1)):
            if len(neighbourhoods) == count:
                break
            neighbourhood = self._neighbourhood()
            if all(neighbourhood.end <= other.start or other.end <= neighbourhood.start for other in neighbourhoods):
                neighbourhoods.append(neighbourhood)
        return neighbourhoods

    def _neighbourhood(self) -> Neighbourhood:
        """Return a random one of about `size` operations, every other time at a pause of the busiest device."""
        now, size, starts = self.current, int(self.size), sorted(self.current.start_ticks)
        last_first = max(len(starts) - size, 0)
        first = self.random.randint(-size // 2, last_first + size // 2)
        busiest = now.busy_ticks.index(max(now.busy_ticks))
        ends, begins = now.slot_end_ticks[busiest], now.slot_start_ticks[busiest]
        pauses = [end for end, start in zip(ends, begins[1:], strict=False) if start > end]
        if self.random.random() < 1 / 2 and pauses:
            first = bisect_left(starts, self.random.choice(pauses)) - size // 2
        first = min(max(first, 0), last_first)
        end = starts[first + size] if first + size < len(starts) else starts[-1] + 1
        return Neighbourhood(starts[first], max(end, starts[first] + 1))

    def take(self, models: Sequence[NeighbourhoodModel], answers: Sequence[SearchAnswer]) -> None:
        """Put the orders of neighbourhoods that do not overlap into the current schedule, one after another.

        Each alone makes it no worse. Two may use the same slack, so an order that makes it worse is left out.
        """
        for model, answer in zip(models, answers, strict=True):
            if answer.starts:
                changed = model.schedule(answer.starts, self.current)
                if self._rank(changed) <= self._rank(self.current):
                    self.current = changed
            self.fruitless += 1
            if answer.status == "optimal":
                self.size = min(self.size * 1.15, self.policy.most_size)
            else:
                self.size = max(self.size * 0.8, self.policy.least_size)

    def _rank(self, schedule: Schedule) -> tuple[int, int]:
        """Return the objective, and the sum of the ends of all devices."""
        return self.variant.value(schedule), sum(ends[-1] for ends in schedule.slot_end_ticks if ends)
