"""The JSON document of a schedule with recompute and offload: what stands in it, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document, parse, wrong_claims
from pipesched.errors import ConfigError
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.plan.schedule import schedule_plan
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.results.outcome import Outcome
from tests.strategies import Texts, saving_plan_of

DEVICES = [["0F0", "0F1", "0R1", "0B1", "0B0"], ["1F0", "1F1", "1B1", "1B0"]]
LANES = [["0O0", "1O0"], ["1L0", "0L0"]]


def content() -> dict[str, Any]:
    """Two devices that share their lanes; microbatch 0 is offloaded on both, 0 recomputes microbatch 1."""
    problem = make_problem(
        devices=2,
        microbatches=2,
        forward=1,
        backward=2,
        offload=0.5,
        reload=1.5,
        recompute=0.25,
        lanes="pair",
        placement="linear",
    )
    plan = saving_plan_of(problem, Texts(DEVICES, LANES, [("0B1", "0L0"), ("1O0", "1F1")]))
    return json.loads(dump(document(Outcome("by hand", schedule_plan(problem, plan)))))  # type: ignore[no-any-return]


def test_transfers_stand_in_the_document() -> None:
    """Each device lists its own transfers in order of time; R is a slot like any other."""
    written = content()
    assert written["transfers"] == [
        [{"op": "0O0", "start": 1, "end": 1.5}, {"op": "0L0", "start": 7.5, "end": 9}],
        [{"op": "1O0", "start": 2, "end": 2.5}, {"op": "1L0", "start": 2.5, "end": 4}],
    ]
    assert written["devices"][0][2] == {"op": "0R1", "start": 2, "end": 2.25}
    assert [slot["op"] for slot in written["devices"][0]] == DEVICES[0]
    assert written["metrics"]["busy"] == [6.25, 6]
    assert written["metrics"]["ideal"] == 6


def test_no_transfers_without_offload() -> None:
    """A schedule that may not offload has no such key."""
    problem = make_problem(devices=1, microbatches=1, placement="linear")
    plan = saving_plan_of(problem, Texts([["0F0", "0R0", "0B0"]], [], []))
    assert "transfers" not in document(Outcome("x", schedule_plan(problem, plan)))


def test_a_document_is_legal_and_true() -> None:
    """What was written is read, keeps every rule, and has the metrics that it claims."""
    text = json.dumps(content())
    outcome = parse(text, "x")
    assert list(violations(outcome.schedule)) == []
    assert list(wrong_claims(text, outcome)) == []
    assert (outcome.schedule.recomputed, outcome.schedule.offloaded) == (1, 2)


@pytest.mark.parametrize(
    ("device", "place", "key", "value", "sentence"),
    [
        (0, 0, "start", 0.75, "0O0 lasts 0.75, not 0.5"),
        (0, 1, "op", "0L1", "0O1 is missing"),
        (1, 0, "op", "0O1", "1O0 is missing"),
    ],
)
def test_a_broken_transfer_is_named(device: int, place: int, key: str, value: object, sentence: str) -> None:
    """A document with a wrong time or a wrong transfer is read, and the check says what is wrong."""
    written = content()
    del written["waits"]
    written["transfers"][device][place][key] = value
    assert sentence in list(violations(parse(json.dumps(written), "x").schedule))


def test_an_early_load_is_named() -> None:
    """Times are taken as they stand: a load that comes back before it left is not put right by reading."""
    written = content()
    written["transfers"][0][1] |= {"start": 0, "end": 1.5}
    assert any("0L0 starts at 0" in one for one in violations(parse(json.dumps(written), "x").schedule))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transfers": [[]]}, "'transfers' lists 1 devices; the problem has 2"),
        ({"transfers": [[], 5]}, "'transfers' must hold a list of slots for each device"),
        ({"transfers": {}}, "'transfers' is missing, or of the wrong type"),
        ({"transfers": [[{"op": "0F0", "start": 0, "end": 1}], []]}, "0F0 does not belong here: a lane moves O, L"),
        ({"transfers": [[{"op": "0O9", "start": 0, "end": 1}], []]}, "0O9 is out of range"),
    ],
)
def test_malformed_transfers(change: dict[str, Any], message: str) -> None:
    """What cannot be read is one message."""
    with pytest.raises(ConfigError, match=message):
        parse(json.dumps({**content(), **change}), "x")
