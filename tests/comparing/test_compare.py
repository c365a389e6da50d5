"""Comparisons and sweeps as functions: who gets which option, what they return, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

import pipesched
from pipesched.comparing.compare import DEFAULT, every_name
from pipesched.errors import ConfigError, NotApplicable
from pipesched.executors.local import InThisProcess
from pipesched.results.comparison import SweepPoint
from pipesched.schedulers.registry import FAMILIES, family

AUTOPIPE = pipesched.make_problem(devices=4, stages=8, microbatches=8, forward=5, backward=10)
YAML = "devices: 2\nstages: 4\nmicrobatches: 4\ncosts: {forward: 2, backward: 3}\n"


def makespans(comparison: pipesched.Comparison) -> dict[str, Any]:
    """The makespan of each algorithm; None where it does not apply."""
    return {entry.algorithm: entry.metrics and entry.metrics["makespan"] for entry in comparison}


def test_the_default_three() -> None:
    """Without names: naive, 1F1B and interleaved, in this order."""
    assert makespans(pipesched.compare(AUTOPIPE)) == {"naive": 330, "1f1b": 330, "interleaved": 285}
    assert DEFAULT == ("naive", "1f1b", "interleaved")


@pytest.mark.parametrize("executor", [None, InThisProcess()])
def test_a_listener_hears_each_name(executor: Any) -> None:
    """Names come in the order of the entries, each before the entry is made."""
    heard: list[str] = []
    names = ["zb-h1", "naive", "dualpipe"]
    assert [
        entry.algorithm for entry in pipesched.compare(AUTOPIPE, names, executor=executor, listener=heard.append)
    ] == names
    assert heard == names


def test_all_leaves_out_what_needs_options() -> None:
    """`all` takes every algorithm but block, whose period nobody gave; with it block too."""
    whole = [name for name in FAMILIES if name != "seq-1f1b"]  # which is 1f1b without slices
    assert [entry.algorithm for entry in pipesched.compare(AUTOPIPE, "all")] == [n for n in whole if n != "block"]
    assert every_name({}) == [name for name in FAMILIES if name != "block"]
    problem = pipesched.make_problem(devices=1, microbatches=2)
    block = {"block": {"period": 3, "forward": [0], "backward": [1]}}
    assert [entry.algorithm for entry in pipesched.compare(problem, "all", each=block)] == whole


def test_aliases_and_capitals() -> None:
    """An entry has the algorithm's own name, whatever it was called."""
    assert list(makespans(pipesched.compare(AUTOPIPE, ["GPipe", "ZB-1P"]))) == ["naive", "zb-h1"]


def test_entries_by_number_and_by_name() -> None:
    """A comparison is a sequence of entries, and a table by the names of algorithms."""
    comparison = pipesched.compare(AUTOPIPE)
    assert comparison[0] is comparison["naive"]
    assert comparison[-1].algorithm == "interleaved"
    assert [entry.algorithm for entry in comparison[:2]] == ["naive", "1f1b"]
    assert (len(comparison), comparison["1f1b"] in comparison) == (3, True)
    assert comparison["gpipe"] is comparison["GPipe"] is comparison["naive"]
    for unknown in ("zb-1p", "nobody"):
        with pytest.raises(KeyError, match=unknown):
            comparison[unknown]
    with pytest.raises(IndexError):
        comparison[3]


def test_ranked_and_best() -> None:
    """Shortest first, of equal ones the least peak; over budget after all that fit; what does not apply last."""
    problem = pipesched.make_problem(devices=4, stages=8, microbatches=9, forward=5, backward=10, budget=4)
    comparison = pipesched.compare(problem, ["dualpipe", "interleaved", "naive", "1f1b", "sequential"])
    ranked = comparison.ranked()
    assert [entry.algorithm for entry in ranked] == ["1f1b", "sequential", "interleaved", "naive", "dualpipe"]
    assert comparison.best is comparison["1f1b"]
    assert [entry.applicable for entry in ranked] == [True, True, True, True, False]
    assert pipesched.compare(problem, ["dualpipe"]).best is None
    assert pipesched.Comparison(()).best is None


def test_metrics_of_an_entry_are_those_of_its_outcome() -> None:
    """An entry that applies has an outcome, its metrics and no reason; one that does not has a reason alone."""
    applies, refused = pipesched.compare(pipesched.make_problem(devices=3), ["1f1b", "hanayo"])
    assert applies.outcome is not None
    assert (applies.metrics, applies.reason) == (applies.outcome.metrics, "")
    assert (refused.outcome, refused.metrics, refused.applicable) == (None, None, False)
    assert "needs" in refused.reason


def test_an_algorithm_has_one_entry() -> None:
    """Whoever is listed twice, or under an alias too, is run once, at its first place."""
    assert list(makespans(pipesched.compare(AUTOPIPE, ["naive", "1f1b", "gpipe", "1f1b"]))) == ["naive", "1f1b"]
    assert [entry.algorithm for entry in pipesched.compare(AUTOPIPE, ["gpipe", "naive"])] == ["naive"]


def test_none_is_not_given() -> None:
    """None is an option left out: for all algorithms, for one, and in `run`; a number may be spelled in any way."""
    each = {"interleaved": {"group_size": 8}}
    own = pipesched.compare(AUTOPIPE, ["interleaved", "list"], each=each, group_size=None, tie=None, priority=None)
    assert [dict(entry.options) for entry in own] == [{"group_size": 8}, {}]
    unset = pipesched.compare(AUTOPIPE, "interleaved", each={"interleaved": {"group_size": None}})
    assert dict(unset[0].options) == {}
    plain = pipesched.run(AUTOPIPE, "interleaved")
    assert pipesched.run(AUTOPIPE, "interleaved", group_size="4").metrics == plain.metrics
    assert pipesched.run(AUTOPIPE, "interleaved", group_size=4.0).metrics == plain.metrics
    for name in FAMILIES:
        options: dict[str, Any] = dict.fromkeys(family(name).options)
        if name != "block":
            assert pipesched.run(AUTOPIPE, name, **options).metrics == pipesched.run(AUTOPIPE, name).metrics


def test_options_for_all_replace_those_for_each() -> None:
    """Whoever knows an option gets it; `each` gives single ones to single algorithms, under their aliases too."""
    comparison = pipesched.compare(
        AUTOPIPE,
        ["naive", "interleaved", "looped-bfs"],
        each={"gpipe": {"lifo": True}, "interleaved": {"group_size": 8}},
    )
    assert [dict(entry.options) for entry in comparison] == [{"lifo": True}, {"group_size": 8}, {}]
    given = pipesched.compare(AUTOPIPE, ["interleaved"], each={"interleaved": {"group_size": 8}}, group_size=4)
    assert given[0].options == {"group_size": 4}


def test_a_sweep_by_hand() -> None:
    """1F1B of two devices, fused stages of 4 and 6: (M + 1) times 10, and the bubble falls as 1/(M + 1)."""
    sweep = pipesched.sweep(YAML, "microbatches", [1, "2", 4.0, 9], "1f1b")
    assert (sweep.field, [point.value for point in sweep]) == ("microbatches", [1, 2, 4, 9])
    rows = [point.comparison["1f1b"].metrics for point in sweep]
    assert [row["makespan"] for row in rows if row] == [20, 30, 50, 100]
    assert [row["bubble"] for row in rows if row] == pytest.approx([1 / 2, 1 / 3, 1 / 5, 1 / 10])


def test_one_way_of_giving_the_backward_replaces_the_other() -> None:
    """Varying the whole backward of a config that gives its halves leaves the halves out."""
    halves = "devices: 2\ncosts: {backward_input: 1, backward_weight: 1}\n"
    sweep = pipesched.sweep(halves, "backward", [2, 4], "1f1b")
    outcomes = [point.comparison[0].outcome for point in sweep]
    assert [outcome.problem.costs.backward for outcome in outcomes if outcome] == [(2, 2), (4, 4)]


def test_what_does_not_apply_at_a_point_goes_on() -> None:
    """An odd number of microbatches is not for dualpipe; the next point is."""
    sweep = pipesched.sweep(None, "microbatches", [9, 10], ["dualpipe", "1f1b"])
    assert [[entry.applicable for entry in point.comparison] for point in sweep] == [[False, True], [True, True]]


def test_a_sweep_is_a_sequence_of_points() -> None:
    """Its points can be looped over and counted; a point is a value and a comparison."""
    point = SweepPoint(4, pipesched.Comparison(()))
    sweep = pipesched.Sweep("microbatches", (point, point))
    assert (list(sweep), len(sweep)) == ([point, point], 2)


def test_a_refusal_has_no_key_in_its_text() -> None:
    """Why an algorithm does not apply is a sentence of its own; its `key` says which number is at fault."""
    with pytest.raises(NotApplicable) as caught:
        pipesched.run(pipesched.make_problem(devices=4, stages=6), "interleaved")
    assert caught.value.key == "stages"
    assert str(caught.value) == caught.value.message
    assert str(caught.value).startswith("interleaved needs a multiple of 4 stages")
    assert pipesched.compare(pipesched.make_problem(devices=4, stages=6), "interleaved")[0].reason == str(caught.value)


def test_too_few_layers_for_the_chunks_of_some() -> None:
    """Families with fewer stages run, others say why not; where no row could run, the problem is refused."""
    problem = pipesched.make_problem(devices=4, chunks=3, layers=9, microbatches=8)
    rows = pipesched.compare(problem, ["1f1b", "interleaved", "zb-v", "list"])
    assert [entry.cut and len(entry.cut.layout) for entry in rows] == [4, None, 8, None]
    for name in ("interleaved", "list"):
        assert rows[name].reason == "12 stages need at least 12 layers; the model has 9"
    with pytest.raises(NotApplicable, match="12 stages need at least 12 layers; the model has 9"):
        pipesched.solve(problem, time_limit=1)
    others: list[dict[str, Any]] = [{"devices": 10}, {"placement": "loop"}]
    for given in others:
        with pytest.raises(ConfigError, match="layers"):
            pipesched.make_problem(**{"devices": 4, "chunks": 3, "layers": 9, **given})
