"""A search inside what was measured: its counts, what is faster outside, which rows are told apart, what to measure."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import pytest

import pipesched
from pipesched.estimation.trust.facts import KINDS, facts_of, shape_of
from pipesched.estimation.trust.inside import fields_outside, what_to_measure
from pipesched.estimation.trust.residuals import NOISE, START, ResidualModel
from pipesched.tuning.judged import tied, unmeasured, with_behind
from pipesched.tuning.prune import MeasuredPart, facts_of_point
from pipesched.tuning.space import read_space
from tests.tuning.made import MADE, MODEL, ROWS, layout, run_of, trial, trusted
from tests.tuning.spaces import LLAMA, Config, enumerated, fastest, is_sure

ALGORITHMS = ["1f1b", "interleaved", "zb-v", "dualpipe-v"]
CONFIG: Config = {  # context 4 at 512 tokens a rank lies far outside, whatever was measured; so does dualpipe-v
    "model": {**LLAMA, "num_hidden_layers": 8},
    "hardware": {"preset": "a100-80gb-sxm", "memory": 8},
    "parallel": {"gpus": 8, "tensor": [1, 2], "pipeline": [1, 2, 4], "chunks": [1, 2], "context": [1, 4]},
    "batch": {"sequence": 2048, "global": 16, "micro": [1, 2]},
}


@cache
def found(**more: Any) -> pipesched.Tuning:
    """The search of the small space."""
    return pipesched.tune(None, ALGORITHMS, top=100, **CONFIG, **more)


@cache
def every() -> list[tuple[Any, bool]]:
    """Each point with an estimate, and whether it lies inside."""
    return [
        (one, not fields_outside(facts_of(one.estimate.setup, one.algorithm)))
        for one in enumerated(CONFIG, ALGORITHMS)
        if one.estimate is not None
    ]


@pytest.mark.nightly
@pytest.mark.slow
def test_the_best_inside_is_the_best_of_all_points_inside() -> None:
    """Each estimated by itself; all points are counted, and no row lies outside."""
    tuning = found()
    assert tuning.best is not None
    inside = [one.estimate for one, is_inside in every() if is_inside and one.estimate.fits]
    assert fastest(tuning).rate == max(one.step.tokens_per_second_per_gpu for one in inside if is_sure(one))
    assert tuning.space == tuning.simulated + sum(tuning.pruned.values())
    assert tuning.pruned["evidence"] > 0
    assert not tuning.is_widened
    assert all(row.trust is not None and row.trust.evidence.inside for row in tuning)


@pytest.mark.slow
@pytest.mark.nightly
def test_beyond_searches_all() -> None:
    """Then nothing is left out for want of evidence, and nothing is listed apart; the config may ask for it as well."""
    tuning = found(beyond=True)
    assert tuning.best is not None
    fitting = [one.estimate for one, _ in every() if one.estimate.fits]
    assert fastest(tuning).rate == max(one.step.tokens_per_second_per_gpu for one in fitting if is_sure(one))
    assert (tuning.pruned["evidence"], tuning.beyond, tuning.is_widened) == (0, (), False)
    said = pipesched.tune(None, ALGORITHMS, top=100, **CONFIG, trust={"beyond": True})
    assert [row.point for row in said] == [row.point for row in tuning]


@pytest.mark.slow
def test_what_is_faster_outside() -> None:
    """At most three, one a layout, each faster by its estimate than the first row; the best of all is the first."""
    tuning, free = found(), found(beyond=True)
    assert tuning.best is not None
    assert free.best is not None
    assert len(tuning.beyond) <= 3
    assert (free.best.rate > tuning.best.rate) == bool(tuning.beyond)
    for one in tuning.beyond:
        assert one.trial.rate > tuning.best.rate
        assert one.outside
        assert one.measure.startswith("a step of this model ")
        assert one.trial.trust is not None
        assert one.trial.trust.evidence.outside == one.outside
        assert one.trial.behind is not None
    if tuning.beyond:
        assert tuning.beyond[0].trial.point == free.best.point


@pytest.mark.slow
def test_where_nothing_inside_fits_all_is_searched() -> None:
    """On a GPU that nobody measured: as with `beyond`, and the answer says so."""
    config = {**CONFIG, "hardware": {"preset": "a100-40gb-sxm", "memory": 8}}
    tuning = pipesched.tune(None, ALGORITHMS, **config)
    free = pipesched.tune(None, ALGORITHMS, beyond=True, **config)
    assert tuning.space == tuning.simulated + sum(tuning.pruned.values())
    assert [row.point for row in tuning] == [row.point for row in free]
    assert (tuning.pruned, tuning.is_widened, free.is_widened) == (free.pruned, True, False)
    assert tuning.pruned["evidence"] == 0
    assert tuning.beyond == ()


@pytest.mark.slow
@pytest.mark.nightly
def test_a_point_is_inside_exactly_if_its_estimate_is() -> None:
    """Of all layouts with all algorithms, before anything of them is known but their sizes."""
    space = read_space(None, CONFIG, ALGORITHMS)
    part = MeasuredPart(space)
    seen = set()
    for place, name in product(space.layouts(), space.algorithms):
        try:
            batch = {**CONFIG["batch"], "micro": place.micro}
            config = {**CONFIG, "parallel": {"gpus": 8, **place.parallel}, "batch": batch}
            estimate = pipesched.estimate(None, name, trust=False, **config)
        except pipesched.PipeschedError:
            continue
        facts = facts_of(estimate.setup, name)
        assert facts_of_point(space, place, name) == facts
        assert (name in part.algorithms(place)) == (not fields_outside(facts))
        seen.add(name in part.algorithms(place))
    assert seen == {True, False}


def test_rows_that_cannot_be_told_apart() -> None:
    """The leading rows of which none is slower with 90 %; what nobody knows ends them."""
    assert tied(ROWS) == MADE.tied == 3
    assert tied(()) == 0
    assert tied(ROWS[:1]) == 1
    assert tied([ROWS[0], replace(ROWS[1], behind=None), ROWS[2]]) == 1
    same = with_behind([trusted(trial(layout(2, 4, chunks), "interleaved", 1000.0, 60.0)) for chunks in (2, 3, 4)])
    assert tied(same) == 3
    assert same[0].behind is None
    assert [one.behind.faster for one in same[1:] if one.behind] == [pytest.approx(0.5)] * 2


def test_what_to_measure_first() -> None:
    """The example of two layouts that was computed by hand; none where it does not matter."""
    spreads = {**dict.fromkeys(START, 0.0), **{f"source.{kind}": 0.06 for kind in KINDS}, "tensor": 0.02, NOISE: 0.01}
    base = ResidualModel(spreads, dict.fromkeys(KINDS, 1.0))
    known = [(run_of(layout(8, 1), "1f1b", "1"), 0.05), (run_of(layout(4, 1), "1f1b", "1"), 0.03)]
    model = base.with_runs([*known, (run_of(layout(8, 1), "1f1b", "2"), -0.04)])
    runs = [run_of(layout(2, 1), "1f1b"), run_of(layout(8, 1), "1f1b")]
    asked = what_to_measure(model, runs, [1000.0, 1010.0])
    assert asked is not None
    assert asked.layouts == (0, 1)
    assert asked.gain == pytest.approx(0.000964, abs=1e-6)
    assert what_to_measure(model, runs, [1000.0, 2000.0]) is None
    assert what_to_measure(model, runs[:1], [1000.0]) is None


def test_of_equal_pairs_the_first_is_measured() -> None:
    """Three layouts that differ in nothing that is known: rows 1 and 2."""
    runs = [run_of(layout(1, 2, chunks), "interleaved") for chunks in (2, 2, 2)]
    asked = what_to_measure(MODEL, runs, [100.0, 100.0, 100.0])
    assert asked is None or asked.layouts == (0, 1)


def test_own_runs_order_the_rows() -> None:
    """By what is expected then: a layout that ran much slower than estimated is no longer the first."""
    small: Config = {**CONFIG, "parallel": {"gpus": 8, "tensor": [1, 2], "pipeline": 2, "chunks": 1, "context": 1}}
    before = pipesched.tune(None, ["1f1b"], **small)
    first = before.best
    assert first is not None
    assert first.step is not None
    own = {**CONFIG, "parallel": {"gpus": 8, **first.point.layout.parallel},
           "batch": {**CONFIG["batch"], "micro": first.point.layout.micro}}  # fmt: skip
    after = pipesched.tune(None, ["1f1b"], measured=[(own, 2 * first.step.time)], **small)
    assert after.best is not None
    rates = [row.trust.tokens_per_second_per_gpu.expected for row in after if row.trust]
    assert rates == sorted(rates, reverse=True)
    assert all(row.trust is not None and row.trust.own == 1 for row in after)
    assert rates[0] < before[0].rate
    assert any("spreads off" in note for note in after.notes)


def test_published_runs_of_a_model() -> None:
    """Those of the same model and GPU, with their own estimates; others are not listed."""
    tuning = pipesched.tune(
        None, ["1f1b"], model="llama-3-70b", hardware="h100-sxm",
        parallel={"gpus": 256, "tensor": 8, "pipeline": [1, 4], "chunks": 1, "context": 1},
        batch={"sequence": 8192, "global": 256}, training={"recompute": ["none", "full"]},
    )  # fmt: skip
    assert tuning.best is not None
    assert 1 <= len(tuning.published) <= 8
    model = shape_of(tuning.estimate.setup.model) if tuning.estimate else ""
    assert {(one.compared.facts.model, one.compared.facts.gpu) for one in tuning.published} == {(model, "h100-sxm")}


def test_a_first_row_above_all_published_runs() -> None:
    """Only if the low end of its rate is above each of them on as many GPUs."""
    assert not MADE.is_above_published
    low = MADE.published[1]
    assert not replace(MADE, published=(low, MADE.published[0])).is_above_published
    assert replace(MADE, published=(low,)).is_above_published
    assert not replace(MADE, published=()).is_above_published
    facts = low.compared.facts._replace(gpus=16)
    assert not replace(MADE, published=(low._replace(compared=replace(low.compared, facts=facts)),)).is_above_published


def test_what_would_have_to_be_measured() -> None:
    """A sentence with the fields that lie outside, and the nearest run."""
    space = read_space(None, {**CONFIG, "parallel": {"gpus": 8, "context": 4}}, ALGORITHMS)
    one = unmeasured(space, trusted(trial(layout(2, 1, context=4), "1f1b", 9.0, 4.0)))
    assert "context" in {field.field for field in one.outside}
    assert "with context 4 at 512 tokens a rank" in one.measure
    assert one.measure.endswith("; nearest: theirs-0")
