"""The JSON documents of hardware schedules (version 1). Times are in cycles."""

from __future__ import annotations

from typing import Any

from pipesched.core.reasons import classes
from pipesched.documents.json_text import picked
from pipesched.hls.explanation import HardwareExplanation
from pipesched.hls.modulo import Intervals
from pipesched.hls.outcome import HardwareOutcome, RuleTable


def hardware_document(outcome: HardwareOutcome, bounds: Intervals | None = None) -> dict[str, Any]:
    """Return format "pipesched.hls"; `end` of an operation is when its result is usable, `unit` is [class, instance].

    An operation to which the program gives no name has its expression as `text`. A loop (with its `bounds`) also has
    its initiation interval, to which `lower_bound` and `status` then refer; its operations are those of the first
    iteration.
    """
    schedule = outcome.schedule
    _, instances = schedule.unrolled(1)
    content: dict[str, Any] = {
        "format": "pipesched.hls",
        "version": 1,
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
        "format": "pipesched.explanation",
        "version": 1,
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
        "format": "pipesched.hls-comparison",
        "version": 1,
        "rows": [
            {"priority": priority, "tie": tie, "latency": cell.latency, "registers": cell.registers}
            for (priority, tie), cell in table.results.items()
        ],
        "remarks": list(table.remarks),
        "optimum": hardware_document(table.optimum),
    }
