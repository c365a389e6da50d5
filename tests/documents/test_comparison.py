"""The documents of comparisons, sweeps, checks and other rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

import pipesched
from pipesched.documents.comparison import (
    check_document,
    comparison_document,
    comparison_of,
    pareto_document,
    rows_document,
    sweep_document,
)
from pipesched.documents.json_text import dump
from pipesched.pipeline.check.check import check
from pipesched.results.comparison import pareto_points


def small(**values: Any) -> pipesched.Problem:
    return pipesched.make_problem(**{"devices": 2, "stages": 2, "microbatches": 3, "forward": 1, **values})


def test_comparison() -> None:
    """A row an algorithm: its metrics, or why it does not apply."""
    entries = pipesched.compare(small(stages=3), ["list", "1f1b"])
    content = json.loads(dump(comparison_document(entries)))
    listed, refused = content["rows"]
    assert (content["format"], content["version"]) == ("pipesched.comparison", 1)
    assert entries[0].outcome is not None
    assert listed == {
        "algorithm": "list",
        "applicable": True,
        "runs_in": ["pytorch"],
        "weights": 1,
        "metrics": entries[0].outcome.metrics,
    }
    assert refused == {"algorithm": "1f1b", "applicable": False, "reason": entries[1].reason}
    assert "multiple of 2 stages" in refused["reason"]


@pytest.mark.parametrize(("text", "value"), [("4", 4), ("0.5", 0.5), ("1e2", 100), ("-0", 0), ("+7", 7), (0.5, 0.5)])
def test_sweep_value_is_a_number(text: str | float, value: float) -> None:
    """A sweep's row begins with the field and its value as a number."""
    content = sweep_document(pipesched.sweep("devices: 2\nmicrobatches: 3\n", "p2p", [text], ["naive"]))
    assert (content["format"], content["version"]) == ("pipesched.sweep", 1)
    (row,) = content["rows"]
    assert list(row) == ["costs.p2p", "algorithm", "applicable", "runs_in", "weights", "metrics"]
    assert row["costs.p2p"] == value


def test_check() -> None:
    """A check says whether the schedule is valid, whether it fits, and what it breaks."""
    outcome = pipesched.run(small(budget=1), "naive")
    found = check(outcome)
    assert check_document(outcome, found) == {
        "format": "pipesched.check",
        "version": 1,
        "algorithm": "naive",
        "valid": False,
        "fits": False,
        "violations": [f"device {at} holds 3 of 1 microbatch: over the budget by 2" for at in (0, 1)],
        "over": [{"device": at, "memory": 3, "budget": 1} for at in (0, 1)],
    }
    assert check_document(outcome, ["0F0 is missing"])["valid"] is False


def test_rows() -> None:
    """Any rows get a name and a version, and each stands on a line of its own."""
    rows: list[dict[str, object]] = [{"a": 1}, {"a": [1, 2]}]
    content = rows_document("things", iter(rows))
    assert content == {"format": "pipesched.things", "version": 1, "rows": rows}
    assert dump(content).count('"a"') == sum('"a"' in line for line in dump(content).splitlines()) == 2


def test_no_rows() -> None:
    """No rows are an empty list."""
    assert json.loads(dump(rows_document("things", [])))["rows"] == []


def test_orders_of_rows() -> None:
    """A row of microbatches that differ has the list of their order, never the word, and of the best what is known."""
    entries = pipesched.compare(small(sizes={"work": [3, 1, 2]}), ["1f1b", "naive"], order="best")
    content = json.loads(dump(comparison_document(entries)))
    for row, entry in zip(content["rows"], entries, strict=True):
        assert entry.outcome is not None
        ordering = entry.outcome.ordering
        assert ordering is not None
        assert row["order"] == [*ordering.order]
        assert row["ordering"] == {"exact": True, "tried": 6, "given": ordering.given, "verl": ordering.verl}
    again = comparison_of(content)
    assert [entry.ordering for entry in again] == [entry.fed for entry in entries]
    assert json.loads(dump(comparison_document(again)))["rows"] == content["rows"]


def test_ranked_rows_are_read_back() -> None:
    """A document by makespan and memory is one again after reading, with what dominates and what does not apply."""
    compared = pipesched.compare(small(), ["naive", "1f1b", "zb-v"])
    content = json.loads(dump(pareto_document(compared, pareto_points(compared))))
    assert {row.get("dominated") for row in content["rows"]} == {True, False, None}
    assert json.loads(dump(comparison_document(comparison_of(content)))) == content


@pytest.mark.parametrize(
    ("given", "options", "order"),
    [
        ({"sizes": {"work": [3, 1, 2]}}, {}, [0, 1, 2]),
        ({"sizes": {"work": [3, 1, 2]}}, {"order": "verl"}, [1, 0, 2]),
        ({"forward": [[1, 2, 3], 1]}, {}, [0, 1, 2]),
        ({}, {"order": [2, 0, 1]}, [2, 0, 1]),
        ({}, {"order": "verl"}, None),
        ({}, {}, None),
        ({"slices": 2}, {}, None),
    ],
)
def test_order_of_a_row(given: dict[str, Any], options: dict[str, Any], order: list[int] | None) -> None:
    """The order stands where microbatches differ, or where a list was asked for; in ranked rows too."""
    compared = pipesched.compare(small(**given), ["naive"], **options)
    (row,) = comparison_document(compared)["rows"]
    assert (row.get("order"), "ordering" in row) == (order, False)
    points = pareto_points(compared)
    (ranked,) = pareto_document(compared, points)["rows"]
    assert ranked.get("order") == order
