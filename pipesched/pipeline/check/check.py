"""The independent check of a pipeline schedule.

`check` returns what a schedule breaks, `checked` raises it. Both go through `violations`: its rules stand here in turn,
and the last one replays the memory from the times. What exceeds a budget breaks no rule: `over_budget` says it. Rules
read times by kind, stage and unit (a microbatch, or a slice of one). They compare whole tables, and make sentences
where these differ. With the makers of what they check they share the tables of the problem, and no rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain, islice, product
from pathlib import Path
from typing import Any, NamedTuple

from pipesched.checks import shown
from pipesched.core.arrays import Ints, column, in_range, np, total
from pipesched.core.clock import check_deadline
from pipesched.display import Displayable, from_file
from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.pipeline.check.check_step import (
    TimeTables,
    buffer_changes,
    incomplete_messages,
    incomplete_step,
    level_is,
    wrong_messages,
    wrong_step,
)
from pipesched.pipeline.plan.metrics import ScheduleMetrics
from pipesched.pipeline.plan.plan import mismatch
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import Exact, in_units, plain, to_fraction, whole

Rule = Callable[[TimeTables], Iterator[str]]
MOST_VIOLATIONS = 20


def check(
    schedule: Schedule | Displayable | str | Path | Callable[..., Any], *, problem: Problem | None = None
) -> list[str]:
    """Return the rules of a training step that a schedule breaks, one sentence each; empty if it keeps them all.

    Every operation runs once and on its device, no two at a time on a device or a lane, each after its inputs and its
    wait edges; lengths and memory are what the problem says (docs/explanation/semantics.md). An Outcome stands for its
    schedule, and the name of a file for what it holds; a CSV has the costs of `problem`, by which an algorithm, its
    name or its function, is scheduled. One that keeps all these has a sentence for each device that it lets exceed its
    budget. Raises ConfigError for what is no schedule.
    """
    schedule = from_file(schedule, problem, "schedule")
    schedule = getattr(schedule, "schedule", schedule)
    if not isinstance(schedule, Schedule):
        raise ConfigError(f"must be a Schedule or an Outcome, not {shown(schedule)}", "schedule")
    return list(violations(schedule)) or over_budget(schedule)


def checked(schedule: Schedule) -> Schedule:
    """Return `schedule` itself, when it breaks no rule. Raises InvalidSchedule with what it breaks."""
    broken = list(islice(violations(schedule), MOST_VIOLATIONS))
    if broken:
        what = f"{schedule.plan.name or 'the schedule'} breaks the rules of its problem"
        raise InvalidSchedule(f"{what}: {'; '.join(broken[:3])}", broken)
    return schedule


def violations(schedule: Schedule) -> Iterator[str]:
    """Yield every rule of a training step that the schedule breaks, one sentence each. The budget is no rule here."""
    tables = TimeTables(schedule)
    plan, problem = tables.plan, tables.problem
    absent = {
        "pairs": not plan.pairs,
        "waits": not plan.waits,
        "step": not (problem.has_step or plan.index.scoped or any(plan.network)),
        "messages": not (problem.messages or plan.messages),
    }
    groups: Sequence[Mapping[Rule, str]] = (  # of rules, with what they are about where not all plans have it
        {_other_problem: ""},
        {_incomplete: "", _untimed: "", _mispaired: "pairs", incomplete_step: "step"},
        {incomplete_messages: "messages"},
        {
            **{_misplaced: "", _wrong_lengths: "", _collisions: "", _impatient: "waits", _too_early: ""},
            **{wrong_step: "step", wrong_messages: "messages"},
        },
        {_wrong_memory: ""},
    )
    for rules in groups:
        is_broken = False
        for rule, subject in rules.items():
            if absent.get(subject):
                continue
            check_deadline()
            for sentence in rule(tables):
                is_broken = True
                yield sentence
        if is_broken:
            return  # the next group assumes this one


def _other_problem(tables: TimeTables) -> Iterator[str]:
    """Yield where the plan is for other numbers of devices, stages and microbatches than the problem has."""
    wrong = mismatch(tables.problem, tables.plan)
    if wrong:
        yield wrong


def _incomplete(tables: TimeTables) -> Iterator[str]:
    """Yield what is missing or stands twice: each stage of a microbatch needs one F, and either a B or an I and a W."""
    index, forward_only = tables.index, tables.problem.mode == "forward"
    times_run = np.bincount(tables.planned, minlength=index.passes)
    if index.letters in (("F",) if forward_only else ("FB", "FIW")) and (times_run == 1).all():
        return
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


def _untimed(tables: TimeTables) -> Iterator[str]:
    numbers = tables.planned if tables.start[: tables.index.passes].min() < 0 else column(())
    for number in numbers[tables.start[numbers] < 0].tolist():
        yield f"{tables.index.op(number)} starts before time 0"


def _mispaired(tables: TimeTables) -> Iterator[str]:
    """Yield pairs of other kinds than a forward and a full backward, and pairs that do not start and end together."""
    index, (forwards, backwards) = tables.index, tables.pairs
    f, b = (index.of_kind(kind) for kind in "FB") if "B" in index.letters else (index.of_kind("F"), range(0))
    is_pair = (forwards < f.stop) & (backwards >= b.start) & (backwards < b.stop)
    together = is_pair.copy()
    for values in (tables.start, tables.end):
        together &= values[forwards] == values[backwards]
    for at in np.flatnonzero(~together).tolist():
        both = f"{index.op(int(forwards[at]))} and {index.op(int(backwards[at]))}"
        if not is_pair[at]:
            yield f"{both} are no pair: a forward and a full backward are"
        else:
            yield f"{both} are a pair, but do not start and end together"


def _misplaced(tables: TimeTables) -> Iterator[str]:
    """Yield operations on another device than that of their stage, and transfers on other lanes than that device's."""
    index, where = tables.index, tables.problem.model.where
    if tables.plan.lanes or {*"OL"} & {*index.letters}:
        yield from _misplaced_transfers(tables)
    runs_on = tables.runs_on[: index.passes].reshape(-1, *where.shape)
    is_wrong = (runs_on != where) & (runs_on >= 0)
    for device, order in enumerate(tables.passes if is_wrong.any() else ()):
        for number in order[is_wrong.ravel()[order]].tolist():
            yield f"{index.op(number)} runs on device {device}, not on {tables.homes(number)}"
    forwards, backwards = tables.pairs
    for at in np.flatnonzero(tables.homes(forwards) != tables.homes(backwards)).tolist() if tables.plan.pairs else ():
        pair = f"{index.op(int(forwards[at]))} and {index.op(int(backwards[at]))}"
        yield f"{pair} run together, but their stages live on different devices"


def _misplaced_transfers(tables: TimeTables) -> Iterator[str]:
    index = tables.index
    for number in np.concatenate(tables.passes).tolist():
        if index.op(number).kind in "OL":
            yield f"{index.op(number)} is a transfer, but runs in a slot of a device"
    for lane, order in enumerate(tables.lanes):
        for number in order.tolist():
            kind, home = "OL"[lane % 2], tables.homes(number)
            if index.op(number).kind != kind:
                yield f"{index.op(number)} runs on a lane for {kind}"
            elif home != lane // 2:
                yield f"{index.op(number)} runs on lane {lane // 2}, which is not that of device {home}"


COSTS = {  # which table of the problem says what the operations of each kind last
    **{"F": "forward", "B": "backward", "I": "backward_input", "W": "backward_weight"},
    **{"R": "recompute", "O": "offload", "L": "reload"},
}


def _wrong_lengths(tables: TimeTables) -> Iterator[str]:
    """Yield durations other than an operation's cost, or a pair's; of own lengths, those that end before they start."""
    index, model, start, end = tables.index, tables.problem.model, tables.start, tables.end
    if tables.schedule.own_lengths:
        for number in tables.planned[end[tables.planned] < start[tables.planned]].tolist():
            yield f"{index.op(number)} ends before it starts"
        return
    is_wrong, (f, b), units = np.empty(index.passes, dtype=bool), tables.pairs, index.units
    together = (model.ticks["forward"] if model.overlap is None else model.overlap)[f // units, f % units]
    if model.overlap is None:  # a pair lasts the sum of its parts, else `overlap` by the stage of its forward
        together = together + model.ticks["backward"][b // units % index.stages, b % units]
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

    def sentence(self, tables: TimeTables, stage: int, unit: int, what: str = "its input is there") -> str:
        """Return what is said of an operation that starts before."""
        number = tables.index.row(self.kind, stage + self.further)[unit]
        start, ready = tables.time(tables.begins[number]), tables.time(self.ready[stage, unit])
        gather = "the gather for " if tables.begins[number] < tables.start[number] else ""
        return f"{gather}{tables.index.op(number)} starts at {start}, before {what} at {ready}"


# kinds that follow each other on a stage
INSIDE = [tuple(both) for both in ("FB", "FI", "IW", "FR", "RB", "RI", "FO", "OL", "LB", "LI")]


def _too_early(tables: TimeTables) -> Iterator[str]:
    """Yield operations that start before their inputs, with the latency between two devices, are there."""
    ends = {kind: tables.of(tables.end, kind) for kind in tables.index.letters}
    back, model = [kind for kind in "BI" if kind in ends], tables.problem.model
    begins = tables.start if tables.problem.shard is None else tables.begins
    gradients = np.maximum.reduce([ends[kind] for kind in back or "F"])
    crossing = [_Demand("F", 1, ends["F"][:-1] + model.there)]
    crossing += [_Demand(kind, 0, gradients[1:] + model.back) for kind in back]
    if (problem := tables.problem).rounds > 1:  # a microbatch begins once it has ended the round before, and is sent
        first, last = problem.settled_placement.devices[0], problem.settled_placement.devices[-1]
        link = 0 if problem.links is None else problem.links[last][first]
        late = (to_fraction(problem.costs.p2p[0]) + to_fraction(link)) * problem.ticks.per_unit if first != last else 0
        again = ends["F"][-1][: -problem.batches] + column([int(late)])
        crossing.append(_Demand("F", 0, np.append(np.full(problem.batches, -1), again)[None]))
    inside = [_Demand(after, 0, ends[before]) for before, after in INSIDE if before in ends and after in ends]
    along = [*_along_slices(tables, ends["F"], gradients)] if tables.index.slices > 1 else []
    early = list[list[Ints]]()  # which operations start before; what the plan lacks does not count
    for demands in (crossing, inside, along):
        rows = ((tables.of(begins, one.kind)[one.further :][: len(one.ready)], one.ready) for one in demands)
        early.append([(starts < ready) & (starts >= 0) for starts, ready in rows])
    is_wrong = np.zeros(tables.index.stages, dtype=bool)
    for mask in chain(*early):
        is_wrong[: len(mask)] |= mask.any(axis=1)
    for stage in np.flatnonzero(is_wrong).tolist():
        check_deadline()
        for part, (demand, mask) in product(tables.parts, [*zip(crossing, early[0], strict=True)]):
            for unit in np.flatnonzero(mask[stage : stage + 1, part]).tolist():
                yield demand.sentence(tables, stage, part.start + unit)
        for demand, mask in zip(inside, early[1], strict=True):
            for unit in np.flatnonzero(mask[stage]).tolist():
                yield demand.sentence(tables, stage, unit)
        # what starts before the slice that it needs has ended, by the later of both slices
        found = sorted((unit + (demand.kind != "F"), at, unit) for at, demand in enumerate(along)
                       for unit in np.flatnonzero(early[2][at][stage]).tolist())  # fmt: skip
        for _, at, unit in found:
            kind = along[at].kind
            other = tables.index.op(tables.index.row(kind, stage)[unit + (-1 if kind == "F" else 1)])
            yield along[at].sentence(tables, stage, unit, f"the end of {other}")


def _along_slices(tables: TimeTables, forwards: Ints, gradients: Ints) -> Iterator[_Demand]:
    """Yield what slices need of each other: a forward that of the slice before, a gradient that of the one behind."""
    shape = (tables.index.stages, tables.index.microbatches, tables.index.slices)
    for kind, ends in (("F", forwards), *((kind, gradients) for kind in tables.present("BI"))):
        ready, parts = np.full(shape, -1, dtype=ends.dtype), ends.reshape(shape)
        late, needed = (slice(1, None), slice(-1)) if kind == "F" else (slice(-1), slice(1, None))
        ready[:, :, late] = parts[:, :, needed]
        yield _Demand(kind, 0, ready.reshape(ends.shape))


def _wrong_memory(tables: TimeTables) -> Iterator[str]:
    """Yield devices whose activations have another peak than the schedule claims.

    It is looked at under a budget, and where it is more than a count of activations: a replay costs much time.
    """
    schedule, problem = tables.schedule, tables.problem
    saves = bool(tables.plan.lanes) or "R" in tables.index.letters
    # microbatches do not all hold the same from F to B, and free it then, or a step holds more
    unlike = problem.memory.microbatches is not None or (problem.sizes and len({*problem.sizes.activation}) > 1)
    unlike = unlike or problem.slices.count > 1 or problem.mode == "forward"
    beside = bool(problem.side) or (problem.shard is not None and problem.shard.level in ("gradients", "weights"))
    beside |= bool(problem.messages and problem.memory.receive)
    if problem.memory.budget is None and not (saves or unlike or beside):
        return
    scale = problem.grains.per_unit
    for device, (peak, claim) in enumerate(zip(replayed_peaks(schedule, tables), schedule.peak_grains, strict=True)):
        if peak != claim:
            claimed, true = shown(in_units(claim, scale)), shown(in_units(peak, scale))
            yield f"device {device} reaches {true} {problem.memory.unit}, not {claimed} as the schedule claims"


Changes = tuple[Ints, Ints, Ints]  # devices, times in ticks, and what is taken then (less than 0: freed) in grains


def replayed_peaks(schedule: ScheduleMetrics, tables: TimeTables | None = None) -> list[int]:
    """Return the largest activation memory of each device, in grains; at one time, frees count before takes."""
    tables, problem = TimeTables(schedule) if tables is None else tables, schedule.problem
    changes = [(column(()),) * 3, *_of_passes(tables)]
    if problem.has_step:
        changes += [*_of_stages(tables), *_of_side_work(tables)]
    if problem.messages is not None and problem.memory.receive:
        changes += buffer_changes(tables)
    check_deadline()
    device, time, size = (np.concatenate(parts) for parts in zip(*changes, strict=True))
    size = in_range(size, total(np.maximum(size, 0)))
    by_device = np.argsort(device.astype(np.int32), kind="stable")
    cuts = np.cumsum(np.bincount(device, minlength=problem.devices))[:-1]
    when, highest = 2 * time + (size > 0), list[int]()  # at one time, what frees comes first
    for part in np.split(by_device, cuts):
        check_deadline()
        levels = np.cumsum(size[part][np.argsort(when[part], kind="stable")])
        highest.append(int(np.maximum.reduce(levels, initial=0)))
    return highest


def _of_passes(tables: TimeTables) -> Iterator[Changes]:
    """Yield what passes take as they start and free as they end, kind by kind; what the plan lacks does neither.

    F takes an activation, B frees it. I frees what W does not need of it, or takes what W needs beyond it; W frees what
    is retained. With slices, the backward of the last one runs first, and takes the gradients of keys and values of all
    others, each of which frees its own. Where F is recomputed, it leaves the checkpointed part, and R takes the rest.
    """
    problem, slices, units, held = tables.problem, tables.index.slices, tables.index.units, tables.problem.model.sizes
    whole, left, kept, cached = (held[key] for key in ("activation", "retained", "checkpointed", "cached"))
    is_last = np.arange(units) % slices == slices - 1
    of_all = np.repeat(np.add.reduceat(cached, np.arange(0, units, slices), axis=1), slices, axis=1)
    own, of_others = np.where(is_last, 0, cached), np.where(is_last, of_all - cached, 0)  # of keys and values
    takes = {"F": whole, "R": whole - kept, "L": whole, "B": of_others, "I": np.maximum(left - whole, 0) + of_others}
    frees = {"O": whole, "B": whole + own, "I": np.maximum(whole - left, 0) + own, "W": left}
    if problem.mode == "forward":
        is_last &= np.arange(units) >= units - problem.batches * slices  # it frees those of all rounds
        frees = {"F": whole - cached + np.where(is_last, of_all, 0) * problem.rounds}
    for kind in tables.index.letters:
        starts, ends = (tables.of(values, kind) for values in (tables.start, tables.end))
        changes = [(starts, takes[kind])] if kind in takes else []
        changes += [(ends, -frees[kind])] if kind in frees else []
        changes += [(tables.of(tables.end, "F"), kept - whole)] if kind == "R" else []
        planned = starts >= 0
        for time, size in changes:
            if size.any():
                check_deadline()
                there = ... if planned.all() else planned
                yield problem.model.where[there].ravel(), time[there].ravel(), size[there].ravel()


def _of_stages(tables: TimeTables) -> Iterator[Changes]:
    """Yield whole weights from UNSHARD to RESHARD, and whole gradients from the first B or W to their reduction."""
    problem, there = tables.problem, tables.there
    if level_is(problem, "weights"):
        whole = _grains(problem, problem.memory.weights)
        for kind, sign in (("UNSHARD", 1), ("RESHARD", -1)):
            numbers, stages = tables.scoped(kind)
            yield there[stages], tables.start[numbers], sign * whole[stages]
    if level_is(problem, "gradients", "weights") and problem.mode == "train":
        late = tables.end.max()  # what a plan lacks starts below 0
        shape = tables.index.stages, -1, tables.width
        rows = [tables.of(tables.start, kind).reshape(shape) for kind in tables.present("BW")]
        first = np.minimum.reduce([np.where(row < 0, late, row).min(axis=2) for row in rows])
        numbers, stages = tables.scoped("REDUCE_GRAD")
        sizes = _grains(problem, problem.memory.gradients)[stages]
        yield there[stages], first.ravel(), sizes
        yield there[stages], tables.end[numbers], -sizes


def _of_side_work(tables: TimeTables) -> Iterator[Changes]:
    """Yield activations of side work, its outputs until they are used, and the gradients of these until then."""
    index, start, end = tables.index, tables.start, tables.end
    for side, item in enumerate(tables.problem.side):
        check_deadline()
        forwards, lasts = (column(index.row(kind, side)) for kind in ("E", "E" if item.backward is None else "G"))
        sizes = _grains(tables.problem, (item.activation, item.output))
        held, output = np.repeat(sizes[:, None], len(forwards), axis=1)
        runs_on, into = tables.runs_on[forwards], np.full(len(forwards), tables.there[item.into])
        yield runs_on, start[forwards], held
        yield runs_on, end[lasts], -held
        yield into, end[forwards], output
        yield into, start[column(index.row("F", item.into))[:: index.slices]], -output
        if item.backward is not None:
            rows = [tables.of(end, kind)[item.into].reshape(-1, index.slices) for kind in tables.present("BI")]
            yield into, np.maximum.reduce([row.max(axis=1) for row in rows]), output
            yield into, start[lasts], -output


def _grains(problem: Problem, sizes: Iterable[Exact]) -> Ints:
    return column(whole(sizes, problem.grains.per_unit))


def over_budget(schedule: Schedule) -> list[str]:
    """Return a sentence for each device that exceeds its budget."""
    return [
        f"device {one['device']} holds {round(one['memory'], 6)} of {round(one['budget'], 6)}"
        f" {schedule.problem.memory.unit}: over the budget by {round(one['memory'] - one['budget'], 6)}"
        for one in excesses(schedule)
    ]


DIVIDED_AT = {  # the levels that divide what a rank keeps of a stage
    "weights": ("weights",),
    "gradients": ("gradients", "weights"),
    "states": ("optimizer", "gradients", "weights"),
}


def excesses(schedule: Schedule) -> list[dict[str, int | float]]:
    """Return each device that exceeds its budget, and what it holds: its peak, computed anew, and static memory."""
    problem, placement = schedule.problem, schedule.problem.settled_placement
    if problem.memory.budget is None:
        return []
    held = [Fraction(peak, problem.grains.per_unit) for peak in replayed_peaks(schedule)]
    for devices in placement.ways:
        for stage, (size, there) in enumerate(zip(problem.memory.static, devices, strict=True)):
            held[there] += to_fraction(size)
            for key, levels in DIVIDED_AT.items():
                parts = problem.shard.ranks if problem.shard is not None and level_is(problem, *levels) else 1
                held[there] += to_fraction(getattr(problem.memory, key)[stage]) / parts
    for item in problem.side:
        for device in item.devices:
            held[device] += to_fraction(item.static)
    rows = enumerate(zip(held, map(to_fraction, problem.memory.budget), strict=True))
    return [{"device": at, "memory": plain(most), "budget": plain(limit)} for at, (most, limit) in rows if most > limit]
