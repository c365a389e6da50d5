"""The schedule of a measured step: operations at the times, and of the lengths, that they had."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from math import gcd

from pipesched.analysis.measured.aligned import AlignedStep, is_transfer
from pipesched.analysis.measured.ranges import PER_UNIT, ops_of
from pipesched.core.timing import UNTIMED
from pipesched.pipeline.ops import Op
from pipesched.pipeline.plan import plan_from_slots
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule


def measured_schedule(problem: Problem, step: AlignedStep, resolution: int = 1) -> Schedule:
    """Return the schedule, from time 0 on, in ticks that are as fine as its times and the problem's costs need.

    At least `resolution` of them are a unit.
    """
    ranges = [*chain(*step.ranges)]
    first = min(one.start for one in ranges)
    scale = _scale(chain.from_iterable((one.start - first, one.end - first) for one in ranges))
    problem = replace(problem, costs=replace(problem.costs, resolution=max(scale, resolution)))
    rows = [[one.slot for one in row if not is_transfer(one.slot)] for row in step.ranges]
    moves: list[list[Op]] = []
    if any(is_transfer(one.slot) for one in ranges):
        moves = [[] for _ in range(problem.lane_pairs)]
        for device, row in enumerate(step.ranges):
            moves[problem.lane_pair(device)] += [op for one in row if is_transfer(one.slot) for op in ops_of(one.slot)]
    begin = {op: one.start for one in ranges for op in ops_of(one.slot)}
    lanes = [sorted(lane, key=begin.__getitem__) for lane in moves]
    plan = plan_from_slots(rows, problem.stages, problem.microbatches, lanes)
    starts, ends = [UNTIMED] * plan.index.size, [UNTIMED] * plan.index.size
    for one in ranges:
        for op in ops_of(one.slot):
            number = plan.index.number(op)
            starts[number] = (one.start - first) * problem.ticks.per_unit // PER_UNIT
            ends[number] = (one.end - first) * problem.ticks.per_unit // PER_UNIT
    return Schedule(problem, plan, starts, ends, own_lengths=True)


def _scale(times: Iterable[int]) -> int:
    """Return the least power of ten that makes times, in ticks of a trace, whole."""
    coarse = gcd(PER_UNIT, *times)
    scale = 1
    while coarse % (PER_UNIT // scale):
        scale *= 10
    return scale
