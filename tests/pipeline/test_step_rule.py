"""Programs of network lanes by the rule of families."""

from __future__ import annotations

from dataclasses import replace

from pipesched import run
from pipesched.pipeline.check import violations
from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.step import WEIGHTS, Shard
from tests.pipeline.steps import with_costs


def program_text(schedule: Schedule, device: int) -> str:
    """Return the program of a lane: a line for all that is issued behind one slot."""
    index = schedule.plan.index
    lines: dict[str, list[str]] = {}
    for number, after in schedule.plan.network[device]:
        lines.setdefault(f"{index.op(after)}" if after >= 0 else "", []).append(str(index.op(number)))
    return "".join(f"{' '.join(ops)} < {slot}".rstrip() + "\n" for slot, ops in lines.items())


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
