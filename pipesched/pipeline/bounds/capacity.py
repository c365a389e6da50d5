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
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate

from pipesched.checks import shown
from pipesched.core.arrays import Ints, column, in_range, np, total
from pipesched.core.tasks import Edges
from pipesched.errors import NoSchedule, Remedy
from pipesched.pipeline.problem.kinds import KEEP_ONLY, Allowed
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import Problem, alike, differs
from pipesched.pipeline.problem.quantities import in_units, plain, rounded
from pipesched.pipeline.problem.units import FORWARD_ONLY


def least_held(problem: Problem) -> Problem:
    """Return `problem` as whole backwards hold it, where each may run whole: no gradients are caught at weights."""
    if not problem.costs.chooses:
        return problem
    return replace(problem, memory=replace(problem.memory, retain=tuple(min(one, 1) for one in problem.memory.retain)))


def least_capacity(problem: Problem, device: int, allowed: Allowed = KEEP_ONLY) -> int:
    """Return the activation memory, in grains, that a device needs for any order at all.

    The stage that runs needs its whole activation, and with a split backward what its I takes beside it, while the
    earlier stages of the same device hold theirs of that microbatch: all of it, a checkpoint if it may be recomputed,
    nothing if it may be offloaded. Of several directions, a device runs one at a time, and of each
    a single stage. The microbatch that needs most counts; its slices run one after another.
    """
    stages = problem.settled_placement.stages_on(device)
    here = problem.model.where[np.ix_(column(stages), problem.model.unlike[0][:: problem.model.slices])] == device
    kept = np.where(here, _kept(problem, stages, allowed), 0)
    beside = column([_beside(problem, stage) for stage in stages])[:, None]
    needed: list[int] = (kept.cumsum(axis=0) - kept + _peaks(problem, stages) + beside)[here].tolist()
    return max(needed, default=0)


def _beside(problem: Problem, stage: int) -> int:
    """Return what of the step a stage holds beside the activations of its backward: whole weights, and gradients."""
    # of a split backward it is W that needs the gradients, which may run once other activations are gone
    if not problem.has_step:
        return 0
    grains, has_whole = problem.step_grains, not problem.costs.split and problem.mode != FORWARD_ONLY
    return grains.weights[stage] + (grains.gradients[stage] if has_whole else 0)


def _sizes(problem: Problem, stages: Sequence[int], name: str) -> Ints:
    """Return a column of StepModel.sizes, by stage, microbatch and slice; one microbatch for all that are alike."""
    model = problem.model
    sizes = model.sizes[name][np.ix_(column(stages), model.unlike[0])]
    return in_range(sizes, 4 * total(sizes.ravel())).reshape(len(stages), -1, model.slices)


def _peaks(problem: Problem, stages: Sequence[int]) -> Ints:
    """Return what stages hold of each microbatch at its highest, if they run no other one meanwhile."""
    # before the backward of the slice that runs first, the last; where all run forwards alone, in some forward
    whole, retained, cached = (_sizes(problem, stages, name) for name in ("activation", "retained", "cached"))
    if problem.mode == FORWARD_ONLY:
        held = cached.cumsum(axis=2) - cached + whole + (problem.rounds - 1) * cached
    else:
        cached[:, :, -1] = 0
        held = (whole + cached).cumsum(axis=2)
        held = held + np.maximum(retained - whole, 0) if problem.costs.split else held
    most: Ints = held.max(axis=2)
    return most


def _kept(problem: Problem, stages: Sequence[int], allowed: Allowed) -> Ints:
    """Return the least that stages hold of each microbatch between its forward and its backward, as `_peaks`."""
    whole = _sizes(problem, stages, "checkpointed" if allowed.recompute else "activation").sum(axis=2)
    kept: Ints = whole * 0 if allowed.offload or problem.mode == FORWARD_ONLY else whole
    return kept


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
        largest = int(_peaks(problem, problem.settled_placement.stages_on(device)).max())  # any order must hold it
        if largest <= capacity and len(problem.settled_placement.ways) == 1:
            would_fit.append(Remedy("fewer stages a device", "stages"))
        actions = {"recompute": Allowed(recompute=True)}
        if problem.costs.offload is not None:
            actions["offload"] = Allowed(offload=True)
        for name, action in actions.items():
            if least_capacity(problem, device, action) <= capacity:
                would_fit.append(Remedy(f"solve with `{name}`", name))
        whose = "its largest" if differs(problem) else "one"
        raise NoSchedule(
            f"device {device} needs a budget of at least {typed} {unit} to run {whose} microbatch,"
            f" and its budget is {shown(budget)}",
            device=device,
            floor=least,
            budget=budget,
            would_fit=would_fit,
        )


def least_headroom(problem: Problem, device: int, index: OpIndex) -> int:
    """Return the grains that at least are free on a device whenever it starts an F: what the next I there takes.

    Nothing, where I and W take no time at all: then it is there and gone within an instant.
    """
    if "B" in index.letters or "I" not in index.letters:
        return 0
    mean, caught = problem.ticks.mean, problem.grains.largest["caught"]
    halves = zip(mean["backward_input"], mean["backward_weight"], strict=True)
    takes_time = [first + last > 0 for first, last in halves]
    stages = problem.settled_placement.stages_on(device)
    return min((caught[stage] if takes_time[stage] else 0 for stage in stages), default=0)


def forward_headrooms(problem: Problem, index: OpIndex) -> list[int]:
    """Return for each operation the grains that are to stay free beside what it takes: with F, what any I there takes.

    With slices, what any B or I takes, gradients of keys and values too. Empty where no backward takes memory.
    """
    caught = taken_by_backwards(problem, index)
    if not any(caught):
        return []
    stages_on = problem.settled_placement.stages_on
    most = column([max((caught[stage] for stage in stages_on(device)), default=0) for device in range(problem.devices)])
    rooms: list[int] = most[problem.model.where].ravel().tolist()
    return rooms + [0] * (index.passes - len(rooms))


def taken_by_backwards(problem: Problem, index: OpIndex) -> Sequence[int]:
    """Return the most that the start of a B or I takes on each stage."""
    most: list[int] = problem.model.takes(index.gradient).max(axis=1).tolist()
    return most


def order_edges(problem: Problem, index: OpIndex, rows: Sequence[range] = ()) -> Iterator[Edges]:
    """Yield the edges that put microbatches that are alike in order, in some rows of operations, or in all.

    They cost nothing without offload and recompute: equal operations wait alike, so sorting those of a row by
    microbatch breaks no rule. Microbatches that go other ways, or differ in any cost or size, have no order.
    """
    pairs = [pair for group in alike(problem) for pair in _runs(group)]
    parts = [(index.in_units(before), index.in_units(after)) for before, after in pairs]
    for row in rows or (row for kind in index.letters for row in index.rows(kind)):
        yield from (Edges(row[before], row[after]) for before, after in parts)


def _runs(group: Sequence[int]) -> Iterator[tuple[range, range]]:
    """Yield numbers of a group with the next ones: those of neighbours together, and from each such run to the next."""
    start = 0
    for place, number in enumerate(group):
        if place + 1 == len(group) or group[place + 1] != number + 1:
            if place > start:
                yield range(group[start], number), range(group[start] + 1, number + 1)
            if place + 1 < len(group):
                after = group[place + 1]
                yield range(number, number + 1), range(after, after + 1)
            start = place + 1


def capacity_edges(problem: Problem, index: OpIndex) -> Iterator[Edges]:
    """Yield the edges that follow from the budget of each device; none where microbatches are not alike."""
    if not problem.are_alike:
        return
    for device, capacity in enumerate(problem.capacity_grains):
        if capacity is None:
            continue
        stages = problem.settled_placement.stages_on(device)
        largest = problem.grains.largest
        held = list(accumulate(largest["activation"][stage] for stage in stages))
        room = capacity - least_headroom(problem, device, index)
        for chunk, stage in enumerate(stages):
            if not _takes_time(problem, stage, index):
                continue
            left = room - held[chunk]
            for earlier, sizes in zip(stages[: chunk + 1], held, strict=False):
                yield from _after_free(index, stage, earlier, index.gradient, left, sizes)
                if index.last != index.gradient:
                    rest = min(largest["retained"][earlier], largest["activation"][earlier])
                    yield from _after_free(index, stage, earlier, index.last, left, rest)


def _takes_time(problem: Problem, stage: int, index: OpIndex) -> bool:
    """Return whether an activation is held for longer than an instant; if not, the start of its F proves nothing."""
    return problem.ticks.mean["forward"][stage] + problem.ticks.of(index.gradient)[stage] > 0


def _after_free(index: OpIndex, stage: int, freeing: int, kind: str, left: int, size: int) -> Iterator[Edges]:
    """Yield F(stage, j) after kind(freeing, j - 1 - left // size), as an edge of all j."""
    behind = 1 + left // size if size and left >= 0 else index.microbatches
    if behind < index.microbatches:
        yield Edges(index.row(kind, freeing)[:-behind], index.row("F", stage)[behind:])


def says_all(problem: Problem, device: int, index: OpIndex) -> bool:
    """Return whether the capacity edges of a device are its whole budget: for one stage, freed at once."""
    largest = problem.grains.largest
    stages = problem.settled_placement.stages_on(device) if problem.are_alike else []
    if len(stages) != 1 or not _takes_time(problem, stages[0], index):
        return False
    return index.last == index.gradient or largest["retained"][stages[0]] in (0, largest["activation"][stages[0]])
