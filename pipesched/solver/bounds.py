"""Lower bounds on the objective of a variant, the budget included. The largest counts; its `reason` says which it is.

Each kind of variant (variant.py: one search) has its function (`plain_bounds`, `step_bounds`,
`recompute_offload_bounds`); `raise_by_device` then solves the device with the largest bound exactly.

The ordered graph holds the budget as precedences (pipeline/bounds/memory.py). Head and tail of an operation are the
longest paths before and behind it. They differ from microbatch to microbatch, and the longest path of all runs through
one residence after another: ceil(M/k) where a device may hold k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import add

from pipesched.core.arrays import ceil_div
from pipesched.core.bounds import Job, jackson_preemptive
from pipesched.core.clock import Clock, check_deadline
from pipesched.core.timing import UNREACHED, heads, tails
from pipesched.pipeline.bounds.bounds import Bound, PassBounds, budget_bounds, problem_bounds, work_bounds
from pipesched.pipeline.bounds.memory import capacity_edges, order_edges, residences
from pipesched.solver.model import TunedModel, latest_starts
from pipesched.solver.search import Search
from pipesched.solver.step_model import StepRules
from pipesched.solver.variant import Variant


def plain_bounds(variant: Variant) -> Iterator[Bound]:
    """Yield bounds on the objective of a variant whose activations are all kept."""
    problem, letters, paired = variant.problem, variant.letters, variant.problem.costs.overlap is not None
    if variant.objective == "span":
        yield from work_bounds(problem, letters, paired=paired)
        suffix = "" if problem.memory.budget is None else " under the budget"
        every = problem.devices * len(variant.graph) <= 2_000_000  # operations: beyond it that takes seconds
        for device, origin in enumerate(variant.origins if every else variant.origins[:1]):
            if len(origin.tasks) == 1 and not paired:  # the last end of a device counts; the graph has no pairs
                begun = [UNREACHED] * len(variant.ordered)
                begun[origin.tasks[0]] = 0
                bound = _alone(variant, device, heads(variant.ordered, begun))
                yield Bound(bound.ticks, f"{bound.reason}{suffix}")
        return
    yield from problem_bounds(problem, letters, paired=paired)
    if problem.memory.budget is None or paired:
        return
    graph, after = variant.ordered, tails(variant.ordered)
    longest = max(head + time + tail for head, time, tail in zip(variant.heads, graph.durations, after, strict=True))
    yield Bound(longest, "residences one after another under the budget")
    for device in range(problem.devices):
        jobs = jobs_of(variant, device, variant.heads, after)
        yield Bound(jackson_preemptive(jobs), f"Jackson's preemptive schedule of device {device} under the budget")


def step_bounds(variant: Variant, rules: StepRules) -> Iterator[Bound]:
    """Yield bounds on the objective of a variant with a step."""
    letters, paired = variant.index.letters, variant.problem.costs.overlap is not None
    if variant.objective == "span":
        yield from work_bounds(variant.problem, letters, paired=paired)
        if not paired and variant.problem.stages * len(variant.graph) <= 2_000_000:  # as above
            yield from rules.span_bounds()
        return
    yield from problem_bounds(variant.problem, letters, paired=paired)
    if variant.problem.memory.budget is not None and not paired:
        yield from rules.bounds()


def recompute_offload_bounds(variant: Variant, letters: str) -> Iterator[Bound]:
    """Yield bounds on a variant that may run `letters`: weaker than `plain_bounds`, as no budget counts."""
    problem, paired = variant.problem, variant.problem.costs.overlap is not None
    if variant.objective == "makespan":
        yield from problem_bounds(problem, letters, paired=paired)
        return
    known = [*work_bounds(problem, letters, paired=paired)]
    if not paired and len(problem.settled_placement.ways) == 1:
        known.append(_alone(variant, problem.settled_placement.devices[0], variant.heads))
    yield from known
    single = PassBounds(problem, letters, paired=paired)  # and by what the budget lets a device keep
    yield from budget_bounds(single, max(bound.ticks for bound in known), alone=True)


def _alone(variant: Variant, device: int, since: Sequence[int]) -> Bound:
    """Return the time from the first start of a device to its last end; `since` are the heads of all operations."""
    ends = [0 if there == device else UNREACHED for there in variant.ordered.resources]  # no other device counts
    jobs = jobs_of(variant, device, since, tails(variant.ordered, ends))
    return Bound(jackson_preemptive(jobs), f"Jackson's preemptive schedule of device {device} alone")


def jobs_of(variant: Variant, device: int, since: Sequence[int], after: Sequence[int]) -> list[Job]:
    """Return the operations of a device with the ticks `since` a start before them, and those `after` them."""
    graph = variant.ordered
    return [Job(since[task], graph.durations[task], after[task]) for task in variant.tasks_on[device]]


def raise_by_device(search: Search, number: int, clock: Clock) -> None:
    """Raise the bound on the makespan of a variant by what the device with the highest bound needs alone.

    Only the variant with the least bound of all is worth it. One worker proves that sooner than two. Raises
    KeyboardInterrupt.
    """
    variant = search.variants[number]
    least, most = search.bounds[number].ticks, search.value - variant.quantum
    lowest = min(bound.ticks for bound in search.bounds)
    if search.best is None or least > most or least > lowest or clock.is_over or not suits(variant):
        return
    search.tell(f"one device, {variant.name}")
    device = most_promising(variant)
    limits = search.limits._replace(seconds=clock.left, effort=12.0, gap=0.0, workers=1)
    answer = DeviceModel(variant, device, least, most).solve(limits)
    quanta = most // variant.quantum + 1 if answer.status == "infeasible" else answer.bound
    search.raise_bound(number, Bound(quanta * variant.quantum, f"CP-SAT on device {device} alone"))
    if answer.interrupted and not search.clock.is_stopped:
        raise KeyboardInterrupt


def suits(variant: Variant) -> bool:
    """Return whether the devices of a variant have models that are right, and neither too small nor too large."""
    problem = variant.problem
    if variant.objective != "makespan" or not variant.keeps_activations or problem.costs.overlap is not None:
        return False
    may_join = variant.letters != variant.index.letters  # a whole backward catches no gradients
    if may_join and any(problem.grains.largest["caught"]):
        return False
    largest = max(map(len, variant.tasks_on))
    is_limited = any(capacity is not None for capacity in problem.capacity_grains)
    return problem.devices > 1 and 48 <= largest <= 120 and is_limited  # else CP-SAT proves the whole variant, or none


def most_promising(variant: Variant) -> int:
    """Return the device with a limit that has the highest bound."""
    after = tails(variant.ordered)
    limited = [device for device, capacity in enumerate(variant.problem.capacity_grains) if capacity is not None]
    return max(limited, key=lambda device: jackson_preemptive(jobs_of(variant, device, variant.heads, after)))


class DeviceModel(TunedModel):
    """The model of the operations of one device, with a makespan in [least, most] ticks; times are in quanta.

    Take a schedule of the variant whose makespan is in that range, its microbatches in order, and leave out all
    operations of other devices: it keeps every rule here. Each operation starts no earlier than its head and ends no
    later than its tail demands, both longest paths in the ordered graph of the variant. Two of them are as far apart as
    the longest path between them through other devices. And the device runs one at a time and holds no more than its
    capacity. So the least makespan of the model is at most that of the variant.
    """

    def __init__(self, variant: Variant, device: int, least: int, most: int) -> None:
        super().__init__(variant)
        self.own = variant.tasks_on[device]
        self.number = {task: number for number, task in enumerate(self.own)}
        quantum, graph, latest = variant.quantum, variant.graph, latest_starts(variant, most)
        for task in self.own:
            self.task(graph.durations[task] // quantum, variant.heads[task] // quantum, latest[task] // quantum)
        self.horizon = max(map(add, latest, graph.durations)) // quantum
        self._distances()
        problem, index = variant.problem, variant.index
        for edges in (*order_edges(problem, index), *capacity_edges(problem, index)):
            for before, behind, lag in edges:
                if before in self.number and behind in self.number:
                    self.after(self.number[before], self.number[behind], lag // quantum)
        capacity, held = problem.capacity_grains[device], residences(problem, index, device)
        if capacity is not None and held:
            stays = [stay._replace(first=self.number[stay.first], last=self.number[stay.last]) for stay in held]
            self.keep_within(stays, capacity)
        self.one_at_a_time(range(len(self.own)))
        after = tails(variant.ordered)
        self.shortest([after[task] // quantum for task in self.own], ceil_div(least, quantum), most // quantum)

    def _distances(self) -> None:
        """Start each operation as long after others of the device as the way through other devices takes."""
        for task in self.own:
            check_deadline()
            graph, longest, pending = self.variant.graph, {task: 0}, [task]
            found: dict[int, int] = {}  # the operations of the device that it leads to: ticks from start to start
            while pending:
                here = pending.pop()
                for after, lag in graph.successors[here]:
                    ticks = longest[here] + graph.durations[here] + lag
                    if after in self.number:
                        found[after] = max(ticks, found.get(after, 0))
                    elif ticks > longest.get(after, -1):
                        longest[after] = ticks
                        pending.append(after)
            for after, ticks in found.items():
                before, behind = self.starts[self.number[task]], self.starts[self.number[after]]
                self.model.add(behind >= before + ticks // self.variant.quantum)
