"""A planned schedule in the unit of the traces, so that both stand on one scale."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from pipesched.core.timing import UNTIMED
from pipesched.errors import ConfigError
from pipesched.pipeline.check import checked
from pipesched.pipeline.costs import PER_STAGE, Costs
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import canonical, ticks_per_unit, to_fraction
from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.units_of_measure import TIME
from pipesched.results.outcome import Outcome


def in_unit(plan: Outcome, unit: str) -> Outcome:
    """Return a planned schedule with its times in `unit`; one without a known unit counts as being in it already.

    Raises InvalidSchedule for one that breaks a rule.
    """
    schedule, problem = checked(plan.schedule), plan.problem
    own = TIME.unit_of(problem.time_unit)
    factor = Fraction(1) if own is None else TIME.units[own] / TIME.units[unit]
    costs = _scaled(problem.costs, factor)
    more = factor * costs.ticks.per_unit / problem.ticks.per_unit
    return Outcome(plan.algorithm, _with_costs(schedule, costs, more, unit))


def as_fine_as(plan: Outcome, per_unit: int) -> Outcome:
    """Return the same schedule in ticks of which there are at least so many in a unit."""
    costs = replace(plan.problem.costs, resolution=per_unit)
    more = Fraction(costs.ticks.per_unit, plan.problem.ticks.per_unit)
    return Outcome(plan.algorithm, _with_costs(plan.schedule, costs, more, plan.problem.time_unit))


def _with_costs(schedule: Schedule, costs: Costs, more: Fraction, unit: str) -> Schedule:
    """Return a schedule whose costs and times are scaled; `more` ticks are one of before."""
    if more.denominator != 1:
        finer = ticks_per_unit([more])
        costs = replace(costs, resolution=costs.ticks.per_unit * finer)
        more *= finer
    scaled = [
        [time if time == UNTIMED else int(time * more) for time in ticks]
        for ticks in (schedule.start_ticks, schedule.end_ticks)
    ]
    old = schedule.problem
    sizes = old.devices, old.stages, old.microbatches, old.placement
    problem = Problem(*sizes, costs, old.memory, old.name, unit, old.lanes)
    return Schedule(problem, schedule.plan, *scaled, own_lengths=schedule.own_lengths)


def require_same_step(plan: Outcome, measured: Problem) -> None:
    """Raise ConfigError for a plan of other sizes, or with stages on other devices, than what was measured."""
    problem = plan.problem
    for key in ("devices", "stages", "microbatches"):
        planned, ran = getattr(problem, key), getattr(measured, key)
        if planned != ran:
            raise ConfigError(f"has {planned} {key}, but the traces have {ran}", "plan")
    if problem.settled_placement != measured.settled_placement:
        planned, ran = (list(one.settled_placement.devices) for one in (problem, measured))
        raise ConfigError(f"has its stages on devices {planned}, but they ran on {ran}", "plan")


def _scaled(costs: Costs, factor: Fraction) -> Costs:
    columns = {key: getattr(costs, key) for key in (*PER_STAGE, "p2p")}
    scaled: dict[str, Any] = {
        key: None if column is None else tuple(canonical(to_fraction(value) * factor) for value in column)
        for key, column in columns.items()
    }
    return Costs(**scaled, split=costs.split)
