"""The problem of cutting a list of items into chunks, what a cut costs, and which chunks ought to have little work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from pipesched.errors import ConfigError

HEAVY = 16  # the weight of a chunk that ought to have little work

Ends = tuple[int, ...]  # the end of each chunk; the last one is the number of items


class ChunkCost(NamedTuple):
    """What a run of items costs: work of one microbatch, bytes that stay, bytes of one microbatch. All are integers."""

    work: int
    static: int
    activation: int


ChunkCostOf = Callable[[int, int], ChunkCost]  # of the items begin..end-1


@dataclass(frozen=True)
class CutProblem:
    """How to cut `items` items into contiguous chunks, of at least one item each.

    `chunk` gives the costs of a run of items; they need not be the sum of the items', but no cost may fall when an item
    is added at either end. `devices` is the device of each chunk, in forward order. `held` has for each device the
    maximal vectors of microbatches in flight, one number for each of its chunks: the device fits when for every vector
    the static bytes of its chunks, and count x activation, are within its `capacity` (None: no limit). Work counts
    `slowness` times on a device (None: alike on all).
    """

    items: int
    chunk: ChunkCostOf
    devices: tuple[int, ...]
    held: tuple[tuple[tuple[int, ...], ...], ...]
    capacity: tuple[int | None, ...]
    slowness: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        chunks = len(self.devices)
        if self.items < chunks:
            raise ConfigError(
                f"{self.items:,} items cannot be cut into {chunks:,} chunks, for each needs at least one: there must "
                f"be at most {self.items:,} chunks, or at least {chunks:,} items"
            )
        if set(self.devices) != set(range(len(self.capacity))) or len(self.held) != len(self.capacity):
            raise ConfigError(f"each of the {len(self.capacity)} devices must have chunks, and microbatches in flight")
        for device, stages in enumerate(self.stages_on):
            if not self.held[device] or any(len(vector) != len(stages) for vector in self.held[device]):
                raise ConfigError(f"device {device} must have vectors of {len(stages)} microbatches in flight")

    @cached_property
    def stages_on(self) -> tuple[tuple[int, ...], ...]:
        """The chunks of each device, in forward order."""
        return tuple(
            tuple(stage for stage, its in enumerate(self.devices) if its == device)
            for device in range(len(self.capacity))
        )

    @property
    def is_limited(self) -> bool:
        """Whether the memory of any device has a limit."""
        return any(capacity is not None for capacity in self.capacity)


class CutValue(NamedTuple):
    """How good a cut is, the smaller the better: bytes above a capacity, the largest work of a device, of a chunk."""

    excess: int
    device: int
    chunk: int


class ChunkCosts:
    """The costs of a problem's chunks and cuts. Each chunk is asked for once."""

    def __init__(self, problem: CutProblem) -> None:
        self.problem = problem
        self.items, self.stages = problem.items, len(problem.devices)
        self._known: dict[tuple[int, int], ChunkCost] = {}

    def at(self, begin: int, end: int) -> ChunkCost:
        """Return the costs of the items begin..end-1."""
        found = self._known.get((begin, end))
        if found is None:
            found = self._known[begin, end] = self.problem.chunk(begin, end)
        return found

    def chunks(self, ends: Sequence[int]) -> list[ChunkCost]:
        """Return the costs of each chunk of a cut."""
        return [self.at(begin, end) for begin, end in zip((0, *ends), ends, strict=False)]

    def loads(self, chunks: Sequence[ChunkCost]) -> list[int]:
        """Return the work of each device."""
        works = self.works(chunks)
        return [sum(works[stage] for stage in stages) for stages in self.problem.stages_on]

    def works(self, chunks: Sequence[ChunkCost]) -> list[int]:
        """Return the work of each chunk on its device."""
        if self.problem.slowness is None:
            return [chunk.work for chunk in chunks]
        return [chunk.work * times for chunk, times in zip(chunks, self.slowness, strict=True)]

    @cached_property
    def slowness(self) -> list[int]:
        """How often work counts on the device of each chunk."""
        slowness = self.problem.slowness
        return [1 if slowness is None else slowness[device] for device in self.problem.devices]

    def excess(self, device: int, chunks: Sequence[ChunkCost]) -> int:
        """Return by how many bytes a device with these chunks is above its capacity; 0 where it fits."""
        capacity = self.problem.capacity[device]
        if capacity is None:
            return 0
        held = max(
            sum(count * chunk.activation for count, chunk in zip(vector, chunks, strict=True))
            for vector in self.problem.held[device]
        )
        return max(0, sum(chunk.static for chunk in chunks) + held - capacity)

    def value(self, ends: Sequence[int]) -> CutValue:
        """Return how good a cut is."""
        chunks = self.chunks(ends)
        excess = max(
            self.excess(device, [chunks[stage] for stage in stages])
            for device, stages in enumerate(self.problem.stages_on)
        )
        return CutValue(excess, max(self.loads(chunks)), max(self.works(chunks)))


def profiles(stages: int) -> list[list[int]]:
    """Return the weights of the chunks for each variant, greater ones for less work; the first treats all alike.

    A pipeline fills and drains through its ends, hence variants with little work there.
    """
    last, half = stages - 1, stages // 2
    light = [
        set[int](),
        {0},
        {last},
        {0, last},
        {*range(half)},
        {*range(half, stages)},
        {*range(stages // 4), *range(stages - stages // 4, stages)},
        {*range(stages // 4, stages - stages // 4)},
    ]
    unique = [stage_set for place, stage_set in enumerate(light) if stage_set not in light[:place]]
    return [[HEAVY if stage in chosen else 1 for stage in range(stages)] for chosen in unique]
