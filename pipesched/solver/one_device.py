"""A bound by CP-SAT on one device, where a small model may close most of a gap that the whole case cannot."""

from __future__ import annotations

from pipesched.core.bounds import jackson_preemptive
from pipesched.core.clock import Clock
from pipesched.core.paths import tails
from pipesched.pipeline.bounds import Bound
from pipesched.solver.bounds import jobs_of
from pipesched.solver.case import Case
from pipesched.solver.device_model import DeviceModel
from pipesched.solver.search import Search


def raise_by_device(search: Search, number: int, clock: Clock) -> None:
    """Raise the bound on the makespan of a case by what the device with the highest bound needs alone.

    Only the case with the least bound of all is worth it. One worker proves that sooner than two. Raises
    KeyboardInterrupt.
    """
    case = search.cases[number]
    least, most = search.bounds[number].ticks, search.value - case.quantum
    if search.best is None or least > most or least > search.bound.ticks or clock.is_over or not suits(case):
        return
    search.at(f"one device, {case.name}")
    device = most_promising(case)
    limits = search.limits._replace(seconds=clock.left, effort=case.policy.exact.device_effort, gap=0.0, workers=1)
    answer = DeviceModel(case, device, least, most).solve(limits)
    quanta = most // case.quantum + 1 if answer.status == "infeasible" else answer.bound
    search.raise_bound(number, Bound(quanta * case.quantum, f"CP-SAT on device {device} alone"))
    if answer.interrupted and not search.clock.is_stopped:
        raise KeyboardInterrupt


def suits(case: Case) -> bool:
    """Return whether the devices of a case have models that are right, and neither too small nor too large."""
    problem, policy = case.problem, case.policy.exact
    if case.objective != "makespan" or not case.keeps_activations or problem.costs.overlap is not None:
        return False
    pools = case.graph.pools
    sizes = [pools.count(device) for device in range(problem.devices)]
    is_limited = any(capacity is not None for capacity in problem.capacity_grains)
    return problem.devices > 1 and policy.least_on_device <= max(sizes) <= policy.most_on_device and is_limited


def most_promising(case: Case) -> int:
    """Return the device with a limit that has the highest bound."""
    after = tails(case.ordered)
    limited = [device for device, capacity in enumerate(case.problem.capacity_grains) if capacity is not None]
    return max(limited, key=lambda device: jackson_preemptive(jobs_of(case, device, after, 0)))
