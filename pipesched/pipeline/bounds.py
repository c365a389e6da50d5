"""Lower bounds on the makespan of a problem, for its placement and for the way a plan splits the backward.

Without memory in the way all microbatches are alike, so the paths of one microbatch give the heads and tails of all,
and each operation of it stands for M jobs of equal head and tail.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd
from typing import NamedTuple

from pipesched.core.bounds import Job, critical_path, head_work_tail, jackson_preemptive, memory_area
from pipesched.core.paths import heads, longest_path, tails
from pipesched.core.tasks import TaskGraph
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule


class Bound(NamedTuple):
    """No schedule is shorter than `ticks`; `reason` says which bound it is, and where it binds."""

    ticks: int
    reason: str


def lower_bound(schedule: Schedule) -> Bound:
    """The best bound on the makespan that applies to `schedule`.

    It holds for its placement and its kinds of operations. Bounds that count the budget apply only to a schedule
    that fits it. Every makespan is a sum of costs, so the bound is rounded up to a multiple of their common divisor.
    """
    single = _Single(schedule.problem, schedule.plan.index.kinds, paired=bool(schedule.plan.pairs))
    best = max(_bounds(single, within_budget=schedule.fits), key=lambda bound: bound.ticks)
    return best._replace(ticks=-(-best.ticks // single.quantum) * single.quantum)


def problem_bounds(problem: Problem, kinds: str, *, paired: bool) -> Iterator[Bound]:
    """Bounds on the makespan of every schedule of these kinds within the budget; `paired`: F and B may overlap."""
    return _bounds(_Single(problem, kinds, paired), within_budget=True)


def work_bounds(problem: Problem, kinds: str, *, paired: bool) -> Iterator[Bound]:
    """The least work of each device: no span is shorter."""
    for device, jobs in enumerate(_Single(problem, kinds, paired).jobs()):
        yield Bound(sum(job.work for job in jobs), f"work of device {device}")


def _bounds(single: _Single, *, within_budget: bool) -> Iterator[Bound]:
    yield Bound(critical_path(single.path_graph), "critical path of one microbatch")
    for device, jobs in enumerate(single.jobs()):
        yield Bound(head_work_tail(jobs), f"head + work + tail of device {device}")
        yield Bound(jackson_preemptive(jobs), f"Jackson's preemptive schedule of device {device}")
    if within_budget:
        for device, room in enumerate(single.problem.room()):
            if room:
                yield Bound(single.area_bound(device, room), f"memory area of device {device}")


class _Single:
    """One microbatch of a problem: the task graphs of its operations alone."""

    def __init__(self, problem: Problem, kinds: str, paired: bool) -> None:
        self.recompute, self.offload = "R" in kinds, "O" in kinds  # allowed, whether a schedule does it or not
        self.problem, self.placement = problem, problem.home()
        # A full B among split ones is I and W without a pause: bound by the freer of the two.
        self.index = OpIndex("FIW" if "I" in kinds else "FB", problem.stages, 1)
        straight = replace(self.placement, mirrored=False)
        self.work_graph = lower(replace(problem, microbatches=1, placement=straight), self.index)
        self.path_graph = self.work_graph
        self.durations = self.work_graph.durations
        if paired and problem.costs.overlap is not None:
            self.work_graph, self.path_graph = self._shortened_by_pairs(problem.costs.overlap)

    @property
    def quantum(self) -> int:
        """The greatest common divisor of all costs that occur, in ticks (1 when nothing takes time)."""
        lags = (edge.lag for edge in self.work_graph.edges)
        costs = self.problem.costs
        saving = [*(costs.recompute if self.recompute else ()), *((costs.offload or ()) if self.offload else ())]
        saving += (costs.reload or ()) if self.offload else ()
        return gcd(*self.durations, *lags, *(costs.overlap or ()), *saving) or 1

    def _shortened_by_pairs(self, overlap: tuple[int, ...]) -> tuple[TaskGraph, TaskGraph]:
        """Durations that hold in pairs too, for work and for paths.

        A backward counts at most the shortest pair, a forward's work what its pair lasts beyond the longest backward,
        so the two never count more than their pair.
        """
        longest, shortest = max(self.problem.costs.backward), min(overlap)
        work, path = list(self.work_graph.durations), list(self.work_graph.durations)
        for stage, pair in enumerate(overlap):
            forward = self.index.row("F", stage)[0]
            path[forward] = min(path[forward], pair)
            work[forward] = max(0, min(work[forward], pair - longest))
            left = shortest
            for kind in self.index.kinds[1:]:
                backward = self.index.row(kind, stage)[0]
                path[backward] = work[backward] = min(path[backward], left)
                left -= path[backward]
        return replace(self.work_graph, durations=work), replace(self.work_graph, durations=path)

    def jobs(self) -> list[list[Job]]:
        """For each device, its operations with heads and tails; one of a stage stands for all microbatches there."""
        before, after = heads(self.path_graph), tails(self.path_graph)
        jobs: list[list[Job]] = [[] for _ in range(self.problem.devices)]
        for number, (head, tail) in enumerate(zip(before, after, strict=True)):
            home, time = self.placement.devices[self.index.op(number).stage], self.work_graph.durations[number]
            for device, count in self._shares(home):
                jobs[device].append(Job(head, count * time, tail))
        return jobs

    def _shares(self, home: int) -> list[tuple[int, int]]:
        """The devices of a stage, and how many microbatches run it there."""
        count = self.problem.microbatches
        if not self.placement.mirrored:
            return [(home, count)]
        return [(home, count // 2), (self.problem.devices - 1 - home, count - count // 2)]

    def area_bound(self, device: int, room: int) -> int:
        """core.bounds.memory_area on a device: a microbatch resides from the start of F to the end of B, or of I; what
        is retained then stays for W's own time at the least. Recompute and offload shorten that, where allowed."""
        memory, graph, index = self.problem.memory, self.path_graph, self.index
        before, after = heads(graph), tails(graph)
        area, head, tail = 0, [], []
        for stage in self.placement.stages_on(device):
            first, freeing = index.row("F", stage)[0], index.row(index.kinds[1], stage)[0]
            residence = self._residence(stage, first, freeing)
            if "W" in index.kinds and memory.retained[stage]:
                freeing = index.row("W", stage)[0]
                residence += memory.retained[stage] * graph.durations[freeing]
            shares = self._shares(self.placement.devices[stage])
            area += residence * sum(count for home, count in shares if home == device)
            if memory.activation[stage]:
                head.append(before[first])
                tail.append(after[freeing])
        return memory_area(area, room, min(head, default=0), min(tail, default=0))

    def _residence(self, stage: int, forward: int, backward: int) -> int:
        """The least memory x time of one activation up to the end of its B or I: kept, recomputed or offloaded."""
        costs, memory, durations = self.problem.costs, self.problem.memory, self.path_graph.durations
        whole, kept = memory.activation[stage], memory.checkpointed[stage]
        long, short = longest_path(self.path_graph, forward, backward), durations[forward] + durations[backward]
        areas = [whole * long]
        if self.recompute:
            areas.append(kept * long + (whole - kept) * min(long, short + costs.recompute[stage]))
        if self.offload and costs.offload is not None and costs.reload is not None:
            areas.append(whole * (short + costs.offload[stage] + costs.reload[stage]))
        return min(areas)
