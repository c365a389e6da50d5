"""Published runs, loaded by `evidence_base`, and how sure an estimate is by them: `Trust`, with intervals, ratios."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from math import erf, exp, log, sqrt
from typing import NamedTuple

from pipesched.errors import ConfigError
from pipesched.estimation.trust.facts import SHARES, ComparedRun, RunFacts
from pipesched.estimation.trust.residuals import ResidualModel

LEVEL = 0.8  # of every interval: eight of ten are expected to hold what is measured
HALF_WIDTH = 1.2816  # standard deviations
DECIDED = 0.9
FILE, LOW_FILE = "evidence.json", "low_precision.json"  # of runs in 16 bits, and of those in few and their twins
YOURS = "yours"  # the source and the version of all setups that are asked about


class Interval(NamedTuple):
    """What is expected, and the ends between which 80 % of such runs lie."""

    low: float
    expected: float
    high: float


class SpeedRatio(NamedTuple):
    """The time of a step over that of another: an interval of it, and how likely the first one is `faster`."""

    low: float
    expected: float
    high: float
    faster: float

    @property
    def is_decided(self) -> bool:
        """Whether one of the two is faster with 90 %."""
        return not 1 - DECIDED < self.faster < DECIDED


class Standing(NamedTuple):
    """What two estimates are compared by: their runs, the milliseconds of their steps, and what is known beside."""

    run: ComparedRun
    time: float
    model: ResidualModel

    def against(self, other: Standing) -> SpeedRatio:
        """Return the time of this step over that of another of the same source. Raises ConfigError for other models."""
        mine, theirs = self.run.facts, other.run.facts
        if (mine.model, mine.gpus) != (theirs.model, theirs.gpus):
            raise ConfigError("ratios are of one model on as many GPUs", "against")
        run = replace(other.run, source=self.run.source, version=self.run.version)
        model = other.model if theirs.is_low and not mine.is_low else self.model  # that of few bits knows both
        return ratios(model, [self.run, run], [self.time, other.time])[1]


def interval(time: float, mean: float, spread: float) -> Interval:
    """Return the interval of a step that is estimated to take `time`, by mean and spread of its residual."""
    return Interval(*(time * exp(mean + HALF_WIDTH * side * spread) for side in (-1, 0, 1)))


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


class PublishedRun(NamedTuple):
    """A published run (its record, place, model and facts): milliseconds of its step, ours, and sequences of a step."""

    run: str
    url: str
    title: str
    compared: ComparedRun
    published: float
    estimated: float
    size: int

    @property
    def residual(self) -> float:
        """The logarithm of the published time over ours."""
        return log(self.published / self.estimated)

    @property
    def rate(self) -> float:
        facts = self.compared.facts
        return facts.sequence * self.size / facts.gpus / self.published * 1e3

    @property
    def estimated_rate(self) -> float:
        return self._replace(published=self.estimated).rate


class EvidenceBase(NamedTuple):
    """Published runs, the model of their residuals, and quantiles of published peaks of memory over estimated ones."""

    runs: tuple[PublishedRun, ...]
    model: ResidualModel
    memory: Interval

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(run.compared.source for run in self.runs))


@cache
def evidence_base(*, low: bool = False) -> EvidenceBase:
    """Return what the package has of runs in 16 bits; `low`: in few bits. `scripts/fit_trust.py` wrote both."""
    content = json.loads(files(__package__).joinpath(LOW_FILE if low else FILE).read_text(encoding="utf-8"))
    found = []
    for entry in content["runs"]:
        weights = tuple(entry["weights"].get(share, 0.0) for share in SHARES)
        run = ComparedRun(entry["source"], entry["version"], RunFacts(**entry["facts"]), weights)
        said = (entry[key] for key in ("published", "estimated", "global"))
        found.append(PublishedRun(entry["run"], entry["url"], entry["title"], run, *said))
    runs = tuple(found)
    half = content["inverse"]  # of a symmetric matrix the lower triangle, row by row
    inverse = [[*row, *(half[j][i] for j in range(i + 1, len(half)))] for i, row in enumerate(half)]
    compared, residuals = tuple(run.compared for run in runs), tuple(run.residual for run in runs)
    model = ResidualModel(content["spreads"], content["factors"], compared, residuals, inverse)
    return EvidenceBase(runs, model, Interval(**content["memory"]))


class OutsideField(NamedTuple):
    """A field of a setup that lies outside what was measured: its value, and in words what was."""

    field: str
    value: int | str
    measured: str


class NearRun(NamedTuple):
    """A published run near a setup: `apart` is the spread of their difference.

    `tokens_per_second_per_gpu` was published; `error` is by how much the estimate of that run's rate is off.
    """

    run: str
    source: str
    url: str
    apart: float
    tokens_per_second_per_gpu: float
    error: float


class Evidence(NamedTuple):
    """Whether a setup lies inside what was measured, which fields do not, and the published runs nearest to it."""

    outside: tuple[OutsideField, ...]
    nearest: tuple[NearRun, ...]

    @property
    def inside(self) -> bool:
        """Whether each field lies inside."""
        return not self.outside


@dataclass(frozen=True)
class Trust:
    """How sure an estimate is, on what evidence.

    `time` of the step in milliseconds, `tokens_per_second_per_gpu`, and `memory` of the fullest device in GB. `spread`
    is the standard deviation of the logarithm of the time. `sure`: the upper end of every device's memory is within its
    budget. `own` are the runs of one's own that count, `like` the source whose effect does.
    """

    level: float
    time: Interval
    tokens_per_second_per_gpu: Interval
    memory: Interval
    spread: float
    sure: bool
    evidence: Evidence
    standing: Standing = field(repr=False, compare=False)
    own: int = 0
    like: str | None = None

    def against(self, other: Trust) -> SpeedRatio:
        """Return the time of the step over that of another, of the same model on as many GPUs. Raises ConfigError."""
        return self.standing.against(other.standing)
