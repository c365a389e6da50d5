"""What an algorithm can reach with a setup: layers are whole, and devices wait before and after their operations.

A device has as many layers as its time and its memory allow, with as many microbatches under way at once as the
algorithm keeps. All devices together must have all layers: the least time in which they can is a bound for any cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import inf
from operator import mul

from pipesched.estimation.in_flight import Counts, most_in_flight
from pipesched.pipeline.placement import Placement, named_placement
from pipesched.schedulers.family import ANY, Family
from pipesched.tuning.setup_bounds import SetupBounds

HALVINGS = 12  # of the range in which the least time is looked for: to 0.1 %


@dataclass(frozen=True)
class FamilyBounds:
    """What a family can reach with a setup when it runs so many stages."""

    known: SetupBounds
    family: Family
    stages: int

    @cached_property
    def least(self) -> float:
        """Microseconds that no pipeline of the family is shorter than; infinite where memory holds no cut."""
        low = self.known.least(whole=self.family.splits_backward is False, copies=self.family.copies)
        if self.family.copies > 1 and self.known.setup.parallel.pipeline % 2:
            return low  # the device in the middle is its own mirror
        if min(self._kept) < 0 or not self._holds(inf):
            return inf
        high = low
        while not self._holds(high):
            low, high = high, 2 * high
        for _ in range(HALVINGS if high > low else 0):
            middle = (low + high) / 2
            low, high = (low, middle) if self._holds(middle) else (middle, high)
        return low

    def _holds(self, time: float) -> bool:
        """Return whether the devices together can have all layers, in so many microseconds and within their memory."""
        layers, most = self.family.copies * self.known.setup.model.layers, 0
        work, each = self.known.quickest.work / self.family.copies, time / self.known.setup.microbatches
        for device, kept in enumerate(self._kept):
            left = each - self._waits(device, each) - self._ends(device)
            if left < 0:
                return False
            most += kept if time == inf else min(kept, int(left // work))
        return most >= layers

    def _waits(self, device: int, each: float) -> float:
        """Return how long a device waits at least for its first and after its last operation, over the microbatches.

        `each` is the most work of a device in a microbatch. The stages before its first one have layers, and with one
        stage a device those that the devices behind cannot do.
        """
        before = min(self._stages[device])
        if not before or each == inf:
            return 0.0
        known = self.known
        work = (before - 1) * float(known.quickest.work)
        if self.family.placement in ("linear", ANY):  # stages of a device follow each other
            work = max(work, known.work_of_layers - (len(self._kept) - device) * each)
        share = 1.0 if self.family.splits_backward is False else known.share_of_forward
        return share * work / known.setup.microbatches

    def _ends(self, device: int) -> float:
        """Return the work of the embedding and the head on a device."""
        items, stages = self.known.items.each, self._stages[device]
        work = (items[0].work if 0 in stages else 0) + (items[-1].work if self.stages - 1 in stages else 0)
        return work / self.family.copies

    @cached_property
    def _placement(self) -> Placement:
        name = "linear" if self.family.placement == ANY else self.family.placement
        return _named(name, self.known.setup.parallel.pipeline, self.stages)

    @cached_property
    def _stages(self) -> list[list[int]]:
        """The stages of each device."""
        return _stages_of(self._placement)

    @cached_property
    def _kept(self) -> tuple[int, ...]:
        """The most layers that the memory of each device holds; less than 0 where it does not hold what it must."""
        placement, devices = self._placement, self.known.setup.parallel.pipeline
        algorithm = self.family.name if self.family.settled_order else None
        held = most_in_flight(placement, self.known.setup.microbatches, algorithm)
        return tuple(self._layers_on(device, held[device]) for device in range(devices))

    def _layers_on(self, device: int, held: Sequence[Counts]) -> int:
        """Return the most layers that a device holds with these counts of microbatches at once."""
        known, stages = self.known, self._stages[device]
        least = [int(0 < stage < self.stages - 1) for stage in stages]  # the others may have no layer
        room = known.room - known.states_of_ends(first=0 in stages, last=self.stages - 1 in stages)
        most = inf
        for counts in held:
            low = min(counts)
            kept = known.activation * (sum(map(mul, counts, least)) - low * sum(least))
            most = min(most, (room - kept) // (known.states_of_layer + low * known.activation))
        return int(most) if most >= sum(least) else -1


@lru_cache(maxsize=256)
def _stages_of(placement: Placement) -> list[list[int]]:
    return [placement.stages_on(device) for device in range(placement.last + 1)]


_named = lru_cache(maxsize=1024)(named_placement)
