"""The first row surely fits; faster rows that may not fit stand last, marked with what they would gain."""

from __future__ import annotations

from dataclasses import replace

import pytest

import pipesched
from pipesched.config.load import FITS
from pipesched.documents.tuning import tuning_document
from pipesched.render.tuning import tuning_view
from pipesched.tuning.judged import by_expected, in_order
from pipesched.tuning.search import SpaceSearch
from pipesched.tuning.space import read_space
from pipesched.tuning.trial import Trial
from tests.render.test_tuning import text
from tests.tuning.made import MADE, layout, trial, trusted
from tests.tuning.spaces import ALGORITHMS, SPACE, Config, enumerated, fastest, is_sure

TIGHT: Config = {**SPACE, "hardware": {**SPACE["hardware"], "memory": 5.25}}
NAMES = ["1f1b", "interleaved", "zb-h1"]


def row(rate: float, memory: float, chunks: int = 1) -> Trial:
    """A row whose rate is expected to be as estimated, of a GPU of 80 GB."""
    return trusted(trial(layout(2, 4, chunks), "interleaved", rate, memory), mean=0.0)


def searched(fits: str = FITS[0]) -> SpaceSearch:
    """A search that asks for rows that fit so."""
    space = replace(read_space(None, SPACE, ALGORITHMS), fits=fits)
    return SpaceSearch(space, {}, lambda _: None, lambda _: None)


def test_faster_rows_that_may_not_fit_have_room_at_the_end() -> None:
    """At most three of them in place of the last that surely fit; slower ones fill what is left."""
    sure, faster = [row(100 - n, 60) for n in range(6)], [row(120 - n, 79) for n in range(5)]
    slow = row(50, 79)
    assert in_order(searched(), [*sure, *faster, slow], 5) == [*sure[:2], *faster[:3]]
    assert in_order(searched(), [*sure, slow], 5) == sure[:5]
    assert in_order(searched(), [*sure, slow], 9) == [*sure, slow]
    assert in_order(searched(), [*sure, *faster], 1) == sure[:1]
    assert in_order(searched(FITS[1]), [*sure, *faster], 3) == faster[:3]


def test_where_nothing_surely_fits_the_likeliest_is_first() -> None:
    """Then the others by what is expected; the text says it."""
    likely, fast = row(90, 78.5), row(120, 79.5)
    search = searched()
    ranked = sorted([fast, row(110, 79), likely], key=search.order)
    assert in_order(search, ranked, 3) == [likely, fast, row(110, 79)]
    shown = text(tuning_view(replace(MADE, rows=(likely, fast), tied=1)), 100)
    assert "Nothing surely fits; row 1 is the likeliest to: 79.3 GB, 80 % 77.7 to 80.5." in shown
    shown = text(tuning_view(replace(MADE, rows=(likely, fast), tied=1, fits="likely")), 100)
    assert "Row 1 may not fit: 79.3 GB" in shown


@pytest.mark.slow
def test_a_search_finds_the_best_that_surely_fits() -> None:
    """A GPU just too small for the fastest: it is marked, with its gain, and first where likely is enough."""
    every = [one.estimate for one in enumerated(TIGHT, NAMES) if one.estimate and one.estimate.fits]
    rates = [max(one.step.tokens_per_second_per_gpu for one in some) for some in (every, [*filter(is_sure, every)])]
    assert rates[0] > rates[1]
    found = pipesched.tune(None, NAMES, beyond=True, **TIGHT)
    assert found.best is not None
    assert found.best.sure
    assert fastest(found).rate == rates[1]
    assert pipesched.estimate(found.config).step == found.best.step
    doubtful = [one for one in found if one.may_not_fit and one.rate > rates[1]]
    assert max(one.rate for one in doubtful) == rates[0]
    assert [not one.sure for one in found] == sorted(not one.sure for one in found)
    assert "may not fit; if it does, +" in text(tuning_view(found), 100)
    likely = pipesched.tune(None, NAMES, beyond=True, fits="likely", **TIGHT)
    assert max(one.rate for one in likely) == rates[0]
    assert [*map(by_expected, likely)] == sorted(map(by_expected, likely))
    said = pipesched.tune(None, NAMES, **{**TIGHT, "trust": {"beyond": True, "fits": "likely"}})
    assert [one.point for one in said] == [one.point for one in likely]
    assert [tuning_document(one)["fits"] for one in (found, likely)] == [*FITS]


@pytest.mark.slow
def test_a_given_budget_leaves_a_gpu_its_memory() -> None:
    """A limit below the memory: what keeps it surely fits, as the GPU has more."""
    config = {**SPACE, "hardware": {**SPACE["hardware"], "memory": 80}}
    for row in pipesched.tune(None, NAMES, beyond=True, budget="5.5", **config):
        assert row.fits
        assert row.sure
        assert row.margin > 70
