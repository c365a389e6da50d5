"""Published runs as they are predicted without their source: spreads, factors and residuals are those of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from least_squares import Vector
from pipesched.estimation.trust.evidence import HALF_WIDTH, LEVEL, PublishedRun, SpeedRatio, ratios
from pipesched.estimation.trust.residuals import Posterior, ResidualModel
from trust_evidence import quantile
from trust_fit import fit

NEW = "new"  # a version that no run has


class Predicted(NamedTuple):
    """A run beside the interval that it was given: half of its width, and by how much it missed the middle.

    Both are logarithms of a time. `beside` is the half width of an interval that it is held against.
    """

    row: PublishedRun
    off: float
    half: float
    beside: float

    @property
    def is_covered(self) -> bool:
        """Whether the run lies within."""
        return abs(self.off) <= self.half

    @property
    def score(self) -> float:
        """The score of the interval."""
        return score_of(self.off, self.half)

    @property
    def one_width_score(self) -> float:
        """The same of an interval about the estimate itself that is as wide as that it is held against."""
        return score_of(self.row.residual, self.beside)


class Pair(NamedTuple):
    """Two runs of one model, GPU and batch: the ratio as it was predicted, and as it was measured."""

    runs: tuple[PublishedRun, PublishedRun]
    ratio: SpeedRatio

    @property
    def measured(self) -> float:
        """The time of the first over that of the second."""
        return self.runs[0].published / self.runs[1].published

    @property
    def is_right(self) -> bool:
        """Whether the one that was called faster is."""
        return (self.ratio.faster > 0.5) == (self.measured < 1)

    @property
    def is_covered(self) -> bool:
        """Whether the ratio lies within its interval."""
        return self.ratio.low <= self.measured <= self.ratio.high


class LeftOutSource(NamedTuple):
    """The runs of a source, and the model of all others, in which nothing is learned from these; `one_width` for all.

    `one_width` holds 80 % of the residuals of the others, each layout counting once.
    """

    rows: tuple[PublishedRun, ...]
    model: ResidualModel
    one_width: float

    def predicted(self) -> Iterator[Predicted]:
        """Yield each run, as one of a new source; beside it one width for all."""
        for row in self.rows:
            found = self.model.posterior([row.compared])
            half = self._half(row, found.spread(0))
            yield Predicted(row, row.residual - found.means[0], half, self.one_width)

    def pairs(self) -> Iterator[Pair]:
        """Yield each two runs that differ in their layout or schedule alone."""
        for one, other in combinations(self.rows, 2):
            if _same_step(one) == _same_step(other):
                times = [one.estimated, other.estimated]
                yield Pair((one, other), ratios(self.model, [one.compared, other.compared], times)[1])

    def with_two_own(self, *, one_model: bool = False) -> Iterator[Predicted]:
        """Yield each run beside each two others of its version, or of its model too, as if they were runs of one's own.

        Beside it the interval without these.
        """
        group = _group if one_model else _version
        for each in dict.fromkeys(map(group, self.rows)):
            rows = [row for row in self.rows if group(row) == each]
            known = _Joint(self.model.posterior([row.compared for row in rows]), rows)
            for two in combinations(range(len(rows)), 2):
                means, spreads = known.told(two)
                for number, row in enumerate(rows):
                    if number not in two:
                        half, alone = self._half(row, spreads[number]), self._half(row, known.spreads[number])
                        yield Predicted(row, row.residual - means[number], half, alone)

    def like(self) -> Iterator[Predicted]:
        """Yield each run as a new version of its source, by its other models; beside it one of a new source."""
        versions = [replace(row.compared, version=NEW) for row in self.rows]
        sources = [replace(run, source=NEW) for run in versions]
        known = _Joint(self.model.posterior([*(row.compared for row in self.rows), *versions, *sources]), self.rows)
        for group in dict.fromkeys(map(_group, self.rows)):
            others = [number for number, row in enumerate(self.rows) if _group(row) != group]
            means, spreads = known.told(others)
            for number, row in enumerate(self.rows):
                if others and number not in others:
                    version, source = number + len(self.rows), number + 2 * len(self.rows)
                    half, unknown = self._half(row, spreads[version]), self._half(row, spreads[source])
                    yield Predicted(row, row.residual - means[version], half, unknown)

    def _half(self, row: PublishedRun, spread: float) -> float:
        return HALF_WIDTH * self.model.factors[row.compared.facts.kind] * float(spread)


class _Joint:
    """What is known of runs, the first of which are `rows`, before some of these are measured."""

    def __init__(self, found: Posterior, rows: Sequence[PublishedRun]) -> None:
        self.means, self.covariance = np.array(found.means), np.array(found.covariance)
        self.spreads: Vector = np.sqrt(np.diag(self.covariance))
        self.off = np.array([row.residual for row in rows]) - self.means[: len(rows)]

    def told(self, known: Sequence[int]) -> tuple[Vector, Vector]:
        """Return means and spreads of all runs once those of some numbers are measured."""
        beside = self.covariance[:, known]
        solved = beside @ np.linalg.inv(beside[[*known]])
        variances = np.diag(self.covariance) - np.sum(solved * beside, axis=1)
        return self.means + solved @ self.off[[*known]], np.sqrt(np.maximum(0, variances))


def left_out(rows: Sequence[PublishedRun], judged: Sequence[PublishedRun]) -> Iterator[LeftOutSource]:
    """Yield each source, of which the runs in `judged` are predicted by those of all others."""
    for source in dict.fromkeys(row.compared.source for row in judged):
        found = fit([row for row in rows if row.compared.source != source])
        kept = tuple(row for row in judged if row.compared.source == source)
        yield LeftOutSource(kept, found.model, one_width(found.rows))


def score_of(off: float, half: float) -> float:
    """Return the width, and ten times what lies outside: least where intervals of 80 % are as wide as they must be."""
    return 2 * half + 10 * max(0.0, abs(off) - half)


def one_width(rows: Sequence[PublishedRun]) -> float:
    """Return what holds 80 % of residuals, each layout counting once."""
    return quantile(zip((abs(row.residual) for row in rows), weights(rows), strict=True), LEVEL)


def weights(rows: Sequence[PublishedRun]) -> list[float]:
    """Return how much each run counts where each layout counts once."""
    layouts = [layout_of(row) for row in rows]
    each = Counter(layouts)
    return [1 / each[layout] for layout in layouts]


def layout_of(row: PublishedRun) -> tuple[object, ...]:
    """Return what runs of one layout, whatever their sizes, have in common."""
    compared = row.compared
    return (compared.source, compared.version, compared.facts.model, compared.facts.gpu, compared.facts.layout)


def _version(row: PublishedRun) -> tuple[object, ...]:
    return (row.compared.version,)


def _group(row: PublishedRun) -> tuple[object, ...]:
    return (row.compared.version, row.compared.facts.model, row.compared.facts.gpu)


def _same_step(row: PublishedRun) -> tuple[object, ...]:
    return (*_group(row), row.compared.facts.gpus, row.compared.facts.sequence, row.size)
