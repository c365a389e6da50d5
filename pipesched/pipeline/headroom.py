"""The room that I needs: memory that must be free on a device that holds activations, so that one of them can leave it.

Where more than its activation is retained of a microbatch (`retain` above 1), the start of I takes memory, and only its
W frees some. A device full of activations could then start no I, so every F leaves that room.
"""

from __future__ import annotations

from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem


def least_headroom(problem: Problem, device: int, index: OpIndex) -> int:
    """Return the grains that at least are free on a device whenever it starts an F: what the next I there takes.

    Nothing, where I and W take no time at all: then it is there and gone within an instant.
    """
    if "B" in index.letters or "I" not in index.letters:
        return 0
    ticks, caught = problem.ticks, problem.grains.caught
    takes_time = [first + last > 0 for first, last in zip(ticks.backward_input, ticks.backward_weight, strict=True)]
    stages = problem.settled_placement.stages_on(device)
    return min((caught[stage] if takes_time[stage] else 0 for stage in stages), default=0)


def forward_headrooms(problem: Problem, index: OpIndex) -> list[int]:
    """Return for each operation the grains that are to stay free beside what it takes: with F, what any I there takes.

    Empty where no I takes memory.
    """
    caught = problem.grains.caught
    if "I" not in index.letters or not any(caught):
        return []
    placement, count = problem.settled_placement, index.microbatches
    most = [
        max((caught[stage] for stage in placement.stages_on(device)), default=0) for device in range(problem.devices)
    ]

    def row(kind: str, stage: int) -> list[int]:
        if kind != "F":
            return [0] * count
        return [most[device] for device, share in placement.copies(stage, count) for _ in range(share)]

    return index.spread(row)
