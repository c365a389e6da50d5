"""A measured timeline: the typical step of a run as a schedule, and its costs as a config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from pipesched.analysis.explain import Explanation, explain
from pipesched.analysis.measured.clocks import Aligned, aligned, transits
from pipesched.analysis.measured.files import Steps, placement_of, read_run, steps_of
from pipesched.analysis.measured.measured_step import (
    MeasuredLatency,
    MeasuredMessages,
    latencies,
    measured_problem,
    measured_schedule,
    messages_of,
    quantile,
)
from pipesched.analysis.measured.ranges import PER_UNIT, Machine
from pipesched.checks import require_type
from pipesched.core.timing import UNTIMED
from pipesched.display import HasPage, from_file
from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.pipeline.check.check import checked
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.costs import PER_STAGE, STEP_TIMES, Costs, Memory
from pipesched.pipeline.problem.kinds import KINDS, LETTERS
from pipesched.pipeline.problem.placement import Placement
from pipesched.pipeline.problem.problem import Problem, differs
from pipesched.pipeline.problem.quantities import TIME, canonical, in_units, plain, ticks_per_unit, to_fraction
from pipesched.pipeline.problem.units import FORWARD_ONLY
from pipesched.results.outcome import MEASURED, Outcome, Quartiles
from pipesched.text.writer import ConfigText, ConfigWriter, quoted

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

    `outcome` is the step of median makespan out of `steps`, of which the first is left out, unless it is the only one.
    It is a schedule whose operations last as long as they did. Its problem has the median of each kind as costs, and no
    latency: what messages took is idle time in it, and in `p2p` by boundaries. `offsets` is the clock of each rank less
    that of the first, in the unit of the trace. `plan` is the schedule that was planned, in the same unit, if there is
    one; `machine` says how many ranks ran on how many cores, where the traces say it; `messages` is None without any.
    """

    outcome: Outcome
    offsets: Sequence[int | float]
    costs: Sequence[MeasuredCost]
    steps: int
    step: str
    source: str
    plan: Outcome | None = None
    notes: Sequence[str] = ()
    p2p: Sequence[MeasuredLatency] = ()
    machine: Machine | None = None
    messages: MeasuredMessages | None = None

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
        if self.plan is None:
            return explain(self.outcome)
        ticks, mean = self.plan.problem.ticks, self.plan.problem.ticks.mean
        both_ways = zip(mean["p2p"], mean["p2p_back"], strict=True)
        hops = [plain(Fraction(sum(both), 2 * ticks.per_unit)) for both in both_ways]
        return replace(explain(self.outcome), planned_p2p=hops)

    @property
    def outcomes(self) -> list[tuple[str, Outcome]]:
        """What was planned, where that is known, and what was measured, each with a title."""
        planned = [] if self.plan is None else [(f"planned: {self.plan.algorithm}", self.plan)]
        return [*planned, (MEASURED, self.outcome)]


timeline_outcomes = attrgetter("outcomes")


def read_traces(
    files: Sequence[str | Path],
    *,
    plan: Outcome | Schedule | str | Path | None = None,
    placement: Placement | Sequence[int] | str | None = None,
    problem: Problem | None = None,
    ranges: Mapping[str, str] | str | None = None,
) -> Timeline:
    """Read the traces of a run, one file a rank in any order, and bring them on one clock.

    Args:
        files: Traces of torch.profiler, Megatron's OpenTelemetry spans (OTLP JSON), exports of Nsight Systems
            (SQLite), or Primus's `pp_rank_R.json`; or one Chrome trace of a schedule. The content tells which.
        plan: The schedule that was planned, or the name of its file, to compare with.
        placement: Which stages the chunks of a rank are: for Primus's files, which do not say it. Default: those
            of the plan, else stage = chunk x P + rank.
        problem: The costs of the plan, where its file is a CSV.
        ranges: What ranges with names of their own are, one stage a rank: `{"forward_step": "F", "backward_step":
            "B"}`, or that as a text; `*` stands for any letters. Microbatches are counted.

    Raises:
        ConfigError: For files that are no traces, a rank that is missing or there twice, and a plan of another step.
        InvalidSchedule: Where no clocks of the ranks fit the messages between them: `violations` are those that
            contradict each other.
    """
    given = None if plan is None else from_file(plan, problem, "plan")
    if isinstance(given, Schedule):
        given = Outcome(given.name, given)
    elif given is not None:
        require_type(given, Outcome, "an Outcome, a Schedule or None", "plan")
    source, ranks = read_run(files, placement, None if given is None else given.problem, ranges)
    steps = steps_of(ranks)
    where = placement_of(steps, len(ranks), None if given is None else given.problem.placement)
    found = aligned(source, ranks, steps)
    step = found.typical
    lengths = _quartiles(found)
    planned = None if given is None else in_unit(given, source.unit)
    base = None if planned is None else planned.problem
    if planned is not None:
        require_same_step(planned, steps, where)
    of_each = None
    if base is not None and differs(base):
        of_each = [_quartiles(found, microbatch) for microbatch in range(steps.microbatches)]
    measured = measured_problem(lengths, steps, where, source.unit, base, of_each)
    ends = dict[Any, tuple[int, int]]()
    for rank, ahead in zip(ranks, step.ahead, strict=True):
        ends |= {one.slot: (one.start - ahead, one.end - ahead) for one in rank.ends.get(step.name, ())}
    schedule = measured_schedule(measured, step, 1 if base is None else base.ticks.per_unit, chain(*ends.values()))
    if planned is not None:
        finer = replace(planned.problem.costs, resolution=schedule.problem.ticks.per_unit)
        problem = replace(planned.problem, costs=finer)
        planned = Outcome(planned.algorithm, _of_problem(planned.schedule, problem, Fraction(1)))
    is_first = steps.only and not source.one_clock
    notes = ["only one step was recorded; the first one of a run takes longer than those behind it"] * is_first
    if of_each is not None and not any(rank.apart for rank in ranks):  # ranges hold their waiting for messages
        notes.append("clocks are told by equal times of a kind, and microbatches differ: waiting and clocks are rough")
    messages = None
    if ends and where.last:
        first = min(one.start for one in chain(*step.ranges))
        try:
            messages = messages_of(ends, first, schedule, None if planned is None else planned.schedule)
        except InvalidSchedule as error:
            notes.append(str(error))
    outcome, costs = Outcome(MEASURED, schedule), [*_costs(lengths, found, base)]
    offsets = [plain(Fraction(ahead, PER_UNIT)) for ahead in step.ahead]
    p2p = latencies(transits(found, steps), steps.stages - 1)
    machine = next((rank.machine for rank in ranks if rank.machine is not None), None)
    named = len(found.steps), step.name, source.name
    return Timeline(outcome, offsets, costs, *named, planned, notes, p2p, machine, messages)


def _quartiles(found: Aligned, microbatch: int | None = None) -> dict[tuple[str, int], Quartiles]:
    """Return the quartiles of each kind: between two lengths linearly, the ends included (numpy's default)."""
    found_of, quarters = found.lengths(microbatch), [Fraction(part, 4) for part in (1, 2, 3)]
    quartiles = {kind: [quantile(sorted(one), part) / PER_UNIT for part in quarters] for kind, one in found_of.items()}
    return {kind: Quartiles(*map(plain, three)) for kind, three in quartiles.items()}


def _costs(lengths: dict[tuple[str, int], Quartiles], found: Aligned, plan: Problem | None) -> Iterator[MeasuredCost]:
    order, measured = (*LETTERS, OVERLAP), found.lengths()
    waited = {kind[:2] for kind in found.waited}
    for letter, stage in sorted(lengths, key=lambda kind: (kind[1], order.index(kind[0]))):
        values = lengths[letter, stage]
        cost = None if plan is None else _planned(plan, letter, stage)
        yield MeasuredCost(stage, letter, len(measured[letter, stage]), *values, cost, (letter, stage) in waited)


def _planned(plan: Problem, letter: str, stage: int) -> int | float | None:
    """Return what a kind of operation lasts in a plan, the median of microbatches; None for transfers that it lacks."""
    ticks, cost = plan.ticks, OVERLAP if letter == OVERLAP else KINDS[letter].cost
    if cost not in ticks.rows:
        both = ticks.mean["forward"][stage] + ticks.mean["backward"][stage]
        return in_units(both, ticks.per_unit) if letter == OVERLAP else None
    row = sorted(ticks.rows[cost][stage] if plan.has_units else ticks.rows[cost][stage][:1])
    return plain(quantile(row, Fraction(1, 2)) / ticks.per_unit)


def in_unit(plan: Outcome, unit: str) -> Outcome:
    """Return a planned schedule with its times in `unit`; one without a known unit counts as being in it already.

    Raises InvalidSchedule for one that breaks a rule.
    """
    schedule, problem = checked(plan.schedule), plan.problem
    own = TIME.unit_of(problem.time_unit)
    measured = TIME.unit_of(unit)
    factor = Fraction(1) if own is None or measured is None else TIME.units[own] / TIME.units[measured]
    links = problem.links and tuple(_times(row, factor) for row in problem.links)
    slices = replace(problem.slices, overhead=_times([problem.slices.overhead], factor)[0])
    costs = problem.costs
    columns = {key: getattr(costs, key) for key in (*PER_STAGE, "p2p", *STEP_TIMES)}
    times: dict[str, Any] = {key: column and _times(column, factor) for key, column in columns.items()}
    tied = None if costs.tied is None else _times([costs.tied], factor)[0]
    costs = Costs(**times, split=costs.split, tied=tied)
    side = []
    for item in problem.side:
        forward, backward = _times(item.forward, factor), item.backward and _times(item.backward, factor)
        side.append(replace(item, forward=forward, backward=backward, p2p=_times([item.p2p], factor)[0]))
    scaled = replace(problem, costs=costs, links=links, slices=slices, time_unit=unit, side=tuple(side))
    return Outcome(plan.algorithm, _of_problem(schedule, scaled, factor))


def _of_problem(schedule: Schedule, problem: Problem, factor: Fraction) -> Schedule:
    """Return a schedule of the same problem in other units, of which `factor` are one of before."""
    more = factor * problem.ticks.per_unit / schedule.problem.ticks.per_unit
    if more.denominator != 1:
        resolution = problem.ticks.per_unit * ticks_per_unit([more])
        problem = replace(problem, costs=replace(problem.costs, resolution=resolution))
        more = factor * problem.ticks.per_unit / schedule.problem.ticks.per_unit
    scaled = [
        [time if time == UNTIMED else int(time * more) for time in ticks]
        for ticks in (schedule.start_ticks, schedule.end_ticks)
    ]
    problem = replace(problem, layers=None, cutter=None)
    return Schedule(problem, schedule.plan, *scaled, own_lengths=schedule.own_lengths)


def require_same_step(plan: Outcome, steps: Steps, placement: Placement) -> None:
    """Raise ConfigError for a plan of other sizes, or with stages on other devices, than what was measured."""
    problem = plan.problem
    sizes = {"devices": placement.last + 1, "stages": steps.stages, "microbatches": steps.microbatches}
    for key, size in sizes.items():
        if getattr(problem, key) != size:
            raise ConfigError(f"has {getattr(problem, key)} {key}, but the traces have {size}", "plan")
    if problem.slices.count > 1:
        raise ConfigError(f"has {problem.slices.count} slices a microbatch, but the traces have whole ones", "plan")
    if (problem.mode == FORWARD_ONLY) != ({*steps.letters} == {"F"}):
        alone, whole = "forwards alone", "backwards too"
        planned, ran = (alone, whole) if problem.mode == FORWARD_ONLY else (whole, alone)
        raise ConfigError(f"has {planned}, but the traces have {ran}", "plan")
    if problem.settled_placement != placement:
        devices = [list(one.devices) for one in (problem.settled_placement, placement)]
        raise ConfigError(f"has its stages on devices {devices[0]}, but they ran on {devices[1]}", "plan")


def _times(values: Sequence[Any], factor: Fraction) -> tuple[Any, ...]:
    """Return numbers, or rows of them, `factor` times as large."""
    return tuple(
        _times(value, factor) if isinstance(value, tuple) else canonical(to_fraction(value) * factor)
        for value in values
    )


def config_text(timeline: Timeline) -> ConfigText:
    """Return the config: medians as costs and latencies, and memory as the plan had it."""
    config, costs = ConfigWriter(), replace(timeline.problem.costs, p2p=tuple(one.p2p for one in timeline.p2p))
    problem = replace(timeline.problem, costs=costs)
    config.remark(f"Measured by {timeline.source}: medians of {timeline.steps} steps.")
    if problem.name:
        config.put("name", quoted(problem.name))
    for key in ("devices", "stages", "microbatches"):
        config.put(key, getattr(problem, key))
    config.put("placement", f"{problem.settled_placement.written}")
    config.put("time_unit", problem.time_unit)

    def columns(values: Costs | Memory, *keys: str) -> None:
        for key in keys:
            if getattr(values, key) is not None:
                config.numbers(key, getattr(values, key) or (0,))  # of one stage there is no latency

    with config.section("costs"):
        columns(costs, "forward", *costs.given_backward, "recompute", "overlap", "p2p", "offload", "reload")
    if timeline.plan is None:
        config.remark("Traces say nothing of memory; `memory` is still to be given.")
    else:
        with config.section("memory"):
            config.put("unit", quoted(problem.memory.unit))
            if problem.memory.kv:
                config.numbers("kv", [problem.memory.kv])
            columns(problem.memory, "activation", "retain", "checkpoint", "static", "budget")
    return config.text
