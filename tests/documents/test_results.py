"""Documents of results: advice, comparisons, packings, solves, tunings, hardware."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import pipesched
from pipesched import Advice, ConfigError, Outcome, check
from pipesched.documents.comparison import (
    check_document,
    comparison_document,
    comparison_of,
    packing_document,
    pareto_document,
    rank_config,
    sweep_document,
)
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document, parse, wrong_claims
from pipesched.documents.tuning import tuning_document
from pipesched.estimation.setup import SIZES
from pipesched.results.comparison import pareto_points
from tests.comparing.packings import GOLDEN
from tests.tuning.made import MADE, NOTHING, OUTSIDE, PRUNED, ROWS, layout, trial


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


def small(**values: Any) -> pipesched.Problem:
    return pipesched.make_problem(**{"devices": 2, "stages": 2, "microbatches": 3, "forward": 1, **values})


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


TWO = pipesched.make_problem(devices=2, forward=1, backward=2, budget=3)
PACKING = pipesched.pack(GOLDEN, ranks=2, cap=12, microbatches=2, problem=TWO, attention=0.5)
EVERYTHING = pipesched.make_problem(
    devices=2, stages=4, forward=[1, 2, 1, 1.5], backward_input=1.5, backward_weight=0.7, p2p=0.25, speed=[1, 0.8],
    links={"size": 1, "inside": 0, "between": 0.3}, offload=2, activation=0.3, retain=0.5, static=0.1, budget=4,
    name="mine", time_unit="ms",
)  # fmt: skip


def test_written() -> None:
    """A file holds the document; the format is written, not read back."""
    with pytest.raises(ConfigError, match=r"pipesched\.schedule"):
        pipesched.read(io.StringIO(json.dumps(packing_document(PACKING))))


@pytest.mark.parametrize("problem", [TWO, EVERYTHING], ids=["plain", "everything"])
@pytest.mark.parametrize("algorithm", ["1f1b", "zb-h1", "interleaved"])
def test_configs_of_ranks(problem: Any, algorithm: str) -> None:
    """The config of a rank, by default the slowest, is an ordinary one whose schedule takes what the rank takes."""
    packing = pipesched.pack(
        GOLDEN, ranks=2, cap=12, microbatches=2, problem=problem, attention=0.3, algorithm=algorithm
    )
    for rank in (None, 0, 1):
        text = rank_config(packing, rank)
        loaded = pipesched.load(text)
        made = pipesched.run(loaded, algorithm)
        assert made.schedule.makespan == packing.makespans[packing.slowest if rank is None else rank]
        assert f"algorithm: {algorithm}\n" in text
    with pytest.raises(ConfigError):
        rank_config(packing, 2)


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
def solve_found() -> Outcome:
    """A schedule that is proved by a bound that its document alone would not give."""
    return pipesched.solve(PROBLEM, time_limit=20)


def solver_text(outcome: Outcome, change: Callable[[dict[str, Any]], None] | None = None) -> str:
    """The document of an outcome as text, after a change."""
    content = json.loads(dump(document(outcome)))
    if change is not None:
        change(content)
    return json.dumps(content)


def test_what_is_read_is_what_was_solved(solve_found: Outcome) -> None:
    """Status, bound and where they come from survive, and writing it again gives the same text."""
    again = parse(solver_text(solve_found), "x")
    assert (again.status, again.lower_bound, again.gap) == ("optimal", 149, 0)
    assert again.report is not None
    assert again.report.source == (solve_found.report.source if solve_found.report else "")
    assert dump(document(again)) == dump(document(solve_found))
    assert list(wrong_claims(solver_text(solve_found), again)) == []


def test_what_others_leave_out_has_a_default(solve_found: Outcome) -> None:
    """A section with the few keys that any solver knows is enough."""

    def few(content: dict[str, Any]) -> None:
        content["solver"] = {"seconds": 1, "bound": 149, "status": "optimal", "objective": 149, "stopped_by": "proof"}

    report = parse(solver_text(solve_found, few), "x").report
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
def test_claims_that_cannot_hold(solve_found: Outcome, change: Callable[[dict[str, Any]], None], message: str) -> None:
    """A bound above the value, a gap or a status that does not follow: a sentence each."""
    text = solver_text(solve_found, change)
    assert any(found.startswith(message) for found in wrong_claims(text, parse(text, "x")))


KEYS = ["format", "version", "name", "space", "simulated", "pruned", "left", "capacity", "rows", "pareto", "parts",
        "wishes", "doubts", "nearest", "tied", "fits", "beyond", "published", "measure", "notes"]  # fmt: skip
ROW = ["parallel", "micro", "recompute", "algorithm", "layout", "bubble", "step", "memory", "spare", "fits", "runs_in",
       "trust", "behind", "sure"]  # fmt: skip
POINT = ["parallel", "micro", "recompute", "algorithm"]


def test_what_it_says() -> None:
    """Counts, and rows best first, each with its point as a config spells it and its step as in an estimate."""
    content = json.loads(json.dumps(tuning_document(MADE)))
    assert list(content) == KEYS
    assert (content["format"], content["version"], content["space"]) == ("pipesched.tuning", 1, 470_000)
    assert content["pruned"] == PRUNED
    assert content["space"] == content["simulated"] + sum(content["pruned"].values()) + content["left"]
    first = content["rows"][0]
    assert list(first) == ROW
    assert first["parallel"] == {
        "gpus": 8, "tensor": 2, "pipeline": 4, "chunks": 1, "context": 1, "expert": 1, "expert_tensor": 1, "data": 1,
    }  # fmt: skip
    assert (first["micro"], first["recompute"], first["algorithm"]) == (1, "none", "zb-h1")
    assert ROWS[0].step is not None
    assert first["step"] == ROWS[0].step._asdict()
    assert (first["memory"], first["fits"]) == (61.2, True)
    rates = [row["step"]["tokens_per_second_per_gpu"] for row in content["rows"]]
    assert rates == sorted(rates, reverse=True)
    assert content["rows"][3]["recompute"] == {"full": 3}


def test_what_the_answer_rests_on() -> None:
    """Pareto points are rows too; parts, wishes and doubts are what the tables show of them."""
    content = tuning_document(MADE)
    assert content["pareto"][:2] == [content["rows"][0], content["rows"][3]]
    assert content["parts"][0] == {"name": "matrix products", "share": 0.552}
    (wish,) = content["wishes"]
    assert list(wish) == [*POINT, "over", "most"]
    assert (wish["parallel"]["data"], wish["over"], wish["most"]) == (2, 3.21, 10_950)
    first, second = content["doubts"]
    assert (first["share"], first["factor"], first["gain"]) == ("gemm", 0.9, 0.0123)
    assert first["winner"] == {key: content["rows"][1][key] for key in POINT}
    assert second["gain"] == 0


def test_how_sure_it_is() -> None:
    """Each row has its interval, its ratio to the first one, and whether it surely fits; what nobody knows is null."""
    content = json.loads(json.dumps(tuning_document(MADE)))
    first, second, third, _ = content["rows"]
    assert first["trust"]["tokens_per_second_per_gpu"]["low"] < first["trust"]["tokens_per_second_per_gpu"]["high"]
    assert first["trust"]["evidence"]["inside"]
    assert (first["behind"], first["sure"], third["sure"]) == (None, True, False)
    assert list(second["behind"]) == ["ratio", "faster"]
    assert second["behind"]["ratio"]["expected"] == pytest.approx(10_201.5 / 10_412.34)
    assert 0.5 < second["behind"]["faster"] < third["behind"]["faster"] < 0.9
    assert content["tied"] == 3
    assert content["pareto"][2]["trust"] is None
    (one,) = content["beyond"]
    assert list(one) == [*ROW, "measure"]
    assert one["trust"]["evidence"]["outside"] == [OUTSIDE._asdict()]
    assert one["behind"]["ratio"]["expected"] > 1
    assert content["published"][0] == {
        "run": "theirs-0", "source": "theirs", "parallel": {key: first["parallel"][key] for key in SIZES}, "gpus": 8,
        "measured": pytest.approx(9_900), "estimated": pytest.approx(9_900 * 1.031),
    }  # fmt: skip
    assert content["measure"] == {"layouts": [0, 2], "gain": 0.0102}
    empty = tuning_document(NOTHING)
    assert [empty[key] for key in ("tied", "beyond", "published", "measure", "notes")] == [0, [], [], None, []]


def test_nothing_fits() -> None:
    """No rows, but what misses its memory by least, with what would help."""
    content = tuning_document(NOTHING)
    assert (content["rows"], content["pareto"], content["name"]) == ([], [], "mine")
    first, second = content["nearest"]
    assert list(first) == [*POINT, "over", "help"]
    assert (first["over"], first["help"], second["help"]) == (12.34, ["recompute full", "16 GPUs"], [])


def test_a_tuning_is_a_sequence_of_its_rows() -> None:
    """Best first; it prints as the best point, on one line."""
    assert (len(MADE), MADE[0], MADE.best, list(MADE[1:])) == (4, ROWS[0], ROWS[0], [*ROWS[1:]])
    assert repr(MADE) == "Tuning(tensor 2, pipeline 4, zb-h1, 10412.3 tokens/s/GPU)"
    assert repr(NOTHING) == "Tuning(none of 96 points fits)"
    assert (NOTHING.best, MADE.is_complete, replace(MADE, left=1).is_complete) == (None, True, False)
    assert not trial(layout(2, 2), "1f1b", 9.0, 81.0).fits
