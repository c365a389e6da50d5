"""What a step costs beside its passes, in integer ticks and grains: the one place that says so.

A gather, a reduction and the sum of tied gradients run on the network, whose speed is not that of the device; an
optimizer and side work last cost / speed, as passes do. Of each stage, what its level shards is divided by the ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import lcm
from typing import NamedTuple

from pipesched.pipeline.costs import STEP_TIMES, Costs, at_speed
from pipesched.pipeline.memory import Memory
from pipesched.pipeline.quantities import Exact, canonical, grains_per_unit, ticks_per_unit, to_fraction, whole
from pipesched.pipeline.step import GRADIENTS, OPTIMIZER_STATES, WEIGHTS, Shard, SideItem

DIVIDED_FROM = {"weights": WEIGHTS, "gradients": GRADIENTS, "states": OPTIMIZER_STATES}  # the level that divides each


class StepTicks(NamedTuple):
    """What the step lasts beside its passes, in ticks: by stage, `tied` once, side work by item (see `side`)."""

    gather: tuple[int, ...]
    reduce: tuple[int, ...]
    optimizer: tuple[int, ...]
    tied: int
    side_p2p: tuple[int, ...]
    per_unit: int
    side: Sequence[SideItem]
    speed: Sequence[Exact] | None

    def side_lasts(self, key: str, item: int, microbatch: int, device: int) -> int:
        """Return what the "forward" or "backward" of an item lasts for a microbatch on a device."""
        speed = Fraction(1) if self.speed is None else to_fraction(self.speed[device])
        return int(at_speed(to_fraction(self.side[item].time(key, microbatch)), speed) * self.per_unit)


class StepGrains(NamedTuple):
    """What comes and goes beside activations, in grains: whole weights and gradients by stage, side work by item."""

    weights: tuple[int, ...]
    gradients: tuple[int, ...]
    side_activation: tuple[int, ...]
    side_output: tuple[int, ...]
    side_static: tuple[int, ...]


def step_resolution(costs: Costs, side: Sequence[SideItem], speed: Sequence[Exact] | None) -> int:
    """Return the ticks in a time unit that make the times of the step whole on every device."""
    of_side = (time for item in side for time in (*item.forward, *(item.backward or ())))
    scaled = {*map(to_fraction, (*(costs.optimizer or ()), *of_side))}
    fixed = [one for key in STEP_TIMES for one in getattr(costs, key) or ()]
    fixed += [costs.tied or 0, *(item.p2p for item in side)]
    speeds = {Fraction(1), *map(to_fraction, speed or ())}
    return ticks_per_unit([*map(to_fraction, fixed), *(at_speed(one, by) for one in scaled for by in speeds)])


def step_ticks(
    costs: Costs, side: Sequence[SideItem], speed: Sequence[Exact] | None, devices: Sequence[int] | None, per_unit: int
) -> StepTicks:
    """Return what the step lasts with each stage on one of `devices` (None: at speed 1); absent costs are 0."""
    nothing: tuple[Exact, ...] = (0,) * costs.stages
    speeds = [1] * costs.stages if speed is None or devices is None else [speed[there] for there in devices]
    updates = [at_speed(*map(to_fraction, both)) for both in zip(costs.optimizer or nothing, speeds, strict=True)]
    gather, reduce, optimizer = (whole(times or nothing, per_unit) for times in (costs.gather, costs.reduce, updates))
    tied, *hops = whole((costs.tied or 0, *(item.p2p for item in side)), per_unit)
    return StepTicks(gather, reduce, optimizer, tied, tuple(hops), per_unit, side, speed)


def divisors(shard: Shard) -> dict[str, int]:
    """Return by how many ranks each part of what stays of a stage is divided, by the fields of Memory."""
    levels = DIVIDED_FROM.items()
    return {"static": 1, **{key: shard.ranks if shard.divides(level) else 1 for key, level in levels}}


def kept_memory(memory: Memory, shard: Shard, side: Sequence[SideItem]) -> Memory:
    """Return the memory whose `static` counts all that stays of each stage, in grains fine enough for what does not."""
    parts = [[to_fraction(size) / by for size in getattr(memory, key)] for key, by in divisors(shard).items()]
    static = tuple(canonical(sum(column, Fraction(0))) for column in zip(*parts, strict=True))
    comes = [to_fraction(size) for key in ("weights", "gradients") for size in getattr(memory, key)]
    comes += [to_fraction(size) for item in side for size in (item.activation, item.output, item.static)]
    least = lcm(memory.resolution, grains_per_unit(comes))
    return replace(memory, static=static, resolution=least)


def step_grains(memory: Memory, shard: Shard, side: Sequence[SideItem], per_unit: int) -> StepGrains:
    """Return what comes and goes: whole weights where they are divided, and whole gradients where these are."""
    nothing = (0,) * len(memory.static)
    of_stages = (memory.weights if shard.divides(WEIGHTS) else nothing,
                 memory.gradients if shard.divides(GRADIENTS) else nothing)  # fmt: skip
    of_side = ([getattr(item, key) for item in side] for key in ("activation", "output", "static"))
    return StepGrains(*(whole(sizes, per_unit) for sizes in (*of_stages, *of_side)))
