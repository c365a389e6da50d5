"""Filling the chunks of a shape with alike items, one at a time, each where it is least in the way."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from pipesched.estimation.cutting.menu import Limits, Menu
from pipesched.estimation.cutting.shapes import Shape

Next = tuple[int, int, int, int]  # weighted work of the device and of the chunk with one item more; chunk, device


def filled(menu: Menu, shape: Shape, weights: Sequence[int], limits: Limits) -> list[int] | None:
    """Return how many alike items each chunk has; None where the next one breaks a limit wherever it is put.

    Each goes to the device with the least work times the weight of the chunk, and there to the least such chunk; of
    equals to the first. A device may get stuck in memory that another order would leave free, so None proves nothing.
    """
    filling = _Filling(menu, shape, weights, limits)
    heap = [found for device in range(len(filling.loads)) if (found := filling.next_of(device))]
    heapify(heap)
    for _ in range(menu.alike.end - menu.alike.begin - sum(filling.counts)):
        if not heap:
            return None
        _, _, stage, device = heappop(heap)
        filling.add(stage, device)
        found = filling.next_of(device)
        if found is not None:
            heappush(heap, found)
    return filling.counts if filling.is_legal else None


class _Filling:
    """Chunks that are being filled."""

    def __init__(self, menu: Menu, shape: Shape, weights: Sequence[int], limits: Limits) -> None:
        self.menu, self.shape, self.weights, self.limits = menu, shape, weights, limits
        self.counts = [part.least for part in shape]
        self.chunks = [menu.chunk(part, part.least) for part in shape]
        self.loads = menu.costs.loads(self.chunks)

    @property
    def is_legal(self) -> bool:
        """Whether all chunks and devices keep the limits."""
        return (
            max(chunk.work for chunk in self.chunks) <= self.limits.chunk
            and max(self.loads) <= self.limits.device
            and all(self._fits(device) for device in range(len(self.loads)))
        )

    def next_of(self, device: int) -> Next | None:
        """Return where on a device the next item is best put; None if it cannot have one."""
        options = []
        for stage in self.menu.costs.question.stages_on[device]:
            part, more = self.shape[stage], self.counts[stage] + 1
            if part.is_fixed or more > self.limits.longest:
                continue
            work = self.menu.chunk(part, more).work
            load = self.loads[device] - self.chunks[stage].work + work
            if work <= self.limits.chunk and load <= self.limits.device:
                options.append((self.weights[stage] * load, self.weights[stage] * work, stage, device))
        return next((option for option in sorted(options) if self._fits_with(option[2], device)), None)

    def add(self, stage: int, device: int) -> None:
        """Put an item into a chunk."""
        before = self.chunks[stage]
        self.counts[stage] += 1
        self.chunks[stage] = self.menu.chunk(self.shape[stage], self.counts[stage])
        self.loads[device] += self.chunks[stage].work - before.work

    def _fits_with(self, stage: int, device: int) -> bool:
        before = self.chunks[stage]
        self.chunks[stage] = self.menu.chunk(self.shape[stage], self.counts[stage] + 1)
        fits = self._fits(device)
        self.chunks[stage] = before
        return fits

    def _fits(self, device: int) -> bool:
        stages = self.menu.costs.question.stages_on[device]
        return self.menu.costs.excess(device, [self.chunks[stage] for stage in stages]) <= self.limits.excess
