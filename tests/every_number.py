"""A config that gives every number, and the same as arguments of `make_problem`."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

FILE = """\
devices: 2
stages: 4
microbatches: 3
placement: loop
costs: {forward: 7, backward: 8, recompute: 9, overlap: 10, p2p: 11, offload: 12, reload: 13}
memory: {activation: 14, retain: 0.5, checkpoint: 0.6, static: 15, budget: 100}
"""
GIVEN: dict[str, Any] = {
    "devices": 2,
    "stages": 4,
    "microbatches": 3,
    "placement": "loop",
    "forward": 7,
    "backward": 8,
    "recompute": 9,
    "overlap": 10,
    "p2p": 11,
    "offload": 12,
    "reload": 13,
    "activation": 14,
    "retain": Fraction(1, 2),
    "checkpoint": Fraction(3, 5),
    "static": 15,
    "budget": 100,
}
