"""Steps as tasks: what is there waits for what it needs, and nothing of a step is where there is none."""

from __future__ import annotations

from pipesched import make_problem, plan, schedule_plan
from tests.pipeline.steps import with_costs


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
