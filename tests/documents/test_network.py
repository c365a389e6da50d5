"""The step beside its passes in the JSON document of a schedule: network lanes, slots, metrics, and reading them."""

from __future__ import annotations

import json
from typing import Any

import pytest

import pipesched
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document, parse, wrong_claims
from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.pipeline.plan.schedule import TimedOp
from pipesched.pipeline.problem.ops import Op
from tests.stepped import REDUCED, SHARDED, SIDE, SMALL

CASES: list[tuple[str, dict[str, Any]]] = [
    ("1f1b", REDUCED),
    ("1f1b", SMALL),
    ("zb-h2", {**REDUCED, "backward_input": 10, "backward_weight": 10, "clip": True}),
    ("interleaved", SHARDED),
    ("looped-bfs", SHARDED),
    ("1f1b", {"devices": 2, "microbatches": 3, "optimizer": 0.5}),
    ("1f1b", SIDE),
]


def text_of(name: str, given: dict[str, Any]) -> tuple[pipesched.Outcome, str]:
    """A schedule, and the text of its document."""
    outcome = pipesched.run(pipesched.make_problem(**given), name)
    return outcome, dump(document(outcome))


def test_network_and_slots() -> None:
    """Worked out by hand: P2 M2, forward 1, backward 2, gather 2, reduce 3, tied 1, optimizer 1."""
    outcome, text = text_of("1f1b", SMALL)
    content = json.loads(text)
    assert content["network"] == [
        [
            {"op": "0UNSHARD0", "start": 0, "end": 2, "after": None},
            {"op": "0REDUCE_GRAD", "start": 11, "end": 14, "after": "0B1"},
            {"op": "0REDUCE_TIED", "start": 14, "end": 15, "after": None},
        ],
        [
            {"op": "1UNSHARD0", "start": 0, "end": 2, "after": None},
            {"op": "1REDUCE_GRAD", "start": 9, "end": 12, "after": "1B1"},
            {"op": "1REDUCE_TIED", "start": 14, "end": 15, "after": None},
        ],
    ]
    assert [row[-1] for row in content["devices"]] == [
        {"op": "0OPTIMIZER", "start": 15, "end": 16},
        {"op": "1OPTIMIZER", "start": 15, "end": 16},
    ]
    assert outcome.schedule.network[0][1] == TimedOp(Op(0, "REDUCE_GRAD", None), 11, 14, Op(0, "B", 1))
    assert outcome.schedule.network[0][0].after is None


def test_metrics_of_a_step() -> None:
    """The golden 1f1b P4 M8 with gather 15, reduce 30 and optimizer 5: 380, of which the passes are 330."""
    metrics = json.loads(text_of("1f1b", REDUCED)[1])["metrics"]
    assert (metrics["makespan"], metrics["span"]) == (380, 380)
    assert metrics["step"] == {
        "pipeline": 330,
        "network": 45,
        "gather": {"time": [15] * 4, "exposed": 15},
        "reduce": {"time": [30] * 4, "exposed": 30},
        "tied": {"time": [0] * 4, "exposed": 0},
        "optimizer": {"time": [5] * 4, "exposed": 5},
        "exposed": ["0UNSHARD0", "0REDUCE_GRAD"],
    }


def test_peaks_of_each_class() -> None:
    """Interleaved P2 S8 M4 at level weights, ahead 3: six of whole weights at most, sixteen of gradients."""
    metrics = json.loads(text_of("interleaved", SHARDED)[1])["metrics"]
    assert metrics["peak_weights"] == [6, 6]
    assert metrics["peak_gradients"] == [16, 16]
    assert metrics["peak_side"] == [0, 0]
    sums = zip(metrics["peak_activations"], metrics["peak_weights"], metrics["peak_gradients"], strict=True)
    assert all(peak <= sum(parts) for peak, parts in zip(metrics["peak_memory"], sums, strict=True))


def test_a_problem_without_a_step_says_nothing_of_one() -> None:
    """Neither a network nor more metrics than before."""
    content = json.loads(dump(document(pipesched.run(pipesched.make_problem(devices=2), "1f1b"))))
    assert "network" not in content
    assert not {"step", "peak_activations"} & {*content["metrics"]}


@pytest.mark.parametrize(("name", "given"), CASES)
def test_round_trip(name: str, given: dict[str, Any]) -> None:
    """A document read back has the same plan, times and metrics, and the same text."""
    outcome, text = text_of(name, given)
    back = parse(text, "a.json")
    assert dump(document(back)) == text
    assert [*wrong_claims(text, back)] == []
    one, other = outcome.schedule, back.schedule
    assert (one.plan.index, one.plan.orders, one.plan.network) == (
        other.plan.index,
        other.plan.orders,
        other.plan.network,
    )
    assert ([*one.start_ticks], [*one.end_ticks]) == ([*other.start_ticks], [*other.end_ticks])


def test_waits_may_name_operations_of_the_step() -> None:
    """A wait edge from an optimizer to a reduction of another lane is written and read."""
    problem = pipesched.make_problem(devices=2, microbatches=2, reduce=3, optimizer=1)
    orders = ["0F0 0F1 0B0 0B1 0OPTIMIZER", "1F0 1B0 1F1 1B1 1OPTIMIZER"]
    plan = pipesched.plan(
        problem,
        orders,
        waits=[("0REDUCE_GRAD", "1OPTIMIZER")],
        network=[[("0REDUCE_GRAD", "0B1")], [("1REDUCE_GRAD", "1B1")]],
    )
    outcome = pipesched.Outcome("by hand", pipesched.schedule_plan(problem, plan))
    text = dump(document(outcome))
    assert json.loads(text)["waits"] == [["0REDUCE_GRAD", "1OPTIMIZER"]]
    assert parse(text, "a.json").schedule.plan.waits == plan.waits


Place = list[str | int]


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (["network"], None, "'network' is missing, or of the wrong type"),
        (["network"], [[]], "'network' lists 1 devices; the problem has 2"),
        (["network", 0], "0UNSHARD0", "'network' must hold a list of slots for each device"),
        (["network", 0, 0, "op"], "0F0", "0F0 does not belong here: a network lane moves UNSHARD, RESHARD, REDUCE"),
        (["network", 0, 0, "op"], "0UNSHARD", "0UNSHARD is no operation: UNSHARD has a number behind its kind"),
        (["network", 0, 0, "op"], "2UNSHARD0", "2UNSHARD0 is out of range: stages are 0 to 1"),
        (["network", 0, 0, "op"], "1UNSHARD0", "1UNSHARD0 stands twice in the plan"),
        (["network", 0, 0, "op"], "0UNSHARD9", "0UNSHARD9 is out of range: stage 0 has 1 UNSHARD, numbered from 0"),
        (["network", 0, 0, "start"], "0", "0UNSHARD0: 'start' must be a number, not '0'"),
        (["network", 0, 0, "end"], 1.2345, "0UNSHARD0: end 1.2345 is no sum of the problem's costs"),
        (["network", 0, 1, "after"], 1, "0REDUCE_GRAD: 'after' must be the text of a slot, or null, not 1"),
        (["network", 0, 1, "after"], "0O1", "0O1 does not belong here: a device runs"),
        (["network", 0, 1, "after"], "0B9", "0REDUCE_GRAD stands after 0B9, which does not stand in the plan"),
        (["devices", 0, 0, "op"], "0UNSHARD0", "0UNSHARD0 does not belong here: a device runs"),
        (["metrics", "step"], 1, "'step' is missing, or of the wrong type"),
        (["metrics", "step", "network"], "1", "metrics.step.network must be a number, not '1'"),
        (["metrics", "peak_weights"], [], "metrics.peak_weights must list a number for each device, not []"),
    ],
)
def test_wrong_network(place: Place, value: object, said: str) -> None:
    """A document with a wrong network is refused with a sentence that names the file and the operation."""
    _, text = text_of("1f1b", SMALL)
    content = json.loads(text)
    inner: Any = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises((ConfigError, InvalidSchedule)) as caught:
        parse(json.dumps(content), "a.json")
    assert str(caught.value).removeprefix("a.json: ").startswith(said)


def test_network_without_a_step() -> None:
    """A problem without a step has no network lanes."""
    content = document(pipesched.run(pipesched.make_problem(devices=2), "1f1b"))
    with pytest.raises(ConfigError, match="'network' is for a problem with a step"):
        parse(json.dumps({**content, "network": [[], []]}), "a.json")


@pytest.mark.parametrize("wrong", [{"network": 46}, {"exposed": ["0UNSHARD0"]}, {"tied": {"time": [], "exposed": 0}}])
def test_wrong_claims_of_a_step(wrong: dict[str, Any]) -> None:
    """What a document says the step costs is compared with its schedule."""
    _, text = text_of("1f1b", REDUCED)
    content = json.loads(text)
    content["metrics"]["step"] |= wrong
    claims = [*wrong_claims(json.dumps(content), parse(text, "a.json"))]
    assert len(claims) == 1
    assert claims[0].startswith("metrics.step.")
