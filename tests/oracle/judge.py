"""A schedule of the package beside the second replay."""

from __future__ import annotations

from pipesched import Schedule
from pipesched.pipeline.check.check import replayed_peaks, violations
from pipesched.pipeline.problem.ops import parse_op
from tests.oracle.alike import setup_of
from tests.oracle.replay import replay
from tests.oracle.setup import Setup
from tests.strategies import texts_of


def require_replayed(schedule: Schedule, setup: Setup | None = None) -> None:
    """No rule is broken, and every time, metric and peak is that of the second replay; alike without a setup."""
    problem, plan = schedule.problem, schedule.plan
    assert list(violations(schedule)) == []
    setup = setup or setup_of(problem)
    lanes = [[str(plan.index.op(number)) for number in lane] for pair in plan.lanes for lane in pair]
    waits = [(str(plan.index.op(before)), str(plan.index.op(after))) for before, after in plan.waits]
    replayed = replay(setup, texts_of(plan), lanes, waits)
    ticks, grains = problem.ticks.per_unit, problem.grains.per_unit
    numbers = {text: plan.index.number(parse_op(text)) for text in replayed.start}
    assert len(numbers) == len(plan)
    for text, number in numbers.items():
        assert schedule.start_ticks[number] == replayed.start[text] * ticks, text
        assert schedule.end_ticks[number] == replayed.end[text] * ticks, text
    assert schedule.makespan_ticks == replayed.makespan * ticks
    assert schedule.span_ticks == replayed.span * ticks
    assert schedule.ideal_ticks == replayed.ideal * ticks
    assert schedule.busy_ticks == [time * ticks for time in replayed.busy]
    assert schedule.bubble == float(replayed.bubble)
    assert schedule.bubble_over_ideal == float(replayed.bubble_over_ideal)
    assert schedule.bubble_span == float(replayed.bubble_span)
    assert schedule.peak_grains == [held * grains for held in replayed.peak] == replayed_peaks(schedule)
    assert schedule.memory_grains == [
        (held + static) * grains for held, static in zip(replayed.peak, setup.statics(), strict=True)
    ]
