"""The problem of a measured step, with the medians as costs and the memory of the plan, and its schedule.

In the schedule operations stand at the times, and have the lengths, that they had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from math import gcd
from typing import Any, NamedTuple

from pipesched.analysis.measured.clocks import AlignedStep, Transit, is_transfer
from pipesched.analysis.measured.ranges import PER_UNIT, ops_of
from pipesched.analysis.measured.steps import Steps
from pipesched.core.timing import UNTIMED
from pipesched.pipeline.arguments import make_problem
from pipesched.pipeline.costs import entries_of
from pipesched.pipeline.kinds import KINDS, TRANSFER_LETTERS
from pipesched.pipeline.ops import Op
from pipesched.pipeline.placement import Placement
from pipesched.pipeline.plan import plan_from_slots
from pipesched.pipeline.problem import Problem, in_order, typical
from pipesched.pipeline.quantities import Exact, canonical, plain, ticks_per_unit, to_fraction
from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.units import FORWARD_ONLY, TRAIN
from pipesched.results.outcome import Quartiles

LETTER_OF = {kind.cost: letter for letter, kind in KINDS.items()}
TRANSFERS = ("offload", "reload")
Lengths = Mapping[tuple[str, int], Quartiles]  # of the operations of a kind on a stage
Cost = list[Fraction | None]  # of each stage; None where nothing was measured


class MeasuredLatency(NamedTuple):
    """How long messages took at a boundary between stages, in the unit of the trace, from the sender's end on.

    `forward` and `backward` are medians of those whose receiver waited for them from before that end, None where it
    waited for none; together they are `samples`. `p2p` is half of their sum, which no difference of clocks changes, or
    the one there is; 0 where there is none, and instead of less than that.
    """

    boundary: int
    samples: int
    forward: int | float | None
    backward: int | float | None
    p2p: Exact


def latencies(found: Iterable[Transit], boundaries: int) -> list[MeasuredLatency]:
    """Return the latency at each boundary."""
    ticks: dict[tuple[int, bool], list[int]] = {}
    for way, took in found:
        ticks.setdefault(way, []).append(took)
    rows = []
    for boundary in range(boundaries):
        both = [sorted(ticks.get((boundary, forward), ())) for forward in (True, False)]
        medians = [quantile(times, Fraction(1, 2)) / PER_UNIT if times else None for times in both]
        known = [time for time in medians if time is not None]
        p2p = max(sum(known, Fraction(0)) / max(len(known), 1), Fraction(0))
        forward, backward = (None if time is None else plain(time) for time in medians)
        rows.append(MeasuredLatency(boundary, sum(map(len, both)), forward, backward, plain(p2p)))
    return rows


def quartiles(lengths: Sequence[int], per_unit: int) -> Quartiles:
    """Return the quartiles of lengths in ticks: between two of them linearly, the ends included (numpy's default)."""
    ordered = sorted(lengths)
    return Quartiles(*(plain(quantile(ordered, Fraction(part, 4)) / per_unit) for part in (1, 2, 3)))


def quantile(ordered: Sequence[int], part: Fraction) -> Fraction:
    """Return the value below which a part of ordered values lies: between two of them linearly."""
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def measured_problem(
    lengths: Lengths,
    steps: Steps,
    placement: Placement,
    unit: str,
    plan: Problem | None,
    of_each: Sequence[Lengths] | None = None,
) -> Problem:
    """Return the problem. What was not measured is that of the plan, else nothing.

    A stage that ran its backward whole has half of it as each half. Where the plan says that microbatches differ,
    `of_each` has the lengths of each of them, and costs are tables; pairs then have none of their own.
    """
    kinds = {letter for letter, _ in lengths}
    if of_each is None or plan is None:
        given: dict[str, Any] = _costs(lengths, kinds, steps.stages, plan)
    else:
        columns = [
            _costs(own, kinds - {"overlap"}, steps.stages, typical(in_order(plan, [microbatch] * plan.microbatches)))
            for microbatch, own in enumerate(of_each)
        ]
        given = {key: [*zip(*(column[key] for column in columns), strict=True)] for key in columns[0]}
    problem = make_problem(
        devices=placement.last + 1,
        stages=steps.stages,
        microbatches=steps.microbatches,
        placement=placement,
        name="" if plan is None else plan.name,
        time_unit=unit,
        mode=FORWARD_ONLY if {*steps.letters} == {"F"} else TRAIN,
        **given,
    )
    if plan is None or plan.stages != steps.stages or plan.devices != problem.devices:
        return problem
    memory = plan.memory
    if plan.sizes is not None:  # what each microbatch leaves
        factors = [*map(to_fraction, plan.sizes.activation)]
        activation: Any = tuple(
            tuple(canonical(size * by) for size, by in zip(entries_of(entry, plan.microbatches), factors, strict=True))
            for entry in memory.activation
        )
        memory = replace(memory, activation=activation)
    return replace(problem, memory=memory, lanes=plan.lanes)


def _costs(lengths: Lengths, kinds: Set[str], stages: int, plan: Problem | None) -> dict[str, list[Fraction]]:
    """Return the costs of the stages by the parameters of make_problem, as medians of lengths; `kinds` ran."""
    medians = {kind: to_fraction(values.median) for kind, values in lengths.items()}

    def measured(cost: str) -> Cost:
        return [medians.get((LETTER_OF.get(cost, cost), stage)) for stage in range(stages)]

    def planned(key: str) -> Sequence[Any] | None:
        return None if plan is None else getattr(plan.costs, key)

    forward, whole = measured("forward"), measured("backward")
    inputs, weights = measured("backward_input"), measured("backward_weight")
    pairs = measured("overlap")
    forwards = _filled(forward, planned("forward"), _halves(pairs))
    given = {
        "forward": forwards,
        "recompute": _filled(measured("recompute"), planned("recompute"), forwards),
        "p2p": [Fraction(0)] * (stages - 1),
    }
    if not kinds.isdisjoint("IW"):
        halves = [None if one is None else one / 2 for one in whole]
        given["backward_input"] = _filled(inputs, None, _filled(halves, planned("backward_input"), []))
        given["backward_weight"] = _filled(weights, None, _filled(halves, planned("backward_weight"), []))
        backwards = [sum(both, Fraction(0)) for both in zip(*[*given.values()][-2:], strict=True)]
        if "B" in kinds:
            given["backward"] = backwards = _filled(whole, None, backwards)
    else:
        given["backward"] = backwards = _filled(whole, planned("backward"), _halves(pairs))
    if "overlap" in kinds:
        given["overlap"] = _filled(pairs, None, [f + b for f, b in zip(forwards, backwards, strict=True)])
    if not kinds.isdisjoint(TRANSFER_LETTERS):
        given |= {key: _filled(measured(key), planned(key), []) for key in TRANSFERS}
    return given


def _filled(
    values: Sequence[Fraction | None], plan: Sequence[Exact] | None, others: Sequence[Fraction]
) -> list[Fraction]:
    """Return values, where there is none the plan's, else the other one, else nothing."""
    spare = [*map(to_fraction, plan)] if plan and len(plan) == len(values) else others or [Fraction(0)] * len(values)
    return [other if value is None else value for value, other in zip(values, spare, strict=True)]


def _halves(pairs: Cost) -> list[Fraction]:
    """Return half of what pairs took, for stages that run nothing alone."""
    return [Fraction(0) if one is None else one / 2 for one in pairs]


def measured_schedule(problem: Problem, step: AlignedStep, resolution: int = 1, others: Iterable[int] = ()) -> Schedule:
    """Return the schedule, from time 0 on, in ticks that are as fine as its times, others and the problem's costs need.

    At least `resolution` of them are a unit.
    """
    ranges = [*chain(*step.ranges)]
    first = min(one.start for one in ranges)
    times = chain.from_iterable((one.start, one.end, *((one.wait.end,) if one.wait else ())) for one in ranges)
    coarsest = gcd(PER_UNIT, *(time - first for time in chain(times, others)))
    scale = ticks_per_unit([Fraction(coarsest, PER_UNIT)])
    problem = replace(problem, costs=replace(problem.costs, resolution=max(scale, resolution)))
    rows = [[one.slot for one in row if not is_transfer(one.slot)] for row in step.ranges]
    moves: list[list[Op]] = []
    if any(is_transfer(one.slot) for one in ranges):
        moves = [[] for _ in range(problem.lane_pairs)]
        for device, row in enumerate(step.ranges):
            moves[problem.lane_pair(device)] += [op for one in row if is_transfer(one.slot) for op in ops_of(one.slot)]
    begin = {op: one.start for one in ranges for op in ops_of(one.slot)}
    lanes = [sorted(lane, key=begin.__getitem__) for lane in moves]
    plan = plan_from_slots(rows, problem.stages, problem.microbatches, lanes)
    starts, ends, arrived = ([UNTIMED] * plan.index.size for _ in range(3))
    for one in ranges:
        for op in ops_of(one.slot):
            number = plan.index.number(op)
            starts[number] = (one.start - first) * problem.ticks.per_unit // PER_UNIT
            ends[number] = (one.end - first) * problem.ticks.per_unit // PER_UNIT
            if one.wait is not None:
                arrived[number] = max(one.wait.end - first, 0) * problem.ticks.per_unit // PER_UNIT
    return Schedule(problem, plan, starts, ends, own_lengths=True, arrival_ticks=arrived)
