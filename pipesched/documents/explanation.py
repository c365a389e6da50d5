"""The JSON documents (version 1) of explanations, of a timeline, of one operation, and of schedules on hardware.

Each has a function `.._document`. Those of pipelines are in the user's units, those of hardware in cycles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipesched.analysis.explain import Explanation, Why
from pipesched.core.reasons import classes
from pipesched.documents.json_text import head, picked
from pipesched.hls.explanation import HardwareExplanation
from pipesched.hls.modulo import Intervals
from pipesched.hls.outcome import HardwareOutcome, RuleTable
from pipesched.pipeline.plan.plan import SIDE_KINDS

if TYPE_CHECKING:
    from pipesched.analysis.measured.timeline import Timeline


def explanation_document(explanation: Explanation) -> dict[str, Any]:
    """Return what is known about a schedule, as one document."""
    return {
        **head("explanation"),
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
        **head("why"),
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


def hardware_document(outcome: HardwareOutcome, bounds: Intervals | None = None) -> dict[str, Any]:
    """Return format "pipesched.hls"; `end` of an operation is when its result is usable, `unit` is [class, instance].

    An operation to which the program gives no name has its expression as `text`. A loop (with its `bounds`) also has
    its initiation interval, to which `lower_bound` and `status` then refer; its operations are those of the first
    iteration.
    """
    schedule = outcome.schedule
    _, instances = schedule.unrolled(1)
    content: dict[str, Any] = {
        **head("hls"),
        **picked(schedule, "latency", "registers"),
        "lower_bound": outcome.bound,
        "status": outcome.status,
        "units": {
            unit.name: {"count": unit.count, "latency": unit.latency, "initiation_interval": unit.interval}
            for unit in schedule.units
        },
        "ops": [
            {
                "op": operation.name,
                "type": operation.type,
                "unit": [schedule.unit(task).name, instances[task]],
                "start": schedule.starts[task],
                "end": schedule.ends[task],
                **({"text": operation.text} if operation.text else {}),
            }
            for task, operation in enumerate(schedule.graph.operations)
        ],
    }
    if bounds is not None:
        content["initiation_interval"] = schedule.interval
        content["interval_bounds"] = bounds._asdict()
    return content


def hardware_explanation_document(explanation: HardwareExplanation) -> dict[str, Any]:
    """Return format "pipesched.explanation" of a schedule on functional units; `unit` is [class, instance].

    Operations have their names in the document of the schedule. `faster` and `slower` are derivatives by the latency of
    a class, `latency_faster` and `latency_slower` the latency where it has a whole cycle less or more (null: it has
    none less).
    """
    return {
        **head("explanation"),
        "makespan": explanation.latency,
        "bound": explanation.bound,
        "idle": {"total": explanation.idle, "unavoidable": explanation.unavoidable, "avoidable": explanation.avoidable},
        "devices": [
            {"unit": [*unit], **{idle.value: row[idle] for idle in classes()}, "idle": sum(row.values())}
            for unit, row in zip(explanation.units, explanation.devices, strict=True)
        ],
        "gaps": [
            {
                "unit": [*gap.unit],
                **picked(gap, "start", "end"),
                "class": gap.idle.value,
                **picked(gap, "culprit", "waiting"),
            }
            for gap in explanation.gaps
        ],
        "critical_path": explanation.critical_path,
        "slack": explanation.slack,
        "sensitivity": [
            {
                "class": row.unit_class,
                "count": row.on_path,
                **picked(row, "faster", "slower", "latency_faster", "latency_slower"),
            }
            for row in explanation.sensitivity
        ],
    }


def rules_document(table: RuleTable) -> dict[str, Any]:
    """Return format "pipesched.hls-comparison": a row a rule, and the optimum as a document of its own."""
    return {
        **head("hls-comparison"),
        "rows": [
            {"priority": priority, "tie": tie, "latency": cell.latency, "registers": cell.registers}
            for (priority, tie), cell in table.results.items()
        ],
        "remarks": list(table.remarks),
        "optimum": hardware_document(table.optimum),
    }
