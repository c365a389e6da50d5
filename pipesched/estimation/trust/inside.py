"""What lies inside the measured runs, how sure an estimate is by them, and what to measure next.

`fields_outside` names the fields of a run that no published run resembles; `Judge.trust` says how sure an estimate is;
`what_to_measure` takes several and returns the two whose measurement helps most to choose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from math import expm1, log, sqrt
from typing import NamedTuple

import numpy as np

from pipesched.estimation.items import GB
from pipesched.estimation.result import DeviceMemory, Estimate, retimed
from pipesched.estimation.trust.evidence import (
    LEVEL,
    YOURS,
    Evidence,
    EvidenceBase,
    Interval,
    NearRun,
    OutsideField,
    Standing,
    Trust,
    evidence_base,
    interval,
)
from pipesched.estimation.trust.facts import SHARES, ComparedRun, RunFacts, facts_of
from pipesched.estimation.trust.residuals import NOISE, PRECISION, ResidualModel, covariance
from pipesched.pipeline.plan.step import LEVELS

TOLERANCE = 2  # how many times the largest, or which part of the smallest, counts as measured
DEFAULTS = ("1f1b", "interleaved")  # measured with every kind of model, somewhere
FACTOR = 0.9  # of a share, by which its weight in a step is found
NEAREST = 3
MOST = 20  # steps among which two are found to be measured
NODES = 20  # of Gauss and Hermite, in each of two dimensions
LEAST_GAIN = 1e-4
EQUAL = 1e-9  # gains that differ by less are equal: then the first pair counts


class MeasuredRange:
    """What was measured of one kind of models, dense ones or those with experts; of rings of attention of any kind.

    In 16 bits, or in few: the runs in few bits are then of one range, whatever their precision, but for their GPUs.
    """

    def __init__(self, every: Iterable[RunFacts], *, experts: bool) -> None:
        every = tuple(every)
        runs = [run for run in every if bool(run.experts) == experts]
        self.gpus: dict[str, set[str]] = {}
        for run in runs:
            self.gpus.setdefault(run.precision, set()).add(run.gpu)
        self.algorithms = {run.algorithm for run in runs if run.pipeline > 1}.union(DEFAULTS)
        self.rings = sorted({(run.context, run.sequence // run.context) for run in every if run.context > 1})
        fields = ("gpus", "tensor", "pipeline", "expert", "expert_tensor")
        self.largest = {field: max(getattr(run, field) for run in runs) for field in fields}
        self.levels = [level for level in LEVELS if level in {run.shard for run in runs}]
        self.stages = max(run.pipeline * run.chunks for run in runs)
        self.whole = max(run.hidden / run.tensor for run in runs)
        self.fewest_tokens = min(run.tokens for run in runs)
        self._work = sorted({(run.kind, run.hidden, run.tokens / run.tensor) for run in runs})

    def outside(self, facts: RunFacts) -> Iterator[OutsideField]:
        """Yield the fields of a run that lie outside; none where all are inside."""
        gpus = self.gpus.get(facts.precision, set())
        if not gpus:
            yield OutsideField(PRECISION, facts.precision, f"such models in {', '.join(sorted(self.gpus))}")
        elif facts.gpu not in gpus:
            among = f" in {facts.precision}" * facts.is_low
            yield OutsideField("hardware", facts.gpu, f"such models{among} on {', '.join(sorted(gpus))}")
        yield from self._over("gpus", facts.gpus, TOLERANCE)
        yield from self._over("tensor", facts.tensor)
        if facts.hidden / facts.tensor > self.whole:
            each = f"{facts.hidden / facts.tensor:,.0f} of the hidden size on a rank"
            yield OutsideField("tensor", facts.tensor, f"at most {self.whole:,.0f}, not {each}")
        yield from self._over("pipeline", facts.pipeline, TOLERANCE)
        if facts.pipeline * facts.chunks > TOLERANCE * self.stages:
            yield OutsideField("chunks", facts.chunks, f"pipeline x chunks at most {self.stages:,}")
        most = TOLERANCE * (facts.sequence // facts.context)  # tokens of a sequence on a rank of some ring as large
        has_ring = any(ranks >= facts.context and tokens <= most for ranks, tokens in self.rings)
        if facts.context > 1 and not has_ring:
            rings = ", ".join(f"{ranks} at {tokens:,} tokens a rank" for ranks, tokens in self.rings)
            yield OutsideField("context", facts.context, rings or "none")
        yield from self._over("expert", facts.expert)
        yield from self._over("expert_tensor", facts.expert_tensor)
        # of models at most twice as wide: with few of them launches take the time, and narrower ones have less work
        runs = [(hidden, tokens) for kind, hidden, tokens in self._work if kind == facts.kind]
        widest = max(TOLERANCE * facts.hidden, min((hidden for hidden, _ in runs), default=0))
        least = min((tokens for hidden, tokens in runs if hidden <= widest), default=0.0)
        if TOLERANCE * facts.tokens < self.fewest_tokens:
            each = f"{facts.tokens:,} tokens of a microbatch on a rank"
            yield OutsideField("micro", facts.micro, f"at least {self.fewest_tokens:,}, not {each}")
        elif least > facts.tokens / facts.tensor:
            each = f"{facts.tokens / facts.tensor:,.0f} tokens of a microbatch per tensor rank"
            yield OutsideField("micro", facts.micro, f"at least {least:,.0f} for such a hidden size, not {each}")
        if facts.pipeline > 1 and facts.algorithm not in self.algorithms:
            yield OutsideField("algorithm", facts.algorithm, ", ".join(sorted(self.algorithms)))
        if facts.shard and facts.shard not in self.levels:
            yield OutsideField("shard", facts.shard, ", ".join(self.levels))

    def _over(self, field: str, value: int, times: int = 1) -> Iterator[OutsideField]:
        if value > times * self.largest[field]:
            yield OutsideField(field, value, f"at most {self.largest[field]:,}")


@cache
def measured_range(experts: bool, low: bool = False) -> MeasuredRange:
    """Return what was measured of models with or without experts, by the published runs of the package."""
    every = (run.compared.facts for run in evidence_base(low=low).runs)
    return MeasuredRange((facts for facts in every if facts.is_low == low), experts=experts)


def fields_outside(facts: RunFacts) -> tuple[OutsideField, ...]:
    """Return the fields of a run that lie outside what was measured, in the order of a config."""
    return tuple(measured_range(bool(facts.experts), facts.is_low).outside(facts))


class Judge(NamedTuple):
    """What estimates are judged by: published runs, the model with so many `own` runs, and whose software is alike."""

    base: EvidenceBase
    model: ResidualModel
    own: int = 0
    like: str | None = None

    def run_of(self, estimate: Estimate) -> ComparedRun:
        """Return an estimate as a run of the person who asks."""
        facts = facts_of(estimate.setup, estimate.outcome.algorithm)
        return ComparedRun(self.like or YOURS, YOURS, facts, weights_of(estimate))

    def standing(self, estimate: Estimate) -> Standing:
        """Return an estimate as what others are compared with."""
        return Standing(self.run_of(estimate), estimate.step.time, self.model)

    def trust(self, estimate: Estimate) -> Trust:
        standing, step = self.standing(estimate), estimate.step
        run = standing.run
        posterior = self.model.posterior([run])
        spread = self.model.factors[run.facts.kind] * posterior.spread(0)
        time = interval(step.time, posterior.means[0], spread)
        rates = sorted(estimate.tokens / value / estimate.setup.parallel.gpus * 1e3 for value in time)
        fullest = max(estimate.devices, key=lambda device: device.total)
        memory = Interval(*(_held(fullest, quantile) for quantile in self.base.memory))
        is_sure = estimate.fits and memory_margin(estimate, self.base.memory.high) >= 0
        near: dict[object, NearRun] = {}  # one of each layout of a model
        apart = {one.run: self.apart(run, one.compared) for one in self.base.runs}
        for one in sorted(self.base.runs, key=lambda one: (apart[one.run], one.run)):
            facts = one.compared.facts
            alike = (facts.model, facts.gpu, facts.layout, facts.chunks, facts.algorithm)
            if alike not in near and len(near) < NEAREST:
                error = one.estimated_rate / one.rate - 1
                near[alike] = NearRun(one.run, one.compared.source, one.url, apart[one.run], one.rate, error)
        evidence = Evidence(fields_outside(run.facts), (*near.values(),))
        return Trust(LEVEL, time, Interval(*rates), memory, spread, is_sure, evidence, standing, self.own, self.like)

    def apart(self, one: ComparedRun, other: ComparedRun) -> float:
        """Return the spread of the difference of two runs, whoever ran them, without noise."""
        spreads = self.model.spreads
        each = sum(covariance(run, run, spreads, own=False) for run in (one, other))
        return sqrt(max(0.0, each - 2 * covariance(one, other, spreads, own=False)))


def memory_margin(estimate: Estimate, high: float) -> float:
    """Return the GB that the tightest GPU has left of its memory where what is not fixed is `high` times."""
    return float(estimate.setup.hardware.memory) - max(_held(device, high) for device in estimate.devices)


def _held(device: DeviceMemory, quantile: float) -> float:
    """Return the GB of a device where all but what is fixed is `quantile` times as estimated."""
    return (float(device.fixed) + float(device.total - device.fixed) * quantile) / GB


def weights_of(estimate: Estimate) -> tuple[float, ...]:
    """Return the weight of each share in a step: what a tenth less of it adds, over what that adds to all of a step."""
    hardware, known = estimate.setup.hardware, estimate.setup.hardware.efficiency
    less = (replace(known, **{share: FACTOR * getattr(known, share)}) for share in SHARES)
    times = (retimed(estimate, replace(hardware, efficiency=one)).step.time for one in less)
    return tuple(log(time / estimate.step.time) / log(1 / FACTOR) for time in times)


class WhatToMeasure(NamedTuple):
    """Two of several layouts, from 0, and by how much the choice is faster on average once both are measured."""

    layouts: tuple[int, int]
    gain: float


def what_to_measure(model: ResidualModel, runs: Sequence[ComparedRun], times: Sequence[float]) -> WhatToMeasure | None:
    """Return the pair of runs most worth measuring, by the expected -ln(time) of the best; None where none is."""
    runs, times = runs[:MOST], times[:MOST]
    found = model.posterior(runs)
    worth = -(np.log(times) + np.asarray(found.means))
    measured = np.asarray(found.covariance)
    known = measured - model.spreads[NOISE] ** 2 * np.eye(len(runs))
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    best, gain = None, log(1 + LEAST_GAIN)
    # measuring a pair moves the worth of every run along two standard normals, over which the nodes integrate
    for pair in combinations(range(len(runs)), 2):
        root = np.linalg.cholesky(measured[np.ix_(pair, pair)])
        moved = np.linalg.solve(root, known[:, pair].T)
        each = worth[:, None, None] + moved[0][:, None, None] * nodes[:, None] + moved[1][:, None, None] * nodes
        here = float(weights @ each.max(axis=0) @ weights - worth.max())  # so much more the best is then worth
        if here > gain * (1 + EQUAL):
            best, gain = pair, here
    return None if best is None else WhatToMeasure(best, expm1(gain))
