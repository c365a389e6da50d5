"""Compiled kernels and plain Python give the same orders and times, of every family on random problems."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given

from pipesched import Problem
from pipesched.core import arrays
from pipesched.core.arrays import compiled_kernels
from pipesched.errors import ConfigError, NoSchedule
from pipesched.pipeline.bounds import lower_bound
from pipesched.pipeline.check import violations
from pipesched.pipeline.schedule import schedule_plan
from pipesched.schedulers.family import Family, prepare
from pipesched.schedulers.registry import FAMILIES, family
from tests.strategies import problems


def made(chosen: Family, problem: Problem) -> object:
    """All that the kernels have a part in: orders, times, peaks, the check and the bound; None where none applies."""
    plan = getattr(chosen.plan, "__wrapped__", chosen.plan)  # without the plan that it keeps
    try:
        fitted = prepare(problem, chosen)
        schedule = schedule_plan(fitted, plan(fitted))
    except (ConfigError, NoSchedule):
        return None
    return schedule.plan.orders, [*schedule.times], schedule.peak_grains, [*violations(schedule)], lower_bound(schedule)


@pytest.mark.skipif(compiled_kernels() is None, reason="no kernels are compiled here")
@pytest.mark.parametrize("name", [name for name in FAMILIES if not family(name).required])
@given(problem=problems(unlike=True))
def test_both_forms_agree(name: str, problem: Problem) -> None:
    """With and without a compiler the answers are the same to the tick."""
    problem = replace(problem, placement=None, microbatches=2 * problem.microbatches)
    compiled = made(family(name), problem)
    assume(compiled is not None)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(arrays, "compiled_kernels", lambda: None)
        assert made(family(name), problem) == compiled
