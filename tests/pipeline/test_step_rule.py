"""Programs of network lanes by the rule of families."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipesched import run
from pipesched.pipeline.check import violations
from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.step import AUTO, FULL, WEIGHTS, Shard
from tests.pipeline.steps import LEVELS_CASE, with_costs

DEVICE_0 = """
0UNSHARD0 2UNSHARD0 4UNSHARD0 <
0RESHARD0 6UNSHARD0 < 0F1
2RESHARD0 0UNSHARD1 < 2F1
4RESHARD0 2UNSHARD1 < 4F1
0RESHARD1 4UNSHARD1 < 0F3
4RESHARD1 0UNSHARD2 < 4F3
2RESHARD1 4UNSHARD2 < 2B1
0RESHARD2 2UNSHARD2 < 0B1
6REDUCE_GRAD 6RESHARD0 0UNSHARD3 < 6B3
4REDUCE_GRAD 4RESHARD2 < 4B3
2REDUCE_GRAD 2RESHARD2 < 2B3
0REDUCE_GRAD 0RESHARD3 < 0B3
"""


def program_text(schedule: Schedule, device: int) -> str:
    """Return the program of a lane: a line for all that is issued behind one slot."""
    index = schedule.plan.index
    lines: dict[str, list[str]] = {}
    for number, after in schedule.plan.network[device]:
        lines.setdefault(f"{index.op(after)}" if after >= 0 else "", []).append(str(index.op(number)))
    return "".join(f"{' '.join(ops)} < {slot}".rstrip() + "\n" for slot, ops in lines.items())


def test_three_stages_are_whole_at_once() -> None:
    """Interleaved with four stages a device, of which PyTorch keeps three: its program, slot by slot."""
    problem = with_costs(Shard(WEIGHTS), (2, 4, 12), **LEVELS_CASE, gather=4, reduce=4)
    assert program_text(run(problem, "interleaved").schedule, 0) == DEVICE_0[1:]


LATE = """
1UNSHARD0 <
1RESHARD0 1UNSHARD1 < 1F0
1RESHARD1 1UNSHARD2 < 1F1
1REDUCE_GRAD 1RESHARD2 < 1B1
"""


def test_nothing_is_gathered_ahead() -> None:
    """A forward frees its stage, a backward leaves it whole for the next forward; a gather begins with the input."""
    problem = with_costs(Shard(WEIGHTS, gather="each"), devices=2, microbatches=8, forward=5, backward=10, gather=4)
    schedule = run(problem, "1f1b").schedule
    assert schedule.makespan == 175
    assert [len(row) for row in schedule.plan.index.rows("UNSHARD")] == [9, 9]
    assert [*violations(schedule)] == []
    two = run(replace(problem, microbatches=2), "1f1b").schedule
    assert program_text(two, 1) == LATE[1:]
    first = two.plan.index.row("UNSHARD", 1)[0]
    assert (two.start_ticks[first], two.end_ticks[first]) == (9, 13)  # once the message of stage 0 is there
    starts, ends = [*two.start_ticks], [*two.end_ticks]
    starts[first], ends[first] = 8, 12
    early = "the gather for 1F0 starts at 8, before its input is there at 9"
    assert early in [*violations(replace(two, start_ticks=starts, end_ticks=ends))]


@pytest.mark.parametrize(
    ("algorithm", "ahead", "makespan"),
    [("interleaved", 1, 348), ("interleaved", 2, 263), ("interleaved", 3, 263), ("interleaved", FULL, 263),
     ("looped-bfs", 1, 299), ("looped-bfs", 2, 263), ("looped-bfs", 3, 263), ("looped-bfs", FULL, 263)],
)  # fmt: skip
def test_stages_ahead(algorithm: str, ahead: int | str, makespan: int) -> None:
    """One stage at a time waits for each gather, two hide them; whole weights are what is ahead."""
    problem = with_costs(Shard(WEIGHTS, ahead=ahead), (2, 4, 12), **LEVELS_CASE, gather=4, reduce=4)
    schedule = run(problem, algorithm).schedule
    assert schedule.makespan == makespan
    assert schedule.peak_of("weights") == [2 * (4 if ahead == FULL else int(ahead))] * 2


def test_the_best_number_ahead_is_found() -> None:
    """The least number of the shortest schedules stands in the problem; under a budget one that fits."""
    problem = with_costs(Shard(WEIGHTS, ahead=AUTO), (2, 4, 12), **LEVELS_CASE, gather=4, reduce=4)
    assert run(problem, "interleaved").problem.sharding.ahead == 2


@pytest.mark.parametrize(
    ("shard", "costs", "makespan", "memory"),
    [
        (Shard("none", 8), {"reduce": 8}, 263, 81),
        (Shard("optimizer", 8), {"gather": 2, "reduce": 4}, 261, 39),
        (Shard("gradients", 8), {"gather": 2, "reduce": 4}, 261, 41),
        (Shard("weights", 8), {"gather": 2, "reduce": 4}, 261, 40),
    ],
)
def test_levels(shard: Shard, costs: dict[str, int], makespan: int, memory: int) -> None:
    """What ZeRO 0 to 3 take and hold on the same interleaved schedule."""
    schedule = run(with_costs(shard, (2, 4, 12), **LEVELS_CASE, **costs), "interleaved").schedule
    assert (schedule.makespan, schedule.memory[0]) == (makespan, memory)


def test_gradients_reduced_after_each_microbatch() -> None:
    """Whole gradients stay from each backward to its reduction."""
    each = Shard("gradients", reduce="each")
    schedule = run(
        with_costs(each, (0, 4, 0), devices=2, microbatches=4, forward=5, backward=10, activation=1, reduce=3), "1f1b"
    ).schedule
    assert (schedule.makespan, schedule.peak_memory) == (78, [6, 5])
