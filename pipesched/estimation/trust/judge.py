"""Judging an estimate: intervals from the residuals of published runs, the ratio of two, and the evidence."""

from __future__ import annotations

from dataclasses import replace
from math import log, sqrt
from typing import NamedTuple

from pipesched.estimation.hardware import GpuModel
from pipesched.estimation.items import GB
from pipesched.estimation.result import DeviceMemory, Estimate
from pipesched.estimation.retimed import retimed
from pipesched.estimation.trust.answers import Evidence, NearRun, Trust
from pipesched.estimation.trust.covariance import covariance
from pipesched.estimation.trust.evidence import YOURS, EvidenceBase, PublishedRun
from pipesched.estimation.trust.facts import SHARES, ComparedRun, facts_of
from pipesched.estimation.trust.inside import fields_outside
from pipesched.estimation.trust.residuals import ResidualModel
from pipesched.estimation.trust.speed import LEVEL, Interval, Standing, interval

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

    def standing(self, estimate: Estimate) -> Standing:
        """Return an estimate as what others are compared with."""
        return Standing(self.run_of(estimate), estimate.step.time, self.model)

    def trust(self, estimate: Estimate) -> Trust:
        """Return how sure an estimate is."""
        standing, step = self.standing(estimate), estimate.step
        run = standing.run
        posterior = self.model.posterior([run])
        spread = self.model.factors[run.facts.kind] * posterior.spread(0)
        time = interval(step.time, posterior.means[0], spread)
        rates = sorted(estimate.tokens / value / estimate.setup.parallel.gpus * 1e3 for value in time)
        fullest = max(estimate.devices, key=lambda device: device.total)
        memory = Interval(*(_held(fullest, quantile) for quantile in self.base.memory))
        is_sure = all(_held(one, self.base.memory.high) * GB <= one.budget for one in estimate.devices)
        evidence = Evidence(fields_outside(run.facts), tuple(self._nearest(run)))
        return Trust(LEVEL, time, Interval(*rates), memory, spread, is_sure, evidence, standing, self.own, self.like)

    def _nearest(self, run: ComparedRun) -> list[NearRun]:
        """Return the published runs nearest to a run, one of each layout of a model."""
        found: dict[object, NearRun] = {}
        apart = {one.run: self.apart(run, one.compared) for one in self.base.runs}
        for one in sorted(self.base.runs, key=lambda one: (apart[one.run], one.run)):
            facts = one.compared.facts
            alike = (facts.model, facts.gpu, facts.layout, facts.chunks, facts.algorithm)
            if alike not in found and len(found) < NEAREST:
                found[alike] = _near(one, apart[one.run])
        return [*found.values()]

    def apart(self, one: ComparedRun, other: ComparedRun) -> float:
        """Return the spread of the difference of two runs, whoever ran them, without noise."""
        spreads = self.model.spreads
        each = sum(covariance(run, run, spreads, own=False) for run in (one, other))
        return sqrt(max(0.0, each - 2 * covariance(one, other, spreads, own=False)))


def _near(one: PublishedRun, apart: float) -> NearRun:
    error = one.estimated_rate / one.rate - 1
    return NearRun(one.run, one.compared.source, one.url, apart, one.rate, error)


def _held(device: DeviceMemory, quantile: float) -> float:
    """Return the GB of a device where all but what is fixed is `quantile` times as estimated."""
    return (float(device.fixed) + float(device.total - device.fixed) * quantile) / GB


def weights_of(estimate: Estimate) -> tuple[float, ...]:
    """Return the weight of each share in a step: what a tenth less of it adds, over what that adds to all of a step."""
    hardware, step = estimate.setup.hardware, estimate.step.time
    return tuple(log(retimed(estimate, _less(hardware, share)).step.time / step) / log(1 / FACTOR) for share in SHARES)


def _less(hardware: GpuModel, share: str) -> GpuModel:
    known = hardware.efficiency
    return replace(hardware, efficiency=replace(known, **{share: FACTOR * getattr(known, share)}))
