"""The page that shows tuned layouts beside those in use is what the script prints, but for the searches themselves."""

from __future__ import annotations

import re

import pytest

import validate_tune
from measuring import with_block
from validate_tune import CASES, Case, known_line, rate_of, trust_of

PAGE = validate_tune.PAGE.read_text(encoding="utf-8")


def best_on_page(case: Case) -> float:
    """The rate of the best layout of a case."""
    table = PAGE.partition(f"\n{case.title}: ")[2].partition("\nbeside layouts in use ")[2]
    best = re.search(r"([\d,.]+) +best +", table)
    assert best is not None
    return float(best[1].replace(",", ""))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.model)
def test_what_is_in_use_stands_on_the_page_and_none_beats_the_best(case: Case) -> None:
    """Each layout that is published or commonly used, estimated anew; its ratio to the best is a search's."""
    best = best_on_page(case)
    for known in case.known:
        estimate = case.estimated(known)
        line = known_line(known, estimate, trust_of(estimate))
        assert without_ratio(line) in {without_ratio(each) for each in PAGE.splitlines()}
        assert rate_of(estimate) <= best or not (estimate.fits and trust_of(estimate).evidence.inside)


def without_ratio(line: str) -> str:
    """A row without what is said of it beside the best."""
    return re.sub(r" +[+-][\d.]+% +[\d.]+-[\d.]+ +\d+%", "", line)


def test_the_block_of_the_page_is_replaced() -> None:
    """What is written is found again, and all else stays."""
    page = with_block(PAGE, "other")
    assert "```text\nother\n```" in page
    assert with_block(page, PAGE.partition("```text\n")[2].partition("\n```")[0]) == PAGE
