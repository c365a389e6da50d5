"""Lanes that two devices share: the transfers of both in one order, from a plan in which each device has its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise

from pipesched.core.paths import heads, topological_order
from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.pipeline.lowering import lower_plan
from pipesched.pipeline.plan import LanePair, Plan, settled
from pipesched.pipeline.problem import Problem


def shared_lanes(problem: Problem, plan: Plan) -> list[LanePair]:
    """Return the lanes of pairs of devices for a plan in which each device has its own.

    The transfers of both devices are in the order of their earliest starts, and at one instant each stands behind all
    that it waits for: so a plan that runs with lanes of its own for each device also runs with these.
    """
    place = _places(problem, plan)

    def merged(lanes: Sequence[Sequence[int]]) -> list[int]:
        return sorted(chain.from_iterable(lanes), key=lambda number: place.get(number, (0, 0)))

    pairs = ([plan.lanes[device] for device in problem.devices_of_lanes(lane)] for lane in range(problem.lane_pairs))
    return [LanePair(*map(merged, zip(*own, strict=True))) for own in pairs]


def _places(problem: Problem, plan: Plan) -> dict[int, tuple[int, int]]:
    """Return the earliest start of each operation, each device with its own lanes, and its place among equal starts.

    Empty for a plan that does not run, which is for `schedule_plan` to say.
    """
    in_order = chain.from_iterable(map(pairwise, plan.machines))
    try:
        own = replace(settled(problem, plan), lanes="device")
        graph = lower_plan(own, replace(plan, waits=[*plan.waits, *in_order]))
        starts = heads(graph)
    except (ConfigError, InvalidSchedule):
        return {}
    return {task: (starts[task], place) for place, task in enumerate(topological_order(graph))}
