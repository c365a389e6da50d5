"""One plan on many cuts of layers into stages (`CutTimes`): makespans and memory of all of them at once.

The search for the best cut asks `makespans` and `held` of many cuts, each a row of ends. `_fed` finds for each stage
the entry of its items in tables of times and sizes; where it is missing, `_make` makes a problem with such stages.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from copy import copy
from functools import cached_property
from itertools import chain, islice
from math import lcm
from typing import NamedTuple

from pipesched.core.arrays import Ints, column, np
from pipesched.core.clock import check_deadline
from pipesched.core.tasks import Edges
from pipesched.pipeline.layers.recut import at_spans, ends_of, kinds_of_items
from pipesched.pipeline.plan.lowering import lower
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.problem.problem import Problem
from pipesched.schedulers.ordering import LARGEST, SlotSweep, SlotTimes, UnitTables, tables_of

Span = tuple[int, int]  # of items


class _CutSlots(SlotSweep):
    """The slots of a plan; cases are cuts: `fed` says for each stage which entry of a table is its items'.

    A table has an axis of kinds, one of units (`columns` of them: 1 where all are alike), and one of entries.
    """

    def __init__(self, plan: Plan, edges: Edges, columns: int) -> None:
        super().__init__(plan, edges)
        self.columns = columns

    def picked(self, table: Ints, fed: Ints) -> Ints:
        several: Ints = table.take(fed, axis=2).transpose(0, 2, 1, 3).reshape(-1, fed.shape[1])
        return several

    def cells(self, places: Ints) -> Ints:
        units = self.plan.index.units
        found: Ints = places // units if self.columns == 1 else places
        return found

    def delays(self, hops: Ints, fed: Ints) -> Ints | None:
        """Return what waits last longer than the ends of others; `hops` has a row a boundary and way."""
        if not hops.any():
            return None
        stages = len(fed)
        behind = np.minimum(np.arange(len(hops)) % stages + 1, stages - 1)  # the stage that a boundary is before
        picked = hops[np.arange(len(hops))[:, None], :, fed[behind] // stages].transpose(0, 2, 1)
        found: Ints = picked.reshape(-1, fed.shape[1])[self.cells(self.messages)]
        return found


class CutPath(NamedTuple):
    """A longest path of a cut: how often it takes each cell of the durations, its latencies, and their scale."""

    counts: Ints
    latency: int
    per_unit: int


class CutTimes(SlotTimes):
    """What a plan takes on cuts of a problem whose cut is open; the order of the plan is kept.

    Cuts are rows of an array: the item behind each stage. Tables are made of problems with stages of such items as
    come; times and sizes are on scales that grow where one of them needs it. An entry, the last axis of a table, is
    some items (`Span`, known by a code) as a stage. Stages with the same costs, a home, have their entries in common.
    """

    _slots: _CutSlots

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem, self.plan = problem, plan
        base = problem.model
        is_alike = base.is_plain and not problem.settled_placement.mirrored
        self.columns = 1 if is_alike else plan.index.units  # in the tables: 1 where all units are alike
        self._edges = lower(problem, plan.index).edges
        self._slots = _CutSlots(plan, self._edges, self.columns)
        self._where, self._knows_pairs = base.where, base.overlap is not None
        self._kinds = kinds_of_items(problem)
        self._by_place = problem.layers is not None and problem.layers.p2p is not None  # latencies before stages
        self._is_one_kind = len({*self._kinds[1:-1]}) <= 1 and not self._by_place
        # where items cost the same on every stage but the ends, these have their entries in common
        is_shared = not (problem.cutter or problem.speed or problem.slices.count > 1 or self._by_place)
        last, inner = problem.stages - 1, [*range(1, problem.stages - 1)]
        homes = [[0], *([inner] if is_shared else [[one] for one in inner]), [last] if last else []]
        self._homes = [home for home in homes if home]
        self._home_of = [number for number, home in enumerate(self._homes) for _ in home]
        self._entries: list[dict[Hashable, int]] = [{} for _ in self._homes]
        self._by_code: dict[int, int] = {}
        self._codes = column([-1]), column([-1])  # in ascending order, and their entries
        # of one problem each, an entry of each stage: its tables, its static memory, and the scales of both
        self._parts: list[tuple[UnitTables, Ints, int, int]] = []
        self.per_unit, self.grains = problem.ticks.per_unit, problem.grains.per_unit
        own = ends_of(problem)
        self._own = [*zip((0, *own), own, strict=False)]

    def under(self, plan: Plan) -> CutTimes:
        """Return the same of another plan, which replace these: of the same operations they keep what is known."""
        if plan.index != self.plan.index:
            return CutTimes(self.problem, plan)
        other = copy(self)
        other.plan, other._slots = plan, _CutSlots(plan, self._edges, self.columns)
        for name in ("_tables", "_lasting", "_giving", "_lag", "_rows_of_pools", "_changes"):  # of its slots
            vars(other).pop(name, None)
        return other

    def held(self, ends: Ints) -> Ints:
        """Return the most that each device holds, less its budget where there is one: a row a device, in grains."""
        problem, budget = self.problem, self.problem.grains.budget or (0,) * self.problem.devices

        def measure(fed: Ints) -> Ints:
            sizes, own, rows = self._static[fed], problem.grains.static, []
            scale = self.grains // problem.grains.per_unit
            for device in range(problem.devices):
                its = problem.settled_placement.stages_on(device)
                beside = problem.static_grains[device] - sum(own[stage] for stage in its)  # of side work
                rows.append(sizes[its].sum(axis=0) + scale * (beside - budget[device]))
            found: Ints = self._peaks(fed) + np.array(rows)
            return found

        return self._in_parts(ends, measure)

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
        size = len(tables.ticks) * self.problem.stages * slots.columns
        counts = np.bincount(slots.cells(self._lasting[on]), minlength=size)
        if len(slots.paired) and not self._knows_pairs:
            counts += np.bincount(slots.cells(slots.partners[on[slots.paired]]), minlength=size)
        return CutPath(counts, int(finished.max()) - int(lengths[on].sum()), self.per_unit)

    def at_least(self, path: CutPath, ends: Ints) -> Ints:
        """Return what each cut takes at least: the path of another one."""
        some = np.flatnonzero(path.counts)

        def measure(fed: Ints) -> Ints:
            cells = self._slots.picked(self._tables.ticks, fed)
            found: Ints = path.counts[some] @ cells[some] + path.latency * (self.per_unit // path.per_unit)
            return found

        return self._in_parts(ends, measure)

    def _fed(self, ends: Ints) -> Ints:
        """Return the entry of each stage of each cut; entries that are not known yet are made."""
        lengths = np.diff(ends, axis=1, prepend=0)
        stages = np.arange(self.problem.stages)
        codes = lengths if self._is_one_kind else (ends - lengths) * (len(self._kinds) + 1) + lengths
        codes = codes * self.problem.stages + stages
        fed = self._entry_of(codes)
        if (fed < 0).any():
            missing: list[list[Span]] = [[] for _ in self._homes]
            at = np.unique(codes[fed < 0], return_index=True)[1]
            for case, stage in np.argwhere(fed < 0)[at].tolist():
                end = int(ends[case, stage])
                span, home = (end - int(lengths[case, stage]), end), self._home_of[stage]
                self._by_code[int(codes[case, stage])] = self._entry(span, home, missing[home])
            problems = max(-(-len(new) // len(home)) for new, home in zip(missing, self._homes, strict=True))
            for home, new in enumerate(missing):  # where there is room, what a search will probably ask for next
                near = chain.from_iterable(self._beside(*span) for span in [*new])
                for span in islice(near, problems * len(self._homes[home]) - len(new)):
                    self._entry(span, home, new)
            self._make(missing, problems)
            fed = self._entry_of(codes)
        entries: Ints = fed.T
        return entries

    def _entry(self, span: Span, home: int, missing: list[Span]) -> int:
        """Return the entry of some items; where it is new, they are missing."""
        problem, place = divmod(len(missing), len(self._homes[home]))
        new = (len(self._parts) + problem) * self.problem.stages + self._homes[home][place]
        begin, end = span
        key: Hashable = (end - begin, begin == 0, end == len(self._kinds))  # what of some items counts in a stage
        if not self._is_one_kind:
            key = tuple(self._kinds[begin:end]), begin if self._by_place else 0
        number = self._entries[home].setdefault(key, new)
        if number == new:
            missing.append(span)
        return number

    def _beside(self, begin: int, end: int) -> Iterator[Span]:
        """Yield items of one more or one less at either end that is not the first or the last one of all."""
        if begin:
            yield from ((one, end) for one in (begin - 1, begin + 1) if 0 < one < end)
        if end < len(self._kinds):
            yield from ((begin, one) for one in (end - 1, end + 1) if begin < one < len(self._kinds))

    def _entry_of(self, codes: Ints) -> Ints:
        """Return the entries of stages by their codes, -1 for those that are not known."""
        known, entries = self._codes
        places = np.minimum(np.searchsorted(known, codes), len(known) - 1)
        found: Ints = np.where(known[places] == codes, entries[places], -1)
        return found

    def _make(self, missing: list[list[Span]], problems: int) -> None:
        """Make entries of the spans that are missing, by home, of so many problems."""
        pairs = sorted(self._by_code.items())
        self._codes = column([code for code, _ in pairs]), column([number for _, number in pairs])
        rows = [iter(one) for one in missing]
        for _ in range(problems):
            check_deadline()
            spans = [next(rows[home], own) for home, own in zip(self._home_of, self._own, strict=True)]
            made = at_spans(self.problem, spans)
            tables = UnitTables(*(table[:, : self.columns] for table in tables_of(made.model, self.plan.index)))
            ticks, grains = made.ticks.per_unit, made.grains.per_unit
            self._parts.append((tables, column(made.grains.static), ticks, grains))
            self.per_unit, self.grains = lcm(self.per_unit, ticks), lcm(self.grains, grains)
        for name in ("_tables", "_static", "_lag"):
            vars(self).pop(name, None)

    @cached_property
    def _tables(self) -> UnitTables:  # type: ignore[override]
        """The tables of all entries, on the scales of all."""
        each = []
        for tables, _, per_unit, of_grains in self._parts:
            ticks, grains = self.per_unit // per_unit, self.grains // of_grains
            each.append([table * by for table, by in zip(tables, (ticks, ticks, grains, grains), strict=True)])
        stacked = UnitTables(*(np.stack(column, axis=-1) for column in zip(*each, strict=True)))
        longest = self.slots * (2 * int(stacked.ticks.max()) + int(stacked.hops.max()))
        largest = max(longest, 2 * self.slots * max(int(stacked.takes.max()), int(stacked.gives.max())))
        kind = np.int64 if largest < LARGEST else object

        def by_kind(table: Ints) -> Ints:
            _, units, problems = table.shape
            found = table.reshape(-1, self.problem.stages, units, problems).transpose(0, 2, 3, 1)
            flat: Ints = np.ascontiguousarray(found.reshape(-1, units, problems * self.problem.stages), dtype=kind)
            return flat

        hops = np.ascontiguousarray(stacked.hops, dtype=kind)
        return UnitTables(by_kind(stacked.ticks), hops, by_kind(stacked.takes), by_kind(stacked.gives))

    @cached_property
    def _static(self) -> Ints:
        return np.concatenate([static * (self.grains // grains) for _, static, _, grains in self._parts])
