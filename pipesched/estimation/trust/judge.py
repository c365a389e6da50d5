"""Judging an estimate: intervals from the residuals of published runs, the ratio of two, and the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import erf, exp, log, sqrt
from typing import NamedTuple

from pipesched.errors import ConfigError
from pipesched.estimation.hardware import GpuModel
from pipesched.estimation.items import GB
from pipesched.estimation.result import DeviceMemory, Estimate
from pipesched.estimation.retimed import retimed
from pipesched.estimation.trust.answers import (
    HALF_WIDTH,
    LEVEL,
    Evidence,
    Interval,
    NearRun,
    SpeedRatio,
    Standing,
    Trust,
)
from pipesched.estimation.trust.covariance import covariance
from pipesched.estimation.trust.evidence import YOURS, EvidenceBase, PublishedRun
from pipesched.estimation.trust.facts import SHARES, ComparedRun, facts_of
from pipesched.estimation.trust.inside import fields_outside
from pipesched.estimation.trust.residuals import ResidualModel

FACTOR = 0.9  # of a share, by which its weight in a step is found
NEAREST = 3


class Judge(NamedTuple):
    """What estimates are judged by: published runs, the model of residuals with `own` runs in it, and whose software.

    `like` names the source whose effect counts as the person's own.
    """

    base: EvidenceBase
    model: ResidualModel
    own: int = 0
    like: str | None = None

    def run_of(self, estimate: Estimate) -> ComparedRun:
        """Return an estimate as a run of the person who asks."""
        facts = facts_of(estimate.setup, estimate.outcome.algorithm)
        return ComparedRun(self.like or YOURS, YOURS, facts, weights_of(estimate))

    def trust(self, estimate: Estimate) -> Trust:
        """Return how sure an estimate is."""
        run, step = self.run_of(estimate), estimate.step
        posterior = self.model.posterior([run])
        spread = self.model.factors[run.facts.kind] * posterior.spread(0)
        time = interval(step.time, posterior.means[0], spread)
        rates = sorted(estimate.tokens / value / estimate.setup.parallel.gpus * 1e3 for value in time)
        fullest = max(estimate.devices, key=lambda device: device.total)
        memory = Interval(*(_held(fullest, quantile) for quantile in self.base.memory))
        is_sure = all(_held(one, self.base.memory.high) * GB <= one.budget for one in estimate.devices)
        evidence = Evidence(fields_outside(run.facts), tuple(self._nearest(run)))
        standing = Standing(run, step.time, self.model)
        return Trust(LEVEL, time, Interval(*rates), memory, spread, is_sure, evidence, standing, self.own, self.like)

    def _nearest(self, run: ComparedRun) -> list[NearRun]:
        """Return the published runs nearest to a run, one of each layout of a model."""
        found: dict[object, NearRun] = {}
        apart = {one.run: self._apart(run, one.compared) for one in self.base.runs}
        for one in sorted(self.base.runs, key=lambda one: (apart[one.run], one.run)):
            facts = one.compared.facts
            alike = (facts.model, facts.gpu, facts.layout, facts.chunks, facts.algorithm)
            if alike not in found and len(found) < NEAREST:
                found[alike] = _near(one, apart[one.run])
        return [*found.values()]

    def _apart(self, one: ComparedRun, other: ComparedRun) -> float:
        """Return the spread of the difference of two runs, whoever ran them, without noise."""
        spreads = self.model.spreads
        each = sum(covariance(run, run, spreads, own=False) for run in (one, other))
        return sqrt(max(0.0, each - 2 * covariance(one, other, spreads, own=False)))


def _near(one: PublishedRun, apart: float) -> NearRun:
    error = one.estimated_rate / one.rate - 1
    return NearRun(one.run, one.compared.source, one.url, apart, one.rate, error)


def interval(time: float, mean: float, spread: float) -> Interval:
    """Return the interval of a step that is estimated to take `time`, by mean and spread of its residual."""
    return Interval(*(time * exp(mean + HALF_WIDTH * side * spread) for side in (-1, 0, 1)))


def _held(device: DeviceMemory, quantile: float) -> float:
    """Return the GB of a device where all but what is fixed is `quantile` times as estimated."""
    return (float(device.fixed) + float(device.total - device.fixed) * quantile) / GB


def ratio(one: Standing, other: Standing) -> SpeedRatio:
    """Return the time of a step over that of another of the same source, whose effect cancels.

    Raises ConfigError where they are no steps of one model on as many GPUs.
    """
    mine, theirs = one.run.facts, other.run.facts
    if (mine.model, mine.gpus) != (theirs.model, theirs.gpus):
        raise ConfigError("ratios are of one model on as many GPUs", "against")
    return ratios(one.model, [one.run, other.run], [one.time, other.time])[1]


def ratios(model: ResidualModel, runs: Sequence[ComparedRun], times: Sequence[float]) -> list[SpeedRatio]:
    """Return the time of the first run over that of each one."""
    found = model.posterior(runs)
    cov = found.covariance
    answers = []
    for number, time in enumerate(times):
        middle = log(times[0] / time) + found.means[0] - found.means[number]
        width = sqrt(max(0.0, cov[0][0] + cov[number][number] - 2 * cov[0][number]))
        ends = interval(1.0, middle, width)
        faster = 0.5 * (1 - erf(middle / width / sqrt(2))) if width else 0.5
        answers.append(SpeedRatio(*ends, faster))
    return answers


def weights_of(estimate: Estimate) -> tuple[float, ...]:
    """Return the weight of each share in a step: what a tenth less of it adds, over what that adds to all of a step."""
    hardware, step = estimate.setup.hardware, estimate.step.time
    return tuple(log(retimed(estimate, _less(hardware, share)).step.time / step) / log(1 / FACTOR) for share in SHARES)


def _less(hardware: GpuModel, share: str) -> GpuModel:
    known = hardware.efficiency
    return replace(hardware, efficiency=replace(known, **{share: FACTOR * getattr(known, share)}))
