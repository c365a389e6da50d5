"""The step beside the passes as tasks: network lanes become resources, and joins of the table of kinds precedences.

Of all that a join waits for, only what comes last on each device or lane is kept: the order there implies the rest, so
that a step costs as many precedences as it has operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from pipesched.core.arrays import column, np
from pipesched.core.tasks import NOWHERE, Edges, TaskGraph, arrow
from pipesched.pipeline.kinds import ALL_KINDS, WHEN_CLIPPED, Join, Kind, Need, Resource, Scope
from pipesched.pipeline.ops import Op
from pipesched.pipeline.plan import NOTHING_BEFORE, Plan, ends_of_stages
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.step import WEIGHTS

Kinds = Mapping[str, Kind]


def with_step_tasks(graph: TaskGraph, problem: Problem, plan: Plan, kinds: Kinds = ALL_KINDS) -> TaskGraph:
    """Return the task graph of the passes with the tasks of the step in `plan` behind them.

    RESHARD is a task of no length on no resource, in whose time nothing waits for it: `reshard_times` says when it is.
    """
    step = _Step(problem, plan, kinds)
    tasks = [*step.tasks(len(graph.unit_counts))]
    durations, resources, pools = (column(values) for values in zip(*tasks, strict=True)) if tasks else [column(())] * 3
    nothing = np.zeros(len(tasks), dtype=np.int64)
    return TaskGraph(
        np.append(graph.duration, durations),
        np.append(graph.resource, resources),
        (*graph.unit_counts, *[1] * problem.devices),
        [graph.edges, *step.edges()],
        np.append(graph.take, nothing),
        np.append(graph.give, nothing),
        np.append(graph.pool, pools),
    )


def reshard_times(plan: Plan, ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield each RESHARD with its time: the end of the slot behind which it stands, or of its UNSHARD if later."""
    index = plan.index
    frees = index.of_kind("RESHARD")
    for number, after in chain.from_iterable(plan.network):
        if number in frees:
            gathered = index.number(index.op(number)._replace(kind="UNSHARD"))
            yield number, max(ends[gathered], 0 if after == NOTHING_BEFORE else ends[after])


class StepArrows(NamedTuple):
    """What a step makes operations wait for beside their orders: data, whole weights, and the places in programs.

    All passes wait for whole weights, also those that come later than others of their stage.
    """

    data: Edges
    weights: Edges
    issued: Edges


def step_arrows(problem: Problem, plan: Plan) -> StepArrows:
    """Return the precedences of the step of a plan, by what makes them."""
    step = _Step(problem, plan, ALL_KINDS)
    data = Edges.joined([*step.needs(), *step.tied()])
    return StepArrows(data, Edges.joined(step.residency(every=True)), step.issued())


def waits_of(plan: Plan) -> Iterator[tuple[int, int]]:
    """Yield the waits of a plan; that for a RESHARD waits for its UNSHARD, and for the slot behind which it stands."""
    frees = plan.index.of_kind("RESHARD")
    behind = {number: after for number, after in chain.from_iterable(plan.network) if number in frees}
    for before, after in plan.waits:
        if before not in behind:
            yield before, after
            continue
        yield plan.index.number(plan.index.op(before)._replace(kind="UNSHARD")), after
        if behind[before] != NOTHING_BEFORE:
            yield behind[before], after


class _Step:
    """The operations of the step of one plan: their durations, devices and precedences."""

    def __init__(self, problem: Problem, plan: Plan, kinds: Kinds) -> None:
        self.problem, self.plan, self.kinds = problem, plan, kinds
        self.index, self.ticks = plan.index, problem.step_ticks
        self.devices = problem.settled_placement.devices
        self._latest: dict[range, list[int]] = {}

    def _place_of(self, number: int) -> tuple[int, int] | None:
        """Return the machine of an operation and its place there; None where the plan lacks it."""
        return (self._of_passes if number < self.index.passes else self._of_step).get(number)

    @cached_property
    def _of_step(self) -> dict[int, tuple[int, int]]:
        """The machine of each operation of the step, and its place there."""
        plan = self.plan
        slots = {number: (machine, place) for machine, row in enumerate(plan.step_slots) for place, number in row}
        first = len(plan.orders) + 2 * len(plan.lanes)
        lanes = enumerate(plan.network_lanes, first)
        return slots | {number: (machine, place) for machine, lane in lanes for place, number in enumerate(lane)}

    @cached_property
    def _of_passes(self) -> dict[int, tuple[int, int]]:
        """The same of all operations; a backward of a pair has that of its forward. It is for joins of microbatches."""
        places = {
            number: (machine, place)
            for machine, order in enumerate(self.plan.machines)
            for place, number in enumerate(order)
        }
        for forward, backward in self.plan.pairs.items():
            if forward in places:
                places[backward] = places[forward]
        return places

    @cached_property
    def _whole_rows(self) -> dict[range, list[int]]:
        """The rows of all backwards of a stage, with what comes last of them: found from the end of its device."""
        rows: dict[range, list[int]] = {}
        for device, order in enumerate(self.plan.orders):
            last = ends_of_stages(order, self.plan.pairs, self.index, self.devices.count(device))
            for kind in (kind for kind in "BW" if kind in self.index.letters):
                rows |= {self.index.row(kind, stage): [order[place]] for stage, place in last.items()}
        return rows

    @cached_property
    def _task(self) -> dict[int, int]:
        """The task of each backward that is a part of its forward's."""
        return {backward: forward for forward, backward in self.plan.pairs.items()}

    def device_of(self, number: int) -> int:
        """Return the device of an operation: of its stage, or for side work that in whose order it stands."""
        op = self.index.op(number)
        scope = self.kinds[op.kind].scope
        if scope is Scope.DEVICE:
            return op.stage
        if scope is not Scope.SIDE:
            return self.devices[op.stage]
        place = self._place_of(number)
        return 0 if place is None else place[0]

    def tasks(self, first_lane: int) -> Iterator[tuple[int, int, int]]:
        """Yield duration, resource and device of each operation of the step, by their numbers."""
        planned = self._of_step
        for letter in (rows.kind for rows in self.index.scoped):
            kind = self.kinds[letter]
            lanes = first_lane if kind.resource is Resource.NETWORK else 0
            for place, row in enumerate(self.index.rows(letter)):
                known: dict[tuple[int, int], int] = {}
                for which, number in enumerate(row):
                    device = self._device_at(kind, place, number)
                    if kind.resource is Resource.NOTHING or number not in planned:
                        yield 0, NOWHERE, device
                        continue
                    alike = device, which if self._is_of_each(kind, place) else 0
                    if alike not in known:
                        known[alike] = self._lasts(kind, place, which, device)
                    yield known[alike], lanes + device, device

    def _is_of_each(self, kind: Kind, place: int) -> bool:
        """Return whether operations of a row have times of their own."""
        return kind.scope is Scope.SIDE and len(getattr(self.problem.side[place], kind.cost) or ()) > 1

    def _device_at(self, kind: Kind, place: int, number: int) -> int:
        """Return the device of an operation of the step that is of a stage, a device or an item."""
        if kind.scope is Scope.SIDE:
            return self._of_step.get(number, (0, 0))[0]
        return place if kind.scope is Scope.DEVICE else self.devices[place]

    def _lasts(self, kind: Kind, place: int, microbatch: int, device: int) -> int:
        """Return the duration of an operation, by the cost that its kind names."""
        if kind.scope is Scope.SIDE:
            return self.ticks.side_lasts(kind.cost, place, microbatch, device)
        column: int | tuple[int, ...] = getattr(self.ticks, kind.cost)
        return column if isinstance(column, int) else column[place]

    def edges(self) -> Iterator[Edges]:
        """Yield all precedences of the step: of data, of residency, of the programs, and of tied lanes."""
        yield from self.needs()
        yield from self.residency()
        yield self.issued()
        yield from self.tied()

    def issued(self) -> Edges:
        """Return the wait of each operation of a lane for the slot behind which it is issued."""
        task, planned = self._task, self._of_step
        pairs = [
            (task.get(after, after), number)
            for number, after in chain.from_iterable(self.plan.network)
            if after != NOTHING_BEFORE and number in planned
        ]
        return Edges(*zip(*pairs, strict=True)) if pairs else Edges((), ())

    def needs(self) -> Iterator[Edges]:
        """Yield what the table of kinds says, of operations that the plan has."""
        present = {*self.index.kinds}
        for letter in self.index.kinds:
            for need in self.kinds[letter].needs:
                is_of_step = letter not in self.index.letters or need.letter not in self.index.letters
                if not is_of_step or need.letter not in present:
                    continue
                if self._is_whole and self._is_by_microbatch(letter, need):
                    yield from self._bundles(letter, need)
                else:
                    for number in self.index.of_kind(letter):
                        if self._place_of(number) is not None:
                            yield from self._waits(number, need)
        if self.problem.clip:
            yield from self._clipped()

    @cached_property
    def _is_whole(self) -> bool:
        """Whether the plan has every operation, each as a task of its own."""
        planned = sum(map(len, self.plan.orders)) + sum(map(len, chain(*self.plan.lanes)))
        slots = [rows.size for rows in self.index.scoped if self.kinds[rows.kind].resource is Resource.DEVICE]
        frees = [rows.size for rows in self.index.scoped if self.kinds[rows.kind].resource is Resource.NOTHING]
        every = sum(rows.size for rows in self.index.scoped) - sum(frees)
        return not self.plan.pairs and planned == self.index.passes + sum(slots) and len(self._of_step) == every

    def _is_by_microbatch(self, letter: str, need: Need) -> bool:
        """Return whether each operation of a kind waits for those of its own microbatch."""
        if need.join is Join.SIDES or (need.join is None and self.kinds[letter].scope is Scope.SIDE):
            return True
        return need.join is Join.MICROBATCHES and self.kinds[letter].scope is Scope.REDUCTION and self._reduces_each

    @cached_property
    def _reduces_each(self) -> bool:
        return any(rows.numbered for rows in self.index.scoped if rows.kind == "REDUCE_GRAD")

    def _bundles(self, letter: str, need: Need) -> Iterator[Edges]:
        """Yield the precedences of operations that each wait for their own microbatch, row by row."""
        index, slices = self.index, self.index.slices
        if need.join is Join.SIDES:
            for number, item in enumerate(self.problem.side):
                is_behind = self.kinds[letter].scope is Scope.SIDE
                passes, side = (
                    index.row(need.letter if is_behind else letter, item.into),
                    index.row(letter if is_behind else need.letter, number),
                )
                there, late = self.devices[item.into], self.ticks.side_p2p[number]
                lags = [0 if self._of_step[one][0] == there else late for one in side]
                firsts = passes[::slices][: len(side)]  # a plan may have side work of the first microbatches alone
                if side:
                    yield Edges(*((firsts, side) if is_behind else (side, firsts)), lags)
        elif need.join is None:
            rows = zip(index.rows(need.letter), index.rows(letter), strict=False)
            yield from (Edges(before[: len(row)], row[: len(before)]) for before, row in rows if row and before)
        else:
            for stage, row in enumerate(index.rows(letter)):
                units = index.row(need.letter, stage)
                yield from (Edges(units[part::slices], row) for part in range(slices))

    def _waits(self, number: int, need: Need) -> Iterator[Edges]:
        """Yield the precedences of one operation by one of its needs."""
        op, task = self.index.op(number), self._task.get(number, number)
        needed = self._needed(op, need)
        # Of side work an earlier one may have the longer latency, so that each one counts. It waits for B or I of its
        # microbatch, where all backwards of a stage, which may be those of one microbatch, end with B or W.
        latest = chain.from_iterable(map(self._reduced, needed)) if need.join is Join.SIDES else self._latest_of(needed)
        for before in latest:
            yield arrow(before, task, self._lag(before, number, need))

    def _needed(self, op: Op, need: Need) -> Iterable[range]:
        """Return the rows of all operations that one waits for by a need."""
        index = self.index
        if need.join is Join.SIDES:
            return self._of_sides(op, need)
        if need.join is Join.ENDS:
            return [index.row(need.letter, stage) for stage in (0, index.stages - 1)]
        if need.join is Join.STAGES:
            return index.rows(need.letter)
        if need.join is Join.DEVICES:
            return [_one(row, op.microbatch) for row in index.rows(need.letter)]
        row = index.row(need.letter, op.stage)
        if op.number is None:  # of a stage: it waits for all that is joined, or for the one of that stage
            return [row if need.join else row[:1]]
        return [self._of_microbatch(row, need.letter, op.number)]

    def _of_microbatch(self, row: range, letter: str, number: int) -> range:
        """Return the part of a row that is of a microbatch: of passes all of its slices."""
        if letter in self.index.letters:
            return row[number * self.index.slices : (number + 1) * self.index.slices]
        return _one(row, number)

    def _of_sides(self, op: Op, need: Need) -> Iterable[range]:
        """Return what side work and the passes of its stage need of each other, microbatch by microbatch."""
        if self.kinds[op.kind].scope is Scope.SIDE:
            row = self.index.row(need.letter, self.problem.side[op.stage].into)
            return [self._of_microbatch(row, need.letter, op.microbatch)]
        into = [number for number, item in enumerate(self.problem.side) if item.into == op.stage]
        if op.slice:
            return []
        return [_one(self.index.row(need.letter, number), op.microbatch) for number in into]

    def _latest_of(self, rows: Iterable[range]) -> list[int]:
        """Return the tasks of these operations that are the last ones on their device or lane."""
        found = [number for row in rows for number in self._latest_in(row)]
        return found if len(found) < 2 else self._reduced(found)

    def _latest_in(self, row: range) -> list[int]:
        if row not in self._latest:
            self._latest[row] = self._whole_rows[row] if row in self._whole_rows else self._reduced(row)
        return self._latest[row]

    def _reduced(self, numbers: Iterable[int]) -> list[int]:
        last: dict[int, tuple[int, int]] = {}
        for number in numbers:
            there = self._place_of(number)
            if there is not None:
                machine, place = there
                if machine not in last or last[machine][0] < place:
                    last[machine] = place, self._task.get(number, number)
        return [task for _, task in last.values()]

    def _lag(self, before: int, after: int, need: Need) -> int:
        """Return the latency between side work and a pass on another device; 0 for all else."""
        if need.join is not Join.SIDES or self.device_of(before) == self.device_of(after):
            return 0
        item = after if self.kinds[self.index.kind_of(after)].scope is Scope.SIDE else before
        return self.ticks.side_p2p[self.index.op(item).stage]

    def _clipped(self) -> Iterator[Edges]:
        """Yield what every optimizer waits for where gradients are clipped by their global norm: all gradients."""
        kinds = [need.letter for need in WHEN_CLIPPED if need.letter in self.index.kinds]
        before = self._latest_of([row for kind in kinds for row in self.index.rows(kind)])
        for after in self.index.of_kind("OPTIMIZER"):
            yield from (arrow(one, after) for one in before)

    def residency(self, *, every: bool = False) -> Iterator[Edges]:
        """Yield the wait of the first pass behind each UNSHARD: those behind it come later on the device.

        With `every` also that of all others.
        """
        index, pairs, first = self.index, self.plan.pairs, self.index.passes
        unshards = index.of_kind("UNSHARD")
        for order, program in zip(self.plan.orders, self.plan.network, strict=False):
            gathers = [(index.stage_of(number), number, after) for number, after in program if number in unshards]
            by_slot: dict[int, list[tuple[int, int]]] = {}
            for stage, number, after in gathers:
                key = after if self.problem.sharding.divides(WEIGHTS) else NOTHING_BEFORE
                by_slot.setdefault(key, []).append((stage, number))
            coming, left = dict(by_slot.get(NOTHING_BEFORE, ())), len(gathers)
            for slot in order:
                if not left:
                    break
                for one in (slot, pairs[slot]) if slot in pairs else (slot,):
                    stage = index.stage_of(one) if one < first else -1
                    if stage in coming:
                        left -= not every
                        yield arrow(coming[stage] if every else coming.pop(stage), slot)
                coming.update(by_slot.get(slot, ()))

    def tied(self) -> Iterator[Edges]:
        """Yield what makes REDUCE_TIED of both ends one: each waits for what comes before the other on its lane."""
        tied = [number for number in self.index.of_kind("REDUCE_TIED") if self._place_of(number)]
        lanes = self.plan.machines
        for here, there in zip(tied, reversed(tied), strict=True):
            machine, place = self._of_step[there]
            if place and here != there:
                yield arrow(lanes[machine][place - 1], here)
        waits = [(before, after) for before, after in waits_of(self.plan) if after in tied]
        yield from (arrow(before, other) for before, after in waits for other in tied if other != after)


def _one(row: range, number: int) -> range:
    return row[number : number + 1]
