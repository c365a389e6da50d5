"""Spreads of effects from residuals: those under which the residuals are likeliest, near what is believed before."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import log
from typing import NamedTuple

import numpy as np

from least_squares import Vector
from pipesched.estimation.trust.evidence import HALF_WIDTH, PublishedRun
from pipesched.estimation.trust.facts import KINDS, ComparedRun
from pipesched.estimation.trust.residuals import NOISE, PRECISION, START, ResidualModel, effects_shared
from trust_evidence import quantile

WIDTH = 0.5  # of the logarithm of a spread, about its start
FARTHEST = 3.5  # standard deviations: a run that is farther off is set aside
COVERED = 0.8
SOFT = 3  # sources of a kind that count half
ENOUGH = 1e-9  # a gain of the logarithm of the likelihood after which the search ends
MOST_STEPS = 500
LONGEST = 1.0  # that a step goes in any direction
NAMES = tuple(START)
OF_PRECISION = 0.05  # what is believed of the effect of few bits


class Fitted(NamedTuple):
    """The model of residuals of some rows, those set aside, and how far each is off where its source is left out."""

    model: ResidualModel
    rows: tuple[PublishedRun, ...]
    aside: tuple[PublishedRun, ...]
    scores: Mapping[str, float]


def fit(rows: Sequence[PublishedRun]) -> Fitted:
    """Fit spreads, set runs aside that are too far off, fit the others once more, and calibrate the widths of kinds."""
    scores = unaided_scores(rows)
    kept = tuple(row for row in rows if abs(scores[row.run]) <= FARTHEST)
    aside = tuple(row for row in rows if row not in kept)
    spreads = spreads_of(kept)
    scores = left_out_scores(kept, spreads)
    factors = {kind: _factor(kind, kept, aside, scores) for kind in KINDS}
    return Fitted(model_of(kept, spreads, factors), kept, aside, scores)


def model_of(
    rows: Sequence[PublishedRun], spreads: Mapping[str, float], factors: Mapping[str, float] | None = None
) -> ResidualModel:
    """Return the model of the residuals of rows."""
    wide = factors or dict.fromkeys(KINDS, 1.0)
    return ResidualModel(spreads, wide).with_runs((row.compared, row.residual) for row in rows)


def unaided_scores(rows: Sequence[PublishedRun]) -> dict[str, float]:
    """Return how many standard deviations each run is off, where the spreads are of other sources as well.

    So no run widens the spreads that it is judged by.
    """
    found: dict[str, float] = {}
    for source in dict.fromkeys(row.compared.source for row in rows):
        scores = left_out_scores(rows, spreads_of([row for row in rows if row.compared.source != source]))
        found.update({row.run: scores[row.run] for row in rows if row.compared.source == source})
    return found


def left_out_scores(rows: Sequence[PublishedRun], spreads: Mapping[str, float]) -> dict[str, float]:
    """Return how many standard deviations each run is off, by the runs of all other sources."""
    every = np.eye(len(rows)) * spreads[NOISE] ** 2
    for (mine, theirs), sizes in _shared([row.compared for row in rows]).items():
        every = every + spreads[mine] * spreads[theirs] * sizes
    residuals = np.array([row.residual for row in rows])
    sources = np.array([row.compared.source for row in rows])
    scores = np.zeros(len(rows))
    for source in set(sources):
        out, others = np.flatnonzero(sources == source), np.flatnonzero(sources != source)
        beside = every[np.ix_(out, others)]
        solved = beside @ np.linalg.inv(every[np.ix_(others, others)])
        variances = np.diag(every)[out] - np.sum(solved * beside, axis=1)
        scores[out] = (residuals[out] - solved @ residuals[others]) / np.sqrt(variances)
    return {row.run: float(score) for row, score in zip(rows, scores, strict=True)}


def _factor(
    kind: str, rows: Sequence[PublishedRun], aside: Sequence[PublishedRun], scores: Mapping[str, float]
) -> float:
    """Return how much wider intervals of a kind must be to cover as many runs as they say, each source weighing one."""
    found = [
        (row.compared.source, abs(scores.get(row.run, FARTHEST)))
        for row in (*rows, *aside)
        if row.compared.facts.kind == kind
    ]
    each = Counter(source for source, _ in found)
    if not each:
        return 1.0
    wide = quantile([(score, 1 / each[source]) for source, score in found], COVERED)
    return max(1.0, float((wide / HALF_WIDTH) ** (len(each) / (len(each) + SOFT))))


def spreads_of(rows: Sequence[PublishedRun]) -> dict[str, float]:
    """Return the likeliest spreads of rows."""
    found = np.exp(maximize(score_of(rows), start_of(rows)))
    return dict(zip(names_of(rows), map(float, found), strict=True))


def names_of(rows: Sequence[PublishedRun]) -> tuple[str, ...]:
    """Return the names of the spreads of rows."""
    return (*NAMES, *[PRECISION] * any(row.compared.facts.is_low for row in rows))


def start_of(rows: Sequence[PublishedRun]) -> Vector:
    """Return the logarithms of what is believed of their spreads before."""
    return np.append(START_LOGARITHMS, [log(OF_PRECISION)] * (len(names_of(rows)) - len(NAMES)))


def score_of(rows: Sequence[PublishedRun]) -> Callable[[Vector], tuple[float, Vector]]:
    """Return what says how likely rows make the logarithms of spreads, near what is believed before; and its slope."""
    residuals = np.array([row.residual for row in rows])
    shared = _shared([row.compared for row in rows])
    names, start = names_of(rows), start_of(rows)

    def score(logarithms: Vector) -> tuple[float, Vector]:
        spreads = np.exp(logarithms)
        covariance = np.eye(len(rows)) * spreads[names.index(NOISE)] ** 2
        slopes = {NOISE: 2 * covariance}
        for (mine, theirs), sizes in shared.items():
            part = spreads[names.index(mine)] * spreads[names.index(theirs)] * sizes
            covariance = covariance + part
            for name in (mine, theirs):
                slopes[name] = slopes.get(name, 0) + part
        inverse = np.linalg.inv(covariance)
        pulled = inverse @ residuals
        off = (logarithms - start) / WIDTH
        likelihood = -0.5 * (residuals @ pulled + np.linalg.slogdet(covariance)[1] + off @ off)
        bent = np.outer(pulled, pulled) - inverse
        slope = np.array([0.5 * np.sum(bent * slopes[name]) if name in slopes else 0.0 for name in names])
        return float(likelihood), slope - off / WIDTH

    return score


START_LOGARITHMS: Vector = np.array([log(START[name]) for name in NAMES])


def _shared(runs: Sequence[ComparedRun]) -> dict[tuple[str, str], Vector]:
    """Return the sizes of what pairs of runs share, by the names of both spreads."""
    found: dict[tuple[str, str], Vector] = defaultdict(lambda: np.zeros((len(runs), len(runs))))
    for i, one in enumerate(runs):
        for j, other in enumerate(runs):
            for mine, theirs, size in _effects(one, other):
                found[mine, theirs][i, j] += size
    return found


@cache
def _effects(one: ComparedRun, other: ComparedRun) -> tuple[tuple[str, str, float], ...]:
    return tuple(effects_shared(one, other))


def maximize(score: Callable[[Vector], tuple[float, Vector]], start: Vector) -> Vector:
    """Return where a score is highest, by the method of Broyden, Fletcher, Goldfarb and Shanno from a start."""
    here, (value, slope) = start, score(start)
    curve = np.eye(len(start)) * 0.01
    for _ in range(MOST_STEPS):
        way = curve @ slope
        length = min(1.0, LONGEST / float(np.max(np.abs(way))))
        while (found := score(here + length * way))[0] < value + 1e-4 * length * float(slope @ way):
            length /= 2
            if length < 1e-12:
                return here
        moved, turned = length * way, slope - found[1]
        gain, here, value, slope = found[0] - value, here + moved, *found
        if gain < ENOUGH:
            break
        curve = _updated(curve, moved, turned)
    return here


def _updated(curve: Vector, moved: Vector, turned: Vector) -> Vector:
    """Return the estimate of the inverse of the curvature after a step."""
    bend = float(moved @ turned)
    if bend <= 0:
        return curve
    left = np.eye(len(moved)) - np.outer(moved, turned) / bend
    updated: Vector = left @ curve @ left.T + np.outer(moved, moved) / bend
    return updated
