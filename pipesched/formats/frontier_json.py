"""The JSON document of a makespan-memory frontier (version 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipesched.formats.comparison_json import rows_document
from pipesched.pipeline.quantities import in_units
from pipesched.solver.frontier import FrontierPoint


def frontier_document(points: Sequence[FrontierPoint]) -> dict[str, Any]:
    """Format "pipesched.frontier": a row a point by rising budget, in the user's units."""
    return rows_document("frontier", map(_row, points))


def _row(point: FrontierPoint) -> dict[str, Any]:
    schedule = point.outcome.schedule
    time, memory = schedule.problem.costs.scale, schedule.problem.memory.scale
    return {
        "budget": in_units(point.budget, memory),
        "makespan": in_units(schedule.makespan, time),
        "span": in_units(schedule.span, time),
        "bound": in_units(point.bound, time),
        "gap": point.gap,
        "status": point.status,
        "bubble": schedule.bubble,
        "peak_memory": [in_units(value, memory) for value in schedule.peak_memory],
        "placement": point.placement,
        "source": point.source,
    }
