"""Capacity edges: what a memory budget says about the order of operations, as plain precedences.

With microbatches in order (a symmetry: they are alike), the start of F(s,j) proves how many microbatches must have left
the device. Of the chunks c' <= c that a device holds up to stage s = s_c, microbatch j holds all, none has freed more
than j microbatches, and an earlier chunk has freed no more I (or B) than a later one. With room R, sizes a, the
sums A_c of the sizes of the chunks 0..c, and what W frees r:

    F(s_c, j) after I or B(s_c', j - 1 - (R - A_c) // A_c')
    F(s_c, j) after W(s_c', j - 1 - (R - A_c) // r_c')

With one stage a device and nothing freed in halves this says all: a budget of k activations is F(s,j) after (s,j-k) is
freed. They lengthen heads and tails, on which Jackson's bound then sees the budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from pipesched.core.tasks import Edge
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem


def order_edges(problem: Problem, index: OpIndex) -> Iterator[Edge]:
    """Microbatches in order, for each stage and kind (in each half where the placement is mirrored).

    Sound without transfers and recompute: sorting what a row runs breaks no rule, since equal operations wait alike.
    """
    count = index.microbatches
    half = count // 2 if problem.home().mirrored else 0
    for kind in index.kinds:
        for row in index.rows(kind):
            for part in (row[:half], row[half:]):
                if len(part) > 1:
                    yield Edge(part[:-1], part[1:])


def capacity_edges(problem: Problem, index: OpIndex) -> Iterator[Edge]:
    """What the budget of each device says. Nothing where the placement is mirrored."""
    if problem.home().mirrored:
        return
    for device, room in enumerate(problem.room()):
        if room is None:
            continue
        stages = problem.home().stages_on(device)
        held = list(accumulate(problem.memory.activation[stage] for stage in stages))
        for place, stage in enumerate(stages):
            if not _takes_time(problem, stage, index.kinds):
                continue
            spare = room - held[place]
            for earlier, sizes in zip(stages[: place + 1], held, strict=False):
                yield from _after_free(index, stage, earlier, index.kinds[1], spare, sizes)
                if "W" in index.kinds:
                    yield from _after_free(index, stage, earlier, "W", spare, problem.memory.retained[earlier])


def _takes_time(problem: Problem, stage: int, kinds: str) -> bool:
    """Whether an activation is there for longer than an instant; if not, the start of its F proves nothing."""
    costs = problem.costs
    return costs.forward[stage] + (costs.backward if "B" in kinds else costs.backward_input)[stage] > 0


def _after_free(index: OpIndex, stage: int, freeing: int, kind: str, spare: int, size: int) -> Iterator[Edge]:
    """F(stage, j) after kind(freeing, j - 1 - spare // size)."""
    behind = 1 + spare // size if size and spare >= 0 else index.microbatches
    if behind < index.microbatches:
        yield Edge(index.row(kind, freeing)[:-behind], index.row("F", stage)[behind:])


def says_all(problem: Problem, device: int, kinds: str) -> bool:
    """Whether the capacity edges of a device are its whole budget: one stage, freed at once."""
    stages = problem.home().stages_on(device)
    if len(stages) != 1 or problem.home().mirrored or not _takes_time(problem, stages[0], kinds):
        return False
    return "W" not in kinds or problem.memory.retained[stages[0]] in (0, problem.memory.activation[stages[0]])
