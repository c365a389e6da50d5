"""The independent check of a pipeline schedule.

It restates the rules of a training step from the problem and reads the schedule as operations with times; it uses
neither the lowering nor the timing that made them. Whole rows of operations are compared at once, so that checking
costs less than scheduling; only where a row fails are its operations compared one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, compress, islice, pairwise, product, repeat
from operator import add, ge, gt, lt
from pathlib import Path

from pipesched.checks import shown
from pipesched.core.clock import look
from pipesched.display import Displayable, from_file
from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.pipeline.check_memory import excesses, replayed_peaks
from pipesched.pipeline.check_step import incomplete_step, wrong_step
from pipesched.pipeline.check_times import CheckedTimes, device_of, halves
from pipesched.pipeline.metrics import picker
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import mismatch
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule

MOST_VIOLATIONS = 20
COSTS = {
    "F": ("forward",),
    "B": ("backward_input", "backward_weight"),
    "I": ("backward_input",),
    "W": ("backward_weight",),
    "R": ("recompute",),
    "O": ("offload",),
    "L": ("reload",),
}  # what the operations of each kind last the sum of


def checked(schedule: Schedule) -> Schedule:
    """Return `schedule` itself, when it breaks no rule. Raises InvalidSchedule with what it breaks."""
    broken = list(islice(violations(schedule), MOST_VIOLATIONS))
    if broken:
        raise InvalidSchedule("the schedule breaks the rules of its problem: " + "; ".join(broken[:3]), broken)
    return schedule


def check(schedule: Schedule | Displayable | str | Path, *, problem: Problem | None = None) -> list[str]:
    """Return the rules of a training step that a schedule breaks, one sentence each; empty if it keeps them all.

    Every operation runs once and on its device, no two at a time on a device or a lane, each after its inputs and its
    wait edges; lengths and memory are what the problem says (docs/explanation/semantics.md). An Outcome stands for its
    schedule, and the name of a file for what it holds; a CSV has the costs of `problem`. One that keeps all these has a
    sentence for each device that it lets exceed its budget. Raises ConfigError for what is no schedule.
    """
    schedule = from_file(schedule, problem, "schedule")
    schedule = getattr(schedule, "schedule", schedule)
    if not isinstance(schedule, Schedule):
        raise ConfigError(f"must be a Schedule or an Outcome, not {shown(schedule)}", "schedule")
    return list(violations(schedule)) or over_budget(schedule)


def over_budget(schedule: Schedule) -> list[str]:
    """Return a sentence for each device that exceeds its budget."""
    return [
        f"device {one['device']} holds {round(one['memory'], 6)} of {round(one['budget'], 6)}"
        f" {schedule.problem.memory.unit}: over the budget by {round(one['memory'] - one['budget'], 6)}"
        for one in excesses(schedule)
    ]


def violations(schedule: Schedule) -> Iterator[str]:
    """Yield every rule of a training step that the schedule breaks, one sentence each. The budget is no rule here."""
    for rules in RULES:
        is_broken = False
        for sentence in chain.from_iterable(_watched(rule, schedule) for rule in rules):
            is_broken = True
            yield sentence
        if is_broken:
            return  # the next rules assume these


def _other_problem(schedule: Schedule) -> Iterator[str]:
    """Yield where the plan is for other numbers of devices, stages and microbatches than the problem has."""
    wrong = mismatch(schedule.problem, schedule.plan)
    if wrong:
        yield wrong


def _incomplete(schedule: Schedule) -> Iterator[str]:
    """Yield what is missing or stands twice: each stage of a microbatch needs one F, and either a B or an I and a W."""
    index = schedule.plan.index
    numbers = _planned(schedule)
    if index.letters in _complete_letters(schedule) and len(numbers) == index.passes == len(set(numbers)):
        return  # every operation once
    times_run = [0] * index.passes
    for number in numbers:
        times_run[number] += 1
    for number in compress(range(index.passes), map(gt, times_run, repeat(1))):
        yield f"{index.op(number)} runs {times_run[number]} times"
    none = [0] * (index.stages * index.units)
    counts = {kind: [times_run[number] for row in index.rows(kind) for number in row] for kind in index.letters}
    columns = (counts.get(kind, none) for kind in "FBIW")
    yield from _half_saved(schedule, times_run)
    if schedule.problem.mode == "forward":
        yield from _incomplete_forwards(index, counts)
        return
    for position, (f, b, i, w) in enumerate(zip(*columns, strict=True)):
        stage, unit = divmod(position, index.units)
        name = _unit_name(index, unit)
        if not f:
            yield f"{stage}F{name} is missing"
        if b and (i or w):
            yield f"stage {stage}, microbatch {name} runs both a full backward B and a split one (I, W)"
        elif not b and not (i and w):
            missing = "W" if i else "I" if w else "B"
            yield f"{stage}{missing}{name} is missing"


def _incomplete_forwards(index: OpIndex, counts: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Yield forwards that are missing where only they run, and all that is none."""
    for kind, times_run in counts.items():
        for position, count in enumerate(times_run):
            stage, unit = divmod(position, index.units)
            if kind == "F" and not count:
                yield f"{stage}F{_unit_name(index, unit)} is missing"
            if kind != "F" and count:
                yield f"{stage}{kind}{_unit_name(index, unit)} is no forward; the problem has forwards alone"


def _complete_letters(schedule: Schedule) -> tuple[str, ...]:
    """Return kinds of operations of which each runs once where nothing is missing."""
    return ("F",) if schedule.problem.mode == "forward" else ("FB", "FIW")


def _unit_name(index: OpIndex, unit: int) -> str:
    """Return the name of a unit as operations have it: the microbatch, and the slice where there are several."""
    microbatch, part = divmod(unit, index.slices)
    return f"{microbatch}.{part}" if index.slices > 1 else f"{microbatch}"


def _half_saved(schedule: Schedule, times_run: Sequence[int]) -> Iterator[str]:
    """Yield offloads and loads without their counterparts, and activations that are recomputed and offloaded too."""
    index = schedule.plan.index
    none = [0] * (index.stages * index.units)
    counts = {kind: [times_run[number] for row in index.rows(kind) for number in row] for kind in index.letters}
    for position, (r, o, load) in enumerate(zip(*(counts.get(kind, none) for kind in "ROL"), strict=True)):
        stage, unit = divmod(position, index.units)
        name = _unit_name(index, unit)
        if bool(o) != bool(load):
            yield f"{stage}{'L' if o else 'O'}{name} is missing"
        if r and (o or load):
            yield f"stage {stage}, microbatch {name} is both recomputed and offloaded"
        if o and schedule.problem.costs.offload is None:
            yield f"{stage}O{name} has no length: the problem has no costs.offload"


def _planned(schedule: Schedule) -> list[int]:
    """Return all operations of passes in the plan."""
    plan, first = schedule.plan, schedule.plan.index.passes
    beside = (number for number in chain(*chain(*plan.lanes), plan.pairs.values()) if number < first)
    return [*chain(*plan.passes, beside)]


def _untimed(schedule: Schedule) -> Iterator[str]:
    """Yield operations of the plan that have no start from time 0 on, and pairs that do not start and end together."""
    index, starts, ends = schedule.plan.index, schedule.start_ticks, schedule.end_ticks
    if min(starts, default=0) < 0:
        for number in _planned(schedule):
            if starts[number] < 0:
                yield f"{index.op(number)} starts before time 0"
    for pair in schedule.plan.pairs.items():
        if starts[pair[0]] != starts[pair[1]] or ends[pair[0]] != ends[pair[1]]:
            yield f"{index.op(pair[0])} and {index.op(pair[1])} are a pair, but do not start and end together"


def _misplaced(schedule: Schedule) -> Iterator[str]:
    """Yield operations on another device than that of their stage, and transfers on other lanes than that device's."""
    index, due = schedule.plan.index, _devices_of(schedule)
    yield from _misplaced_transfers(schedule, due)
    for device, order in enumerate(schedule.plan.passes):
        if set(picker(order)(due)) <= {device}:
            continue
        for number in order:
            if due[number] != device:
                yield f"{index.op(number)} runs on device {device}, not on {due[number]}"
    for forward, backward in schedule.plan.pairs.items():
        if due[forward] != due[backward]:
            pair = f"{index.op(forward)} and {index.op(backward)}"
            yield f"{pair} run together, but their stages live on different devices"


def _misplaced_transfers(schedule: Schedule, due: Sequence[int]) -> Iterator[str]:
    index, problem = schedule.plan.index, schedule.problem
    if "O" not in index.letters and "L" not in index.letters:
        return
    for number in chain(*schedule.plan.orders):
        if index.op(number).kind in "OL":
            yield f"{index.op(number)} is a transfer, but runs in a slot of a device"
    for lane, pair in enumerate(schedule.plan.lanes):
        for kind, order in zip("OL", pair, strict=True):
            for number in order:
                if index.op(number).kind != kind:
                    yield f"{index.op(number)} runs on a lane for {kind}"
                elif (due[number] // 2 if problem.lanes == "pair" else due[number]) != lane:
                    yield f"{index.op(number)} runs on lane {lane}, which is not that of device {due[number]}"


def _devices_of(schedule: Schedule) -> list[int]:
    """Return the device of each operation number; a bidirectional problem's second half of microbatches is mirrored."""
    index, parts = schedule.plan.index, halves(schedule)
    rows = []
    for stage, part in product(range(index.stages), parts):
        rows += [device_of(schedule, stage, part)] * len(part)
    return rows * len(index.letters)


def _wrong_lengths(schedule: Schedule) -> Iterator[str]:
    """Yield durations other than an operation's cost; of a pair, `overlap` by its forward's stage, or else the sum.

    Of operations with lengths of their own, as measured ones, those that end before they start.
    """
    if schedule.own_lengths:
        for number in _planned(schedule):
            if schedule.end_ticks[number] < schedule.start_ticks[number]:
                yield f"{schedule.plan.index.op(number)} ends before it starts"
        return
    index, times = schedule.plan.index, CheckedTimes(schedule.problem)
    in_pair = {**schedule.plan.pairs, **{b: f for f, b in schedule.plan.pairs.items()}}
    for kind, part in product(index.letters, halves(schedule)):
        for stage, row in enumerate(index.rows(kind)):
            device = device_of(schedule, stage, part)
            numbers = row[part.start : part.stop]
            lengths = times.row(COSTS[kind], stage, device)[part.start : part.stop]
            starts = _part(schedule.start_ticks, numbers)
            if not in_pair and _part(schedule.end_ticks, numbers) == list(map(add, starts, lengths)):
                continue
            for number, length in zip(numbers, lengths, strict=True):
                due = _pair_length(times, index, device, number, in_pair[number]) if number in in_pair else length
                lasts = schedule.end_ticks[number] - schedule.start_ticks[number]
                if schedule.start_ticks[number] >= 0 and lasts != due:
                    yield f"{index.op(number)} lasts {_time(schedule, lasts)}, not {_time(schedule, due)}"


def _pair_length(times: CheckedTimes, index: OpIndex, device: int, first: int, second: int) -> int:
    forward, backward = sorted((first, second), key=index.kind_of, reverse=True)
    if times.problem.costs.overlap is not None:
        return times.pair(index.stage_of(forward), device)
    parts = (("F", forward), ("B", backward))
    return sum(times.row(COSTS[kind], index.stage_of(number), device)[index.owner_of(number)] for kind, number in parts)


def _collisions(schedule: Schedule) -> Iterator[str]:
    """Yield slots that start before the slot before them has ended on the device, and transfers so on a lane."""
    index = schedule.plan.index
    for order, starts, ends in zip(
        schedule.plan.orders, schedule.slot_start_ticks, schedule.slot_end_ticks, strict=True
    ):
        if any(map(gt, ends, starts[1:])):
            for before, after in compress(pairwise(order), map(gt, ends, starts[1:])):
                yield f"{index.op(after)} starts before {index.op(before)} has ended on the same device"
    for before, after in chain.from_iterable(map(pairwise, chain(*schedule.plan.lanes))):
        if schedule.start_ticks[after] < schedule.end_ticks[before]:
            yield f"{index.op(after)} starts before {index.op(before)} has ended on the same lane"


def _impatient(schedule: Schedule) -> Iterator[str]:
    """Yield operations that start before the end of one for which the plan makes them wait."""
    index = schedule.plan.index
    for before, after in schedule.plan.waits:
        if schedule.start_ticks[after] < schedule.end_ticks[before]:
            yield f"{index.op(after)} starts before the end of {index.op(before)}, for which the plan makes it wait"


def _too_early(schedule: Schedule) -> Iterator[str]:
    """Yield operations that start before their inputs, with the latency between two devices, are there."""
    problem, index, times = schedule.problem, schedule.plan.index, CheckedTimes(schedule.problem)
    forwards, inputs = index.rows("F"), _gradient_ends(schedule)
    for stage in range(problem.stages):
        look()
        for part in halves(schedule) if stage + 1 < problem.stages else ():
            here, there = (device_of(schedule, at, part) for at in (stage, stage + 1))
            ready = _part(schedule.end_ticks, forwards[stage])
            yield from _early_row(schedule, "F", stage + 1, ready, times.hops(stage, here, there), part)
            for kind in (kind for kind in "BI" if kind in index.letters):
                yield from _early_row(schedule, kind, stage, inputs[stage + 1], times.hops(stage, there, here), part)
        for before, kind in _inside_a_stage(index.letters):
            yield from _early_row(schedule, kind, stage, _part(schedule.end_ticks, index.row(before, stage)))
        yield from _unsliced_order(schedule, stage, _part(schedule.end_ticks, forwards[stage]), inputs[stage])


def _unsliced_order(schedule: Schedule, stage: int, forwards: Sequence[int], gradients: Sequence[int]) -> Iterator[str]:
    """Yield forwards of slices that start before that of the slice before has ended, and gradients so backwards."""
    index, slices = schedule.plan.index, schedule.plan.index.slices
    if slices == 1 or _has_slices_in_order(schedule, stage, forwards, gradients):
        return
    for unit in (unit for unit in range(index.units) if unit % slices):
        after = [("F", unit, forwards[unit - 1])]
        after += [(kind, unit - 1, gradients[unit]) for kind in "BI" if kind in index.letters]
        for kind, late, ready in after:
            number = index.row(kind, stage)[late]
            if 0 <= schedule.start_ticks[number] < ready:
                start, there = _time(schedule, schedule.start_ticks[number]), _time(schedule, ready)
                other = index.op(index.row(kind, stage)[late - 1 if kind == "F" else late + 1])
                yield f"{index.op(number)} starts at {start}, before the end of {other} at {there}"


def _has_slices_in_order(schedule: Schedule, stage: int, forwards: Sequence[int], gradients: Sequence[int]) -> bool:
    """Return whether no slice of a stage starts before the end of the one that it needs, all at once."""
    slices, starts = schedule.plan.index.slices, schedule.start_ticks
    for kind in (kind for kind in "FBI" if kind in schedule.plan.index.letters):
        row = _part(starts, schedule.plan.index.row(kind, stage))
        for late in range(1, slices) if kind == "F" else range(slices - 1):
            ready = forwards[late - 1 :: slices] if kind == "F" else gradients[late + 1 :: slices]
            if not all(map(ge, row[late::slices], ready)):
                return False
    return True


def _inside_a_stage(letters: str) -> Iterator[tuple[str, str]]:
    """Yield the kinds (before, after) that follow each other on the same stage."""
    for before, after in ("FB", "FI", "IW", "FR", "RB", "RI", "FO", "OL", "LB", "LI"):
        if before in letters and after in letters:
            yield before, after


def _early_row(
    schedule: Schedule, kind: str, stage: int, ready: Sequence[int], lags: Sequence[int] = (), part: range | None = None
) -> Iterator[str]:
    """Yield the operations of a row that start before `ready` + lag; operations that the plan lacks do not count.

    Of a `part` of the units only theirs; `ready` and `lags` are by unit.
    """
    row, due = schedule.plan.index.row(kind, stage), ready
    if part is not None:
        row, due = row[part.start : part.stop], ready[part.start : part.stop]
    starts = _part(schedule.start_ticks, row)
    if any(lags):
        due = list(map(add, due, lags if part is None else lags[part.start : part.stop]))
    if all(map(ge, starts, due)):
        return
    for number, time in compress(zip(row, due, strict=True), map(lt, starts, due)):
        if schedule.start_ticks[number] >= 0:
            start, there = _time(schedule, schedule.start_ticks[number]), _time(schedule, time)
            yield f"{schedule.plan.index.op(number)} starts at {start}, before its input is there at {there}"


def _gradient_ends(schedule: Schedule) -> list[Sequence[int]]:
    """Return for each stage when the input gradient of each microbatch is there: the end of B, or of I."""
    index = schedule.plan.index
    columns = []
    for stage in range(index.stages):
        rows = [_part(schedule.end_ticks, index.row(kind, stage)) for kind in "BI" if kind in index.letters]
        columns.append([] if not rows else rows[0] if len(rows) == 1 else list(map(max, *rows)))
    return columns


def _part(values: Sequence[int], row: range) -> Sequence[int]:
    return values[row.start : row.stop]


def _wrong_memory(schedule: Schedule) -> Iterator[str]:
    """Yield devices whose activations have another peak than the schedule claims, where something depends on it."""
    plan, problem = schedule.plan, schedule.problem
    saves = bool(plan.lanes) or "R" in plan.index.letters
    if problem.memory.budget is None and not saves and not _holds_differently(problem):
        return
    scale = problem.grains.per_unit
    for device, (peak, claim) in enumerate(zip(replayed_peaks(schedule), schedule.peak_grains, strict=True)):
        if peak != claim:
            claimed, true = shown(in_units(claim, scale)), shown(in_units(peak, scale))
            yield f"device {device} reaches {true} {problem.memory.unit}, not {claimed} as the schedule claims"


def _holds_differently(problem: Problem) -> bool:
    """Return whether microbatches do not all hold the same from F to B, and free it then, or a step holds more."""
    unlike = problem.memory.microbatches is not None or (problem.sizes and len({*problem.sizes.activation}) > 1)
    beside = bool(problem.side) or (problem.shard is not None and problem.shard.level in ("gradients", "weights"))
    return bool(unlike) or problem.slices.count > 1 or problem.mode == "forward" or beside


def _time(schedule: Schedule, ticks: int) -> str:
    """Return ticks in the user's unit, as text."""
    return shown(in_units(ticks, schedule.problem.ticks.per_unit))


def _watched(rule: Callable[[Schedule], Iterator[str]], schedule: Schedule) -> Iterator[str]:
    look()
    return rule(schedule)


RULES = (  # each group assumes the ones before
    (_other_problem,),
    (_incomplete, _untimed, incomplete_step),
    (_misplaced, _wrong_lengths, _collisions, _impatient, _too_early, wrong_step),
    (_wrong_memory,),
)
