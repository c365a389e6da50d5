"""Capacity edges: precedences that follow from a memory budget.

With microbatches in order (a symmetry: they are alike), the start of F(s,j) proves how many microbatches must have left
the device. Of the chunks c' <= c that a device holds up to stage s = s_c, microbatch j holds all, none has freed more
than j microbatches, and an earlier chunk has freed no more I (or B) than a later one. With capacity R, sizes a, the
sums A_c of the sizes of the chunks 0..c, and what W frees r:

    F(s_c, j) after I or B(s_c', j - 1 - (R - A_c) // A_c')
    F(s_c, j) after W(s_c', j - 1 - (R - A_c) // r_c')

Where more than its activation is retained of a microbatch, the start of I takes the rest of it, so that every F leaves
room for the next I of the device: then R is less by the least that an I takes there, and r_c' is a_c', which any
microbatch holds until its W.

With one stage a device and nothing freed in halves, these edges are the whole budget: one of k activations means F(s,j)
after (s,j-k) is freed. They lengthen heads and tails, so that Jackson's bound counts the budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from pipesched.core.tasks import Edge
from pipesched.pipeline.headroom import least_headroom
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem


def order_edges(problem: Problem, index: OpIndex) -> Iterator[Edge]:
    """Yield the edges that put microbatches in order, by stage and kind (in each half where the placement is mirrored).

    They cost nothing without offload and recompute: equal operations wait alike, so sorting those of a row by
    microbatch breaks no rule.
    """
    directions = problem.settled_placement.directions(index.microbatches)
    for kind in index.letters:
        for row in index.rows(kind):
            for part in (row[microbatches.start : microbatches.stop] for microbatches in directions):
                if len(part) > 1:
                    yield Edge(part[:-1], part[1:])


def capacity_edges(problem: Problem, index: OpIndex) -> Iterator[Edge]:
    """Yield the edges that follow from the budget of each device; none where the placement is mirrored."""
    if problem.settled_placement.mirrored:
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
    if len(stages) != 1 or placement.mirrored or not _takes_time(problem, stages[0], index):
        return False
    return index.last == index.gradient or grains.retained[stages[0]] in (0, grains.activation[stages[0]])
