"""Uneven work: what the makespan could lose if the device with the most work had less of it."""

from __future__ import annotations

from fractions import Fraction

from pipesched.pipeline.schedule import Schedule


def saved_by_moving(schedule: Schedule) -> Fraction:
    """Return by how many ticks less the bottleneck works at best, once the work of one stage has moved away from it.

    It then works as long as the next device, as the mean of all, or as without its smallest stage: the longest of
    these. Of a single stage, any part may move.
    """
    problem, device, works = schedule.problem, schedule.bottleneck, schedule.useful_ticks
    others = [work for there, work in enumerate(works) if there != device]
    stages = problem.settled_placement.stages_on(device)
    left = works[device] - min(_work(schedule, stage, device) for stage in stages) if len(stages) > 1 else 0
    return works[device] - max(Fraction(max([left, *others])), schedule.balanced_ticks)


def _work(schedule: Schedule, stage: int, device: int) -> int:
    """Return the ticks that a device works on a stage, of which it may run half of the microbatches."""
    problem = schedule.problem
    copies = problem.settled_placement.copies(stage, problem.microbatches)
    count = sum(microbatches for there, microbatches in copies if there == device)
    return count * (problem.ticks.forward[stage] + problem.ticks.backward[stage])
