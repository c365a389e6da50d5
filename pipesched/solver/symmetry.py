"""The symmetries of a plain training step: microbatches are alike, and weight gradients that last and free the same.

Exchanging equal operations breaks no rule, so a schedule may be renamed until each row of equal operations runs its
microbatches in order, and alike weight gradients run in the order of their input gradients. Models demand that, which
leaves them far fewer schedules to search.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipesched.solver.case import Case


def alike_weights(case: Case) -> list[list[tuple[int, int]]]:
    """Return the (I, W) of stages that share a device and whose W last and free the same: groups of several rows."""
    problem, index = case.problem, case.index
    if index.last == index.gradient or problem.settled_placement.mirrored:
        return []
    groups: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    for stage, device in enumerate(problem.settled_placement.devices):
        same = device, problem.ticks.of(index.last)[stage], problem.grains.retained[stage]
        pairs = zip(index.row(index.gradient, stage), index.row(index.last, stage), strict=True)
        groups.setdefault(same, []).extend(pairs)
    return [group for group in groups.values() if len(group) > index.microbatches]


def sorted_rows(case: Case, starts: Sequence[int]) -> list[int]:
    """Return `starts` with each row of equal operations in order of time (each half where it is mirrored)."""
    times = list(starts)
    directions = case.problem.settled_placement.directions(case.index.microbatches)
    for kind in case.index.letters:
        for row in case.index.rows(kind):
            for microbatches in directions:
                part = row[microbatches.start : microbatches.stop]
                times[part.start : part.stop] = sorted(times[part.start : part.stop])
    return times


def sorted_weights(case: Case, starts: Sequence[int]) -> list[int]:
    """Return `starts` of sorted rows with each group of alike W in the order of their I."""
    times = list(starts)
    for group in alike_weights(case):
        by_input = sorted(group, key=lambda pair: (times[pair[0]], pair))
        for (_, weight), start in zip(by_input, sorted(times[weight] for _, weight in group), strict=True):
            times[weight] = start
    return times
