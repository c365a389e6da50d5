"""What no cut of a chain can be below: exact over all cuts of lanes, else by the work of all devices."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil

from pipesched.core.integers import round_up
from pipesched.solver.cuts.chain import Chain
from pipesched.solver.cuts.in_order import cuts_in_order


def least_of_every_cut(chain: Chain) -> float:
    """Return ticks that no schedule on any cut is below with which one microbatch fits; infinite where none does."""
    order = cuts_in_order(chain)
    if order is None:
        return least_by_work(chain)
    first = next(iter(order), None)
    return order.ahead if first is None else first.bound


def least_by_work(chain: Chain) -> int:
    """Return ticks in which all devices can do all work, and no fewer than those of the longest item alone.

    Each device also waits for its first microbatch, and after its last for the gradient to come home: each stage before
    its first one has an item at least.
    """
    speeds = chain.devices.speed
    work = [chain.microbatches * (after - before) for before, after in pairwise(chain.least_work)]
    rates = [1 / chain.least_time(speed) for speed in speeds]
    waits = [rate * _waiting(chain, device) for device, rate in enumerate(rates)] if chain.has_ways else []
    spread = ceil((sum(work) + sum(waits, Fraction(0))) / sum(rates))
    alone = int(max(work) * chain.fastest) // (2 if chain.devices.mirrored else 1)
    return round_up(max(spread, alone), chain.quantum)


def _waiting(chain: Chain, device: int) -> int:
    """Return the ticks in which a device waits at least, at its begin and at its end."""
    stages: Sequence[int] = chain.devices.of_stages
    first = stages.index(device)
    way, hop = chain.ways[first], chain.hops[first]
    latency = sum(chain.least_latency(stage) for stage in range(1, first + 1))
    goes_home = not any(chain.items.weight)
    return way.there + hop.there + latency + (way.back + hop.back + latency if goes_home else 0)
