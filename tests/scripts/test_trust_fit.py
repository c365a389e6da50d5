"""The fit of spreads: its search, its slopes, its quantiles, and how far runs are off without their source."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from least_squares import Vector
from pipesched.estimation.trust.evidence import PublishedRun
from pipesched.estimation.trust.residuals import START
from tests.estimation.runs import published, run
from trust_evidence import quantile, source_of
from trust_fit import (
    NAMES,
    START_LOGARITHMS,
    fit,
    left_out_scores,
    maximize,
    model_of,
    score_of,
    spreads_of,
    unaided_scores,
)

ROWS = [
    published("a1", run("a", weights={"core": 0.4}, tensor=8), 1050),
    published("a2", run("a", tensor=4, context=1), 1030),
    published("a3", run("a", tensor=4, context=1, chunks=8, gpus=512), 1060),
    published("b1", run("b", weights={"core": 0.2}, experts=8, expert=4), 960),
    published("b2", run("b", experts=8, expert=16, recompute="full"), 900),
    published("c1", run("c", gpu="a100-80gb-sxm", algorithm="zb"), 1010),
    published("c2", run("c", gpu="a100-80gb-sxm", algorithm="zb", gpus=8), 1020),
]


def valley(here: Vector) -> tuple[float, Vector]:
    """A bent valley that rises to 0 at (1, 1), by Rosenbrock; and its slope."""
    x, y = here
    return -((1 - x) ** 2) - 100 * (y - x**2) ** 2, np.array([2 * (1 - x) + 400 * x * (y - x**2), -200 * (y - x**2)])


@pytest.mark.parametrize("start", [(-1.2, 1.0), (3.0, -3.0)])
def test_search_of_a_valley(start: tuple[float, float]) -> None:
    """The highest point of a function that is known to be hard is found from two starts."""
    assert maximize(valley, np.array(start)) == pytest.approx([1, 1], abs=1e-3)


def test_slope_of_the_likelihood() -> None:
    """Each slope is the difference of the likelihood to both sides."""
    score, here = score_of(ROWS), START_LOGARITHMS + np.linspace(-0.3, 0.3, len(NAMES))
    slopes = score(here)[1]
    for number, step in enumerate(1e-5 * np.eye(len(NAMES))):
        differences = (score(here + step)[0] - score(here - step)[0]) / 2e-5
        assert slopes[number] == pytest.approx(differences, abs=1e-5), NAMES[number]


def test_likelihood_by_hand() -> None:
    """Of one run it is that of a Gaussian number, less what its spreads are off from their start."""
    (one,) = rows = [published("a", run(), 1100)]
    variance = model_of([], START).posterior([one.compared]).covariance[0][0]
    expected = -0.5 * (log(1.1) ** 2 / variance + log(variance))
    assert score_of(rows)(START_LOGARITHMS)[0] == pytest.approx(expected)
    assert score_of(rows)(START_LOGARITHMS + 0.5)[0] < expected + len(NAMES)


def test_spreads_stay_where_nothing_is_known() -> None:
    """Effects that no run has keep what is believed before; wide residuals of many sources widen theirs."""
    found = spreads_of(
        [published(name, run(name), 1000 * ratio) for name, ratio in zip("abcd", (1.4, 0.7, 1.3, 0.8), strict=True)]
    )
    assert found["expert"] == pytest.approx(START["expert"], rel=1e-4)
    assert found["source.dense"] > 1.3 * START["source.dense"]


def test_scores_are_of_other_sources() -> None:
    """Each is the residual over the posterior by the runs of all other sources, as the package computes it."""
    scores = left_out_scores(ROWS, START)
    for row in ROWS:
        others = [other for other in ROWS if other.compared.source != row.compared.source]
        found = model_of(others, START).posterior([row.compared])
        assert scores[row.run] == pytest.approx((row.residual - found.means[0]) / found.spread(0)), row.run


def test_a_run_never_counts_for_itself() -> None:
    """A run that is otherwise moves the scores of other sources, and of its own only itself."""
    changed = [ROWS[0]._replace(published=1500), *ROWS[1:]]
    before, after = left_out_scores(ROWS, START), left_out_scores(changed, START)
    moved = {name for name in before if before[name] != pytest.approx(after[name])}
    assert moved == {"a1", "b1", "b2", "c1", "c2"}


def test_what_is_far_off_is_set_aside() -> None:
    """A run that takes twice as long is set aside, and counts in the width of its kind."""
    rows = [published(name, run(name), 1000 * ratio) for name, ratio in zip("abcd", [1, 1.01, 0.99, 1.02], strict=True)]
    calm = fit(rows)
    assert calm.aside == ()
    wild: PublishedRun = published("wild", run("z"), 3000)
    found = fit([*rows, *rows_of_more(), wild])
    assert found.aside == (wild,)
    assert "wild" not in found.scores
    assert found.model.runs == tuple(row.compared for row in found.rows)


def test_no_run_widens_what_it_is_judged_by() -> None:
    """A run that is far off is further off by the spreads of others alone than by those that it had a part in."""
    rows = [*rows_of_more(), published("wild", run("z"), 1400)]
    assert unaided_scores(rows)["wild"] > 1.2 * left_out_scores(rows, spreads_of(rows))["wild"]


def rows_of_more() -> list[PublishedRun]:
    """Twenty more sources whose estimates are right."""
    return [published(f"more{number}", run(f"more{number}"), 1000 + number) for number in range(20)]


def test_quantile() -> None:
    """The least value up to which a share of all weights lies."""
    assert quantile([(3, 1), (1, 1), (2, 1)], 0.5) == 2
    assert quantile([(3, 1), (1, 1), (2, 1), (4, 1)], 0.5) == 2
    assert quantile([(1, 0.1), (2, 0.1), (3, 5)], 0.5) == 3
    assert quantile([(7, 1)], 0.9) == 7
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


@pytest.mark.parametrize(
    ("family", "source", "version"),
    [
        ("zb-t4", "zero-bubble", "zero-bubble"),
        ("torchtitan", "torchtitan", "torchtitan"),
        ("torchtitan-asynctp", "torchtitan", "torchtitan-asynctp"),
        ("dgxc-405b-gb200", "dgxc", "dgxc-gb200"),
    ],
)
def test_source_of_a_family(family: str, source: str, version: str) -> None:
    """Who published, and the version where software or tables are told apart."""
    assert source_of(family) == (source, version)
