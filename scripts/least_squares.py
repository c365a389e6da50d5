"""Robust least squares with what is known beforehand, by Gauss-Newton steps that Levenberg and Marquardt damp."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
OUTLIER = 0.08  # residuals beyond it count about as their size, not its square
NOISE = 0.04  # of a residual
STEP = 0.01  # of the differences that stand for derivatives
ENOUGH = 1e-4  # a step that gains less, as a share of the cost, is the last
FARTHEST = 0.3  # that a step goes in any direction
GIVE_UP = 1e6


def minimize(residuals: Callable[[Vector], Vector], start: Vector, width: Vector, weights: Vector) -> Vector:
    """Return where residuals are least; `start` is what is known beforehand, to a `width` that is a deviation."""
    here: Vector = start.copy()
    found, damping = residuals(start), 1e-2
    cost = _cost(found, weights, here, start, width)
    while True:
        slopes = _slopes(residuals, here, found)
        pull = weights / np.sqrt(1 + (found / OUTLIER) ** 2) / NOISE**2
        bent = slopes.T @ (pull[:, None] * slopes) + np.diag(width**-2.0)
        downhill = slopes.T @ (pull * found) + (here - start) / width**2
        while damping < GIVE_UP:
            step = np.linalg.solve(bent + damping * np.diag(np.diag(bent)), -downhill)
            there = here + np.clip(step, -FARTHEST, FARTHEST)
            moved = residuals(there)
            cheaper = _cost(moved, weights, there, start, width)
            if cheaper < cost:
                break
            damping *= 5
        else:
            return here
        gain, here, found, cost, damping = cost - cheaper, there, moved, cheaper, damping / 5
        if gain < ENOUGH * cost:
            break
    return here


def _slopes(residuals: Callable[[Vector], Vector], here: Vector, found: Vector) -> NDArray[np.float64]:
    """Return the derivative of each residual by each parameter."""
    slopes: NDArray[np.float64] = np.empty((len(found), len(here)))
    for column, row in enumerate(np.eye(len(here))):
        slopes[:, column] = (residuals(here + STEP * row) - found) / STEP
    return slopes


def _cost(found: Vector, weights: Vector, here: Vector, start: Vector, width: Vector) -> float:
    robust = 2 * OUTLIER**2 * (np.sqrt(1 + (found / OUTLIER) ** 2) - 1)
    return float(np.sum(weights * robust) / NOISE**2 + np.sum(((here - start) / width) ** 2))
