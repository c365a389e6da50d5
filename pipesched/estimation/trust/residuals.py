"""What published runs say of the residuals of others: of the logarithm of the published time of a step over ours.

A `ResidualModel` is a Gaussian process: residuals of two runs covary by the effects that they share, a source or a GPU
say. `with_runs` conditions it on one run after the other, `posterior` tells of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from operator import mul
from typing import NamedTuple, TypeAlias

from pipesched.estimation.trust.facts import FIELDS, KINDS, SHARES, ComparedRun

Spreads = Mapping[str, float]  # standard deviations of a residual, by the names in START
BY_KIND = {"source": (0.04, 0.08, 0.08), "source_and_model": (0.03, 0.03, 0.03), "layout": (0.01, 0.03, 0.06)}
NOISE = "noise"
PRECISION = "precision"  # the effect of few bits, which runs in 16 bits do not have
START: Spreads = {  # what is believed before any run is seen; of a size for each doubling
    "gpu": 0.05,
    **{
        f"{effect}.{kind}": spread for effect, each in BY_KIND.items() for kind, spread in zip(KINDS, each, strict=True)
    },
    **{"model": 0.02, "schedule": 0.01, "recompute": 0.03},
    **dict(zip(FIELDS, (0.02, 0.01, 0.015, 0.06, 0.04, 0.005, 0.015), strict=True)),
    **dict(zip(SHARES, (0.2, 0.2, 0.2, 0.5, 0.5, 0.5, 0.5), strict=True)),
    NOISE: 0.01,
}


def covariance(one: ComparedRun, other: ComparedRun, spreads: Spreads, *, own: bool = True) -> float:
    """Return the covariance of the residuals of two runs, without noise; `own`: also what only one source has."""
    effects = effects_shared(one, other) if own else _effects_of_any(one, other)
    return sum(spreads[mine] * spreads[theirs] * size for mine, theirs, size in effects)


def effects_shared(one: ComparedRun, other: ComparedRun) -> Iterator[tuple[str, str, float]]:
    """Yield each effect that two runs share: the names of its spread for the one and for the other, and its size."""
    mine, theirs = one.facts, other.facts
    shared = ["source"] * (one.source == other.source)
    if shared and (one.version, mine.model, mine.gpu) == (other.version, theirs.model, theirs.gpu):
        shared += ["source_and_model"] + ["layout"] * (mine.layout == theirs.layout)
    for effect in shared:
        yield f"{effect}.{mine.kind}", f"{effect}.{theirs.kind}", 1.0
    yield from _effects_of_any(one, other)


def _effects_of_any(one: ComparedRun, other: ComparedRun) -> Iterator[tuple[str, str, float]]:
    mine, theirs = one.facts, other.facts
    is_family = mine.family == theirs.family
    alike = {
        "gpu": is_family and mine.kind == theirs.kind,
        "model": is_family and mine[1:4] == theirs[1:4],
        "schedule": mine.algorithm == theirs.algorithm,
        "recompute": mine.recompute == theirs.recompute,
        PRECISION: is_family and mine.is_low and mine.precision == theirs.precision,
    }
    for effect, is_shared in alike.items():
        if is_shared:
            yield effect, effect, 1.0
    for field, size, its in zip(FIELDS, one.octaves, other.octaves, strict=True):
        if size and its:
            yield field, field, min(size, its)
    if is_family:
        for share, weight, its in zip(SHARES, one.weights, other.weights, strict=True):
            if weight and its:
                yield share, share, weight * its


Matrix: TypeAlias = Sequence[Sequence[float]]


class Posterior(NamedTuple):
    """Means of residuals, and their covariance, with the noise of a measurement on its diagonal."""

    means: tuple[float, ...]
    covariance: Matrix

    def spread(self, number: int) -> float:
        return sqrt(self.covariance[number][number])


@dataclass(frozen=True)
class ResidualModel:
    """Runs with residuals, the inverse of their covariance, spreads of effects, and factors of intervals by kind."""

    spreads: Spreads
    factors: Mapping[str, float]
    runs: tuple[ComparedRun, ...] = ()
    residuals: tuple[float, ...] = ()
    inverse: Matrix = ()

    def with_runs(self, runs: Iterable[tuple[ComparedRun, float]]) -> ResidualModel:
        """Return the model with more runs and their residuals; spreads and factors stay."""
        model = self
        for run, residual in runs:
            inverse = bordered(model.inverse, model._beside(run), covariance(run, run, self.spreads) + self._noise)
            model = replace(model, runs=(*model.runs, run), residuals=(*model.residuals, residual), inverse=inverse)
        return model

    def posterior(self, asked: Sequence[ComparedRun]) -> Posterior:
        """Return what the runs say of others, which are measured once each."""
        beside = [self._beside(run) for run in asked]
        solved = [[_dot(row, known) for row in self.inverse] for known in beside]
        means = tuple(_dot(weights, self.residuals) for weights in solved)
        rows = [
            [
                covariance(one, other, self.spreads) - _dot(weights, known) + self._noise * (i == j)
                for j, (other, known) in enumerate(zip(asked, beside, strict=True))
            ]
            for i, (one, weights) in enumerate(zip(asked, solved, strict=True))
        ]
        return Posterior(means, rows)

    @property
    def _noise(self) -> float:
        return self.spreads[NOISE] ** 2

    def _beside(self, run: ComparedRun) -> list[float]:
        return [covariance(run, known, self.spreads) for known in self.runs]


def bordered(inverse: Matrix, beside: Sequence[float], variance: float) -> list[list[float]]:
    """Return the inverse of a matrix that has one row and column more: `beside`, and `variance` on the diagonal."""
    solved = [_dot(row, beside) for row in inverse]
    rest = variance - _dot(solved, beside)
    scaled = [value / rest for value in solved]
    rows = [
        [*(known + value * other for known, other in zip(row, scaled, strict=True)), -own]
        for row, value, own in zip(inverse, solved, scaled, strict=True)
    ]
    return [*rows, [*(-own for own in scaled), 1 / rest]]


def _dot(one: Iterable[float], other: Iterable[float]) -> float:
    return float(sum(map(mul, one, other)))
