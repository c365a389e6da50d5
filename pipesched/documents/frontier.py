"""The JSON document of a makespan-memory frontier (version 1): writing it, and reading it back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipesched.checks import shown
from pipesched.documents.comparison import plain_numbers, rows_document
from pipesched.documents.json_text import get, require_finite, require_metrics
from pipesched.errors import ConfigError
from pipesched.results.frontier import Frontier, FrontierPoint
from pipesched.results.status import Status
from pipesched.schedulers.options import OBJECTIVES


def frontier_document(frontier: Frontier) -> dict[str, Any]:
    """Return format "pipesched.frontier": a row a point by rising budget, in the user's units."""
    labels = {"objective": frontier.objective, "time_unit": frontier.time_unit, "memory_unit": frontier.memory_unit}
    return {**rows_document("frontier", map(_row, frontier)), **labels}


def _row(point: FrontierPoint) -> Mapping[str, Any]:
    if point.outcome is None:
        return point.row or {}
    schedule = point.outcome.schedule
    return {
        "budget": point.budget,
        "makespan": schedule.makespan,
        "span": schedule.span,
        "bound": point.bound,
        "gap": point.gap,
        "status": point.status,
        "bubble": schedule.bubble,
        "peak_memory": schedule.peak_memory,
        "memory": schedule.memory,
        "placement": point.placement,
        "source": point.source,
    }


def frontier_of(content: dict[str, Any]) -> Frontier:
    """Return the frontier in a document: its points, without schedules. Raises ConfigError."""
    objective = content.get("objective", "makespan")
    if not isinstance(objective, str) or objective not in OBJECTIVES:
        raise ConfigError(f"'objective' must be one of {', '.join(sorted(OBJECTIVES))}, not {shown(objective)}")
    rows = plain_numbers(get(content, "rows", list))
    points = tuple(_point(row, objective, number) for number, row in enumerate(rows))
    return Frontier(points, objective, str(content.get("time_unit", "")), str(content.get("memory_unit", "")))


def _point(row: Any, objective: str, number: int) -> FrontierPoint:
    try:
        numbers = {key: get(row, key, object) for key in ("budget", objective, "bound", "gap")}
        texts = {key: get(row, key, str) for key in ("status", "placement", "source")}
    except ConfigError as error:
        raise ConfigError(f"rows[{number}]: {error}") from None
    for key, value in numbers.items():
        require_finite(value, f"rows[{number}]: {key}")
    require_metrics(row, f"rows[{number}]: ")
    if texts["status"] not in (Status.OPTIMAL.value, Status.FEASIBLE.value):
        raise ConfigError(f"rows[{number}]: status must be optimal or feasible, not {shown(texts['status'])}")
    return FrontierPoint(
        budget=numbers["budget"],
        value=numbers[objective],
        bound=numbers["bound"],
        gap=numbers["gap"],
        status=Status(texts["status"]),
        placement=texts["placement"],
        source=texts["source"],
        row=row,
    )
