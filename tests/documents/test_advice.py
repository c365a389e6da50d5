"""Advice in a document: read back it is the same, and what contradicts itself is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import pipesched
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document, parse, wrong_claims
from pipesched.errors import ConfigError
from pipesched.results.outcome import Advice, Outcome


@pytest.fixture(scope="module")
def solved() -> Outcome:
    """A schedule with advice of three kinds: a setting, one value, several values of which one is a fraction."""
    problem = pipesched.make_problem(devices=3, stages=3, microbatches=4, forward=1, backward=2, budget=2)
    outcome = pipesched.solve(problem, method="portfolio", advice=True)
    assert outcome.report is not None
    less = outcome.report.value - 1
    own = Advice("mine", less, -1, {}, {"activation": "1/3", "forward": [0.5, 1], "layer": {"forward": 0.25}})
    advice = sorted([*(outcome.report.advice or ()), own], key=lambda one: one.makespan_at_most)
    return replace(outcome, report=replace(outcome.report, advice=tuple(advice)))


def text_of(outcome: Outcome, change: Callable[[Any], None] | None = None) -> str:
    """The document of an outcome as text, after a change of its advice."""
    content = json.loads(dump(document(outcome)))
    if change is not None:
        change(content["solver"]["advice"])
    return json.dumps(content)


def test_what_is_read_is_what_was_written(solved: Outcome) -> None:
    """Every change, with its settings and its values."""
    again = parse(text_of(solved), "x")
    assert again.report is not None
    assert solved.report is not None
    assert again.report.advice == solved.report.advice
    assert list(wrong_claims(text_of(solved), again)) == []


def test_none_stays_none(solved: Outcome) -> None:
    """Where no advice was made there is no key, and where nothing helps an empty list."""
    report = solved.report
    assert report is not None
    for advice in (None, ()):
        outcome = replace(solved, report=replace(report, advice=advice))
        content = document(outcome)["solver"]
        assert content.get("advice", "none") == ("none" if advice is None else [])
        again = parse(text_of(outcome), "x").report
        assert again is not None
        assert again.advice == advice


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda advice: advice[0].update(difference=-0.5), "the difference is -0.5, and from"),
        (lambda advice: advice[0].update(difference=3), "which does not help"),
        (lambda advice: advice.reverse(), "not in the order of its makespans"),
    ],
)
def test_false_claims(solved: Outcome, change: Callable[[Any], None], said: str) -> None:
    """A difference that is another, one that is no help, and an order that is not by makespan."""
    text = text_of(solved, change)
    assert said in "\n".join(wrong_claims(text, parse(text, "x")))


@pytest.mark.parametrize(
    "value", [3, "split", [3], [{}], [{"change": 3}], [{"change": "x", "makespan_at_most": "3", "difference": -1}]]
)
def test_what_is_no_advice(solved: Outcome, value: Any) -> None:
    """One message that names the file and the section."""
    content = json.loads(text_of(solved))
    content["solver"]["advice"] = value
    with pytest.raises(ConfigError, match=r"^x: solver: ") as caught:
        parse(json.dumps(content), "x")
    assert "advice" in str(caught.value)
