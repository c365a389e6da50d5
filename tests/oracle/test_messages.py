"""Messages in queues beside a second simulation: random plans of all kinds of steps, families, and changed programs."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, reject, strategies as st

from pipesched import Deadlock, Problem, Schedule, make_problem, plan, schedule_plan
from pipesched.pipeline.bounds.bounds import lower_bound
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.problem.ops import other_end
from tests.examples import part
from tests.oracle.drawn import Config, random_texts, step_configs, suited
from tests.oracle.messages import Ends, Queued, by_pytorch, replay_queued
from tests.oracle.replay import Stuck
from tests.oracle.step_replay import Texts
from tests.oracle.step_setup import read_step

CHANCES = st.sampled_from([0, 0.5, 1])
QUEUES = st.sampled_from(["edge", "pair", "rank", "device"])
RANDOM = st.randoms(use_true_random=False)


def scheduled(problem: Problem, texts: Texts, ends: Ends | None = None) -> Schedule:
    """What the package makes of a plan, and of the order of its messages if one is given."""
    waits = [(behind, before) for before, behind in texts.waits]
    programs = None if ends is None else [[*row] for row in ends]
    rows, network = [*map(list, texts.rows)], [*texts.programs] if problem.has_step else None
    return schedule_plan(problem, plan(problem, rows, waits=waits, network=network, messages=programs))


def ends_of(schedule: Schedule) -> Ends:
    """The SEND and RECV of each device as texts, each with its slot."""
    made, op = schedule.plan, schedule.plan.index.op
    return [
        [
            (str(op(number) if sends else other_end(op(number))), None if after < 0 else str(made.slot(after)))
            for number, sends, after, _ in zip(*(values.tolist() for values in program), strict=True)
        ]
        for program in made.messages
    ]


def require_alike(schedule: Schedule, queued: Queued) -> None:
    """All times of a schedule are those of the second simulation, and the check finds nothing."""
    ticks, index = schedule.problem.ticks.per_unit, schedule.plan.index
    starts = {str(index.op(number)): Fraction(start, ticks) for number, start in enumerate(schedule.start_ticks)
              if start >= 0}  # fmt: skip
    expected = {**queued.start, **queued.sent}
    assert starts == expected
    assert Fraction(schedule.last_ticks, ticks) == queued.makespan
    assert [*violations(schedule)] == []
    assert lower_bound(schedule).ticks <= schedule.makespan_ticks


def run_both(config: Config, texts: Texts, queue: str, order: str = "pytorch") -> tuple[Schedule, Queued]:
    """A plan in PyTorch's order, or the best one, by the package and by the second simulation."""
    step, problem = read_step(config), make_problem(**config, messages={"queue": queue, "order": order})
    try:
        schedule = scheduled(problem, texts)
    except Deadlock:  # a wait of a lane that PyTorch, which has none, does not know
        with pytest.raises(Stuck):
            replay_queued(step, texts, queue, by_pytorch(step, texts))
        reject()
    ends = ends_of(schedule)
    if order == "pytorch":
        assert [*map(list, ends)] == [*map(list, by_pytorch(step, texts))]
    return schedule, replay_queued(step, texts, queue, ends)


@pytest.mark.parametrize("kinds", [{}, {"slices": True}, {"forward_only": True}], ids=str)
def test_random_steps(kinds: dict[str, Any]) -> None:
    """Halves, pairs, recompute, side work, gathers and waits: PyTorch's order, and the same times in each queue."""

    @part(2)
    @given(step_configs(**kinds), RANDOM, CHANCES, CHANCES, CHANCES, QUEUES)
    def judged(config: Config, random: Random, split: float, pair: float, again: float, queue: str) -> None:
        assume(config["devices"] > 1)
        chances = suited(kinds, split=split, pair=pair, again=again)
        require_alike(*run_both(config, random_texts(read_step(config), random, **chances), queue))

    judged()


@part(2)
@given(step_configs(), RANDOM, CHANCES, QUEUES)
def test_best_order(config: Config, random: Random, split: float, queue: str) -> None:
    """The best order has the times of the second simulation, and is never longer than PyTorch's."""
    assume(config["devices"] > 1)
    texts = random_texts(read_step(config), random, split=split)
    best, queued = run_both(config, texts, queue, "best")
    require_alike(best, queued)
    assert best.makespan_ticks <= run_both(config, texts, queue)[0].makespan_ticks


@given(step_configs(), RANDOM, CHANCES, QUEUES)
def test_changed_programs(config: Config, random: Random, split: float, queue: str) -> None:
    """An order in which messages have moved has the same times in both, or waits in a circle in both."""
    assume(config["devices"] > 1)
    step = read_step(config)
    texts = random_texts(step, random, split=split)
    ends = [[*row] for row in by_pytorch(step, texts)]
    row = random.choice(ends)
    for _ in range(random.randint(1, 3) if len(row) > 1 else 0):
        one = random.randrange(len(row) - 1)
        (first, after), (second, behind) = row[one : one + 2]
        row[one : one + 2] = [(second, after), (first, behind)]
    problem = make_problem(**config, messages=queue)
    try:
        queued = replay_queued(step, texts, queue, ends)
    except Stuck:
        with pytest.raises(Deadlock):
            scheduled(problem, texts, ends)
        return
    require_alike(scheduled(problem, texts, ends), queued)


@part(2)
@given(step_configs(), RANDOM, QUEUES, st.sampled_from([-1, 1]))
def test_a_message_that_is_moved(config: Config, random: Random, queue: str, ticks: int) -> None:
    """The check finds each message that starts a tick earlier or later than it does."""
    assume(config["devices"] > 1)
    schedule = run_both(config, random_texts(read_step(config), random), queue)[0]
    for number in range(schedule.plan.index.first_message, schedule.plan.index.size):
        if schedule.start_ticks[number] + ticks >= 0 <= schedule.start_ticks[number]:
            starts, ends = [*schedule.start_ticks], [*schedule.end_ticks]
            starts[number] += ticks
            ends[number] += ticks
            moved = replace_times(schedule, starts, ends)
            assert [*violations(moved)], schedule.plan.index.op(number)


def replace_times(schedule: Schedule, starts: list[int], ends: list[int]) -> Schedule:
    """The schedule with other times."""
    return Schedule(schedule.problem, schedule.plan, starts, ends)
