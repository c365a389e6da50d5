"""Squeezing of a repeated block: every operation, in the order of the block, into the earliest time that is free.

What waits in the block only for its period moves up; a forward moves up only as far as memory stays under the limit
("Pipeline Parallelism with Controllable Memory", Qi et al. 2024, section 3.3).
"""

from __future__ import annotations

from collections.abc import Sequence

from pipesched.core.insertion import insert_in_order
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.block import Block


def squeeze(problem: Problem, index: OpIndex, block: Block, capacities: Sequence[int]) -> list[list[int]] | None:
    """Return the order of each device, with at most `capacities[d]` grains of activations on device d.

    None when the block itself holds more than that, so that a forward never fits.
    """
    inserted = insert_in_order(lower(problem, index), block.order(index), capacities)
    return None if inserted is None else inserted.orders
