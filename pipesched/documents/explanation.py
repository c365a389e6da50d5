"""The JSON documents of an explanation, of a timeline and of one operation (version 1), in the user's units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipesched.analysis.reasons.explain import Why
from pipesched.analysis.reasons.explanation import Explanation
from pipesched.documents.json_text import VERSION
from pipesched.pipeline.plan import SIDE_KINDS

if TYPE_CHECKING:
    from pipesched.analysis.measured.timeline import Timeline


def explanation_document(explanation: Explanation) -> dict[str, Any]:
    """Return what is known about a schedule, as one document."""
    return {
        "format": "pipesched.explanation",
        "version": VERSION,
        "makespan": explanation.makespan,
        "bound": explanation.bound.value,
        "idle": {"total": explanation.idle, "unavoidable": explanation.unavoidable, "avoidable": explanation.avoidable},
        "devices": [
            {**{idle.value: time for idle, time in row.items()}, "idle": total}
            for row, total in zip(explanation.devices, explanation.schedule.idle, strict=True)
        ],
        "gaps": [
            {
                "device": gap.device,
                "start": gap.start,
                "end": gap.end,
                "class": gap.idle.value,
                "culprit": str(gap.culprit),
                "waiting": None if gap.waiting is None else str(gap.waiting),
            }
            for gap in explanation.gaps
        ],
        "critical_path": [str(slot) for slot in explanation.critical_path],
        "slack": explanation.slack,
        "sensitivity": [
            {
                "side" if row.kind in SIDE_KINDS else "stage": row.stage,
                "kind": row.kind,
                "count": row.on_path,
                "faster": row.faster,
                "slower": row.slower,
            }
            for row in explanation.sensitivity
        ],
        "p2p_sensitivity": [row._asdict() for row in explanation.p2p_sensitivity],
        "moves": [
            {
                "op": str(move.slot),
                "device": move.device,
                "from": move.start,
                "to": move.to,
                "makespan": move.makespan,
                "peak_memory": move.peak_memory,
                "memory": move.memory,
                "fits": move.fits,
            }
            for move in explanation.moves
        ],
        "moves_complete": explanation.moves_complete,
    }


def why_document(why: Why) -> dict[str, Any]:
    """Return why one operation starts when it does, as a document of its own."""
    return {
        "format": "pipesched.why",
        "version": VERSION,
        "op": str(why.slot),
        "place": why.place,
        "start": why.start,
        "end": why.end,
        "allowed": why.allowed,
        "slack": why.slack,
        "inputs": [
            {"op": str(entry.slot), "what": entry.what, "there": entry.there, "tight": entry.is_tight}
            for entry in why.inputs
        ],
        "chain": [str(slot) for slot in why.chain],
    }


def timeline_document(timeline: Timeline) -> dict[str, Any]:
    """Return the explanation of the step of a measured timeline, with what was measured, in the unit of the traces."""
    return {**explanation_document(timeline.explanation), "measured": measured_document(timeline)}


def measured_document(timeline: Timeline) -> dict[str, Any]:
    """Return what was measured: the makespan, the clocks, and how long operations and messages took."""
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
        "p2p": [
            {
                "boundary": latency.boundary,
                "count": latency.samples,
                "forward": latency.forward,
                "backward": latency.backward,
                "p2p": latency.p2p,
            }
            for latency in timeline.p2p
        ],
        **({} if timeline.machine is None else timeline.machine._asdict()),
    }
