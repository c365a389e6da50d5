"""Residences: how long activations, or parts of them, stay in a device's memory."""

from __future__ import annotations

from typing import NamedTuple

from pipesched.solver.case import Case


class Residence(NamedTuple):
    """A stay of `size` grains on a device, from the start (or end) of the task `first` to the end of task `last`."""

    first: int
    from_end: bool
    last: int
    size: int


def residences(case: Case, device: int) -> list[Residence]:
    """Return the residences on a device where activations are kept.

    A microbatch resides from the start of F to the end of B, or of I; what is retained then, to the end of W. Where
    that is more than the activation, the rest resides from the start of I.
    """
    index, memory, pools = case.index, case.problem.grains, case.graph.pools
    stays = []
    for stage in case.problem.settled_placement.stages_on(device):
        size, retained = memory.activation[stage], memory.retained[stage]
        for forward in index.row("F", stage):
            if pools[forward] != device:
                continue
            freeing, last = (index.counterpart(forward, kind) for kind in (index.gradient, index.last))
            if retained >= size or last == freeing:
                stays.append(Residence(forward, False, last, size))
                if last != freeing:
                    stays.append(Residence(freeing, False, last, retained - size))
            else:
                stays.append(Residence(forward, False, freeing, size))
                stays.append(Residence(freeing, True, last, retained))
    return [residence for residence in stays if residence.size]
