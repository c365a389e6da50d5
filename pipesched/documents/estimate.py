"""The JSON document of an estimate (version 1)."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from pipesched.documents.problem import problem_document
from pipesched.documents.tuning import against_document, trust_document
from pipesched.estimation.items import GB, LAYER, STATES
from pipesched.estimation.result import DeviceMemory, Estimate, sizes_beside
from pipesched.estimation.times import OPERATIONS
from pipesched.estimation.trust.evidence import SpeedRatio


def estimate_document(estimate: Estimate, against: Iterable[tuple[str, SpeedRatio]] = ()) -> dict[str, Any]:
    """Return format "pipesched.estimate": times of a microbatch in ms (`step`: of the step), memory of a rank in GB.

    `against` are ratios of its step to those of other configs, by their names.
    """
    found = estimate.parameters
    return {
        "format": "pipesched.estimate",
        "version": 1,
        "parameters": found.total,
        "active_parameters": found.active,
        "flops_per_iteration": estimate.flops,
        "problem": problem_document(estimate.problem),
        "stages": [_stage(estimate, number) for number in range(len(estimate.stages))],
        "items": [_item(estimate, number) for number in range(len(estimate.items))],
        "devices": [_device(device, estimate) for device in estimate.devices],
        "layout": estimate.layout,
        "proved": estimate.outcome.cut is None or estimate.outcome.cut.is_exact,
        "fits": estimate.fits,
        "step": _step(estimate),
        **({} if estimate.trust is None else {"trust": trust_document(estimate.trust)}),
        **({} if estimate.expected is None else {"expected": estimate.expected._asdict()}),
        **({"against": against_document(against)} if against else {}),
        "notes": list(estimate.notes),
    }


def _gb(size: Fraction) -> float:
    return float(size / GB)


def _count(number: Fraction) -> int | float:
    return number.numerator if number.denominator == 1 else float(number)


def _stage(estimate: Estimate, number: int) -> dict[str, Any]:
    stage = estimate.stages[number]
    return {
        "layers": stage.count(LAYER),
        "parameters": _count(stage.size("parameters")),
        **{key: estimate.stage_time(number, key) for key in OPERATIONS},
        "activation": estimate.stage_activation(number),
    }


def _item(estimate: Estimate, number: int) -> dict[str, Any]:
    item = estimate.items.each[number]
    times = {key: estimate.item_time(number, key) for key in OPERATIONS}
    held = _gb(estimate.item_activation(number))
    return {"kind": item.kind, **times, "activation": held, "states": _gb(item.states)}


def _step(estimate: Estimate) -> dict[str, Any]:
    """Return the times of the step; where they are part of the schedule, also what it does not hide of them."""
    found, times = estimate.step._asdict(), estimate.outcome.schedule.step
    return {**found, "exposed": times.document} if times is not None and estimate.has_step else found


def _device(device: DeviceMemory, estimate: Estimate) -> dict[str, Any]:
    sizes = (*STATES, *sizes_beside(estimate), "logits", "fixed", "total", "budget")
    in_gb = {key: _gb(getattr(device, key)) for key in sizes}
    return {"parameters": _count(device.parameters), **in_gb, "fits": device.fits}
