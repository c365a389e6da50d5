"""Side work in bubbles beside the plain rule and the second replay, under random plans of passes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched import Schedule, make_problem, plan, schedule_plan
from pipesched.pipeline.check.check import violations
from pipesched.schedulers.side_work import side_schedule
from tests.examples import part
from tests.oracle.drawn import Config, random_rows
from tests.oracle.drawn_step import step_configs
from tests.oracle.step_graph import Texts
from tests.oracle.step_replay import replay_step
from tests.oracle.step_rule import programs_of as programs_by_rule
from tests.oracle.step_setup import Step, read_step
from tests.oracle.test_step_alike import as_forwards, programs_of, require_alike
from tests.strategies import texts_of

CHANCES = st.sampled_from([0, 0.5, 1])


def require_good(config: Config, rows: list[list[str]]) -> None:
    """Side work in bubbles is legal, leaves the passes in order, and is worth no less than by the plain rule."""
    problem, step = make_problem(**config), read_step(config)
    passes = plan(problem, rows)
    first, found = schedule_plan(problem, passes), side_schedule(problem, passes)
    assert found.makespan_ticks <= first.makespan_ticks
    assert found.fits or not first.fits
    assert _passes(found) == _passes(first)
    for row, other in zip(texts_of(found.plan), texts_of(first.plan), strict=True):
        updates = [text for text in other if "OPTIMIZER" in text]
        assert row[len(row) - len(updates) :] == updates
    _require_replayed(found, step)


def _passes(schedule: Schedule) -> list[list[int]]:
    return [[one for one in order if one < schedule.plan.index.passes] for order in schedule.plan.orders]


def _require_replayed(schedule: Schedule, step: Step) -> None:
    """A schedule keeps all rules, its lanes those of families, and its times are those of the second replay."""
    rows = texts_of(schedule.plan)
    texts = Texts(rows, programs_by_rule(step, rows))
    assert programs_of(schedule) == as_forwards(texts)
    require_alike(schedule, step, replay_step(step, texts))
    assert not [*violations(schedule)]


@pytest.mark.parametrize("kinds", [{}, {"slices": True}, {"forward_only": True}], ids=str)
def test_bubbles(kinds: dict[str, Any]) -> None:
    """Halves, pairs, slices, forwards, sharded weights, lanes, items of unequal times into any stage, budgets."""

    @part(4)
    @given(step_configs(has_side=True, **kinds), st.randoms(use_true_random=False), CHANCES, CHANCES)
    def judged(config: Config, random: Random, split: float, pair: float) -> None:
        chances = {"split": 0 if "forward_only" in kinds else split, "pair": 0 if kinds else pair}
        require_good(config, random_rows(read_step(config).setup, random, **chances))

    judged()
