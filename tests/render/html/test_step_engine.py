"""The engine of the page says what Python says of steps with more than passes: times, documents, moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import pipesched
from pipesched import Outcome, PipeschedError, schedule_plan
from tests.render.html.engine import NODE, answers, case, document_of
from tests.stepped import REDUCED, SHARDED, SIDE, SMALL, TIED

pytestmark = [pytest.mark.skipif(NODE is None, reason="needs node")]
HALVES = {"backward_input": 10, "backward_weight": 10}
EACH = {"level": "gradients", "reduce": "each"}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("1f1b", REDUCED),
    ("1f1b", TIED),
    ("1f1b", SMALL),
    ("zb-h2", {**TIED, **HALVES, "clip": True}),
    ("interleaved", {**SHARDED, "optimizer": 3, "p2p": 1}),
    ("interleaved", {**SHARDED, "shard": {"level": "weights", "ahead": 1, "reduce": "each"}}),
    ("interleaved", {**SHARDED, "shard": EACH}),
    ("1f1b-overlap", {**SHARDED, "shard": "gradients", "optimizer": 2}),
    ("interleaved", {**SHARDED, "shard": "optimizer", "tied": 3, "side": [{"forward": 2, "backward": 4, "into": 3}]}),
    ("1f1b", SIDE),
    ("zb-h1", {**SIDE, **HALVES, "optimizer": 2, "side": [{"forward": 2, "p2p": 3, "devices": [1, 2]}]}),
    ("1f1b", {"devices": 2, "microbatches": 3, "optimizer": 0.5, "offload": 1}),
]


def made(name: str, given: dict[str, Any]) -> Outcome:
    """A schedule of a case."""
    return pipesched.run(pipesched.make_problem(**given), name)


@pytest.mark.slow
def test_documents() -> None:
    """The document that a page gives is Python's, number for number."""
    outcomes = [made(*one) for one in CASES]
    for outcome, found in zip(outcomes, answers([case(one, explain=True) for one in outcomes]), strict=True):
        ours = document_of(outcome)
        assert {**found["document"], "metrics": None} == {**ours, "metrics": None}
        for key, value in ours["metrics"].items():
            if isinstance(value, float):
                assert found["document"]["metrics"][key] == pytest.approx(value), key
            else:
                assert found["document"]["metrics"][key] == value, key


@pytest.mark.slow
def test_moves() -> None:
    """A move leaves what Python makes of that order by the rule, or is refused where the rule has other programs."""
    random, cases, orders = Random(1), [], []
    for one in CASES:
        outcome = made(*one)
        plan = outcome.schedule.plan
        for _ in range(10):
            device = random.randrange(len(plan.orders))
            order = [*plan.orders[device]]
            start, to = (random.randrange(len(order)) for _ in range(2))
            cases.append({**case(outcome), "move": [str(plan.slot(order[start])), to]})
            order.insert(to, order.pop(start))
            orders.append((outcome, [order if on == device else other for on, other in enumerate(plan.orders)]))
    moved = refused = 0
    for (outcome, changed), found in zip(orders, answers(cases), strict=True):
        if "refusal" in found:
            refused += 1
            assert is_refused(outcome, changed), found["refusal"]
            continue
        moved += 1
        schedule = schedule_plan(outcome.problem, replace(outcome.schedule.plan, orders=changed, network=()))
        ours = document_of(Outcome(outcome.algorithm, schedule))
        for key in ("devices", "network"):
            assert found["document"][key] == ours[key]
        for key in ("makespan", "span", "peak_memory", "peak_weights", "peak_gradients", "peak_side", "step"):
            assert found["document"]["metrics"][key] == ours["metrics"][key], key
    assert min(moved, refused) > 20


def test_offered_positions() -> None:
    """The page offers those positions of a slot that it would not refuse."""
    cases = [("interleaved", {**SHARDED, "stages": 4}), ("1f1b", SMALL), ("zb-h1", {**SMALL, "forward": 5, **HALVES})]
    found = answers([{**case(made(*one)), "offers": True} for one in cases])
    for first, last, unrefused in (slot for answer in found for slot in answer["offers"]):
        assert [*range(first, last + 1)] == unrefused


def test_what_costs_do() -> None:
    """Costs do what `explain` says, also where the step ends on a network lane, or on two at once."""
    outcomes = [made("interleaved", {**SHARDED, "stages": 4}), made("1f1b", {**SMALL, "optimizer": None})]
    for outcome, found in zip(outcomes, answers([case(one, explain=True) for one in outcomes]), strict=True):
        rows = {(r["stage"], r["kind"]): (r["faster"], r["slower"]) for r in found["sensitivity"] if "kind" in r}
        assert rows == {(r.stage, r.kind): (r.faster, r.slower) for r in pipesched.explain(outcome).sensitivity}
        assert any(faster for faster, _ in rows.values())


def is_refused(outcome: Outcome, orders: Sequence[Sequence[int]]) -> bool:
    """Whether Python too has no such schedule, another program of a lane, or other stages where weights are sharded."""
    plan, is_sharded = outcome.schedule.plan, outcome.problem.sharding.level == "weights"
    stage_of = plan.index.stage_of

    def stages(rows: Sequence[Sequence[int]]) -> list[list[tuple[int, int] | None]]:
        passes = plan.index.passes
        return [[(stage_of(n), stage_of(plan.pairs.get(n, n))) if n < passes else None for n in row] for row in rows]

    if is_sharded and stages(plan.orders) != stages(orders):
        return True
    try:
        schedule = schedule_plan(outcome.problem, replace(plan, orders=orders, network=()))
    except PipeschedError:
        return True
    texts = [[(str(op), str(after)) for op, _, _, after in program] for program in schedule.network]
    lanes = [[op for op, _ in program] for program in texts]
    old = [[(str(op), str(after)) for op, _, _, after in program] for program in outcome.schedule.network]
    return texts != old if is_sharded else lanes != [[op for op, _ in program] for program in old]


def test_refusals() -> None:
    """The sentences name the lane and the operations."""
    sharded = made("interleaved", SHARDED)
    split = {**SHARDED, "backward_input": 5, "backward_weight": 5, "backward": None, "shard": "optimizer"}
    reduced = made("interleaved-zb", split)
    last = len(reduced.schedule.plan.orders[0]) - 1
    cases = [(sharded, ["0F1", 0]), (sharded, ["0F2", 7]), (reduced, ["2W3", last]), (reduced, ["2W0", last])]
    found = answers([{**case(outcome), "move": move} for outcome, move in cases])
    assert [one.get("refusal") for one in found] == [
        "it would change the program of network lane 0: 0RESHARD0 stands behind a slot that would move",
        "it would change the order of stages, by which network lane 0 gathers weights",
        "network lane 0 keeps its order: 0REDUCE_GRAD would be issued before 2REDUCE_GRAD",
        "network lane 0 keeps its order: 0REDUCE_GRAD would be issued before 2REDUCE_GRAD",
    ]
