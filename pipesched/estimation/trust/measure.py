"""Which two steps to measure first: by how much the choice among several is then faster, on average."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import expm1, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesched.estimation.trust.covariance import NOISE
from pipesched.estimation.trust.facts import ComparedRun
from pipesched.estimation.trust.residuals import ResidualModel

MOST = 20  # steps that are looked at
NODES = 20  # of Gauss and Hermite, in each of two dimensions
LEAST_GAIN = 1e-4
EQUAL = 1e-9  # gains that differ by less are equal: then the first pair counts


class WhatToMeasure(NamedTuple):
    """Two of several layouts, from 0, and by how much the choice is faster on average once both are measured."""

    layouts: tuple[int, int]
    gain: float


def what_to_measure(model: ResidualModel, runs: Sequence[ComparedRun], times: Sequence[float]) -> WhatToMeasure | None:
    """Return the pair of runs that is worth most to be measured; None where none is worth 0.01 %.

    What a choice is worth is the expected value of -ln(time) of the best one, by what is known then.
    """
    runs, times = runs[:MOST], times[:MOST]
    found = model.posterior(runs)
    worth = -(np.log(times) + np.asarray(found.means))
    measured = np.asarray(found.covariance)
    known = measured - model.spreads[NOISE] ** 2 * np.eye(len(runs))
    best, gain = None, log(1 + LEAST_GAIN)
    for pair in combinations(range(len(runs)), 2):
        here = _gain(worth, known, measured, pair)
        if here > gain * (1 + EQUAL):
            best, gain = pair, here
    return None if best is None else WhatToMeasure(best, expm1(gain))


def _gain(
    worth: NDArray[np.float64], known: NDArray[np.float64], measured: NDArray[np.float64], pair: tuple[int, int]
) -> float:
    """Return how much more the best is worth once a pair is measured, as a logarithm."""
    root = np.linalg.cholesky(measured[np.ix_(pair, pair)])
    moved = np.linalg.solve(root, known[:, pair].T)  # by a standard normal each: the transpose of A
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    each = worth[:, None, None] + moved[0][:, None, None] * nodes[:, None] + moved[1][:, None, None] * nodes
    return float(weights @ each.max(axis=0) @ weights - worth.max())
