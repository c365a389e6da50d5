"""Filling the chunks of a shape with equal items, one at a time, each where it is least in the way."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from pipesched.estimation.cutting.device_options import ChunkLimits, DeviceOptions
from pipesched.estimation.cutting.end_cuts import Shape

Next = tuple[int, int, int, int]  # weighted work of the device and of the chunk with one item more; chunk, device


def filled(options: DeviceOptions, shape: Shape, weights: Sequence[int], limits: ChunkLimits) -> list[int] | None:
    """Return how many equal items each chunk has; None where the next one breaks a limit wherever it is put.

    Each goes to the device with the least work times the weight of the chunk, and there to the least such chunk; of
    equals to the first. A device may get stuck in memory that another order would leave free, so None proves nothing.
    """
    filling = _Filling(options, shape, weights, limits)
    heap = [found for device in range(len(filling.loads)) if (found := filling.next_of(device))]
    heapify(heap)
    for _ in range(options.run.items - sum(filling.counts)):
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

    def __init__(self, options: DeviceOptions, shape: Shape, weights: Sequence[int], limits: ChunkLimits) -> None:
        self.options, self.shape, self.weights, self.limits = options, shape, weights, limits
        self.counts = [chunk.least for chunk in shape]
        self.chunks = [options.chunk(chunk, chunk.least) for chunk in shape]
        self.loads = options.costs.loads(self.chunks)

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
        places = []
        for stage in self.options.costs.problem.stages_on[device]:
            chunk, more = self.shape[stage], self.counts[stage] + 1
            if chunk.is_fixed or more > self.limits.longest:
                continue
            work = self.options.chunk(chunk, more).work
            load = self.loads[device] - self.chunks[stage].work + work
            if work <= self.limits.chunk and load <= self.limits.device:
                places.append((self.weights[stage] * load, self.weights[stage] * work, stage, device))
        return next((place for place in sorted(places) if self._fits_with(place[2], device)), None)

    def add(self, stage: int, device: int) -> None:
        """Put an item into a chunk."""
        before = self.chunks[stage]
        self.counts[stage] += 1
        self.chunks[stage] = self.options.chunk(self.shape[stage], self.counts[stage])
        self.loads[device] += self.chunks[stage].work - before.work

    def _fits_with(self, stage: int, device: int) -> bool:
        before = self.chunks[stage]
        self.chunks[stage] = self.options.chunk(self.shape[stage], self.counts[stage] + 1)
        fits = self._fits(device)
        self.chunks[stage] = before
        return fits

    def _fits(self, device: int) -> bool:
        stages = self.options.costs.problem.stages_on[device]
        return self.options.costs.excess(device, [self.chunks[stage] for stage in stages]) <= self.limits.excess
