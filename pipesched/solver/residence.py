"""How long activations stay: which operations begin and end each residence in a device's memory."""

from __future__ import annotations

from typing import NamedTuple

from pipesched.solver.case import Case


class Residence(NamedTuple):
    """`size` grains on a device from the start of the task `first` (or its end) to the end of the task `last`."""

    first: int
    from_end: bool
    last: int
    size: int


def residences(case: Case, device: int) -> list[Residence]:
    """A microbatch resides from the start of F to the end of B, or of I; what is retained then, to the end of W."""
    index, memory, pools = case.index, case.problem.memory, case.graph.pools
    found = []
    for stage, (size, retained) in enumerate(zip(memory.activation, memory.retained, strict=True)):
        for microbatch in range(index.microbatches):
            first, freeing = index.row("F", stage)[microbatch], index.row(index.kinds[1], stage)[microbatch]
            if pools[first] != device:
                continue
            weight = index.row("W", stage)[microbatch] if "W" in index.kinds else freeing
            if retained == size or weight == freeing:
                found.append(Residence(first, False, weight, size))
            else:
                found.append(Residence(first, False, freeing, size))
                found.append(Residence(freeing, True, weight, retained))
    return [one for one in found if one.size]
