"""Lower bounds on the objective of a case, the budget included. The largest counts; its `reason` says which it is.

The ordered graph holds the budget as precedences (pipeline/capacity.py), so its heads and tails differ from microbatch
to microbatch, and its longest path runs through one residence after another: ceil(M/k) where a device may hold k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipesched.core.bounds import Job, jackson_preemptive
from pipesched.core.clock import TimeIsUp
from pipesched.core.paths import UNREACHED, heads, tails
from pipesched.pipeline.bounds import Bound, alone_bounds, highest, problem_bounds, work_bounds
from pipesched.solver.case import Case
from pipesched.solver.step_rules import StepRules


def keeping_bound(case: Case) -> Bound:
    """Return the best bound, in time, on the objective of a case whose activations are all kept (0 if none was)."""
    return highest(_until_time_is_up(_keeping_bounds(case)), case.quantum)


def saving_bound(case: Case, letters: str) -> Bound:
    """Return the best bound on a case that may run `letters`: weaker than `keeping_bound`, as no budget counts."""
    return highest(_until_time_is_up(_saving_bounds(case, letters)), case.quantum)


def _until_time_is_up(bounds: Iterator[Bound]) -> Iterator[Bound]:
    yield Bound(0, "")
    try:
        yield from bounds
    except TimeIsUp:
        return


def _keeping_bounds(case: Case) -> Iterator[Bound]:
    letters, paired = case.index.letters, case.problem.costs.overlap is not None
    if case.objective == "makespan":
        yield from problem_bounds(case.problem, letters, paired=paired)
    else:
        yield from work_bounds(case.problem, letters, paired=paired)
    if not paired:  # the graph has no pairs
        yield from _span_bounds(case) if case.objective == "span" else _budget_bounds(case)


def step_bounds(case: Case, rules: StepRules) -> Iterator[Bound]:
    """Yield bounds, in time, on the objective of a case with a step."""
    return _until_time_is_up(_step_bounds(case, rules))


def _step_bounds(case: Case, rules: StepRules) -> Iterator[Bound]:
    letters, paired = case.index.letters, case.problem.costs.overlap is not None
    if case.objective == "span":
        yield from work_bounds(case.problem, letters, paired=paired)
        if not paired and case.problem.stages * len(case.graph) <= case.policy.bounds.most_steps:
            yield from rules.span_bounds()
        return
    yield from problem_bounds(case.problem, letters, paired=paired)
    if case.problem.memory.budget is not None and not paired:
        yield from rules.bounds()


def _saving_bounds(case: Case, letters: str) -> Iterator[Bound]:
    problem, paired = case.problem, case.problem.costs.overlap is not None
    if case.objective == "makespan":
        yield from problem_bounds(problem, letters, paired=paired)
        return
    known = [*work_bounds(problem, letters, paired=paired)]
    if not paired and not problem.settled_placement.mirrored:
        known.append(_alone(case, problem.settled_placement.devices[0], case.heads))
    yield from known
    yield from alone_bounds(problem, letters, paired=paired, least=max(bound.ticks for bound in known))


def _budget_bounds(case: Case) -> Iterator[Bound]:
    """Yield what the budget adds to the makespan."""
    if case.problem.memory.budget is None:
        return
    graph, after = case.ordered, tails(case.ordered)
    longest = max(head + time + tail for head, time, tail in zip(case.heads, graph.durations, after, strict=True))
    yield Bound(longest, "residences one after another under the budget")
    for device in range(case.problem.devices):
        jobs = jobs_of(case, device, case.heads, after)
        yield Bound(jackson_preemptive(jobs), f"Jackson's preemptive schedule of device {device} under the budget")


def _span_bounds(case: Case) -> Iterator[Bound]:
    """Yield what a device must do after its first start; its last end counts, not the last end of all."""
    problem = case.problem
    every = problem.devices * len(case.graph) <= case.policy.bounds.most_steps
    for device, origin in enumerate(case.origins):
        if len(origin.tasks) == 1 and (every or device == 0):
            begun = [UNREACHED] * len(case.ordered)
            begun[origin.tasks[0]] = 0
            suffix = "" if problem.memory.budget is None else " under the budget"
            bound = _alone(case, device, heads(case.ordered, begun))
            yield Bound(bound.ticks, f"{bound.reason}{suffix}")


def _alone(case: Case, device: int, since: Sequence[int]) -> Bound:
    """Return the time from the first start of a device, `since` which its operations have heads, to its last end."""
    ends = [0 if there == device else UNREACHED for there in case.ordered.resources]  # no other device counts
    jobs = jobs_of(case, device, since, tails(case.ordered, ends))
    return Bound(jackson_preemptive(jobs), f"Jackson's preemptive schedule of device {device} alone")


def jobs_of(case: Case, device: int, since: Sequence[int], after: Sequence[int]) -> list[Job]:
    """Return the operations of a device with the ticks `since` a start before them, and those `after` them."""
    graph = case.ordered
    return [Job(since[task], graph.durations[task], after[task]) for task in case.tasks_on[device]]
