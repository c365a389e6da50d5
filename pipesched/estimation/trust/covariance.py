"""How much the residuals of two runs have in common: a sum of effects, each with a spread.

A residual is the logarithm of a published step over the estimated one. It is Gaussian with mean 0; what two runs share,
the source, the GPU, the model, the layout, moves both. A size is a random walk in octaves: with each doubling beyond
what was measured its doubt grows. A share of the GPU's numbers moves each run as much as its step goes with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipesched.estimation.trust.facts import FIELDS, KINDS, SHARES, ComparedRun

Spreads = Mapping[str, float]  # standard deviations of a residual, by the names in START
BY_KIND = {"source": (0.04, 0.08, 0.08), "source_and_model": (0.03, 0.03, 0.03), "layout": (0.01, 0.03, 0.06)}
NOISE = "noise"
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
    yield from _effects_of_source(one, other)
    yield from _effects_of_any(one, other)


def _effects_of_source(one: ComparedRun, other: ComparedRun) -> Iterator[tuple[str, str, float]]:
    if one.source != other.source:
        return
    mine, theirs = one.facts, other.facts
    shared = ["source"]
    if (one.version, mine.model, mine.gpu) == (other.version, theirs.model, theirs.gpu):
        shared += ["source_and_model"] + ["layout"] * (mine.layout == theirs.layout)
    for effect in shared:
        yield f"{effect}.{mine.kind}", f"{effect}.{theirs.kind}", 1.0


def _effects_of_any(one: ComparedRun, other: ComparedRun) -> Iterator[tuple[str, str, float]]:
    mine, theirs = one.facts, other.facts
    is_family = mine.family == theirs.family
    alike = {
        "gpu": is_family and mine.kind == theirs.kind,
        "model": is_family and mine[1:4] == theirs[1:4],
        "schedule": mine.algorithm == theirs.algorithm,
        "recompute": mine.recompute == theirs.recompute,
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
