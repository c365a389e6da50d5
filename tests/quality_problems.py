"""The problems of the quality tables by their names: seeded, without a clock, small enough to run in a moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_READ: dict[str, dict[str, dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "data" / "quality_problems.json").read_text(encoding="utf-8")
)
PROBLEMS = _READ["problems"]  # uneven stages, latencies, halves that are retained, no multiple of the devices
ON_V = _READ["on v"]  # two stages a device on a V, for building blocks; with the peak of a device, in chunks
SPLIT = _READ["split"]  # one stage a device, a split backward, and a budget of so many activations
FREE = _READ["free"]  # no budget and no placement: what every family can run
SAVING = _READ["saving"]  # activations do not all fit, and may be recomputed or offloaded
TIGHT = _READ["tight"]  # the area of the budget, or residences one after another, bound the makespan
SMALL = _READ["small"]  # CP-SAT proves the optimum in a moment
SMALL_SAVING = _READ["small saving"]
UNLIKE = _READ["unlike"]  # microbatches that differ

# Random task graphs: tasks, units of each resource, a seed; and programs: adders, multipliers and their latency.
RANDOM_GRAPHS = {
    "one and one": (30, (1, 1), 18),
    "three": (30, (1, 1, 1), 15),
    "pairs": (30, (2, 2), 14),
    "mixed": (30, (2, 2, 1), 33),
    "half": (24, (1, 1, 1), 28),
    "small": (18, (1, 1, 1), 14),
}
PROGRAMS = {
    "wave filter": ("ewf", 2, 2, 2),
    "one adder": ("ewf", 1, 2, 1),
    "auto-regression": ("arf", 2, 3, 3),
    "cosine": ("dct8", 2, 3, 3),
}
