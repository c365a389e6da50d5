"""What the capacity of a device asks: a floor without which no order exists, room that I needs, and capacity edges.

Where more than its activation is retained of a microbatch (`retain` above 1), the start of I takes memory, and only its
W frees some. A device full of activations could then start no I, so every F leaves that room.

Capacity edges are precedences that follow from a memory budget. With microbatches in order (a symmetry: they are
alike), the start of F(s,j) proves how many microbatches must have left the device. Of the chunks c' <= c that a device
holds up to stage s = s_c, microbatch j holds all, none has freed more than j microbatches, and an earlier chunk has
freed no more I (or B) than a later one. With capacity R, sizes a, the sums A_c of the sizes of the chunks 0..c, and
what W frees r:

    F(s_c, j) after I or B(s_c', j - 1 - (R - A_c) // A_c')
    F(s_c, j) after W(s_c', j - 1 - (R - A_c) // r_c')

Where every F leaves room for the next I of the device, R is less by the least that an I takes there, and r_c' is a_c',
which any microbatch holds until its W.

With one stage a device and nothing freed in halves, these edges are the whole budget: one of k activations means F(s,j)
after (s,j-k) is freed. They lengthen heads and tails, so that Jackson's bound counts the budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate

from pipesched.checks import shown
from pipesched.core.tasks import Edge
from pipesched.errors import NoSchedule, Remedy
from pipesched.pipeline.kinds import KEEP_ONLY, Allowed
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import in_units, plain, rounded
from pipesched.pipeline.units import FORWARD_ONLY


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
    if problem.mode == FORWARD_ONLY:
        return [_forward_peak(problem, stage) for stage in range(problem.stages)]
    if problem.slices.count > 1:
        sizes = tuple(size + _cached_gradients(problem, stage) for stage, size in enumerate(sizes))
    return [size + more for size, more in zip(sizes, caught, strict=True)] if problem.costs.split else sizes


def _cached_gradients(problem: Problem, stage: int) -> int:
    """Return the most that the gradients of keys and values of a microbatch take on a stage, at the last slice."""
    row, count = problem.unit_grains.cached[stage], problem.slices.count
    return max(sum(row[first : first + count - 1]) for first in range(0, len(row), count))


def _forward_peak(problem: Problem, stage: int) -> int:
    """Return the most that a stage holds of a microbatch that it runs forward alone, slice after slice."""
    grains, count = problem.unit_grains, problem.slices.count
    whole, cached = grains.activation[stage], grains.cached[stage]
    return max(sum(cached[unit - unit % count : unit]) + size for unit, size in enumerate(whole))


def _serves(problem: Problem, device: int, stage: int) -> bool:
    """Return whether some microbatch runs a stage on a device: with one microbatch, one direction has none."""
    copies = problem.settled_placement.copies(stage, problem.microbatches)
    return any(copy == device for copy, _ in copies)


def _held(problem: Problem, allowed: Allowed) -> Sequence[int]:
    """Return the least that each stage holds of a microbatch between its forward and its backward."""
    if allowed.offload or problem.mode == FORWARD_ONLY:
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
        typed = shown(plain(rounded(Fraction(floor + static, scale), up=True)))
        would_fit = [Remedy(f"a budget of {typed} {unit} on device {device}", "budget")]
        if _largest(problem, device) <= capacity and not problem.settled_placement.mirrored:
            would_fit.append(Remedy("fewer stages a device", "stages"))
        would_fit += _actions_that_fit(problem, device, capacity)
        raise NoSchedule(
            f"device {device} needs a budget of at least {typed} {unit} to run one microbatch,"
            f" and its budget is {shown(budget)}",
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


def least_headroom(problem: Problem, device: int, index: OpIndex) -> int:
    """Return the grains that at least are free on a device whenever it starts an F: what the next I there takes.

    Nothing, where I and W take no time at all: then it is there and gone within an instant.
    """
    if "B" in index.letters or "I" not in index.letters or problem.has_units:
        return 0
    ticks, caught = problem.ticks, problem.grains.caught
    takes_time = [first + last > 0 for first, last in zip(ticks.backward_input, ticks.backward_weight, strict=True)]
    stages = problem.settled_placement.stages_on(device)
    return min((caught[stage] if takes_time[stage] else 0 for stage in stages), default=0)


def forward_headrooms(problem: Problem, index: OpIndex) -> list[int]:
    """Return for each operation the grains that are to stay free beside what it takes: with F, what any I there takes.

    With slices, what the gradients of keys and values of any microbatch take too. Empty where no backward takes memory.
    """
    caught = problem.grains.caught if "I" in index.letters else (0,) * problem.stages
    if problem.slices.count > 1 and problem.mode != FORWARD_ONLY:
        caught = tuple(more + _cached_gradients(problem, stage) for stage, more in enumerate(caught))
    if not any(caught):
        return []
    placement, count = problem.settled_placement, index.microbatches
    most = [
        max((caught[stage] for stage in placement.stages_on(device)), default=0) for device in range(problem.devices)
    ]

    def row(kind: str, stage: int) -> list[int]:
        if kind != "F":
            return [0] * index.units
        ways = placement.directions(count)
        return [most[placement.device(stage, way[0], count)] for way in ways for _ in range(len(way) * index.slices)]

    return index.spread(row)


def order_edges(problem: Problem, index: OpIndex) -> Iterator[Edge]:
    """Yield the edges that put microbatches in order, by stage and kind (in each half where the placement is mirrored).

    They cost nothing without offload and recompute: equal operations wait alike, so sorting those of a row by
    microbatch breaks no rule. None where the problem has units, which are not alike.
    """
    if problem.has_units:
        return
    directions = problem.settled_placement.directions(index.microbatches)
    for kind in index.letters:
        for row in index.rows(kind):
            for part in (row[microbatches.start : microbatches.stop] for microbatches in directions):
                if len(part) > 1:
                    yield Edge(part[:-1], part[1:])


def capacity_edges(problem: Problem, index: OpIndex) -> Iterator[Edge]:
    """Yield the edges that follow from the budget of each device; none where the placement is mirrored."""
    if problem.settled_placement.mirrored or problem.has_units:
        return
    for device, capacity in enumerate(problem.capacity_grains):
        if capacity is None:
            continue
        stages = problem.settled_placement.stages_on(device)
        held = list(accumulate(problem.grains.activation[stage] for stage in stages))
        room = capacity - least_headroom(problem, device, index)
        for chunk, stage in enumerate(stages):
            if not _takes_time(problem, stage, index):
                continue
            left = room - held[chunk]
            for earlier, sizes in zip(stages[: chunk + 1], held, strict=False):
                yield from _after_free(index, stage, earlier, index.gradient, left, sizes)
                if index.last != index.gradient:
                    rest = min(problem.grains.retained[earlier], problem.grains.activation[earlier])
                    yield from _after_free(index, stage, earlier, index.last, left, rest)


def _takes_time(problem: Problem, stage: int, index: OpIndex) -> bool:
    """Return whether an activation is held for longer than an instant; if not, the start of its F proves nothing."""
    return problem.ticks.forward[stage] + problem.ticks.of(index.gradient)[stage] > 0


def _after_free(index: OpIndex, stage: int, freeing: int, kind: str, left: int, size: int) -> Iterator[Edge]:
    """Yield F(stage, j) after kind(freeing, j - 1 - left // size), as an edge of all j."""
    behind = 1 + left // size if size and left >= 0 else index.microbatches
    if behind < index.microbatches:
        yield Edge(index.row(kind, freeing)[:-behind], index.row("F", stage)[behind:])


def says_all(problem: Problem, device: int, index: OpIndex) -> bool:
    """Return whether the capacity edges of a device are its whole budget: for one stage, freed at once."""
    placement, grains = problem.settled_placement, problem.grains
    stages = placement.stages_on(device)
    if problem.has_units or len(stages) != 1 or placement.mirrored or not _takes_time(problem, stages[0], index):
        return False
    return index.last == index.gradient or grains.retained[stages[0]] in (0, grains.activation[stages[0]])
