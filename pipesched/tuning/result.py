"""What a search of a space found: rows, best first, counts, and what the decision rests on."""

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
    """A point whose fullest device has `over` GB too much, at least.

    Without that limit its rate is `most` tokens/s/GPU; `help` are changes with which it fits, in words. Either may be
    unknown.
    """

    layout: Parallelism
    algorithm: str
    over: float
    most: float = 0.0
    help: tuple[str, ...] = ()


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

    `fits` says what the first row must do: fit surely, which faster ones at the end may not, or but likely. Where none
    surely fits the first row is the likeliest to. The first `tied` rows cannot be told apart, `measure` says which two
    of the rows to measure first, `published` are runs of the same model and GPU. `beyond` are
    points that lie outside what was measured and are faster by their estimates; where those were searched too, because
    nothing inside fits, the answer `is_widened`. `notes` say what to know of one's own runs.

    `space` points were asked about: `simulated`, `pruned` by reason, and `left` because time was up. Schedules that
    `solve` found for the best layouts stand among the rows where they are faster than that layout's own. `pareto` are
    the points of which none that was simulated is faster and holds less, fastest first. `parts` is where the GPU time
    of the best step goes. Memory forbids `near_misses`; `doubts` say what another efficiency would change; `nearest`
    misses its memory by least, where nothing fits. `capacity` is GB of a GPU. `estimate` is that of the first row's
    layout, under its algorithm, or the one that `solve` started from.
    """

    rows: tuple[Trial, ...]
    space: int
    simulated: int
    pruned: Mapping[str, int]
    left: int = 0
    legal: int = 0
    pareto: tuple[Trial, ...] = ()
    parts: tuple[TimeShare, ...] = ()
    near_misses: tuple[NearMiss, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    nearest: tuple[NearMiss, ...] = ()
    capacity: float = 0.0
    name: str = ""
    tied: int = 0
    fits: str = "sure"
    beyond: tuple[Unmeasured, ...] = ()
    published: tuple[PublishedRun, ...] = ()
    measure: WhatToMeasure | None = None
    is_widened: bool = False
    notes: tuple[str, ...] = ()
    estimate: Estimate | None = field(default=None, compare=False)
    config: str = ""

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
