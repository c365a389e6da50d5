"""Why a whole step takes as long as it does: lanes as lanes, costs of gathers and reductions, moves and programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pipesched import explain, plan, run, schedule_plan
from pipesched.analysis.explain import what_if, why
from pipesched.core.reasons import Idle
from pipesched.documents.explanation import explanation_document
from pipesched.errors import InvalidSchedule
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.plan.step import Shard, SideItem
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import canonical, to_fraction
from tests.pipeline.steps import whole_steps, with_costs
from tests.strategies import plan_of, random_plan, texts_of

LITTLE = Fraction(1, 100_000)
COLUMNS = {"UNSHARD": "gather", "REDUCE_GRAD": "reduce", "OPTIMIZER": "optimizer", "E": "forward", "G": "backward"}
ITEM = SideItem(forward=(2,), backward=(4,), devices=(0, 1), p2p=1)
F_AND_B: dict[str, Any] = {
    "devices": 4, "microbatches": 8, "forward": 10, "backward": 20, "gather": 15, "reduce": 30, "optimizer": 5,
}  # fmt: skip
SMALL: dict[str, Any] = {
    "devices": 2, "stages": 4, "microbatches": 2, "forward": 5, "backward": 10, "gather": 4, "reduce": 3,
    "optimizer": 2, "tied": 1, "side": (ITEM,),
}  # fmt: skip


def small() -> Schedule:
    """A schedule with every kind of operation, at level weights."""
    return run(with_costs(Shard("weights", ahead=1), (2, 4, 12), **SMALL), "interleaved").schedule


def test_lanes_make_time_of_the_class_transfer() -> None:
    """A device that waits for a gather or a reduction idles for a transfer, whose text is the culprit."""
    found = explain(run(with_costs(**F_AND_B, tied=8), "1f1b"))
    told = {(gap.device, gap.idle, str(gap.culprit), str(gap.waiting)) for gap in found.gaps}
    assert (0, Idle.TRANSFER, "0REDUCE_GRAD", "0OPTIMIZER") in told
    assert (3, Idle.TRANSFER, "0REDUCE_GRAD", "3OPTIMIZER") in told
    assert (0, Idle.TRANSFER, "0UNSHARD0", "0F0") in told
    assert found.totals[Idle.TRANSFER] == 257
    assert sum(found.totals.values()) == found.idle == 4 * 388 - 8 * 4 * 30 - 4 * 5
    assert [str(slot) for slot in found.critical_path][:2] == ["0UNSHARD0", "0F0"]
    assert [str(slot) for slot in found.critical_path][-3:] == ["0REDUCE_GRAD", "0REDUCE_TIED", "0OPTIMIZER"]
    assert found.slack["1REDUCE_GRAD"] == 388 - 5 - 355


def test_a_lane_may_end_the_step() -> None:
    """Where a reduction ends last the path ends with it, and devices that are done wait for it."""
    found = explain(run(with_costs(devices=2, microbatches=2, forward=1, backward=2, reduce=7), "1f1b"))
    assert (str(found.critical_path[-1]), found.makespan) == ("0REDUCE_GRAD", 9 + 7)
    last = [gap for gap in found.gaps if gap.waiting is None]
    assert {(gap.device, gap.end, gap.idle) for gap in last if gap.end == 16} == {
        (0, 16, Idle.TRANSFER), (1, 16, Idle.TRANSFER)}  # fmt: skip


def test_costs_of_the_step() -> None:
    """Each cost of the step has a row: side work by item, tied gradients once; the document says side or stage."""
    rows = explanation_document(explain(small()))["sensitivity"]
    keys = {(row.get("stage"), row.get("side"), row["kind"]) for row in rows}
    assert {(0, None, "REDUCE_TIED"), (3, None, "UNSHARD"), (2, None, "REDUCE_GRAD"), (1, None, "OPTIMIZER"),
            (None, 0, "E"), (None, 0, "G")} <= keys  # fmt: skip
    assert (3, None, "REDUCE_TIED") not in keys
    assert not [key for key in keys if key[2] == "RESHARD"]


def test_changed_costs_of_the_step() -> None:
    """A cost of the step that is a tenth lower is judged in the same order, and planned again."""
    problem = with_costs(**F_AND_B, tied=8)
    schedule = run(problem, "1f1b").schedule
    found = [what_if(schedule, 0, kind, Fraction(9, 10), lambda one: run(one, "1f1b"))
             for kind in ("UNSHARD", "REDUCE_GRAD", "OPTIMIZER", "REDUCE_TIED")]  # fmt: skip
    assert found == [(386.5, 386.5), (385, 385), (388, 388), (387.2, 387.2)]


def changed(problem: Problem, place: int, kind: str, more: Fraction) -> Problem | None:
    """The problem with a cost of its step so much higher; None where it does not have it, or that would be below 0."""
    if kind in ("E", "G"):
        item = problem.side[place]
        column = [to_fraction(one) + more for one in getattr(item, COLUMNS[kind])]
        other: Any = {COLUMNS[kind]: tuple(map(canonical, column))}
        side = (*problem.side[:place], replace(item, **other), *problem.side[place + 1 :]) if min(column) >= 0 else ()
        return replace(problem, side=side) if side else None
    if kind == "REDUCE_TIED":
        tied = to_fraction(problem.costs.tied) + more
        return replace(problem, costs=replace(problem.costs, tied=canonical(tied))) if tied >= 0 else None
    costs = getattr(problem.costs, COLUMNS[kind])
    column = [to_fraction(one) + more * (stage == place) for stage, one in enumerate(costs or ())]
    changes: Any = {COLUMNS[kind]: tuple(map(canonical, column))}
    return replace(problem, costs=replace(problem.costs, **changes)) if costs and min(column) >= 0 else None


@given(problem=whole_steps(), random=st.randoms(use_true_random=False))
def test_sensitivities_are_exact(problem: Problem, random: Random) -> None:
    """A little more or less of each cost of the step does what its row says, of side work for all microbatches."""
    problem = replace(problem, speed=None)
    schedule = schedule_plan(problem, plan_of(problem, random_plan(problem, random)))
    before = Fraction(schedule.makespan_ticks, schedule.problem.ticks.per_unit)
    for row in explain(schedule).sensitivity:
        if row.kind not in (*COLUMNS, "REDUCE_TIED"):
            continue
        for more, by in ((LITTLE, row.slower), (-LITTLE, -row.faster)):
            other = changed(schedule.problem, row.stage, row.kind, more)
            if other is not None:
                after = schedule_plan(other, schedule.plan)
                gained = Fraction(after.makespan_ticks, other.ticks.per_unit) - before
                assert gained == LITTLE * by, (row, more)


def legal_moves(schedule: Schedule) -> Iterator[tuple[str, int, int, int | float]]:
    """Every move of a slot with a legal program, by texts: slot, from, to, and the makespan after it."""
    problem, old = schedule.problem, schedule.plan
    orders, text = texts_of(old), old.index.op
    kept = [[(str(text(one)), None if after < 0 else str(text(after))) for one, after in lane] for lane in old.network]
    for device, order in enumerate(orders):
        for start, slot in enumerate(order):
            for to in (to for to in range(len(order)) if to != start):
                rest = [*order[:start], *order[start + 1 :]]
                rows = [*orders[:device], [*rest[:to], slot, *rest[to:]], *orders[device + 1 :]]
                try:
                    ruled = schedule_plan(problem, plan(problem, rows))
                    rule = {str(ruled.plan.index.op(one)): after for one, after in ruled.plan.network[device]}
                    if {*rule} != {op for op, _ in kept[device]}:
                        continue
                    names = {op: None if after < 0 else str(ruled.plan.index.op(after)) for op, after in rule.items()}
                    network = [*kept[:device], [(op, names[op]) for op, _ in kept[device]], *kept[device + 1 :]]
                    yield slot, start, to, schedule_plan(problem, plan(problem, rows, network=network)).makespan
                except InvalidSchedule:
                    continue


@given(problem=whole_steps(most_microbatches=2), random=st.randoms(use_true_random=False))
@settings(max_examples=25)
@pytest.mark.slow
def test_moves_are_all_that_shorten(problem: Problem, random: Random) -> None:
    """The best move is as short as the best of all moves with a legal program, and each is one of them."""
    schedule = schedule_plan(problem, plan_of(problem, random_plan(problem, random)))
    found = explain(schedule)
    every = {move[:3]: move[3] for move in legal_moves(schedule)}
    best = min(every.values(), default=schedule.makespan)
    assert (found.moves[0].makespan if found.moves else schedule.makespan) == min(best, schedule.makespan)
    for move in found.moves:
        assert every[str(move.slot), move.start, move.to] == move.makespan


def test_why_of_lanes() -> None:
    """A gather says what it waits for, and on which lane it is."""
    found = why(small(), "2UNSHARD0")
    assert (found.place, found.start, found.slack) == ("the network lane of device 0", 14, 0)
    assert [(str(one.slot), one.what, one.there) for one in found.inputs] == [("0UNSHARD0", "order", 4),
                                                                            ("0F1", "wait", 14)]  # fmt: skip


@pytest.mark.parametrize("op", ["0RESHARD0", "5UNSHARD0"])
def test_why_of_none(op: str) -> None:
    """What occupies nothing, and what is none, has no reason."""
    with pytest.raises(Exception, match="does not run in this schedule"):
        why(small(), op)
