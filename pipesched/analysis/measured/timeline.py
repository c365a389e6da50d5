"""A measured timeline: the typical step of a run as a schedule, with the costs that its operations had."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from pipesched.analysis.measured.aligned import Aligned, aligned
from pipesched.analysis.measured.files import read_run
from pipesched.analysis.measured.measured_step import measured_problem, measured_schedule, quartiles
from pipesched.analysis.measured.planned import as_fine_as, in_unit, require_same_step
from pipesched.analysis.measured.ranges import PER_UNIT
from pipesched.analysis.measured.steps import placement_of, steps_of
from pipesched.analysis.reasons.explain import explain
from pipesched.analysis.reasons.explanation import Explanation
from pipesched.checks import require_type
from pipesched.display import HasPage
from pipesched.pipeline.kinds import KINDS, LETTERS
from pipesched.pipeline.placement import Placement
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import plain, to_fraction
from pipesched.pipeline.schedule import Schedule
from pipesched.results.outcome import MEASURED, Outcome
from pipesched.results.quartiles import Quartiles

OVERLAP = "overlap"  # the kind of a pair


class MeasuredCost(NamedTuple):
    """How long the operations of a kind took on a stage, in the unit of the trace.

    `kind` is a letter, or "overlap" of pairs, by the stage of their forward. `samples` operations were measured; `q1`,
    `median` and `q3` are their quartiles. `planned` is the cost of the plan, None without one. `always_waited`: none of
    them was seen to find its inputs there, so where waiting ends and work begins rests on the clocks alone.
    """

    stage: int
    kind: str
    samples: int
    q1: int | float
    median: int | float
    q3: int | float
    planned: int | float | None = None
    always_waited: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Timeline(HasPage):
    """What the ranks of a run recorded, on one clock.

    `outcome` is the step of median makespan out of `steps` (the first is left out, unless it is the only one), as a
    schedule whose operations last as long as they did, with the median of each kind as its problem's costs. `offsets`
    is the clock of each rank less that of the first, in the unit of the trace; `plan` the schedule that was planned, in
    the same unit, if there is one.
    """

    outcome: Outcome
    offsets: Sequence[int | float]
    costs: Sequence[MeasuredCost]
    steps: int
    step: str
    source: str
    plan: Outcome | None = None
    notes: Sequence[str] = ()

    def __repr__(self) -> str:
        return f"Timeline({self.source}, {self.steps} steps, makespan {self.makespan} {self.problem.time_unit})"

    @property
    def schedule(self) -> Schedule:
        """The schedule of the step."""
        return self.outcome.schedule

    @property
    def problem(self) -> Problem:
        """The problem with measured costs."""
        return self.outcome.problem

    @property
    def makespan(self) -> int | float:
        """Last end minus first start of the step."""
        return self.outcome.schedule.makespan

    @cached_property
    def explanation(self) -> Explanation:
        """Why the step took as long as it did. Raises InvalidSchedule for one that breaks a rule."""
        return explain(self.outcome)

    @property
    def outcomes(self) -> list[tuple[str, Outcome]]:
        """What was planned, where that is known, and what was measured, each with a title."""
        planned = [] if self.plan is None else [(f"planned: {self.plan.algorithm}", self.plan)]
        return [*planned, (MEASURED, self.outcome)]


def timeline_outcomes(timeline: Timeline) -> list[tuple[str, Outcome]]:
    """Return what was planned, where that is known, and what was measured, each with a title."""
    return timeline.outcomes


def read_traces(
    files: Sequence[str | Path],
    *,
    plan: Outcome | Schedule | None = None,
    placement: Placement | Sequence[int] | str | None = None,
) -> Timeline:
    """Read the traces of a run, one file a rank in any order, and bring them on one clock.

    Args:
        files: Traces of torch.profiler of a run by PyTorch's pipeline runtime or by pipesched's, or Primus's
            `pp_rank_R.json`; the content tells which.
        plan: The schedule that was planned, to compare with.
        placement: Which stages the chunks of a rank are: for Primus's files, which do not say it. Default: those
            of the plan, else stage = chunk x P + rank.

    Raises:
        ConfigError: For files that are no traces, a rank that is missing or there twice, and a plan of another step.
        InvalidSchedule: Where no clocks of the ranks fit the messages between them: `violations` are those that
            contradict each other.
    """
    given = None if plan is None else _outcome(plan)
    run = read_run(files, placement, None if given is None else given.problem.placement)
    steps = steps_of(run)
    where = placement_of(steps, len(run.ranks))
    found = aligned(run, steps)
    step = found.typical
    lengths = {kind: quartiles(values, PER_UNIT) for kind, values in found.lengths().items()}
    planned = None if given is None else in_unit(given, run.source.unit)
    base = None if planned is None else planned.problem
    problem = measured_problem(lengths, steps, where, run.source.unit, base)
    if planned is not None:
        require_same_step(planned, problem)
    schedule = measured_schedule(problem, step, 1 if base is None else base.ticks.per_unit)
    if planned is not None:
        planned = as_fine_as(planned, schedule.problem.ticks.per_unit)
    return Timeline(
        Outcome(MEASURED, schedule),
        [plain(Fraction(ahead, PER_UNIT)) for ahead in step.ahead],
        [*_costs(lengths, found, base)],
        len(found.steps),
        step.name,
        run.source.name,
        planned,
        ["only one step was recorded; the first one of a run takes longer than those behind it"] if steps.only else [],
    )


def _outcome(plan: Outcome | Schedule) -> Outcome:
    if isinstance(plan, Schedule):
        return Outcome("plan", plan)
    outcome: Outcome = require_type(plan, Outcome, "an Outcome, a Schedule or None", "plan")
    return outcome


def _costs(lengths: dict[tuple[str, int], Quartiles], found: Aligned, plan: Problem | None) -> Iterator[MeasuredCost]:
    """Yield the measured costs, by stage and kind."""
    order, measured = (*LETTERS, OVERLAP), found.lengths()
    waited = {kind[:2] for kind in found.waited}
    for letter, stage in sorted(lengths, key=lambda kind: (kind[1], order.index(kind[0]))):
        values = lengths[letter, stage]
        cost = None if plan is None else _planned(plan, letter, stage)
        yield MeasuredCost(stage, letter, len(measured[letter, stage]), *values, cost, (letter, stage) in waited)


def _planned(plan: Problem, letter: str, stage: int) -> int | float | None:
    """Return the cost in a plan of a kind of operation, None for a transfer that it lacks."""
    costs = plan.costs
    if letter == OVERLAP and costs.overlap is None:
        return plain(to_fraction(costs.forward[stage]) + to_fraction(costs.backward[stage]))
    values = getattr(costs, OVERLAP if letter == OVERLAP else KINDS[letter].cost)
    return None if values is None else plain(values[stage])
