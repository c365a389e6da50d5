"""Steps as tasks: a kind with another scope and join is a record, and wrong orders are deadlocks that say where."""

from __future__ import annotations

from dataclasses import replace

from pipesched import make_problem, plan, schedule_plan
from pipesched.core.timing import earliest_times
from pipesched.pipeline.kinds import ALL_KINDS, Join, Kind, Need, Resource, Scope
from pipesched.pipeline.lowering import lower_plan
from pipesched.pipeline.ops import ScopedRows
from pipesched.pipeline.step_lowering import with_step_tasks
from tests.pipeline.steps import with_costs


def test_a_later_kind_is_a_record() -> None:
    """A vocabulary pass that every device runs, joined before the backwards, needs a scope and a join, and no code."""
    problem = with_costs(devices=2, microbatches=2, placement="linear", forward=5, backward=10, optimizer=3)
    passes = plan(problem, ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"])
    vocabulary = Kind("V", "vocabulary", "optimizer", "v", (Need("F", join=Join.STAGES),), scope=Scope.DEVICE)
    joined = replace(ALL_KINDS["B"], needs=(*ALL_KINDS["B"].needs, Need("V", join=Join.DEVICES)))
    kinds = {**ALL_KINDS, "V": vocabulary, "B": joined}
    index = passes.index._replace(scoped=(ScopedRows("V", (2, 2)),))
    first, second = ([*index.row("V", device)] for device in (0, 1))
    orders = [[*passes.orders[0][:2], *first, *passes.orders[0][2:]],
              [index.row("F", 1)[0], index.row("F", 1)[1], *second, *index.row("B", 1)]]  # fmt: skip
    whole = replace(passes, index=index, orders=orders)
    graph = with_step_tasks(lower_plan(problem, passes), problem, whole, kinds)
    starts, ends = earliest_times(graph, whole.machines)
    assert [starts[number] for number in (*first, *second)] == [15, 18, 15, 18]
    assert starts[index.row("B", 1)[0]] == ends[second[1]] == 21
    assert kinds["V"].resource is Resource.DEVICE


def test_a_problem_without_a_step_has_none() -> None:
    """Its plan has no program, and its schedule says nothing of a step."""
    problem = make_problem(devices=2, microbatches=2)
    schedule = schedule_plan(problem, plan(problem, ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"]))
    assert (schedule.step, [*schedule.plan.network], schedule.plan.index.scoped) == (None, [], ())


def test_programs_that_are_given_stay() -> None:
    """A gather that is issued behind a slot waits for its end, and the passes behind it wait for the gather."""
    problem = with_costs(devices=1, microbatches=2, forward=5, backward=10, gather=4, reduce=3)
    typed = plan(problem, ["0F0 0F1 0B0 0B1"], network=[[("0UNSHARD0", None), ("0REDUCE_GRAD", "0B1")]])
    schedule = schedule_plan(problem, typed)
    index = schedule.plan.index
    times = {str(index.op(number)): schedule.start_ticks[number] for number in range(index.size)}
    assert times == {"0F0": 4, "0F1": 9, "0B0": 14, "0B1": 24, "0UNSHARD0": 0, "0REDUCE_GRAD": 34}


def test_side_work_of_one_microbatch_waits_for_its_input_gradient() -> None:
    """Its backward comes before the weight gradient, also where the only microbatch is all that the stage has."""
    problem = make_problem(devices=2, microbatches=1, forward=1, backward_input=2, backward_weight=3,
                           side=[{"forward": 1, "backward": 1, "into": 1}])  # fmt: skip
    schedule = schedule_plan(problem, plan(problem, ["0F0 0B0", "0E0 1F0 1I0 0G0 1W0"]))
    assert [(slot.start, slot.end) for slot in schedule.timeline(1)] == [(0, 1), (1, 2), (2, 4), (4, 5), (5, 8)]
