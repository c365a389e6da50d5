"""The JSON documents of an explanation, of a timeline and of one operation (version 1), in the user's units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipesched.analysis.explain import Explanation, Why
from pipesched.documents.json_text import VERSION, picked
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
        **picked(explanation, "covers", "gap"),
        "here": {"bound": explanation.here.bound.value, "covers": explanation.here.covers},
        "idle": {"total": explanation.idle, "unavoidable": explanation.unavoidable, "avoidable": explanation.avoidable},
        "devices": [
            {**{idle.value: time for idle, time in row.items()}, "idle": total}
            for row, total in zip(explanation.devices, explanation.schedule.idle, strict=True)
        ],
        "gaps": [
            {
                **picked(gap, "device", "start", "end"),
                "class": gap.idle.value,
                "culprit": str(gap.culprit),
                "waiting": None if gap.waiting is None else str(gap.waiting),
                **({} if gap.behind is None else {"behind": str(gap.behind), **picked(gap, "places", "until")}),
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
                **picked(row, "faster", "slower"),
            }
            for row in explanation.sensitivity
        ],
        "p2p_sensitivity": [row._asdict() for row in explanation.p2p_sensitivity],
        "moves": [
            {
                "op": str(move.slot),
                "device": move.device,
                "from": move.start,
                **picked(move, "to", "first", "last", "makespan", "peak_memory", "memory", "fits"),
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
        **picked(why, "place", "start", "end", "allowed", "slack"),
        "inputs": [
            {"op": str(entry.slot), "what": entry.what, "there": entry.there, "tight": entry.is_tight}
            for entry in why.inputs
        ],
        "chain": [str(slot) for slot in why.chain],
    }


def timeline_document(timeline: Timeline) -> dict[str, Any]:
    """Return the explanation of the step of a measured timeline, with what was measured, in the unit of the traces."""
    measured = {
        "makespan": timeline.makespan,
        "offsets": list(timeline.offsets),
        "costs": [
            {**picked(cost, "stage", "kind"), "count": cost.samples, **picked(cost, "q1", "median", "q3", "planned")}
            for cost in timeline.costs
        ],
        "p2p": [
            {"boundary": one.boundary, "count": one.samples, **picked(one, "forward", "backward", "p2p")}
            for one in timeline.p2p
        ],
        **({} if timeline.machine is None else timeline.machine._asdict()),
    }
    if timeline.messages is not None:
        rows = {key: [one._asdict() for one in getattr(timeline.messages, key)] for key in ("devices", "queues")}
        measured["messages"] = {**rows, "fits": list(timeline.messages.fits)}
    return {**explanation_document(timeline.explanation), "measured": measured}
