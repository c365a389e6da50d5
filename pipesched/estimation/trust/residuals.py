"""What published runs say of the residuals of others: a Gaussian process, conditioned on one run after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from operator import mul
from typing import NamedTuple, TypeAlias

from pipesched.estimation.trust.covariance import NOISE, Spreads, covariance
from pipesched.estimation.trust.facts import ComparedRun

Matrix: TypeAlias = Sequence[Sequence[float]]


class Posterior(NamedTuple):
    """Means of residuals, and their covariance, with the noise of a measurement on its diagonal."""

    means: tuple[float, ...]
    covariance: Matrix

    def spread(self, number: int) -> float:
        """Return the standard deviation of a residual."""
        return sqrt(self.covariance[number][number])


@dataclass(frozen=True)
class ResidualModel:
    """Runs with their residuals, the spreads of effects, and the factor by which a kind's intervals are wider.

    `inverse` is that of the runs' covariance, noise included.
    """

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
        """Return the covariance of a run with each of those that are known."""
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
