"""The step beside the passes as tasks: network lanes become resources, and joins of the table of kinds precedences.

Of all that a join waits for, only what comes last on each device or lane is kept: the order there implies the rest, so
that a step costs as many precedences as it has operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain

from pipesched.core.arrays import column, np
from pipesched.core.tasks import NOWHERE, Edges, TaskGraph, arrow
from pipesched.pipeline.kinds import ALL_KINDS, WHEN_CLIPPED, Join, Kind, Need, Resource, Scope
from pipesched.pipeline.ops import Op
from pipesched.pipeline.plan import NOTHING_BEFORE, Plan, ends_of_stages
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.step import WEIGHTS


def with_step_tasks(graph: TaskGraph, problem: Problem, plan: Plan) -> TaskGraph:
    """Return the task graph of the passes with the tasks of the step in `plan` behind them.

    RESHARD is a task of no length on no resource, in whose time nothing waits for it: `reshard_times` says when it is.
    """
    step = _Step(problem, plan)
    tasks = [*step.tasks(len(graph.unit_counts))]
    needs, whole = [*step.needs()], Edges.joined(step.residency())
    own = np.arange(len(graph.edges) - len([*waits_of(plan)]))  # waits are last
    data = Edges.joined([graph.edges.where(own), *needs])
    durations, resources, pools = (column(values) for values in zip(*tasks, strict=True)) if tasks else [column(())] * 3
    nothing = np.zeros(len(tasks), dtype=np.int64)
    return TaskGraph(
        np.append(graph.duration, durations),
        np.append(graph.resource, resources),
        (*graph.unit_counts, *[1] * problem.devices),
        [graph.edges, *needs, whole, step.late_gathers(data, whole), step.issued(), *step.tied()],
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


def step_arrows(problem: Problem, plan: Plan) -> tuple[Edges, Edges, Edges]:
    """Return what a step makes operations wait for beside their orders: data, whole weights, places in programs.

    All passes wait for whole weights, also those that come later than others of their stage.
    """
    step = _Step(problem, plan)
    data = Edges.joined([*step.needs(), *step.tied()])
    return (data, Edges.joined(step.residency(every=True)), step.issued())


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

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem, self.plan, self.index, self.ticks = problem, plan, plan.index, problem.step_ticks
        self.devices = problem.settled_placement.devices

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
    def _latest(self) -> dict[range, list[int]]:
        """What comes last of rows that were asked for; of all backwards of a stage, from the end of its device."""
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

    def tasks(self, first_lane: int) -> Iterator[tuple[int, int, int]]:
        """Yield duration, resource and device of each operation of the step, by their numbers."""
        for letter in (rows.kind for rows in self.index.scoped):
            kind = ALL_KINDS[letter]
            is_side, lanes = kind.scope is Scope.SIDE, first_lane if kind.resource is Resource.NETWORK else 0
            for place, row in enumerate(self.index.rows(letter)):
                is_of_each = is_side and len(getattr(self.problem.side[place], kind.cost) or ()) > 1
                known: dict[tuple[int, int], int] = {}
                for which, number in enumerate(row):
                    device = self._of_step.get(number, (0, 0))[0] if is_side else self.devices[place]
                    if kind.resource is Resource.NOTHING or number not in self._of_step:
                        yield 0, NOWHERE, device
                        continue
                    alike = device, which if is_of_each else 0
                    if alike not in known:
                        known[alike] = self._lasts(kind, place, which, device)
                    yield known[alike], lanes + device, device

    def _lasts(self, kind: Kind, place: int, microbatch: int, device: int) -> int:
        if kind.scope is Scope.SIDE:
            return self.ticks.side_lasts(kind.cost, place, microbatch, device)
        column: int | tuple[int, ...] = getattr(self.ticks, kind.cost)
        return column if isinstance(column, int) else column[place]

    def issued(self) -> Edges:
        """Return the wait of each operation of a lane for the slot behind which it is issued."""
        entries = [(after, number) for number, after in chain(*self.plan.network) if after != NOTHING_BEFORE]
        pairs = [(self._task.get(after, after), number) for after, number in entries if number in self._of_step]
        return Edges(*zip(*pairs, strict=True)) if pairs else Edges((), ())

    def needs(self) -> Iterator[Edges]:
        """Yield what the table of kinds says, of operations that the plan has."""
        index, present = self.index, {*self.index.kinds}
        needs = [(letter, need) for letter in index.kinds for need in ALL_KINDS[letter].needs if need.letter in present]
        for letter, need in needs:
            if letter in index.letters and need.letter in index.letters:
                continue
            if self._is_whole and self._is_by_microbatch(letter, need):
                yield from self._bundles(letter, need)
            else:
                planned = (number for number in index.of_kind(letter) if self._place_of(number) is not None)
                yield from chain.from_iterable(self._waits(number, need) for number in planned)
        if self.problem.clip:
            yield from self._clipped()

    @cached_property
    def _is_whole(self) -> bool:
        """Whether the plan has every operation, each as a task of its own."""
        planned = sum(map(len, self.plan.orders)) + sum(map(len, chain(*self.plan.lanes)))
        slots = [rows.size for rows in self.index.scoped if ALL_KINDS[rows.kind].resource is Resource.DEVICE]
        frees = [rows.size for rows in self.index.scoped if ALL_KINDS[rows.kind].resource is Resource.NOTHING]
        every = sum(rows.size for rows in self.index.scoped) - sum(frees)
        return not self.plan.pairs and planned == self.index.passes + sum(slots) and len(self._of_step) == every

    def _is_by_microbatch(self, letter: str, need: Need) -> bool:
        """Return whether each operation of a kind waits for those of its own microbatch."""
        scope = ALL_KINDS[letter].scope
        if need.join is Join.SIDES or (need.join is None and scope is Scope.SIDE):
            return True
        reduces_each = any(rows.numbered for rows in self.index.scoped if rows.kind == "REDUCE_GRAD")
        return need.join is Join.MICROBATCHES and scope is Scope.REDUCTION and reduces_each

    def _bundles(self, letter: str, need: Need) -> Iterator[Edges]:
        """Yield the precedences of operations that each wait for their own microbatch, row by row."""
        index, slices = self.index, self.index.slices
        if need.join is Join.SIDES:
            for number, item in enumerate(self.problem.side):
                is_behind = ALL_KINDS[letter].scope is Scope.SIDE
                kinds = (need.letter, letter) if is_behind else (letter, need.letter)
                passes, side = index.row(kinds[0], item.into), index.row(kinds[1], number)
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
        index, op, task = self.index, self.index.op(number), self._task.get(number, number)
        if need.join is not Join.SIDES:
            yield from (arrow(before, task) for before in self._latest_of(self._needed(op, need)))
            return
        # Of side work an earlier one may have the longer latency, so that each one counts. It waits for B or I of its
        # microbatch, where all backwards of a stage, which may be those of one microbatch, end with B or W.
        for before in chain.from_iterable(map(self._reduced, self._needed(op, need))):
            side, other = (number, before) if ALL_KINDS[op.kind].scope is Scope.SIDE else (before, number)
            is_there = self._of_step.get(side, (0, 0))[0] == self.devices[index.stage_of(other)]
            yield arrow(before, task, 0 if is_there else self.ticks.side_p2p[index.stage_of(side)])

    def _needed(self, op: Op, need: Need) -> list[range]:
        """Return the rows of all operations that one waits for by a need."""
        index, stage = self.index, op.stage
        if need.join is Join.STAGES:
            return index.rows(need.letter)
        if need.join is Join.ENDS:
            return [index.row(need.letter, end) for end in (0, index.stages - 1)]
        if need.join is Join.SIDES:
            if ALL_KINDS[op.kind].scope is not Scope.SIDE:
                into = [] if op.slice else [at for at, item in enumerate(self.problem.side) if item.into == stage]
                return [index.row(need.letter, at)[op.microbatch : op.microbatch + 1] for at in into]
            stage = self.problem.side[stage].into
        row = index.row(need.letter, stage)
        if op.number is None:  # of a stage: it waits for all that is joined, or for the one of that stage
            return [row if need.join else row[:1]]
        each = index.slices if need.letter in index.letters else 1
        return [row[op.number * each : (op.number + 1) * each]]

    def _latest_of(self, rows: Sequence[range]) -> list[int]:
        """Return the tasks of these operations that are the last ones on their device or lane."""
        self._latest.update({row: self._reduced(row) for row in rows if row not in self._latest})
        found = [number for row in rows for number in self._latest[row]]
        return found if len(found) < 2 else self._reduced(found)

    def _reduced(self, numbers: Iterable[int]) -> list[int]:
        last: dict[int, tuple[int, int]] = {}
        for number in numbers:
            there = self._place_of(number)
            if there is not None:
                machine, place = there
                if machine not in last or last[machine][0] < place:
                    last[machine] = place, self._task.get(number, number)
        return [task for _, task in last.values()]

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

    def late_gathers(self, data: Edges, whole: Edges) -> Edges:
        """Return what gathers wait for where nothing is gathered ahead: for all data of the slot behind them."""
        if not self.problem.sharding.gathers_each:
            return Edges((), ())
        by_slot = data.where(np.argsort(data.after, kind="stable"))
        first, last = (np.searchsorted(by_slot.after, whole.after, side=side) for side in ("left", "right"))
        counts = last - first
        inputs = by_slot.where(np.repeat(last - counts.cumsum(), counts) + np.arange(counts.sum()))
        return Edges(inputs.before, np.repeat(whole.before, counts), inputs.lag)

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
