"""What devices hold at most, for the check: restated from the rules of memory, the sizes and the times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cached_property
from typing import Any

from pipesched.checks import shown
from pipesched.core.arrays import Ints, column, in_range, np, total
from pipesched.core.clock import look
from pipesched.pipeline.check_program import level_is, reduces_each, step_columns
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import Exact, in_units, plain, to_fraction
from pipesched.pipeline.schedule import Schedule

Changes = tuple[Ints, Ints, Ints]  # devices, times in ticks, and what is taken then (less than 0: freed) in grains
DIVIDED_AT = {  # the levels that divide what a rank keeps of a stage
    "weights": ("weights",),
    "gradients": ("gradients", "weights"),
    "states": ("optimizer", "gradients", "weights"),
}


class TimeTables:
    """The times of a schedule by kind, stage and unit, beside the tables of its problem."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.problem, self.plan = schedule, schedule.problem, schedule.plan
        self.index = self.plan.index
        self.start, self.end = (_with_room(values) for values in (schedule.times.start, schedule.times.end))
        devices = len(self.plan.orders)
        self.orders, self.lanes = (
            self.plan.lines[:devices],
            self.plan.lines[devices : devices + 2 * len(self.plan.lanes)],
        )
        self.pairs = column(self.plan.pairs.keys()), column(self.plan.pairs.values())

    def of(self, values: Ints, kind: str) -> Ints:
        """Return the part of a column that is of one kind of passes, by stage and unit."""
        row = self.index.of_kind(kind)
        table: Ints = values[row.start : row.stop].reshape(self.index.stages, self.index.units)
        return table

    def grouped(self, values: Ints, kind: str, width: int) -> Ints:
        """Return the same by stage, and by groups of so many units."""
        groups: Ints = self.of(values, kind).reshape(self.index.stages, -1, width)
        return groups

    def scoped(self, kind: str) -> tuple[Ints, Ints]:
        """Return the operations of a kind of the step, and the stage, or side item, of each."""
        columns = step_columns(self.index)
        there = np.flatnonzero(columns.kind == kind)
        return there + self.index.passes, columns.stage[there]

    def present(self, kinds: str) -> list[str]:
        """Return those of some kinds of passes that the plan may have."""
        return [kind for kind in kinds if kind in self.index.letters]

    @cached_property
    def passes(self) -> list[Ints]:
        """The orders of the devices without optimizers and side work."""
        return [order[order < self.index.passes] for order in self.orders] if self.index.scoped else self.orders

    @cached_property
    def planned(self) -> Ints:
        """All operations of passes in the plan."""
        beside = np.concatenate([*self.lanes, self.pairs[1]])
        return np.concatenate([*self.passes, beside[beside < self.index.passes]])

    @property
    def has_each_once(self) -> bool:
        """Whether the plan has each operation of passes once."""
        lines = [*self.passes, *self.lanes, self.pairs[1]]
        if sum(map(len, lines)) != self.index.passes:
            return False
        is_there = np.zeros(self.index.size, dtype=bool)
        for line in lines:
            is_there[line] = True
        return bool(is_there[: self.index.passes].all())

    @property
    def parts(self) -> list[slice]:
        """The units of each run of microbatches that go the same way through the pipeline."""
        return [self.index.in_units(way.microbatches) for way in self.problem.model.ways]

    def homes(self, numbers: Ints | int) -> Any:
        """Return the devices of the stages of passes."""
        where = self.problem.model.where
        return where[numbers // self.index.units % self.index.stages, numbers % self.index.units]

    @cached_property
    def width(self) -> int:
        """How many units a reduction of gradients is of."""
        return self.index.slices if reduces_each(self.problem) else self.index.units

    @cached_property
    def there(self) -> Ints:
        """The device of each stage, of a problem that has a step."""
        return np.array(self.problem.settled_placement.devices)

    @cached_property
    def runs_on(self) -> Ints:
        """The device of each slot; -1 for what is none."""
        device = np.full(self.index.size, -1)
        for number, order in enumerate(self.orders):
            device[order] = number
        return device

    def time(self, ticks: int) -> str:
        """Return ticks in the user's unit, as text."""
        return shown(in_units(int(ticks), self.problem.ticks.per_unit))


def _with_room(values: Ints) -> Ints:
    """Return times to which the longest durations can be added, as Python integers where 64 bits hold no sums."""
    return in_range(values, 2 * max(abs(int(values.max())), abs(int(values.min()))) if len(values) else 0)


def replayed_peaks(schedule: Schedule) -> list[int]:
    """Return the largest activation memory of each device, in grains; at one time, frees count before takes."""
    tables = TimeTables(schedule)
    changes = [(column(()),) * 3, *_of_passes(tables)]
    if schedule.problem.has_step:
        changes += [*_of_stages(tables), *_of_side_work(tables)]
    look()
    device, time, size = (np.concatenate(parts) for parts in zip(*changes, strict=True))
    size = in_range(size, total(np.maximum(size, 0)))
    by_device = np.argsort(device.astype(np.int32), kind="stable")
    cuts = np.cumsum(np.bincount(device, minlength=schedule.problem.devices))[:-1]
    when = 2 * time + (size > 0)
    return [_highest(when[part], size[part]) for part in np.split(by_device, cuts)]


def _highest(when: Ints, size: Ints) -> int:
    """Return the highest level that changes lead to."""
    look()
    levels = np.cumsum(size[np.argsort(when, kind="stable")])
    return int(np.maximum.reduce(levels, initial=0))


def _of_passes(tables: TimeTables) -> Iterator[Changes]:
    """Yield what passes take as they start and free as they end, kind by kind; what the plan lacks does neither."""
    problem, slices, held = tables.problem, tables.index.slices, tables.problem.model.sizes
    whole, left, kept, cached = (held[key] for key in ("activation", "retained", "checkpointed", "cached"))
    others = cached - _at_last(cached, slices, every=False)  # gradients of keys and values of all slices but the last
    takes = {"F": whole, "R": whole - kept, "L": whole, "I": np.maximum(left - whole, 0)}
    frees = {"O": whole, "B": whole + others, "I": np.maximum(whole - left, 0) + others, "W": left}
    if problem.mode == "forward":
        frees = {"F": whole - cached + _at_last(cached, slices)}
    for kind in tables.index.letters:
        starts, ends = (tables.of(values, kind) for values in (tables.start, tables.end))
        planned = starts >= 0
        if kind in takes:
            yield from _sized(tables, planned, starts, takes[kind])
        if kind in frees:
            yield from _sized(tables, planned, ends, -frees[kind])
        if kind in "BI":  # the backward of the last slice, which is the first, takes those of all
            yield from _sized(tables, planned, starts, _at_last(others, slices))
        if kind == "R":
            yield from _sized(tables, planned, tables.of(tables.end, "F"), kept - whole)


def _sized(tables: TimeTables, planned: Ints, time: Ints, size: Ints) -> Iterator[Changes]:
    """Yield the changes of a kind that are planned, if they are of any size."""
    if size.any():
        look()
        there = ... if planned.all() else planned
        yield tables.problem.model.where[there].ravel(), time[there].ravel(), size[there].ravel()


def _at_last(sizes: Ints, slices: int, *, every: bool = True) -> Ints:
    """Return at the last slice of each microbatch the sum of all its slices, or its own alone; 0 at the others."""
    parts = sizes.reshape(len(sizes), -1, slices)
    found = np.zeros(parts.shape, dtype=sizes.dtype)
    found[:, :, -1] = parts.sum(axis=2) if every else parts[:, :, -1]
    there: Ints = found.reshape(sizes.shape)
    return there


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
        rows = [tables.grouped(tables.start, kind, tables.width) for kind in tables.present("BW")]
        first = np.minimum.reduce([np.where(row < 0, late, row).min(axis=2) for row in rows])
        numbers, stages = tables.scoped("REDUCE_GRAD")
        sizes = _grains(problem, problem.memory.gradients)[stages]
        yield there[stages], first.ravel(), sizes
        yield there[stages], tables.end[numbers], -sizes


def _of_side_work(tables: TimeTables) -> Iterator[Changes]:
    """Yield activations of side work, its outputs until they are used, and the gradients of these until then."""
    index, start, end = tables.index, tables.start, tables.end
    for side, item in enumerate(tables.problem.side):
        look()
        forwards, lasts = (column(index.row(kind, side)) for kind in ("E", "E" if item.backward is None else "G"))
        sizes = _grains(tables.problem, (item.activation, item.output))
        held, output = np.repeat(sizes[:, None], len(forwards), axis=1)
        runs_on, into = tables.runs_on[forwards], np.full(len(forwards), tables.there[item.into])
        yield runs_on, start[forwards], held
        yield runs_on, end[lasts], -held
        yield into, end[forwards], output
        yield into, start[column(index.row("F", item.into))[:: index.slices]], -output
        if item.backward is not None:
            rows = [tables.grouped(end, kind, index.slices)[item.into] for kind in tables.present("BI")]
            yield into, np.maximum.reduce([row.max(axis=1) for row in rows]), output
            yield into, start[lasts], -output


def _grains(problem: Problem, sizes: Iterable[Exact]) -> Ints:
    return column(int(to_fraction(size) * problem.grains.per_unit) for size in sizes)


def excesses(schedule: Schedule) -> list[dict[str, int | float]]:
    """Return each device that exceeds its budget, and what it holds: its peak, computed anew, and static memory."""
    problem, placement = schedule.problem, schedule.problem.settled_placement
    if problem.memory.budget is None:
        return []
    held = [Fraction(peak, problem.grains.per_unit) for peak in replayed_peaks(schedule)]
    for stage, (size, device) in enumerate(zip(problem.memory.static, placement.devices, strict=True)):
        for there in (device, placement.last - device) if placement.mirrored else (device,):
            held[there] += to_fraction(size) + _kept_of(problem, stage)
    for item in problem.side:
        for device in item.devices:
            held[device] += to_fraction(item.static)
    rows = enumerate(zip(held, map(to_fraction, problem.memory.budget), strict=True))
    return [{"device": at, "memory": plain(most), "budget": plain(limit)} for at, (most, limit) in rows if most > limit]


def _kept_of(problem: Problem, stage: int) -> Fraction:
    """Return what stays of the weights, the gradients and the optimizer states of a stage."""
    kept = Fraction(0)
    for key, levels in DIVIDED_AT.items():
        parts = problem.shard.ranks if problem.shard is not None and level_is(problem, *levels) else 1
        kept += to_fraction(getattr(problem.memory, key)[stage]) / parts
    return kept
