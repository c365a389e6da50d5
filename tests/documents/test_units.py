"""The JSON document of microbatches that differ, of slices and of forward passes: its fields, and reading it back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document, parse, wrong_claims
from pipesched.pipeline.check.check import violations
from tests.oracle.drawn import PLACEMENTS, Config, configs, random_rows
from tests.oracle.setup import read_setup

randoms, chances = st.randoms(use_true_random=False), st.sampled_from([0, 0.5, 1])


def by_hand(rows: Sequence[Sequence[str]], **given: Any) -> pipesched.Outcome:
    """The schedule of a plan that is written out in texts."""
    problem = pipesched.make_problem(**given)
    return pipesched.Outcome("by hand", pipesched.schedule_plan(problem, pipesched.plan(problem, rows)))


def content_of(outcome: pipesched.Outcome) -> dict[str, Any]:
    """The document of a schedule, through its text."""
    content: dict[str, Any] = json.loads(dump(document(outcome)))
    return content


def read(content: dict[str, Any]) -> pipesched.Outcome:
    """The schedule in a document."""
    return parse(json.dumps(content), "x.json")


TWO_SLICES = [["0F0.0", "0F0.1", "0B0.1", "0B0.0"], ["1F0.0", "1F0.1", "1B0.1", "1B0.0"]]
SLICED: dict[str, Any] = {"devices": 2, "microbatches": 1, "kv": 0.25, "slices": {"count": 2, "attention": 0.5}}


def test_document_of_slices() -> None:
    """Slices have their parts of the tokens and of each kind of work, and operations their texts; costs of whole
    microbatches are left out."""
    content = content_of(by_hand(TWO_SLICES, **SLICED))
    work = [0.375, 0.625]
    assert content["version"] == 2
    assert content["order"] == [0]
    assert content["problem"]["slices"] == {
        "count": 2,
        "tokens": [0.5, 0.5],
        "work": {"forward": work, "backward_input": work, "backward_weight": work},
        "overhead": 0,
    }
    assert content["problem"]["memory"]["kv"] == 0.25
    assert content["problem"]["costs"] == {"forward": 1, "backward": 2, "p2p": 0}
    assert not {"sizes", "mode"} & {*content["problem"]}
    assert [slot["op"] for slot in content["devices"][0]] == TWO_SLICES[0]
    assert content["metrics"]["peak_memory"] == [1.125, 1.125]


@pytest.mark.parametrize("more", [{"kv": 0}, {"sizes": {"work": [1, 1]}}, {"slices": 1}, {"forward": [[1, 1], 1]}])
def test_alike_microbatches_have_version_1(more: dict[str, Any]) -> None:
    """A document of alike whole microbatches is what it always was, however that was said."""
    plain = pipesched.run(pipesched.make_problem(devices=2, microbatches=2), "1f1b")
    said = pipesched.run(pipesched.make_problem(**{"devices": 2, "microbatches": 2, **more}), "1f1b")
    assert content_of(said) == content_of(plain)
    assert content_of(plain)["version"] == 1
    assert "order" not in content_of(plain)


def test_keys_and_values_of_whole_microbatches() -> None:
    """What keys and values take stands in version 1 too, where nothing holds them yet."""
    outcome = pipesched.run(pipesched.make_problem(devices=2, kv=0.5), "1f1b")
    content = content_of(outcome)
    assert (content["version"], content["problem"]["memory"]["kv"]) == (1, 0.5)
    is_read_back(outcome)


def is_read_back(outcome: pipesched.Outcome) -> None:
    """The document is read as the same problem, plan and times, and is written the same way again."""
    text = dump(document(outcome))
    again = parse(text, "x.json")
    schedule, old = again.schedule, outcome.schedule
    assert (schedule.problem, schedule.plan.orders) == (old.problem, old.plan.orders)
    assert (schedule.start_ticks, schedule.end_ticks) == (old.start_ticks, old.end_ticks)
    assert schedule.order == old.order
    assert [*wrong_claims(text, again), *violations(schedule)] == []
    assert dump(document(again)) == text


@given(
    st.tuples(st.booleans(), st.booleans()).flatmap(
        lambda kinds: configs(PLACEMENTS, slices=kinds[0], forward_only=kinds[1])
    ),
    randoms,
    chances,
    chances,
)
def test_round_trip(config: Config, random: Random, split: float, pair: float) -> None:
    """Any schedule is read back to the last digit: factors, tables, shares, halves, pairs, and forwards alone."""
    rows = random_rows(read_setup(config), random, split=split, pair=pair)
    problem = pipesched.make_problem(**config)
    is_read_back(pipesched.Outcome("random", pipesched.schedule_plan(problem, pipesched.plan(problem, rows))))


@pytest.mark.parametrize(
    "slices",
    [
        3,
        {"count": 7, "attention": 0.123456789},
        {"count": 7, "attention": 0.5, "tokens": "work"},
        {"count": 3, "attention": 0.012345678912, "tokens": [0.2, 0.3, 0.5], "overhead": 0.1},
        {"count": 3, "tokens": [0.3333333333, 0.3333333333, 0.3333333333]},
        {"count": 3, "tokens": [0.1234567891, 0.4, 0.4765432108], "work": [[0.7, 0.2, 0.1], [1 / 3, 1 / 3, 1 / 3]]},
    ],
)
def test_shares_are_read_back(slices: Any) -> None:
    """Parts of slices are the same fractions when they are read: thirds, what attention makes, and what is left."""
    order = [f"{{}}F0.{k}" for k in range(slices if isinstance(slices, int) else slices["count"])]
    texts = [*order, *(text.replace("F", "B") for text in order[::-1])]
    is_read_back(by_hand([[text.format(stage) for text in texts] for stage in (0, 1)], **{**SLICED, "slices": slices}))


def test_parts_of_a_model() -> None:
    """Parts that follow from a model, with ticks finer than a float tells, are read back as the same times."""
    setup = {"model": "llama-3-8b", "hardware": "h100-sxm", "parallel": {"gpus": 8, "pipeline": 4, "tensor": 2}}
    config = {**setup, "batch": {"sequence": 4096, "global": 4}, "slices": 7}
    outcome = pipesched.run(pipesched.load(json.dumps(config)), "seq-1f1b")
    assert outcome.problem.ticks.per_unit > 10**14
    is_read_back(outcome)


def test_what_was_tried_is_read_back() -> None:
    """Numbers of slices that were tried stand beside them, each with its makespan."""
    content = content_of(by_hand(TWO_SLICES, **SLICED))
    content["problem"]["slices"]["tried"] = [[1, 6], [2, 5.25]]
    outcome = read(content)
    assert outcome.problem.slices.tried == ((1, 6), (2, 5.25))
    assert content_of(outcome) == content


UNEQUAL: dict[str, Any] = {"devices": 2, "microbatches": 4, "sizes": {"work": [1, 2, 3, 1]}}


def test_the_best_order() -> None:
    """After `best` the order stands with what was tried, and the makespans of the rules."""
    outcome = pipesched.run(pipesched.make_problem(**UNEQUAL), "1f1b", order="best")
    content = content_of(outcome)
    ordering = outcome.ordering
    assert ordering is not None
    assert content["order"] == [*ordering.order]
    assert content["ordering"] == {"exact": True, "tried": 12, "given": ordering.given, "verl": ordering.verl}
    assert read(content).ordering == ordering
    is_read_back(outcome)


@pytest.mark.parametrize(("order", "version"), [(None, 1), ("best", 1), ([3, 1, 2, 0], 2)])
def test_an_order_of_alike_microbatches(order: Any, version: int) -> None:
    """A list makes a document of version 2, a word says nothing where all are alike."""
    outcome = pipesched.run(pipesched.make_problem(devices=2, microbatches=4), "1f1b", order=order)
    content = content_of(outcome)
    assert (content["version"], content.get("order")) == (version, order if version == 2 else None)
    is_read_back(outcome)


@pytest.mark.parametrize("name", ["chimera", "dualpipe"])
@pytest.mark.parametrize("given", [UNEQUAL, {"devices": 2, "microbatches": 4}])
def test_an_order_of_both_ends(name: str, given: dict[str, Any]) -> None:
    """Where microbatches enter at both ends, the first half of the order enters at device 0."""
    outcome = pipesched.run(pipesched.make_problem(**given), name, order=[3, 1, 2, 0])
    content = content_of(outcome)
    assert (content["problem"]["placement"], content["order"]) == ("bidirectional", [3, 1, 2, 0])
    assert content["devices"][0][0]["op"] == "0F3"
    is_read_back(outcome)


def test_another_order_is_found() -> None:
    """An order in which the schedule does not feed its microbatches is a false claim; one that is missing is none."""
    problem = pipesched.make_problem(devices=2, sizes={"work": [1, 2, 3]})
    content = content_of(pipesched.run(problem, "1f1b"))
    for order, said in (([1, 0, 2], ["order is [1, 0, 2] in the document; its schedule feeds [0, 1, 2]"]), (None, [])):
        changed = {key: value for key, value in {**content, "order": order}.items() if value is not None}
        text = json.dumps(changed)
        assert [*wrong_claims(text, parse(text, "x.json"))] == said
