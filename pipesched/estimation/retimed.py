"""An estimate on other hardware: the same stages in the same order, timed anew."""

from __future__ import annotations

from dataclasses import replace

from pipesched.estimation.hardware import GpuModel
from pipesched.estimation.result import Estimate
from pipesched.pipeline.schedule import schedule_plan
from pipesched.results.outcome import Outcome


def retimed(estimate: Estimate, hardware: GpuModel) -> Estimate:
    """Return an estimate on other hardware, with its stages and its orders."""
    problem, schedule = estimate.problem, estimate.outcome.schedule
    cutter = replace(estimate.cutter, setup=replace(estimate.setup, hardware=hardware))
    other = replace(cutter.problem(problem, problem.settled_placement), placement=problem.placement)
    is_alike = other.costs == problem.costs  # what is done once a step differs alone
    timed = replace(schedule, problem=other) if is_alike else schedule_plan(other, schedule.plan)
    return Estimate(Outcome(estimate.outcome.algorithm, timed), estimate.whole)
