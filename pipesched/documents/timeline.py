"""The JSON document of a measured timeline: that of the explanation of its step, with what was measured."""

from __future__ import annotations

from typing import Any

from pipesched.analysis.measured.timeline import Timeline
from pipesched.documents.explanation import explanation_document


def timeline_document(timeline: Timeline) -> dict[str, Any]:
    """Return the document, in the unit of the traces."""
    return {**explanation_document(timeline.explanation), "measured": measured_document(timeline)}


def measured_document(timeline: Timeline) -> dict[str, Any]:
    """Return what was measured: the makespan, the clocks, and how long operations took."""
    return {
        "makespan": timeline.makespan,
        "offsets": list(timeline.offsets),
        "costs": [
            {
                "stage": cost.stage,
                "kind": cost.kind,
                "count": cost.samples,
                "q1": cost.q1,
                "median": cost.median,
                "q3": cost.q3,
                "planned": cost.planned,
            }
            for cost in timeline.costs
        ],
    }
