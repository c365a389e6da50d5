"""The section `solver` of a document: a proof that is read back is still one, and claims that cannot hold are found."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import pipesched
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document, parse, wrong_claims
from pipesched.errors import ConfigError
from pipesched.results.outcome import Outcome

PROBLEM = pipesched.make_problem(
    devices=2,
    stages=4,
    microbatches=4,
    forward=[5, 7, 6, 9],
    backward_input=[5, 6, 5, 8],
    backward_weight=[4, 6, 5, 3],
    budget=2,
)


@pytest.fixture(scope="module")
def solved() -> Outcome:
    """A schedule that is proved by a bound that its document alone would not give."""
    return pipesched.solve(PROBLEM, time_limit=20)


def text_of(outcome: Outcome, change: Callable[[dict[str, Any]], None] | None = None) -> str:
    """The document of an outcome as text, after a change."""
    content = json.loads(dump(document(outcome)))
    if change is not None:
        change(content)
    return json.dumps(content)


def test_what_is_read_is_what_was_solved(solved: Outcome) -> None:
    """Status, bound and where they come from survive, and writing it again gives the same text."""
    again = parse(text_of(solved), "x")
    assert (again.status, again.lower_bound, again.gap) == ("optimal", 149, 0)
    assert again.report is not None
    assert again.report.source == (solved.report.source if solved.report else "")
    assert dump(document(again)) == dump(document(solved))
    assert list(wrong_claims(text_of(solved), again)) == []


def test_what_others_leave_out_has_a_default(solved: Outcome) -> None:
    """A section with the few keys that any solver knows is enough."""

    def few(content: dict[str, Any]) -> None:
        content["solver"] = {"seconds": 1, "bound": 149, "status": "optimal", "objective": 149, "stopped_by": "proof"}

    report = parse(text_of(solved, few), "x").report
    assert report is not None
    assert (report.objective, report.value, report.bound.value, report.stopped_by) == ("makespan", 149, 149, "proof")
    assert report.placements == ("v",)


def claim(section: str | None, key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """A change of one claim."""

    def change(content: dict[str, Any]) -> None:
        (content if section is None else content[section])[key] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (claim("metrics", "lower_bound", 400), "metrics.lower_bound is 400 in the document, above the makespan, 149"),
        (claim("metrics", "gap", 0.5), "metrics.gap is 0.5 in the document; makespan and lower bound have 0"),
        (claim("solver", "bound", 10**6), "solver.bound is 1000000, above the makespan of the schedule, 149"),
        (claim("solver", "bound", 140), "solver.status is optimal, with a makespan of 149 and a bound of 140"),
        (claim("solver", "objective", 148), "solver.objective is 148 in the document; its schedule has 149"),
        (claim(None, "status", "heuristic"), "status is 'heuristic' in the document; its schedule is optimal"),
    ],
)
def test_claims_that_cannot_hold(solved: Outcome, change: Callable[[dict[str, Any]], None], message: str) -> None:
    """A bound above the value, a gap or a status that does not follow: a sentence each."""
    text = text_of(solved, change)
    assert any(found.startswith(message) for found in wrong_claims(text, parse(text, "x")))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("minimize", "time"),
        ("status", "best"),
        ("stopped_by", 5),
        ("bound", "x"),
        ("bound", True),
        ("bound", -5),
        ("seconds", []),
        ("source", "a\nb"),
        ("heuristic", 5),
        ("placements", "v"),
    ],
)
def test_malformed_sections(solved: Outcome, key: str, value: Any) -> None:
    """What is no such section is one message with the name of the document."""
    with pytest.raises(ConfigError, match=r"^x: solver: ") as caught:
        parse(text_of(solved, claim("solver", key, value)), "x")
    assert str(caught.value).count("\n") == 0
