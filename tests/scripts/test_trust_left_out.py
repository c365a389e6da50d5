"""Runs predicted without their source: intervals, pairs, own runs and versions, as the package computes them."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import log

import pytest

from measuring import BLOCK
from pipesched import SpeedRatio
from pipesched.estimation.trust.evidence import HALF_WIDTH
from pipesched.estimation.trust.residuals import START
from tests.estimation.runs import published, run
from trust_fit import model_of
from trust_left_out import NEW, LeftOutSource, Pair, Predicted, one_width, score_of, weights
from validate_trust import Goal, figures

OTHERS = [published("b1", run("b", tensor=4), 1100), published("b2", run("b", context=1), 950)]
ROWS = (
    published("a1", run("a", model="m"), 1050),
    published("a2", run("a", model="m", tensor=8, algorithm="1f1b"), 1080, 1040),
    published("a3", run("a", model="m", gpus=512, chunks=4), 990),
    published("a4", run("a", "later", model="n", tensor=4), 1020),
)
WIDE = {"a100": 1.0, "dense": 1.25, "experts": 1.0}
LEFT_OUT = LeftOutSource(ROWS, model_of(OTHERS, START, WIDE), 0.1)


def test_intervals() -> None:
    """Each run has the interval of the package's model, widened by the factor of its kind, beside one width for all."""
    for row, found in zip(ROWS, LEFT_OUT.predicted(), strict=True):
        posterior = LEFT_OUT.model.posterior([row.compared])
        assert found.off == pytest.approx(row.residual - posterior.means[0])
        assert found.half == pytest.approx(HALF_WIDTH * 1.25 * posterior.spread(0))
        assert (found.beside, found.row) == (0.1, row)


def test_score() -> None:
    """Of a run inside the width counts, of one outside ten times what it is outside by as well."""
    inside, outside = Predicted(ROWS[0], -0.05, 0.06, 0.02), Predicted(ROWS[0], -0.08, 0.06, 0.02)
    assert (inside.is_covered, outside.is_covered) == (True, False)
    assert inside.score == pytest.approx(0.12)
    assert outside.score == pytest.approx(0.32)
    assert inside.one_width_score == pytest.approx(score_of(log(1.05), 0.02))


def test_pairs() -> None:
    """A pair is of one version, model, GPU, number of GPUs and batch; it is right about who is faster."""
    (pair,) = LEFT_OUT.pairs()
    assert [row.run for row in pair.runs] == ["a1", "a2"]
    assert pair.measured == pytest.approx(1050 / 1080)
    for faster, right in ((0.95, True), (0.05, False)):
        judged = Pair(pair.runs, SpeedRatio(0.9, 0.95, 0.97, faster))
        assert (judged.is_right, judged.is_covered) == (right, False)
    assert Pair(pair.runs, SpeedRatio(0.9, 0.95, 0.98, 0.9)).is_covered


@pytest.mark.parametrize("one_model", [False, True])
def test_two_own_runs(one_model: bool) -> None:
    """Each run by each two others of its version: what the model says that has these two."""
    found = list(LEFT_OUT.with_two_own(one_model=one_model))
    rows = ROWS[:3]
    assert len(found) == 3  # a4 is alone
    for two in combinations(rows, 2):
        (asked,) = (row for row in rows if row not in two)
        model = LEFT_OUT.model.with_runs((row.compared, row.residual) for row in two)
        posterior, (one,) = model.posterior([asked.compared]), (one for one in found if one.row is asked)
        assert one.off == pytest.approx(asked.residual - posterior.means[0])
        assert one.half == pytest.approx(HALF_WIDTH * 1.25 * posterior.spread(0))
        assert one.half < one.beside


def test_like_a_source() -> None:
    """Each run as a new version by the source's other models, never by runs of its own; beside it a new source."""
    for one in LEFT_OUT.like():
        alone = one.row.run == "a4"
        others = ROWS[:3] if alone else ROWS[3:]
        model = LEFT_OUT.model.with_runs((row.compared, row.residual) for row in others)
        like, new = (replace(one.row.compared, version=NEW, source=source) for source in ("a", NEW))
        posterior = model.posterior([like])
        assert one.off == pytest.approx(one.row.residual - posterior.means[0])
        assert one.half == pytest.approx(HALF_WIDTH * 1.25 * posterior.spread(0))
        assert one.beside == pytest.approx(HALF_WIDTH * 1.25 * model.posterior([new]).spread(0))


def test_layouts_count_once() -> None:
    """Runs of one layout on other numbers of GPUs weigh one together; so do the figures over layouts."""
    assert weights(ROWS) == [0.5, 1, 0.5, 1]
    found = figures(Predicted(row, 0.05, half, 0.1) for row, half in zip(ROWS, (0.04, 0.06, 0.04, 0.08), strict=True))
    assert (found.runs, found.layouts) == (4, 3)
    assert found.of_runs == 0.5
    assert found.of_layouts == pytest.approx(2 / 3)
    assert found.half == 0.06
    assert found.narrower == pytest.approx(0.6)
    assert one_width(ROWS) == pytest.approx(log(1080 / 1040))


def test_goals() -> None:
    """A goal is missed outside its ends, and its line says so."""
    for value, met in ((0.7, True), (0.95, True), (0.951, False), (0.69, False)):
        goal = Goal("covered", value, 0.7, 0.95)
        assert goal.is_met == met
        assert str(goal).endswith("missed") != met
    assert "at most 12.0%" in str(Goal("width", 0.1, 0, 0.12))
    assert "at least 65%" in str(Goal("covered", 0.7, 0.65, 1))
    assert BLOCK.search("```text\na\n```")
