"""The JSON document of an estimate (version 1)."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from pipesched.documents.problem import problem_document
from pipesched.documents.tuning import against_document, trust_document
from pipesched.estimation.items import GB, LAYER, STATES
from pipesched.estimation.result import Estimate, sizes_beside
from pipesched.estimation.times import OPERATIONS
from pipesched.estimation.trust.evidence import SpeedRatio


def estimate_document(estimate: Estimate, against: Iterable[tuple[str, SpeedRatio]] = ()) -> dict[str, Any]:
    """Return format "pipesched.estimate": times of a microbatch in ms (`step`: of the step), memory of a rank in GB.

    `against` are ratios of its step to those of other configs, by their names.
    """
    found, step, times = estimate.parameters, estimate.step._asdict(), estimate.outcome.schedule.step
    if times is not None and estimate.has_step:  # what the schedule does not hide
        step["exposed"] = times.document
    sizes = (*STATES, *sizes_beside(estimate), "logits", "fixed", "total", "budget")
    return {
        "format": "pipesched.estimate",
        "version": 1,
        "parameters": found.total,
        "active_parameters": found.active,
        "flops_per_iteration": estimate.flops,
        "problem": problem_document(estimate.problem),
        "stages": [
            {
                "layers": stage.count(LAYER),
                "parameters": _count(stage.size("parameters")),
                **{key: estimate.stage_time(number, key) for key in OPERATIONS},
                "activation": estimate.stage_activation(number),
            }
            for number, stage in enumerate(estimate.stages)
        ],
        "items": [
            {
                "kind": item.kind,
                **{key: estimate.item_time(number, key) for key in OPERATIONS},
                "activation": float(estimate.item_activation(number) / GB),
                "states": float(item.states / GB),
            }
            for number, item in enumerate(estimate.items.each)
        ],
        "devices": [
            {
                "parameters": _count(device.parameters),
                **{key: float(getattr(device, key) / GB) for key in sizes},
                "fits": device.fits,
            }
            for device in estimate.devices
        ],
        "layout": estimate.layout,
        "proved": estimate.outcome.cut is None or estimate.outcome.cut.is_exact,
        "fits": estimate.fits,
        "step": step,
        **({} if estimate.trust is None else {"trust": trust_document(estimate.trust)}),
        **({} if estimate.expected is None else {"expected": estimate.expected._asdict()}),
        **({"against": against_document(against)} if against else {}),
        "notes": list(estimate.notes),
    }


def _count(number: Fraction) -> int | float:
    return number.numerator if number.denominator == 1 else float(number)
