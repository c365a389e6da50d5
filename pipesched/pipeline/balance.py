"""Uneven work: what the makespan could lose if the device with the most work had less of it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from pipesched.core.arrays import total
from pipesched.pipeline.layers import Layers, least_counts
from pipesched.pipeline.layout import equal_layout, largest_work
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.recut import speeds_of
from pipesched.pipeline.schedule import Schedule


def saved_by_moving(schedule: Schedule) -> Fraction:
    """Return by how many ticks less the bottleneck works at best, once work of one stage has moved away from it.

    That is one layer, where the layers are known, which goes to the device with the least work; where they differ, it
    is the layer at either edge of a stage that saves most, and goes to the next stage. Else it is its smallest stage,
    and of a single stage any part of it; the bottleneck then works as long as the next device, as the mean of all, or
    as without that stage: the longest of these.
    """
    problem, device, works = schedule.problem, schedule.bottleneck, schedule.useful_ticks
    others = [work for there, work in enumerate(works) if there != device]
    if problem.layers is not None and not problem.layers.layer.is_cut_by_counts:
        return _saved_at_edges(problem, problem.layers, device)
    if problem.layers is not None:
        layer = _ticks_of_layer(problem, problem.layers)
        after = max([works[device] - layer, *others, min(others) + layer]) if others else works[device]
        return Fraction(max(works[device] - after, 0))
    stages = problem.settled_placement.stages_on(device)
    left = works[device] - min(_work(schedule, stage, device) for stage in stages) if len(stages) > 1 else 0
    return works[device] - max(Fraction(max([left, *others])), schedule.balanced_ticks)


def _saved_at_edges(problem: Problem, layers: Layers, device: int) -> Fraction:
    """Return by how many ticks less the largest work is, once a layer has moved over an edge of a stage of a device."""
    placement, speeds = problem.settled_placement, speeds_of(problem)
    least = least_counts(problem.stages, layers.first, layers.last)
    layers = layers.weighed(problem.units)
    works = [largest_work(layers, placement, speeds)[1]]
    for stage in placement.stages_on(device):
        for there in (stage - 1, stage + 1):
            layout = [*layers.layout]
            if 0 <= there < problem.stages and layout[stage] > least[stage]:
                layout[stage] -= 1
                layout[there] += 1
                works.append(largest_work(replace(layers, layout=tuple(layout)), placement, speeds)[1])
    return (works[0] - min(works)) * problem.microbatches * problem.ticks.per_unit


def _ticks_of_layer(problem: Problem, layers: Layers) -> int:
    """Return the ticks that a device works on one layer; in a mirrored placement it runs half of the microbatches."""
    count = problem.microbatches // 2 if problem.settled_placement.mirrored else problem.microbatches
    factors = problem.units.factors("work")[:count]
    return int(layers.layer.work * problem.ticks.per_unit * sum(factors, Fraction(0)))


def _work(schedule: Schedule, stage: int, device: int) -> int:
    """Return the ticks that a device works on a stage, of which it may run half of the microbatches."""
    model = schedule.problem.model
    here = model.where[stage] == device
    return sum(total(model.ticks[cost][stage, here]) for cost in ("forward", "backward"))


class Balance(NamedTuple):
    """The largest work of a device on the mean microbatch, in the user's time unit: of a layout, of equal counts."""

    device: int
    work: Fraction
    equal: Fraction

    @property
    def gain(self) -> float:
        """The part of the largest work that the layout saves over equal counts; negative where it has more."""
        return float(1 - self.work / self.equal) if self.equal else 0.0


def balance(problem: Problem) -> Balance | None:
    """Return how even the layout of a problem on its placement is; None where it is not given by layers."""
    if problem.layers is None:
        return None
    layers, placement, speeds = problem.layers.weighed(problem.units), problem.settled_placement, speeds_of(problem)
    device, work = largest_work(layers, placement, speeds)
    counts = equal_layout(layers.count, least_counts(problem.stages, layers.first, layers.last))
    return Balance(device, work, largest_work(replace(layers, layout=counts), placement, speeds)[1])
