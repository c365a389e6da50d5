"""What a message between two stages takes: inside a node or between nodes, by the placement."""

from __future__ import annotations

from fractions import Fraction

from pipesched.estimation.communication import boundary_time
from pipesched.estimation.setup import Setup
from pipesched.pipeline.placement import Placement

PER_MS = 1000


def boundary_times(setup: Setup, placement: Placement) -> list[Fraction]:
    """Return the milliseconds of each boundary between stages, whole microseconds.

    The ranks of a device of the pipeline follow each other, and those of the next device follow them (Megatron-LM's
    default order: tensor, context, data, pipeline).
    """
    times = {across: _microseconds(setup, across=across) for across in (False, True)}
    return [
        Fraction(times[is_across(setup, here, there)], PER_MS)
        for here, there in zip(placement.devices, placement.devices[1:], strict=False)
    ]


def _microseconds(setup: Setup, *, across: bool) -> int:
    return round(float(boundary_time(setup, across=across).value) * PER_MS)


def is_across(setup: Setup, here: int, there: int) -> bool:
    """Return whether any GPU of a device sends to another node, when it sends to its peer in another device."""
    ranks, node = setup.parallel.gpus // setup.parallel.pipeline, setup.hardware.neighbours
    return any((here * ranks + rank) // node != (there * ranks + rank) // node for rank in (0, ranks - 1))
