"""What a solve reports of cuts, where it was free to choose which layers make a stage."""

from __future__ import annotations

from typing import NamedTuple

from pipesched.pipeline.bounds import Bound
from pipesched.results.status import Status


class TriedCut(NamedTuple):
    """A cut that was tried: the layers of each stage, and the largest work of a device for one microbatch.

    `makespan` is that of the best schedule found on it, None where it was not scheduled. Times are in the user's unit.
    """

    chunks: int
    placement: str
    layout: tuple[int, ...]
    work: int | float
    makespan: int | float | None


class CutReport(NamedTuple):
    """The cut of a solve's answer, the bound and the status of schedules on it and its placement alone; all `tried`."""

    layout: tuple[int, ...]
    chunks: int
    bound: Bound
    status: Status
    tried: tuple[TriedCut, ...]

    @property
    def chunks_tried(self) -> tuple[int, ...]:
        """The numbers of stages a device that were tried."""
        return tuple(sorted({cut.chunks for cut in self.tried}))
