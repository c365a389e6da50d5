"""Tunings that are made by hand, so that what is shown of them does not change with the cost model."""

from __future__ import annotations

from typing import Any

import pipesched
from pipesched.estimation.result import TrainingStep
from pipesched.tuning.result import Doubt, NearMiss, OverMemory, TimeShare, Tuning
from pipesched.tuning.space import Layout, SpacePoint
from pipesched.tuning.trial import Trial

SETUP = """\
model: llama-3-8b
hardware: h100-sxm
parallel: {gpus: 8, tensor: 2, pipeline: 4}
batch: {sequence: 4096, global: 32}
"""


def layout(tensor: int = 1, pipeline: int = 1, chunks: int = 1, micro: int = 1, **more: Any) -> Layout:
    """A layout, all other sizes the usual ones."""
    usual = {"context": 1, "expert": 1, "expert_tensor": 1, "recompute": "none"}
    return Layout(tensor=tensor, pipeline=pipeline, chunks=chunks, micro=micro, **{**usual, **more})


def trial(place: Layout, algorithm: str, rate: float, memory: float, bubble: float = 0.1) -> Trial:
    """A point that was simulated, on GPUs of 80 GB."""
    step = TrainingStep(algorithm, 900.0, 890.0, 20.0, 10.0, 930.0, rate, rate / 20, rate / 20_000, rate / 19_000)
    return Trial(SpacePoint(place, algorithm), step, memory, 80 - memory, bubble, "Et*8|t*8|t*8|t*8L")


ROWS = (
    trial(layout(2, 4), "zb-h1", 10_412.34, 61.2, 0.051),
    trial(layout(2, 4, 2), "interleaved", 10_201.5, 64.875, 0.062),
    trial(layout(2, 4, micro=2), "1f1b", 9_800.0, 79.96, 0.12),
    trial(layout(4, 2, recompute=3), "1f1b", 9_512.0, 33.3, 0.09),
)
PARETO = (ROWS[0], ROWS[3], trial(layout(8, 1, recompute="selective"), "1f1b", 7_100.0, 21.5, 0.0))
PRUNED = {"divisibility": 460_000, "memory": 8_000, "bound": 1_000, "dominance": 188}
MADE = Tuning(
    rows=ROWS,
    space=470_000,
    simulated=812,
    pruned=PRUNED,
    legal=10_000,
    pareto=PARETO,
    parts=(
        TimeShare("matrix products", 0.552),
        TimeShare("bubble", 0.051),
        TimeShare("optimizer", 0.0108),
        TimeShare("p2p", 0.0001),
    ),
    wishes=(OverMemory(layout(1, 4), "zb-h1", 3.21, 10_950.0),),
    doubts=(Doubt("gemm", 0.9, ROWS[1], 0.0123), Doubt("network", 0.9, ROWS[0], 0.0)),
    capacity=80.0,
    estimate=pipesched.estimate(SETUP, "zb-h1"),
    config=SETUP,
)
NOTHING = Tuning(
    rows=(),
    space=96,
    simulated=0,
    pruned={"divisibility": 60, "memory": 36, "bound": 0, "dominance": 0},
    nearest=(
        NearMiss(layout(8, 1), "1f1b", 12.34, ("recompute full", "16 GPUs")),
        NearMiss(layout(4, 2, expert=2), "1f1b", 0.0123),
    ),
    capacity=24.0,
    name="mine",
)
