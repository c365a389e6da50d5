"""One plan on many cuts of layers into stages: makespans and memory of all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from copy import copy
from functools import cached_property
from math import lcm
from typing import NamedTuple

from pipesched.core.arrays import Ints, column, np
from pipesched.core.clock import look
from pipesched.core.tasks import Edges
from pipesched.pipeline.layers.recut import at_spans, ends_of, kinds_of_items
from pipesched.pipeline.plan.lowering import lower
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.problem.problem import Problem
from pipesched.schedulers.ordering import LARGEST, SlotSweep, SlotTimes, UnitTables, tables_of

Span = tuple[int, int]  # of items


class _CutSlots(SlotSweep):
    """The slots of a plan; cases are cuts: `fed` says for each stage which entry of a table is its items'.

    A table has an axis of rows, one of units (`columns` of them: 1 where all are alike), and one of entries.
    """

    def __init__(self, plan: Plan, edges: Edges, columns: int) -> None:
        super().__init__(plan, edges)
        self.columns = columns

    def picked(self, table: Ints, fed: Ints) -> Ints:
        return self._picked(table, fed, np.arange(len(table)) % len(fed))

    def _picked(self, table: Ints, fed: Ints, stages: Ints) -> Ints:
        if self.columns == 1:
            one: Ints = table[np.arange(len(table))[:, None], 0, fed[stages]]
            return one
        found: Ints = table.transpose(0, 2, 1)[np.arange(len(table))[:, None], fed[stages]]
        several: Ints = found.transpose(0, 2, 1).reshape(-1, fed.shape[1])
        return several

    def cells(self, places: Ints) -> Ints:
        units = self.plan.index.units
        found: Ints = places // units if self.columns == 1 else places
        return found

    def delays(self, hops: Ints, fed: Ints) -> Ints | None:
        if not hops.any():
            return None
        behind = np.minimum(np.arange(len(hops)) % len(fed) + 1, len(fed) - 1)  # the stage that a boundary is before
        found: Ints = self._picked(hops, fed, behind)[self.cells(self.messages)]
        return found


class CutPath(NamedTuple):
    """A longest path of a cut: how often it takes each cell of the durations, and its latencies."""

    counts: Ints
    latency: int


class _CutEntry(NamedTuple):
    """An entry of each stage: its tables, its static memory, and the scales of both."""

    tables: UnitTables
    static: Ints
    per_unit: int
    grains: int


class CutTimes(SlotTimes):
    """What a plan takes on cuts of a problem whose cut is open; the order of the plan is kept.

    Cuts are rows of an array: the item behind each stage. Tables are made of stages of such items as come; times and
    sizes are on scales that grow where one of them needs it.
    """

    _slots: _CutSlots

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem, self.plan = problem, plan
        base = problem.model
        is_alike = base.is_plain and not problem.settled_placement.mirrored
        self._edges, columns = lower(problem, plan.index).edges, 1 if is_alike else plan.index.units
        self._slots = _CutSlots(plan, self._edges, columns)
        self._where, self._knows_pairs = base.where, base.overlap is not None
        self._kinds = kinds_of_items(problem)
        self._by_place = problem.layers is not None and problem.layers.p2p is not None  # latencies before stages
        self._is_one_kind = len({*self._kinds[1:-1]}) <= 1 and not self._by_place
        self._entries: list[dict[Hashable, int]] = [{} for _ in range(problem.stages)]
        self._by_code: dict[int, int] = {}
        self._codes = column([-1]), column([-1])  # in ascending order, and their entries
        self._parts: list[_CutEntry] = []
        self.per_unit, self.grains = problem.ticks.per_unit, problem.grains.per_unit
        own = ends_of(problem)
        self._own = [*zip((0, *own), own, strict=False)]
        self._known = 0

    def under(self, plan: Plan) -> CutTimes:
        """Return the same of another plan, which replace these: of the same operations they keep what is known."""
        if plan.index != self.plan.index:
            return CutTimes(self.problem, plan)
        other = copy(self)
        other.plan, other._slots = plan, _CutSlots(plan, self._edges, self.columns)
        for name in ("_tables", "_lasting", "_giving", "_lag", "_rows_of_pools"):  # of its slots
            vars(other).pop(name, None)
        return other

    @property
    def columns(self) -> int:
        """The units in the tables: 1 where all are alike."""
        return self._slots.columns

    def makespans(self, ends: Ints) -> Ints:
        """Return the makespan of each cut, in ticks of `per_unit`."""
        return self._in_parts(ends, self._makespans)

    def held(self, ends: Ints) -> Ints:
        """Return the most that each device holds, less its budget where there is one: a row a device, in grains."""
        return self._in_parts(ends, lambda fed: self._peaks(fed) + self._kept(fed))

    def _timed(self, fed: Ints) -> tuple[Ints, Ints]:
        if self._by_place:
            return super()._timed(fed)
        tables, slots = self._tables, self._slots
        lengths = slots.values(tables.ticks, fed, self._lasting, with_partners=not self._knows_pairs)
        return lengths, slots.sweep.ends(lengths, None, self._lag)

    @cached_property
    def _lag(self) -> Ints | None:
        """What each wait lasts longer than the end of another, on all cuts."""
        delays = self._slots.delays(self._tables.hops, np.zeros((self.problem.stages, 1), np.int64))
        return None if delays is None else np.ascontiguousarray(delays[:, 0])

    def path(self, ends: Ints) -> CutPath:
        """Return a longest path of a cut, of one row."""
        fed, slots, tables = self._fed(ends), self._slots, self._tables
        lengths, finished = self._timed(fed)
        delays = slots.delays(tables.hops, fed)
        on = slots.sweep.longest(finished, delays)[:, 0].astype(bool)
        size = len(tables.ticks) * slots.columns
        counts = np.bincount(slots.cells(self._lasting[on]), minlength=size)
        if len(slots.paired) and not self._knows_pairs:
            counts += np.bincount(slots.cells(slots.partners[on[slots.paired]]), minlength=size)
        return CutPath(counts, int(finished.max()) - int(lengths[on].sum()))

    def at_least(self, path: CutPath, ends: Ints) -> Ints:
        """Return what each cut takes at least: the path of another one."""
        some = np.flatnonzero(path.counts)

        def measure(fed: Ints) -> Ints:
            cells = self._slots.picked(self._tables.ticks, fed)
            found: Ints = path.counts[some] @ cells[some] + path.latency
            return found

        return self._in_parts(ends, measure)

    def _in_parts(self, ends: Ints, measure: Callable[[Ints], Ints]) -> Ints:
        fed, found, size = self._fed(ends), [], self.together
        for first in range(0, len(ends), size):
            look()
            found.append(measure(fed[:, first : first + size]))
        return np.concatenate(found, axis=-1)

    def _fed(self, ends: Ints) -> Ints:
        """Return the entry of each stage of each cut; entries that are not known yet are made."""
        lengths = np.diff(ends, axis=1, prepend=0)
        stages = np.arange(self.problem.stages)
        codes = lengths if self._is_one_kind else (ends - lengths) * (len(self._kinds) + 1) + lengths
        codes = codes * self.problem.stages + stages
        fed = self._entry_of(codes)
        if (fed < 0).any():
            missing: list[list[Span]] = [[] for _ in stages]
            at = np.unique(codes[fed < 0], return_index=True)[1]
            for case, stage in np.argwhere(fed < 0)[at].tolist():
                end = int(ends[case, stage])
                span = end - int(lengths[case, stage]), end
                number = self._entries[stage].setdefault(self._key(span), self._known + len(missing[stage]))
                if number == self._known + len(missing[stage]):
                    missing[stage].append(span)
                self._by_code[int(codes[case, stage])] = number
            self._make(missing)
            fed = self._entry_of(codes)
        entries: Ints = fed.T
        return entries

    def _entry_of(self, codes: Ints) -> Ints:
        """Return the entries of stages by their codes, -1 for those that are not known."""
        known, entries = self._codes
        places = np.minimum(np.searchsorted(known, codes), len(known) - 1)
        found: Ints = np.where(known[places] == codes, entries[places], -1)
        return found

    def _key(self, span: Span) -> Hashable:
        """Return what of some items counts in a stage."""
        begin, end = span
        if self._is_one_kind:
            return end - begin, begin == 0, end == len(self._kinds)
        return tuple(self._kinds[begin:end]), begin if self._by_place else 0

    def _make(self, missing: list[list[Span]]) -> None:
        """Make entries: each of a problem, whose stages are some that are missing."""
        most = max(map(len, missing))
        pairs = sorted(self._by_code.items())
        self._codes = column([code for code, _ in pairs]), column([number for _, number in pairs])
        for number in range(most):
            look()
            rows = zip(missing, self._own, strict=True)
            made = at_spans(self.problem, [new[number] if number < len(new) else own for new, own in rows])
            tables = tables_of(made.model, self.plan.index)
            tables = UnitTables(*(table[:, : self._slots.columns] for table in tables))
            part = _CutEntry(tables, column(made.grains.static), made.ticks.per_unit, made.grains.per_unit)
            self._parts.append(part)
            self.per_unit, self.grains = lcm(self.per_unit, part.per_unit), lcm(self.grains, part.grains)
        self._known += most
        vars(self).pop("_tables", None)
        vars(self).pop("_static", None)
        vars(self).pop("_lag", None)

    @cached_property
    def _tables(self) -> UnitTables:  # type: ignore[override]
        """The tables of all entries, on the scales of all."""
        rows = [(part, self.per_unit // part.per_unit, self.grains // part.grains) for part in self._parts]
        each = [
            [table * by for table, by in zip(part.tables, (ticks, ticks, grains, grains), strict=True)]
            for part, ticks, grains in rows
        ]
        tables = UnitTables(*(np.stack(column, axis=-1) for column in zip(*each, strict=True)))
        longest = self.slots * (2 * int(tables.ticks.max()) + int(tables.hops.max()))
        largest = max(longest, 2 * self.slots * max(int(tables.takes.max()), int(tables.gives.max())))
        kind = np.int64 if largest < LARGEST else object
        return UnitTables(*(np.ascontiguousarray(table, dtype=kind) for table in tables))

    @cached_property
    def _static(self) -> Ints:
        """The static memory of each stage and entry, on the scale of all."""
        return np.stack([part.static * (self.grains // part.grains) for part in self._parts], axis=-1)

    def _kept(self, fed: Ints) -> Ints:
        """Return the static memory of each device, less its budget."""
        problem, placement, stages = self.problem, self.problem.settled_placement, np.arange(len(fed))[:, None]
        sizes = self._static[stages, fed]
        scale, own = self.grains // problem.grains.per_unit, problem.grains.static
        budget = problem.grains.budget or (0,) * problem.devices
        rows = []
        for device in range(problem.devices):
            its = placement.stages_on(device)
            beside = problem.static_grains(device) - sum(own[stage] for stage in its)  # of side work
            rows.append(sizes[its].sum(axis=0) + scale * (beside - budget[device]))
        return np.array(rows)
