"""A comparison as a figure: its schedules as points of makespan and peak memory."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from pipesched.errors import ConfigError
from pipesched.pareto import Standing
from pipesched.render.figure.frontier import Point, frontier_image


def pareto_image(standings: Sequence[Standing], kind: str) -> bytes:
    """The schedules of a comparison as svg, png or pdf, with the budget's room where all share one.

    Raises ConfigError if there is none.
    """
    if not standings:
        raise ConfigError("there is nothing to draw: none of the algorithms applies")
    points = [
        Point(one.outcome.algorithm, float(one.makespan), float(one.peak), one.dominated_by is not None)
        for one in standings
    ]
    problems = [one.outcome.schedule.problem for one in standings]
    rooms = {Fraction(room, one.memory.scale) for one in problems for room in one.room() if room is not None}
    return frontier_image(
        points,
        kind,
        time_unit=problems[0].time_unit,
        memory_unit=problems[0].memory.unit,
        room=float(rooms.pop()) if len(rooms) == 1 else None,
    )
