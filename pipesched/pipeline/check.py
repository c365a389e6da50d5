"""The independent check of a pipeline schedule.

It restates the rules of a training step from the problem and reads the schedule as operations with times; it uses
neither the lowering nor the timing that made them. Whole rows of operations are compared at once, so that checking
costs less than scheduling; only where a row fails are its operations looked at one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, compress, pairwise, repeat
from operator import add, ge, gt, lt

from pipesched.errors import InvalidSchedule
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import mismatch
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule, picker

MOST_VIOLATIONS = 20


def checked(schedule: Schedule) -> Schedule:
    """`schedule` itself, when it breaks no rule. Raises InvalidSchedule with what it breaks."""
    found = []
    for violation in violations(schedule):
        found.append(violation)
        if len(found) == MOST_VIOLATIONS:
            break
    if found:
        raise InvalidSchedule("the schedule breaks the rules of its problem: " + "; ".join(found[:3]), found)
    return schedule


def violations(schedule: Schedule) -> Iterator[str]:
    """Every rule of DESIGN section 4 that the schedule breaks, one sentence each. The budget is no rule here."""
    for rules in ((_other_problem,), (_incomplete, _untimed), (_misplaced, _wrong_lengths, _collisions, _too_early)):
        found = False
        for sentence in chain.from_iterable(rule(schedule) for rule in rules):
            found = True
            yield sentence
        if found:
            return  # the next rules assume these


def _other_problem(schedule: Schedule) -> Iterator[str]:
    """The plan is for as many devices, stages and microbatches as the problem has."""
    wrong = mismatch(schedule.problem, schedule.plan)
    if wrong:
        yield wrong


def _incomplete(schedule: Schedule) -> Iterator[str]:
    """Each stage of each microbatch needs one F, and either one B or one I and one W."""
    index = schedule.plan.index
    numbers = _planned(schedule)
    if index.kinds in ("FB", "FIW") and len(numbers) == index.size == len(set(numbers)):
        return  # every operation once
    times_run = [0] * index.size
    for number in numbers:
        times_run[number] += 1
    for number in compress(range(index.size), map(gt, times_run, repeat(1))):
        yield f"{index.op(number)} runs {times_run[number]} times"
    none = [0] * (index.stages * index.microbatches)
    counts = {kind: [times_run[number] for row in index.rows(kind) for number in row] for kind in index.kinds}
    columns = (counts.get(kind, none) for kind in "FBIW")
    for place, (f, b, i, w) in enumerate(zip(*columns, strict=True)):
        stage, microbatch = divmod(place, index.microbatches)
        if not f:
            yield f"{stage}F{microbatch} is missing"
        if b and (i or w):
            yield f"stage {stage}, microbatch {microbatch} runs both a full backward B and a split one (I, W)"
        elif not b and not (i and w):
            missing = "W" if i else "I" if w else "B"
            yield f"{stage}{missing}{microbatch} is missing"


def _planned(schedule: Schedule) -> list[int]:
    """All operations of the plan."""
    return list(chain(*schedule.plan.orders, schedule.plan.pairs.values()))


def _untimed(schedule: Schedule) -> Iterator[str]:
    """Every operation of the plan has a start, from time 0; the two of a pair start and end together."""
    index, starts, ends = schedule.plan.index, schedule.starts, schedule.ends
    if min(starts, default=0) < 0:
        for number in _planned(schedule):
            if starts[number] < 0:
                yield f"{index.op(number)} starts before time 0"
    for pair in schedule.plan.pairs.items():
        if starts[pair[0]] != starts[pair[1]] or ends[pair[0]] != ends[pair[1]]:
            yield f"{index.op(pair[0])} and {index.op(pair[1])} are a pair, but do not start and end together"


def _misplaced(schedule: Schedule) -> Iterator[str]:
    """Every operation runs on the device of its stage."""
    index, due = schedule.plan.index, _homes(schedule)
    for device, order in enumerate(schedule.plan.orders):
        if set(picker(order)(due)) <= {device}:
            continue
        for number in order:
            if due[number] != device:
                yield f"{index.op(number)} runs on device {device}, not on {due[number]}"
    for forward, backward in schedule.plan.pairs.items():
        if due[forward] != due[backward]:
            pair = f"{index.op(forward)} and {index.op(backward)}"
            yield f"{pair} run together, but their stages live on different devices"


def _homes(schedule: Schedule) -> list[int]:
    """The device of each operation number; a bidirectional problem's second half of microbatches is mirrored."""
    home, index = schedule.problem.home(), schedule.plan.index
    first, last = index.microbatches // 2, index.microbatches - 1
    rows = []
    for stage in range(index.stages):
        rows += [home.device(stage, 0, last + 1)] * first
        rows += [home.device(stage, last, last + 1)] * (last + 1 - first)
    return rows * len(index.kinds)


def _wrong_lengths(schedule: Schedule) -> Iterator[str]:
    """An operation lasts its cost; a pair lasts `overlap`, by the stage of its forward, else the sum of its parts."""
    problem, index, costs = schedule.problem, schedule.plan.index, schedule.problem.costs
    tables = {"F": costs.forward, "B": costs.backward, "I": costs.backward_input, "W": costs.backward_weight}
    in_pair = {**schedule.plan.pairs, **{b: f for f, b in schedule.plan.pairs.items()}}
    for kind in index.kinds:
        for stage, row in enumerate(index.rows(kind)):
            length = tables[kind][stage]
            starts = _part(schedule.starts, row)
            if not in_pair and _part(schedule.ends, row) == list(map(length.__add__, starts)):
                continue
            for number in row:
                due = _pair_length(problem, index, number, in_pair[number]) if number in in_pair else length
                lasts = schedule.ends[number] - schedule.starts[number]
                if schedule.starts[number] >= 0 and lasts != due:
                    yield f"{index.op(number)} lasts {_time(schedule, lasts)}, not {_time(schedule, due)}"


def _pair_length(problem: Problem, index: OpIndex, one: int, other: int) -> int:
    forward, backward = sorted((index.op(one), index.op(other)), key=lambda op: op.kind, reverse=True)
    if problem.costs.overlap is not None:
        return problem.costs.overlap[forward.stage]
    return problem.costs.forward[forward.stage] + problem.costs.backward[backward.stage]


def _collisions(schedule: Schedule) -> Iterator[str]:
    """A device runs one slot at a time, in plan order, from time 0."""
    index = schedule.plan.index
    for order, starts, ends in zip(schedule.plan.orders, schedule.slot_starts, schedule.slot_ends, strict=True):
        if any(map(gt, ends, starts[1:])):
            for before, after in compress(pairwise(order), map(gt, ends, starts[1:])):
                yield f"{index.op(after)} starts before {index.op(before)} has ended on the same device"


def _too_early(schedule: Schedule) -> Iterator[str]:
    """Data dependencies, with the p2p latency wherever two devices differ."""
    problem, index = schedule.problem, schedule.plan.index
    homes = problem.home().devices
    forwards, inputs = index.rows("F"), _gradient_ends(schedule)
    for stage in range(problem.stages):
        hop = problem.costs.p2p[stage] if stage + 1 < problem.stages and homes[stage] != homes[stage + 1] else 0
        if stage + 1 < problem.stages:
            yield from _early_row(schedule, "F", stage + 1, _part(schedule.ends, forwards[stage]), hop)
        for kind in (kind for kind in "BI" if kind in index.kinds):
            yield from _early_row(schedule, kind, stage, _part(schedule.ends, forwards[stage]), 0)
            if stage + 1 < problem.stages:
                yield from _early_row(schedule, kind, stage, inputs[stage + 1], hop)
        if "W" in index.kinds:
            yield from _early_row(schedule, "W", stage, _part(schedule.ends, index.row("I", stage)), 0)


def _early_row(schedule: Schedule, kind: str, stage: int, ready: Sequence[int], lag: int) -> Iterator[str]:
    """The operations of a row that start before `ready` + lag; operations that the plan lacks do not count."""
    row = schedule.plan.index.row(kind, stage)
    starts = _part(schedule.starts, row)
    due = list(map(add, ready, repeat(lag))) if lag else ready
    if all(map(ge, starts, due)):
        return
    for number in compress(row, map(lt, starts, due)):
        if schedule.starts[number] >= 0:
            op = schedule.plan.index.op(number)
            start, there = _time(schedule, schedule.starts[number]), _time(schedule, due[op.microbatch])
            yield f"{op} starts at {start}, before its input is there at {there}"


def _gradient_ends(schedule: Schedule) -> list[Sequence[int]]:
    """For each stage, when the input gradient of each microbatch is there: the end of B, or of I."""
    index = schedule.plan.index
    columns = []
    for stage in range(index.stages):
        rows = [_part(schedule.ends, index.row(kind, stage)) for kind in "BI" if kind in index.kinds]
        columns.append(rows[0] if len(rows) == 1 else list(map(max, *rows)))
    return columns


def _part(values: Sequence[int], row: range) -> Sequence[int]:
    return values[row.start : row.stop]


def _time(schedule: Schedule, ticks: int) -> int | float:
    """Ticks in the user's unit."""
    return in_units(ticks, schedule.problem.costs.scale)
