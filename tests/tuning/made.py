"""Tunings that are made by hand, so that what is shown of them does not change with the cost model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp
from typing import Any

import pipesched
from pipesched import Evidence, Interval, NearRun, OutsideField, Parallelism, SpacePoint, Trial, Trust, Tuning
from pipesched.estimation.result import TrainingStep
from pipesched.estimation.trust.evidence import YOURS, PublishedRun, Standing
from pipesched.estimation.trust.facts import KINDS, ComparedRun, RunFacts
from pipesched.estimation.trust.inside import WhatToMeasure
from pipesched.estimation.trust.residuals import START, ResidualModel
from pipesched.tuning.judged import with_behind
from pipesched.tuning.result import Doubt, NearMiss, TimeShare, Unmeasured

SETUP = """\
model: llama-3-8b
hardware: h100-sxm
parallel: {gpus: 8, tensor: 2, pipeline: 4}
batch: {sequence: 4096, global: 32}
"""


def layout(tensor: int = 1, pipeline: int = 1, chunks: int = 1, micro: int = 1, **more: Any) -> Parallelism:
    """A layout, all other sizes the usual ones."""
    usual = {"context": 1, "expert": 1, "expert_tensor": 1, "recompute": "none"}
    return Parallelism(tensor=tensor, pipeline=pipeline, chunks=chunks, micro=micro, **{**usual, **more})


def trial(place: Parallelism, algorithm: str, rate: float, memory: float, bubble: float = 0.1) -> Trial:
    """A point that was simulated, on GPUs of 80 GB."""
    step = TrainingStep(algorithm, 900.0, 890.0, 20.0, 10.0, 930.0, rate, rate / 20, rate / 20_000, rate / 19_000)
    margin = 80 - memory * 1.025
    return Trial(SpacePoint(place, algorithm), step, memory, 80 - memory, margin, bubble, "Et*8|t*8|t*8|t*8L")


def run_of(place: Parallelism, algorithm: str, source: str = YOURS) -> ComparedRun:
    """A run of a model of 8 B on 8 H100."""
    facts = RunFacts(
        model="32x4096", hidden=4096, experts=0, latent=False, gpu="h100-sxm", gpus=8, **place.parallel, split=True,
        sequence=4096, micro=place.micro, recompute=str(place.recompute), tensor_overlap=False, algorithm=algorithm,
        shard=place.shard or "", precision=place.precision or "bf16",
    )  # fmt: skip
    return ComparedRun(source, source, facts)


def trusted(one: Trial, mean: float = 0.02, spread: float = 0.08, outside: Sequence[OutsideField] = ()) -> Trial:
    """A trial with how sure it is: so much slower than estimated, within so much; it surely fits into 78 GB."""
    rate = one.rate
    ends = [factor * exp(-mean) for factor in (exp(-1.2816 * spread), 1, exp(1.2816 * spread))]
    time = Interval(*(930.0 / factor for factor in reversed(ends)))
    memory = Interval(one.memory * 0.99, one.memory * 1.01, one.memory * 1.025)
    standing = Standing(run_of(*one.point), 930.0 * ROWS_RATE / rate, MODEL)
    evidence = Evidence(tuple(outside), (NearRun("theirs-0", "theirs", "https://theirs", 0.05, 9_900.0, 0.031),))
    rates = Interval(*(rate * factor for factor in ends))
    is_sure = memory.high <= 80
    return replace(one, trust=Trust(0.8, time, rates, memory, spread, is_sure, evidence, standing))


def published(name: str, place: Parallelism, rate: float, error: float) -> PublishedRun:
    """A run that was published: 32 sequences of 4,096 tokens on 8 GPUs."""
    time = 4096 * 32 / 8 / rate * 1e3
    return PublishedRun(name, "https://theirs", "llama-3-8b", run_of(place, "1f1b", "theirs"), time,
                        time / (1 + error), 32)  # fmt: skip


ROWS_RATE = 10_412.34
MODEL = ResidualModel({**START, "noise": 0.01}, dict.fromkeys(KINDS, 1.0))
ROWS = tuple(
    with_behind(
        [
            trusted(trial(layout(2, 4), "zb-h1", ROWS_RATE, 61.2, 0.051)),
            trusted(trial(layout(2, 4, 2), "interleaved", 10_201.5, 64.875, 0.062)),
            trusted(trial(layout(2, 4, micro=2), "1f1b", 9_800.0, 79.96, 0.12)),
            trusted(trial(layout(4, 2, recompute=3), "1f1b", 9_512.0, 33.3, 0.09)),
        ]
    )
)
PARETO = (ROWS[0], ROWS[3], trial(layout(8, 1, recompute="selective"), "1f1b", 7_100.0, 21.5, 0.0))
PRUNED = {"evidence": 60_000, "divisibility": 400_000, "memory": 8_000, "bound": 1_000, "dominance": 188}
OUTSIDE = OutsideField("context", 2, "8 at 16,384 tokens a rank")
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
    near_misses=(NearMiss(layout(1, 4), "zb-h1", 3.21, 10_950.0),),
    doubts=(Doubt("gemm", 0.9, ROWS[1], 0.0123), Doubt("network", 0.9, ROWS[0], 0.0)),
    capacity=80.0,
    tied=3,
    beyond=(
        Unmeasured(
            with_behind([trusted(trial(layout(1, 4, context=2), "zb-h1", 10_600.0, 70.0), outside=[OUTSIDE])], ROWS[0])[
                0
            ],
            (OUTSIDE,),
            "a step of this model with context 2 at 2,048 tokens a rank; nearest: theirs-0",
        ),
    ),
    published=(
        published("theirs-0", layout(2, 4), 9_900.0, 0.031),
        published("theirs-1", layout(4, 2, micro=2), 8_800.0, -0.012),
    ),
    measure=WhatToMeasure((0, 2), 0.0102),
    estimate=pipesched.estimate(SETUP, "zb-h1"),
    config=SETUP,
)
NOTHING = Tuning(
    rows=(),
    space=96,
    simulated=0,
    pruned={"evidence": 0, "divisibility": 60, "memory": 36, "bound": 0, "dominance": 0},
    nearest=(
        NearMiss(layout(8, 1), "1f1b", 12.34, help=("recompute full", "16 GPUs")),
        NearMiss(layout(4, 2, expert=2), "1f1b", 0.0123),
    ),
    capacity=24.0,
    name="mine",
)
