"""The independent check of a pipeline schedule.

It restates the rules of a training step, and reads the schedule as times by kind, stage and unit; it shares with the
makers of what it checks the tables of the problem, and no rule. Each rule compares whole tables; only where one says
that something is wrong are there sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice, product
from pathlib import Path
from typing import NamedTuple

from pipesched.checks import shown
from pipesched.core.arrays import Ints, column, np
from pipesched.core.clock import look
from pipesched.display import Displayable, from_file
from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.pipeline.check_memory import TimeTables, excesses, replayed_peaks
from pipesched.pipeline.check_step import incomplete_step, wrong_step
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import mismatch
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule

MOST_VIOLATIONS = 20
COSTS = {
    "F": "forward",
    "B": "backward",
    "I": "backward_input",
    "W": "backward_weight",
    "R": "recompute",
    "O": "offload",
    "L": "reload",
}  # which table of the problem says what the operations of each kind last
INSIDE = ("FB", "FI", "IW", "FR", "RB", "RI", "FO", "OL", "LB", "LI")  # kinds that follow each other on a stage


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
    tables = TimeTables(schedule)
    for rules in RULES:
        is_broken = False
        for sentence in chain.from_iterable(_watched(rule, tables) for rule in rules):
            is_broken = True
            yield sentence
        if is_broken:
            return  # the next rules assume these


def _other_problem(tables: TimeTables) -> Iterator[str]:
    """Yield where the plan is for other numbers of devices, stages and microbatches than the problem has."""
    wrong = mismatch(tables.problem, tables.plan)
    if wrong:
        yield wrong


def _incomplete(tables: TimeTables) -> Iterator[str]:
    """Yield what is missing or stands twice: each stage of a microbatch needs one F, and either a B or an I and a W."""
    index, forward_only = tables.index, tables.problem.mode == "forward"
    if index.letters in (("F",) if forward_only else ("FB", "FIW")) and tables.has_each_once:
        return
    times_run = np.bincount(tables.planned, minlength=index.passes)
    for number in np.flatnonzero(times_run > 1).tolist():
        yield f"{index.op(number)} runs {times_run[number]} times"
    ran, none = times_run > 0, np.zeros((index.stages, index.units), dtype=bool)
    runs = {kind: tables.of(ran, kind) if kind in index.letters else none for kind in "FBIWROL"}
    yield from _half_saved(tables, runs)
    if forward_only:
        for kind in index.letters:
            for stage, unit in np.argwhere(runs[kind] != (kind == "F")).tolist():
                what = "is missing" if kind == "F" else "is no forward; the problem has forwards alone"
                yield f"{stage}{kind}{_unit_name(index, unit)} {what}"
        return
    f, b, i, w = (runs[kind] for kind in "FBIW")
    for stage, unit in np.argwhere(~f | (b & (i | w)) | ~(b | (i & w))).tolist():
        name, at = _unit_name(index, unit), (stage, unit)
        if not f[at]:
            yield f"{stage}F{name} is missing"
        if b[at] and (i[at] or w[at]):
            yield f"stage {stage}, microbatch {name} runs both a full backward B and a split one (I, W)"
        elif not b[at] and not (i[at] and w[at]):
            yield f"{stage}{'W' if i[at] else 'I' if w[at] else 'B'}{name} is missing"


def _unit_name(index: OpIndex, unit: int) -> str:
    """Return the name of a unit as operations have it: the microbatch, and the slice where there are several."""
    microbatch, part = divmod(unit, index.slices)
    return f"{microbatch}.{part}" if index.slices > 1 else f"{microbatch}"


def _half_saved(tables: TimeTables, runs: Mapping[str, Ints]) -> Iterator[str]:
    """Yield offloads and loads without their counterparts, and activations that are recomputed and offloaded too."""
    r, o, load = (runs[kind] for kind in "ROL")
    has_length = tables.problem.costs.offload is not None
    for stage, unit in np.argwhere((o != load) | (r & o) | (o & (not has_length))).tolist():
        name, at = _unit_name(tables.index, unit), (stage, unit)
        if o[at] != load[at]:
            yield f"{stage}{'L' if o[at] else 'O'}{name} is missing"
        if r[at] and (o[at] or load[at]):
            yield f"stage {stage}, microbatch {name} is both recomputed and offloaded"
        if o[at] and not has_length:
            yield f"{stage}O{name} has no length: the problem has no costs.offload"


def _mispaired(tables: TimeTables) -> Iterator[str]:
    """Yield pairs of other kinds than a forward and a full backward, and pairs that do not start and end together."""
    index, (forwards, backwards) = tables.index, tables.pairs
    f, b = (index.of_kind(kind) for kind in "FB") if "B" in index.letters else (index.of_kind("F"), range(0))
    is_pair = (forwards < f.stop) & (backwards >= b.start) & (backwards < b.stop)
    together = is_pair & True
    for values in (tables.start, tables.end):
        together &= values[forwards] == values[backwards]
    for at in np.flatnonzero(~together).tolist():
        both = f"{index.op(int(forwards[at]))} and {index.op(int(backwards[at]))}"
        if not is_pair[at]:
            yield f"{both} are no pair: a forward and a full backward are"
        else:
            yield f"{both} are a pair, but do not start and end together"


def _untimed(tables: TimeTables) -> Iterator[str]:
    """Yield operations of the plan that have no start from time 0 on."""
    numbers = tables.planned if tables.start[: tables.index.passes].min() < 0 else column(())
    for number in numbers[tables.start[numbers] < 0].tolist():
        yield f"{tables.index.op(number)} starts before time 0"


def _misplaced(tables: TimeTables) -> Iterator[str]:
    """Yield operations on another device than that of their stage, and transfers on other lanes than that device's."""
    index, where = tables.index, tables.problem.model.where
    if "O" in index.letters or "L" in index.letters:
        yield from _misplaced_transfers(tables)
    runs_on = tables.runs_on[: index.passes].reshape(-1, *where.shape)
    is_wrong = (runs_on != where) & (runs_on >= 0)
    for device, order in enumerate(tables.passes if is_wrong.any() else ()):
        for number in order[is_wrong.ravel()[order]].tolist():
            yield f"{index.op(number)} runs on device {device}, not on {tables.homes(number)}"
    forwards, backwards = tables.pairs
    for at in np.flatnonzero(tables.homes(forwards) != tables.homes(backwards)).tolist():
        pair = f"{index.op(int(forwards[at]))} and {index.op(int(backwards[at]))}"
        yield f"{pair} run together, but their stages live on different devices"


def _misplaced_transfers(tables: TimeTables) -> Iterator[str]:
    index, each = tables.index, 2 if tables.problem.lanes == "pair" else 1
    for number in np.concatenate(tables.passes).tolist():
        if index.op(number).kind in "OL":
            yield f"{index.op(number)} is a transfer, but runs in a slot of a device"
    for lane, order in enumerate(tables.lanes):
        for number in order.tolist():
            kind, home = "OL"[lane % 2], tables.homes(number)
            if index.op(number).kind != kind:
                yield f"{index.op(number)} runs on a lane for {kind}"
            elif home // each != lane // 2:
                yield f"{index.op(number)} runs on lane {lane // 2}, which is not that of device {home}"


def _wrong_lengths(tables: TimeTables) -> Iterator[str]:
    """Yield durations other than an operation's cost; of a pair, `overlap` by its forward's stage, or else the sum.

    Of operations with lengths of their own, as measured ones, those that end before they start.
    """
    index, model, start, end = tables.index, tables.problem.model, tables.start, tables.end
    if tables.schedule.own_lengths:
        for number in tables.planned[end[tables.planned] < start[tables.planned]].tolist():
            yield f"{index.op(number)} ends before it starts"
        return
    is_wrong, together = np.empty(index.passes, dtype=bool), _pair_lengths(tables)
    for kind in index.letters:
        tables.of(is_wrong, kind)[...] = tables.of(end, kind) - tables.of(start, kind) != model.ticks[COSTS[kind]]
    for numbers in tables.pairs:
        is_wrong[numbers] = end[numbers] - start[numbers] != together
    of_pair = dict(zip(np.concatenate(tables.pairs).tolist(), [*together.tolist()] * 2, strict=True))
    for kind, part in product(index.letters, tables.parts) if is_wrong.any() else ():
        wrong, row = tables.of(is_wrong & (start[: index.passes] >= 0), kind), index.of_kind(kind)
        for stage, unit in np.argwhere(wrong[:, part]).tolist():
            number = row[stage * index.units + part.start + unit]
            due = of_pair.get(number, model.ticks[COSTS[kind]][stage, part.start + unit])
            yield f"{index.op(number)} lasts {tables.time(end[number] - start[number])}, not {tables.time(due)}"


def _pair_lengths(tables: TimeTables) -> Ints:
    """Return what each pair lasts: `overlap` by the stage of its forward, or else the sum of its parts."""
    index, model = tables.index, tables.problem.model
    (f, b), units = tables.pairs, index.units
    if model.overlap is not None:
        together: Ints = model.overlap[f // units, f % units]
    else:
        ahead, back = model.ticks["forward"], model.ticks["backward"]
        together = ahead[f // units, f % units] + back[b // units % index.stages, b % units]
    return together


def _collisions(tables: TimeTables) -> Iterator[str]:
    """Yield slots that start before the slot before them has ended on the device, and transfers so on a lane."""
    for line, what in (*((line, "device") for line in tables.orders), *((line, "lane") for line in tables.lanes)):
        for at in np.flatnonzero(tables.start[line[1:]] < tables.end[line[:-1]]).tolist():
            before, after = (tables.index.op(number) for number in line[at : at + 2].tolist())
            yield f"{after} starts before {before} has ended on the same {what}"


def _impatient(tables: TimeTables) -> Iterator[str]:
    """Yield operations that start before the end of one for which the plan makes them wait."""
    index, waits = tables.index, column([*chain.from_iterable(tables.plan.waits)]).reshape(-1, 2)
    for before, after in waits[tables.start[waits[:, 1]] < tables.end[waits[:, 0]]].tolist():
        yield f"{index.op(after)} starts before the end of {index.op(before)}, for which the plan makes it wait"


class _Demand(NamedTuple):
    """When, by stage and unit, operations of a kind may start: of a stage, or of so many stages `further` on."""

    kind: str
    further: int
    ready: Ints

    def early(self, tables: TimeTables) -> Ints:
        """Return which operations start before; what the plan lacks does not count."""
        starts = tables.of(tables.start, self.kind)[self.further : self.further + len(self.ready)]
        is_early: Ints = (starts < self.ready) & (starts >= 0)
        return is_early

    def sentence(self, tables: TimeTables, stage: int, unit: int, what: str = "its input is there") -> str:
        """Return what is said of an operation that starts before."""
        number = tables.index.row(self.kind, stage + self.further)[unit]
        start, ready = tables.time(tables.start[number]), tables.time(self.ready[stage, unit])
        return f"{tables.index.op(number)} starts at {start}, before {what} at {ready}"


def _too_early(tables: TimeTables) -> Iterator[str]:
    """Yield operations that start before their inputs, with the latency between two devices, are there."""
    ends = {kind: tables.of(tables.end, kind) for kind in tables.index.letters}
    back, model = tables.present("BI"), tables.problem.model
    gradients = np.maximum.reduce([ends[kind] for kind in back or "F"])
    crossing = [_Demand("F", 1, ends["F"][:-1] + model.there)]
    crossing += [_Demand(kind, 0, gradients[1:] + model.back) for kind in back]
    inside = [
        _Demand(after, 0, ends[before]) for before, after in map(tuple, INSIDE) if before in ends and after in ends
    ]
    along = [*_along_slices(tables, ends["F"], gradients)]
    early = [[one.early(tables) for one in demands] for demands in (crossing, inside, along)]
    is_wrong = np.zeros(tables.index.stages, dtype=bool)
    for mask in chain(*early):
        is_wrong[: len(mask)] |= mask.any(axis=1)
    for stage in np.flatnonzero(is_wrong).tolist():
        look()
        for part, (demand, mask) in product(tables.parts, [*zip(crossing, early[0], strict=True)]):
            for unit in np.flatnonzero(mask[stage : stage + 1, part]).tolist():
                yield demand.sentence(tables, stage, part.start + unit)
        for demand, mask in zip(inside, early[1], strict=True):
            for unit in np.flatnonzero(mask[stage]).tolist():
                yield demand.sentence(tables, stage, unit)
        yield from _unsliced(tables, stage, along, [mask[stage] for mask in early[2]])


def _along_slices(tables: TimeTables, forwards: Ints, gradients: Ints) -> Iterator[_Demand]:
    """Yield what slices need of each other: a forward that of the slice before, a gradient that of the one behind."""
    shape = (tables.index.stages, tables.index.microbatches, tables.index.slices)
    if tables.index.slices > 1:
        for kind, ends in (("F", forwards), *((kind, gradients) for kind in tables.present("BI"))):
            ready, parts = np.full(shape, -1, dtype=ends.dtype), ends.reshape(shape)
            late, needed = (slice(1, None), slice(-1)) if kind == "F" else (slice(-1), slice(1, None))
            ready[:, :, late] = parts[:, :, needed]
            yield _Demand(kind, 0, ready.reshape(ends.shape))


def _unsliced(tables: TimeTables, stage: int, along: Sequence[_Demand], early: Sequence[Ints]) -> Iterator[str]:
    """Yield what of a stage starts before the slice that it needs has ended, by the later of both slices."""
    found = sorted((unit + (demand.kind != "F"), at, unit) for at, demand in enumerate(along)
                   for unit in np.flatnonzero(early[at]).tolist())  # fmt: skip
    for _, at, unit in found:
        kind = along[at].kind
        other = tables.index.op(tables.index.row(kind, stage)[unit + (-1 if kind == "F" else 1)])
        yield along[at].sentence(tables, stage, unit, f"the end of {other}")


def _wrong_memory(tables: TimeTables) -> Iterator[str]:
    """Yield devices whose activations have another peak than the schedule claims, where something depends on it."""
    schedule, problem = tables.schedule, tables.problem
    saves = bool(tables.plan.lanes) or "R" in tables.index.letters
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


def _watched(rule: Callable[[TimeTables], Iterator[str]], tables: TimeTables) -> Iterator[str]:
    look()
    return rule(tables)


RULES = (  # each group assumes the ones before
    (_other_problem,),
    (_incomplete, _untimed, _mispaired, incomplete_step),
    (_misplaced, _wrong_lengths, _collisions, _impatient, _too_early, wrong_step),
    (_wrong_memory,),
)
