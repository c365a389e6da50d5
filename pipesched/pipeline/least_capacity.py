"""The floor of a device: the least capacity at which any order exists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipesched.errors import NoSchedule, Remedy
from pipesched.pipeline.kinds import KEEP_ONLY, Allowed
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import in_units


def least_capacity(problem: Problem, device: int, allowed: Allowed = KEEP_ONLY) -> int:
    """Return the activation memory, in grains, that a device needs for any order at all.

    The stage that runs needs its whole activation, and with a split backward what its I takes beside it, while the
    earlier stages of the same device hold theirs of that microbatch: all of it, a checkpoint if it may be recomputed,
    nothing if it may be offloaded. Where the placement is mirrored, a device runs one direction at a time, and of each
    a single stage.
    """
    placement, sizes = problem.settled_placement, _needed(problem)
    if placement.mirrored:
        return max(
            (sizes[stage] for stage in placement.stages_on(device) if _serves(problem, device, stage)), default=0
        )
    held_by_stage = _held(problem, allowed)
    floor = held = 0
    for stage in placement.stages_on(device):
        floor = max(floor, held + sizes[stage])
        held += held_by_stage[stage]
    return floor


def _needed(problem: Problem) -> Sequence[int]:
    """Return what each stage holds of a microbatch at its highest."""
    sizes, caught = problem.grains.activation, problem.grains.caught
    return [size + more for size, more in zip(sizes, caught, strict=True)] if problem.costs.split else sizes


def _serves(problem: Problem, device: int, stage: int) -> bool:
    """Return whether some microbatch runs a stage on a device: with one microbatch, one direction has none."""
    copies = problem.settled_placement.copies(stage, problem.microbatches)
    return any(copy == device for copy, _ in copies)


def _held(problem: Problem, allowed: Allowed) -> Sequence[int]:
    """Return the least that each stage holds of a microbatch between its forward and its backward."""
    if allowed.offload:
        return (0,) * problem.stages
    return problem.grains.checkpointed if allowed.recompute else problem.grains.activation


def require_least_capacity(problem: Problem, allowed: Allowed = KEEP_ONLY) -> None:
    """Raise NoSchedule, with changes that would help, when a device's capacity is below its floor."""
    scale, unit = problem.grains.per_unit, problem.memory.unit
    for device, capacity in enumerate(problem.capacity_grains):
        floor = least_capacity(problem, device, allowed)
        if capacity is None or capacity >= floor:
            continue
        static = problem.static_grains(device)
        least = in_units(floor + static, scale)
        budget = in_units(capacity + static, scale)
        would_fit = [Remedy(f"a budget of {least} {unit} on device {device}", "budget")]
        if _largest(problem, device) <= capacity and not problem.settled_placement.mirrored:
            would_fit.append(Remedy("fewer stages a device", "stages"))
        would_fit += _actions_that_fit(problem, device, capacity)
        raise NoSchedule(
            f"device {device} needs a budget of at least {least} {unit} to run one microbatch,"
            f" and its budget is {budget}",
            device=device,
            floor=least,
            budget=budget,
            would_fit=would_fit,
        )


def _largest(problem: Problem, device: int) -> int:
    """Return the most that a stage on a device holds of a microbatch, in grains: any order must hold it."""
    needed = _needed(problem)
    return max(needed[stage] for stage in problem.settled_placement.stages_on(device))


def _actions_that_fit(problem: Problem, device: int, capacity: int) -> Iterator[Remedy]:
    """Yield the parameters of `solve` with which the capacity of a device is enough."""
    actions = [("recompute", Allowed(recompute=True))]
    if problem.costs.offload is not None:
        actions.append(("offload", Allowed(offload=True)))
    for name, allowed in actions:
        if least_capacity(problem, device, allowed) <= capacity:
            yield Remedy(f"solve with `{name}`", name)
