"""Documents of problems whose costs give the whole backward beside its halves: version 3."""

from __future__ import annotations

import json
from typing import Any

import pytest

import pipesched
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document, parse, wrong_claims

ALL_THREE: dict[str, Any] = {"forward": 1, "backward": 2, "backward_input": 1.5, "backward_weight": 1.5}


@pytest.mark.parametrize("algorithm", ["1f1b", "zb-h1", "dualpipe-v", "list", "zb-auto"])
@pytest.mark.parametrize(
    "more",
    [
        ALL_THREE,
        {"layers": 9, "layer": ALL_THREE, "last": {"forward": 1, "backward": 2}, "layout": "balanced"},
        {**ALL_THREE, "sizes": {"work": [1, 2, 1, 2, 3, 1, 1, 1]}},
        {**ALL_THREE, "optimizer": 1, "reduce": 0.5},
    ],
)
def test_read_back(algorithm: str, more: dict[str, Any]) -> None:
    """The document has all three costs and how many backwards are whole, and is read back as it was."""
    problem = pipesched.make_problem(devices=4, chunks=1 + (algorithm == "dualpipe-v"), microbatches=8, **more)
    outcome = pipesched.run(problem, algorithm)
    text = dump(document(outcome))
    content = json.loads(text)
    assert content["version"] == 3
    assert {"backward", "backward_input", "backward_weight"} <= content["problem"]["costs"].keys()
    ops = [op for row in content["devices"] for entry in row for op in entry["op"].strip("()").split("O")[0].split(";")]
    assert content["metrics"]["joined"] == sum("B" in op for op in ops)
    read = parse(text, "a.json")
    assert read.problem == outcome.problem
    assert dump(document(read)) == text
    assert not [*wrong_claims(text, read)]
    assert not pipesched.check(read)


def test_one_way_is_no_version_3() -> None:
    """A solve that was asked for one way gives that alone; a whole that is the sum of its halves is not said."""
    problem = pipesched.make_problem(devices=2, microbatches=2, **ALL_THREE)
    for split, keys in ((True, {"backward_input", "backward_weight"}), (False, {"backward"})):
        outcome = pipesched.solve(problem, split_backward=split, advice=False)
        content = document(outcome)
        assert content["version"] == 1
        assert {key for key in content["problem"]["costs"] if "backward" in key} == keys
        assert dump(document(parse(dump(content), "a.json"))) == dump(content)
    same = pipesched.make_problem(devices=2, microbatches=2, **{**ALL_THREE, "backward": 3})
    assert "joined" not in document(pipesched.run(same, "zb-h1"))["metrics"]


@pytest.mark.parametrize("rule", ["best", "balanced"])
def test_layers_with_both(rule: str) -> None:
    """Stages of layers have the sums of all three, and families run on them as on stages that are given so."""
    layer: dict[str, Any] = {
        "forward": [1, 2, 1, 1, 1, 1],
        "backward": 2,
        "backward_input": 1.5,
        "backward_weight": [1, 1, 1, 1, 2, 1],
    }
    last = {"forward": 1, "backward_input": 1, "backward_weight": 1}
    problem = pipesched.make_problem(devices=2, microbatches=4, layers=6, layer=layer, last=last, layout=rule)
    outcome = pipesched.run(problem, "zb-h1")
    costs, cut = outcome.problem.costs, outcome.problem.layers
    assert cut is not None
    assert costs.backward == (2 * cut.layout[0], 2 * cut.layout[1] + 2)
    given = {key: getattr(costs, key) for key in ("forward", "backward", "backward_input", "backward_weight")}
    again = pipesched.make_problem(devices=2, microbatches=4, **given)
    assert pipesched.run(again, "zb-h1").schedule.makespan == outcome.schedule.makespan
    solved = pipesched.solve(problem, time_limit=5, advice=False, workers=1)
    assert solved.schedule.makespan <= outcome.schedule.makespan
    assert solved.lower_bound <= solved.schedule.makespan
