"""What no cut of a chain can be below: exact over all cuts with a stage a device, else by the work of all devices."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, inf

from pipesched.core.integers import round_up
from pipesched.solver.cuts.chain import Chain
from pipesched.solver.cuts.in_order import CutsInOrder


def least_of_every_cut(chain: Chain) -> float:
    """Return ticks that no schedule on any cut is below with which one microbatch fits; infinite where none does."""
    if not chain.is_single:
        return least_by_work(chain)
    order = CutsInOrder(chain)
    if chain.has_one_latency or order.least == inf:
        return order.least
    return next(iter(order)).bound


def least_by_work(chain: Chain, *, ways: bool = True) -> int:
    """Return ticks in which all devices can do all work, and no fewer than those of the longest item alone.

    With `ways` each device also waits for its first microbatch, and after its last for the gradient to come home: each
    stage before its first one has an item at least.
    """
    items, speeds = chain.items, chain.devices.speed
    alone = [*zip(items.forward, items.gradient, items.weight, strict=True)]
    if items.pair is not None:  # whatever a backward is paired with, what is left of it is unknown
        alone = [(min(one[0], pair), Fraction(0), Fraction(0)) for one, pair in zip(alone, items.pair, strict=True)]
    work = [sum(map(chain.ticks, one)) * chain.microbatches for one in alone]
    rates = [1 / chain.least_time(speed) for speed in speeds]
    waits = [rate * _waiting(chain, device) for device, rate in enumerate(rates)] if ways else []
    spread = ceil((sum(work) + sum(waits, Fraction(0))) / sum(rates))
    return round_up(max(spread, int(max(work) * chain.fastest)), chain.quantum)


def _waiting(chain: Chain, device: int) -> int:
    """Return the ticks in which a device waits at least, at its begin and at its end."""
    stages: Sequence[int] = chain.devices.of_stages
    first = stages.index(device)
    way, hop = chain.ways[first], chain.hops[first]
    latency = sum(chain.least_latency(stage) for stage in range(1, first + 1))
    goes_home = not any(chain.items.weight)
    return way.there + hop.there + latency + (way.back + hop.back + latency if goes_home else 0)
