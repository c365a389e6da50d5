"""How long an overlapped pair F&B of stages with experts lasts: two chains of pieces, on compute and on the network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from pipesched.core.two_jobs import JobPiece, least_length
from pipesched.estimation.items import Stage
from pipesched.estimation.pieces import ItemPiece
from pipesched.estimation.setup import Setup
from pipesched.pipeline.placement import Placement


def hides_experts(setup: Setup) -> bool:
    """Return whether pairs hide something: dispatch and combine of experts that other ranks have."""
    return setup.model.experts is not None and setup.parallel.expert > 1


def forward_pieces(stage: Stage) -> list[ItemPiece]:
    """Return the pieces of a forward, layer by layer."""
    return [piece for item in stage.held for piece in item.pieces.forward]


def backward_pieces(stage: Stage) -> list[ItemPiece]:
    """Return the pieces of a backward, from the last layer to the first; layers that are recomputed come twice."""
    found: list[ItemPiece] = []
    for number in range(stage.end - 1, stage.begin - 1, -1):
        own = stage.items.each[number].pieces
        found += (*own.again, *own.backward) if number in stage.again else own.backward
    return found


def partner(stages: Sequence[Stage], placement: Placement, number: int) -> int:
    """Return the stage whose backward runs with the forward of a stage.

    On a V that is the other stage of its device, in bidirectional schedules the stage that comes from the other end;
    else, of the stages on its device, the one with which a pair lasts longest.
    """
    if placement.mirrored or _is_v(placement):
        return len(stages) - 1 - number
    there = placement.stages_on(placement.devices[number])
    return max(there, key=lambda other: pair_time(stages[number], stages[other]))


def _is_v(placement: Placement) -> bool:
    """Return whether stages go down the devices and back up, two on each."""
    devices = placement.devices
    return placement.last > 0 and len(devices) == 2 * (placement.last + 1) and devices == devices[::-1]


def pair_time(forward: Stage, backward: Stage) -> int:
    """Return the least microseconds of a forward of a stage and a backward of another at once."""
    return _least(_jobs(forward_pieces(forward)), _jobs(backward_pieces(backward)))


def pair_times(stages: Sequence[Stage], placement: Placement) -> list[int]:
    """Return the microseconds of a pair by the stage of its forward."""
    return [pair_time(stage, stages[partner(stages, placement, number)]) for number, stage in enumerate(stages)]


def _jobs(pieces: Iterable[ItemPiece]) -> tuple[JobPiece, ...]:
    return tuple(piece.job for piece in pieces)


@lru_cache(maxsize=4096)
def _least(forward: tuple[JobPiece, ...], backward: tuple[JobPiece, ...]) -> int:
    return least_length(forward, backward)
