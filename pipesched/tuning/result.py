"""What a search of a space found (`Tuning`): rows, best first, counts, and what the decision rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pipesched.display import DisplayableRows
from pipesched.estimation.result import Estimate
from pipesched.estimation.trust.evidence import OutsideField, PublishedRun
from pipesched.estimation.trust.inside import WhatToMeasure
from pipesched.tuning.space import Parallelism
from pipesched.tuning.trial import Trial


class NearMiss(NamedTuple):
    """A point whose fullest device has too much."""

    layout: Parallelism
    algorithm: str
    over: float  # so many GB too much, at least
    most: float = 0.0  # its tokens/s/GPU without that limit, 0 if unknown
    help: tuple[str, ...] = ()  # changes with which it fits, in words, if known


class Doubt(NamedTuple):
    """Which of the first rows wins where a share of the hardware is `factor` times as much, and its gain."""

    share: str
    factor: float
    winner: Trial
    gain: float


class TimeShare(NamedTuple):
    """A part of the GPU time of the best step: `share` of it, 0 to 1."""

    name: str
    share: float


class Unmeasured(NamedTuple):
    """A point outside what was measured that is faster by the estimate, and what would have to be measured for it."""

    trial: Trial
    outside: tuple[OutsideField, ...]
    measure: str


@dataclass(frozen=True, repr=False)
class Tuning(DisplayableRows[Trial]):
    """The best points of a space, best first, by the tokens/s/GPU that are expected; all fit by their estimates.

    Schedules that `solve` found for the best layouts stand among the rows where they are faster than that layout's own.
    """

    rows: tuple[Trial, ...]
    space: int  # the points that were asked about: simulated, pruned or left
    simulated: int
    pruned: Mapping[str, int]  # by reason
    left: int = 0  # because time was up
    legal: int = 0  # points whose sizes divide, also those that memory forbids
    pareto: tuple[Trial, ...] = ()  # points of which none that was simulated is faster and holds less, fastest first
    parts: tuple[TimeShare, ...] = ()  # where the GPU time of the best step goes
    near_misses: tuple[NearMiss, ...] = ()  # what memory forbids by little
    doubts: tuple[Doubt, ...] = ()  # what another efficiency would change
    nearest: tuple[NearMiss, ...] = ()  # what misses its memory by least, where nothing fits
    capacity: float = 0.0  # GB of a GPU
    name: str = ""
    tied: int = 0  # the first rows that cannot be told apart
    fits: str = "sure"  # the first row surely fits, faster ones at the end may not; "likely": it probably fits
    beyond: tuple[Unmeasured, ...] = ()  # points outside what was measured that are faster by their estimates
    published: tuple[PublishedRun, ...] = ()  # runs of the same model and GPU
    measure: WhatToMeasure | None = None  # which two of the rows to measure first
    is_widened: bool = False  # points outside what was measured were searched, because nothing inside fits
    notes: tuple[str, ...] = ()  # what to know of one's own runs
    estimate: Estimate | None = field(default=None, compare=False)  # of the first row's layout, before any `solve`
    config: str = ""  # one whose estimate has the step of the first row

    def __repr__(self) -> str:
        if not self.rows:
            return f"Tuning(none of {self.space:,} points fits)"
        best = self.rows[0]
        return f"Tuning({best.point.layout}, {best.point.algorithm}, {best.rate:.1f} tokens/s/GPU)"

    @property
    def is_complete(self) -> bool:
        """Whether no point is left, so that the first row is the best of the space."""
        return not self.left

    @property
    def best(self) -> Trial | None:
        """The first row; None where nothing fits."""
        return self.rows[0] if self.rows else None

    @property
    def is_above_published(self) -> bool:
        """Whether the first row is faster than all published runs on as many GPUs, also at the low end of its rate."""
        if not self.rows or self.rows[0].trust is None:
            return False
        trust = self.rows[0].trust
        gpus = trust.standing.run.facts.gpus
        rates = [run.rate for run in self.published if run.compared.facts.gpus == gpus]
        return bool(rates) and trust.tokens_per_second_per_gpu.low > max(rates)
