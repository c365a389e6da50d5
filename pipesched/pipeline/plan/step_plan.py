"""The step around the passes of a plan: where weights are gathered, gradients reduced, optimizers run; and their tasks.

Families order passes alone: `with_step` puts the rest into a plan, and `with_step_tasks` makes its tasks. Gathers and
reductions stand in a program for the network lane of each device, optimizers and side work among its slots. What others
ask of a problem (`gathers`, `reduces`, `tied_stages`) stands between both, what they ask of a plan behind the second.

Below level weights each stage is gathered once, at the head of the lane. At level weights PyTorch's rule holds: before
each pass the next few distinct stages of the device are whole, and others are freed (torch.distributed.pipelining,
`_add_unshard_reshard`). Each time a stage is whole, from UNSHARD to RESHARD, is a turn. With `shard.gather` each a
stage is gathered directly before what finds it sharded, and freed behind each forward, as FSDP does by itself.
Gradients are reduced directly behind the last backward that they need, and optimizers run behind all other slots.

As tasks, network lanes become resources, and joins of the table of kinds precedences. Of all that a join waits for,
only what comes last on each device or lane is kept: the order there implies the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, repeat
from operator import itemgetter

from pipesched.core.arrays import column, np
from pipesched.core.tasks import NOWHERE, Edges, TaskGraph, arrow, arrows
from pipesched.pipeline.plan.plan import NOTHING_BEFORE, NetworkEntry, Plan, with_parts, with_scoped
from pipesched.pipeline.plan.step import FULL, GRADIENTS, WEIGHTS
from pipesched.pipeline.problem.kinds import (
    ALL_KINDS,
    NETWORK_KINDS,
    STEP_SLOTS,
    WHEN_CLIPPED,
    Join,
    Need,
    Resource,
    Scope,
)
from pipesched.pipeline.problem.ops import NO_NUMBER, Op, OpIndex, StepOp
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.units import FORWARD_ONLY

OpsOfDevices = list[list[Op]]

Issued = tuple[Op, int]  # an operation of the lane, and the slot behind which it is issued


def with_step(problem: Problem, plan: Plan, given: Sequence[Sequence[Issued]] = ()) -> Plan:
    """Return `plan` with the step of `problem` by the rule: what of it a plan has already stays as it is.

    A plan with optimizers or side work among its slots gets the programs of its lanes alone. `given` are programs of
    the devices, which take the place of the rule for gathers and frees, and for the reductions of the stages they name.
    """
    if not problem.has_step or plan.network:
        return plan
    if not plan.index.scoped:
        before, behind = side_first(problem, plan)
        tails = [[*tail, *last] for tail, last in zip(behind, optimizers(problem, plan), strict=True)]
        index = with_scoped(plan.index, chain(*before, *tails), len(problem.side))
        number = index.number  # of passes it is what it was: only the ends are looked at
        rows = zip(before, plan.orders, tails, strict=True)
        orders = [[*map(number, head), *order, *map(number, tail)] for head, order, tail in rows]
        plan = with_parts(plan, index=index, orders=orders)
    return with_programs(problem, plan, given)


def with_programs(problem: Problem, plan: Plan, given: Sequence[Sequence[Issued]] = ()) -> Plan:
    """Return a plan of all slots with the programs of its network lanes; `given` are those of `with_step`."""
    programs, index = network_programs(problem, plan, given), plan.index
    slots = (index.op(number) for kind in STEP_SLOTS for number in index.of_kind(kind))
    index = with_scoped(index, [*slots, *(op for program in programs for op, _ in program)], len(problem.side))
    rows = {(kind, stage): row for kind in NETWORK_KINDS for stage, row in enumerate(index.rows(kind))}
    network = [
        [NetworkEntry(rows[op.kind, op.stage][max(op.microbatch, 0)], after) for op, after in program]
        for program in programs
    ]
    return with_parts(plan, index=index, network=network)


def side_first(problem: Problem, plan: Plan) -> tuple[OpsOfDevices, OpsOfDevices]:
    """Return for each device the side work before its passes, and that behind them.

    Of each item the microbatch that is fed as the m-th runs on the m-th of its devices, modulo their number; forwards
    and backwards stand by microbatch, then by item.
    """
    before: OpsOfDevices = [[] for _ in range(problem.devices)]
    behind: OpsOfDevices = [[] for _ in range(problem.devices)]
    firsts = {number: place for place, number in enumerate(plan.index.row("F", 0)[:: plan.index.slices])}
    fed = (firsts[number] for order in plan.orders for number in order if number in firsts) if problem.side else ()
    for turn, microbatch in enumerate(fed):
        for number, item in enumerate(problem.side):
            device = item.devices[turn % len(item.devices)]
            before[device].append(StepOp._make((number, "E", microbatch, 0)))
            if item.backward is not None:
                behind[device].append(StepOp._make((number, "G", microbatch, 0)))
    return before, behind


def optimizers(problem: Problem, plan: Plan) -> Iterator[list[Op]]:
    """Yield the optimizers of each device, by the last backward of their stages; stages with tied weights last."""
    tied = tied_stages(problem)
    for device in range(problem.devices):
        last = {} if problem.costs.optimizer is None else _last_backwards(problem, plan, device)
        stages = sorted(last, key=lambda stage: (stage in tied, last[stage]))
        yield [StepOp._make((stage, "OPTIMIZER", NO_NUMBER, 0)) for stage in stages]


def _last_backwards(problem: Problem, plan: Plan, device: int) -> dict[int, int]:
    count = problem.settled_placement.devices.count(device)
    return ends_of_stages(plan.orders[device], plan.pairs, plan.index, count)


def network_programs(problem: Problem, plan: Plan, given: Sequence[Sequence[Issued]] = ()) -> list[list[Issued]]:
    """Return the program of each lane by the rule, or as `given`: operations and the slots they stand behind."""
    programs = []
    for device, order in enumerate(plan.orders):
        own = given[device] if given else None
        reduced = {op.stage for op, _ in own or () if op.kind == "REDUCE_GRAD"}
        # by the place of the slot behind which they stand, -1: before the first
        issued = [(place, op) for place, op in _reductions(problem, plan, device) if op.stage not in reduced]
        if own is None:
            issued += _residency(problem, plan, device, order)
        else:
            places = {number: place for place, number in enumerate(order)}
            issued += [(places.get(after, NOTHING_BEFORE), op) for op, after in own]
        issued.sort(key=itemgetter(0))
        programs.append([(op, NOTHING_BEFORE if place < 0 else order[place]) for place, op in issued])
    for stage in tied_stages(problem):
        device = problem.settled_placement.devices[stage]
        programs[device].append((StepOp._make((stage, "REDUCE_TIED", NO_NUMBER, 0)), NOTHING_BEFORE))
    return programs


def _reductions(problem: Problem, plan: Plan, device: int) -> Iterator[tuple[int, Op]]:
    """Yield reductions with the place of the last backward that each needs."""
    if not reduces(problem):
        return
    if not problem.sharding.reduces_each:
        ends = _last_backwards(problem, plan, device)
        last = [(ends[stage], stage, NO_NUMBER) for stage in sorted(ends, key=ends.__getitem__)]
    else:  # of each microbatch, behind the last B or W of its slices
        index, pairs, order, last = plan.index, plan.pairs, plan.orders[device], []
        numbers = [pairs.get(slot, slot) for slot in order] if pairs else order
        places = dict(zip(numbers, range(len(order)), strict=True))
        kinds = [kind for kind in "BW" if kind in index.letters]
        for stage in stages_along(order, pairs, index, problem.settled_placement.devices.count(device)):
            rows = [index.row(kind, stage)[part :: index.slices] for kind in kinds for part in range(index.slices)]
            for microbatch, needed in enumerate(zip(*rows, strict=True)):
                last.append((max(map(places.get, needed, repeat(-1))), stage, microbatch))
        last = sorted(one for one in last if one[0] >= 0)
    for place, stage, number in last:
        yield place, StepOp._make((stage, "REDUCE_GRAD", number, 0))


def _residency(problem: Problem, plan: Plan, device: int, order: Sequence[int]) -> Iterator[tuple[int, Op]]:
    """Yield gathers and frees of weights with the place of the slot behind which each stands."""
    if problem.sharding.divides(WEIGHTS):
        index, pairs = plan.index, plan.pairs
        stage_of = index.stage_of
        places = [  # of each slot that needs weights, with its stage, of a pair with both
            (place, (stage_of(number), stage_of(pairs[number])) if number in pairs else (stage_of(number),))
            for place, number in enumerate(order)
            if number < index.passes
        ]
        is_each = problem.sharding.gathers_each
        yield from _turns_of_each(plan, order, places) if is_each else _turns(places, ahead_of(problem, device))
    elif problem.costs.gather is not None:
        for stage in stages_along(order, plan.pairs, plan.index, problem.settled_placement.devices.count(device)):
            yield NOTHING_BEFORE, StepOp._make((stage, "UNSHARD", 0, 0))


def ahead_of(problem: Problem, device: int) -> int:
    """Return how many stages of a device are whole at once."""
    ahead, there = problem.sharding.ahead, problem.settled_placement.devices
    if isinstance(ahead, tuple):
        return ahead[device]
    return there.count(device) if ahead == FULL else int(ahead)


def _turns(places: Sequence[tuple[int, tuple[int, ...]]], ahead: int) -> Iterator[tuple[int, Op]]:
    """Yield UNSHARD and RESHARD: before each pass, its stage and the next ones are whole, `ahead` of them in all."""
    turns: dict[int, int] = {}
    whole: Sequence[int] = ()

    def op(kind: str, stage: int) -> Op:
        return StepOp._make((stage, kind, turns[stage], 0))

    for (place, _), near in zip(places, _next_stages([stages for _, stages in places], ahead), strict=True):
        if near == whole:
            continue
        behind = place - 1
        for stage in sorted({*whole}.difference(near)):
            yield behind, op("RESHARD", stage)
        for stage in near:
            if stage not in whole:
                turns[stage] = turns.get(stage, -1) + 1
                yield behind, op("UNSHARD", stage)
        whole = near
    for stage in sorted(whole):
        yield places[-1][0], op("RESHARD", stage)


def _turns_of_each(
    plan: Plan, order: Sequence[int], places: Sequence[tuple[int, tuple[int, ...]]]
) -> Iterator[tuple[int, Op]]:
    """Yield UNSHARD before each pass of a sharded stage, RESHARD behind each forward and behind the last pass."""
    last = {stage: place for place, stages in places for stage in stages}
    turns = dict.fromkeys(last, 0)
    whole: set[int] = set()
    for place, stages in places:
        for stage in dict.fromkeys(stages):
            if stage not in whole:
                whole.add(stage)
                yield place - 1, StepOp._make((stage, "UNSHARD", turns[stage], 0))
        of_forward = {*stages[:1]}.difference(stages[1:]) if plan.index.kind_of(order[place]) == "F" else set()
        for stage in sorted(of_forward.union(stage for stage in stages if last[stage] == place)):
            whole.remove(stage)
            yield place, StepOp._make((stage, "RESHARD", turns[stage], 0))
            turns[stage] += 1


def _next_stages(rows: Sequence[tuple[int, ...]], ahead: int) -> list[list[int]]:
    """Return for each pass the next distinct stages, until there are `ahead`; a pair adds both of its stages."""
    found: list[list[int]] = [[] for _ in rows]
    coming: dict[int, int] = {}  # all stages behind a place, the nearest first, with the place where they come
    for place in range(len(rows) - 1, -1, -1):
        here = rows[place]
        if coming and here == (next(iter(coming)),):  # the nearest again: it stays so
            coming[here[0]] = place
        else:
            coming = {**dict.fromkeys(here, place), **{s: at for s, at in coming.items() if s not in here}}
        near = found[place]
        for stage, at in coming.items():
            if len(near) >= ahead and at != coming[near[-1]]:
                break
            near.append(stage)
    return found


def stages_along(slots: Iterable[int], pairs: Mapping[int, int], index: OpIndex, count: int) -> dict[int, int]:
    """Return by stage the first of some slots, in this order, until there are `count` stages."""
    found: dict[int, int] = {}
    first = index.passes
    for slot in slots:
        if len(found) == count:
            break
        for number in (slot, pairs.get(slot, slot)):
            if number < first:
                found.setdefault(index.stage_of(number), slot)
    return found


def ends_of_stages(order: Sequence[int], pairs: Mapping[int, int], index: OpIndex, count: int) -> dict[int, int]:
    """Return by stage the place in a device's order of its last B or W; the device has `count` stages."""
    weights = [index.of_kind(kind) for kind in "BW" if kind in index.letters]
    units, found = index.units, dict[int, int]()
    for place in range(len(order) - 1, -1, -1):
        number = pairs.get(order[place], order[place])
        for row in weights:
            if number in row:
                found.setdefault((number - row.start) // units, place)
        if len(found) == count:
            break
    return found


def gathers(problem: Problem) -> bool:
    """Return whether the weights of stages are gathered."""
    return problem.costs.gather is not None or problem.sharding.divides(WEIGHTS)


def reduces(problem: Problem) -> bool:
    """Return whether the gradients of stages are reduced."""
    is_asked = problem.costs.reduce is not None or problem.sharding.divides(GRADIENTS)
    return is_asked and problem.mode != FORWARD_ONLY


def tied_stages(problem: Problem) -> tuple[int, ...]:
    """Return the first and the last stage where they reduce tied gradients between two devices."""
    there = problem.settled_placement.devices
    return (0, problem.stages - 1) if problem.costs.tied is not None and there[0] != there[-1] else ()


def with_step_tasks(graph: TaskGraph, problem: Problem, plan: Plan) -> TaskGraph:
    """Return the task graph of the passes with the tasks of the step in `plan` behind them.

    RESHARD is a task of no length on no resource, in whose time nothing waits for it: `reshard_times` says when it is.
    """
    step = _Step(problem, plan)
    tasks = [*step.tasks(len(graph.unit_counts))]
    needs, whole = [*step.needs()], arrows(step.residency())
    own = np.arange(len(graph.edges) - len([*waits_of(plan)]))  # waits are last
    late = Edges((), ())
    if problem.sharding.gathers_each:  # nothing is gathered ahead: a gather waits for all data of the slot behind it
        # say rows 3 and 4 of `by_slot` are about one such slot, row 7 about the next: then `first` is [3, 7],
        # `last` [5, 8], and `inputs` are the rows [3, 3, 5] + [0, 1, 2]
        data = Edges.joined([graph.edges.where(own), *needs])
        by_slot = data.where(np.argsort(data.after, kind="stable"))
        first, last = (np.searchsorted(by_slot.after, whole.after, side=side) for side in ("left", "right"))
        counts = last - first
        inputs = by_slot.where(np.repeat(last - counts.cumsum(), counts) + np.arange(counts.sum()))
        late = Edges(inputs.before, np.repeat(whole.before, counts), inputs.lag)
    durations, resources, pools = (column(values) for values in zip(*tasks, strict=True)) if tasks else [column(())] * 3
    nothing = np.zeros(len(tasks), dtype=np.int64)
    return TaskGraph(
        np.append(graph.duration, durations), np.append(graph.resource, resources),
        (*graph.unit_counts, *[1] * problem.devices), [graph.edges, *needs, whole, late, step.issued(), *step.tied()],
        np.append(graph.take, nothing), np.append(graph.give, nothing), np.append(graph.pool, pools),
    )  # fmt: skip


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
    return (data, arrows(step.residency(every=True)), step.issued())


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
    """The operations of the step of one plan: their durations and devices (`tasks`), and their precedences.

    These are of data (`needs`, by the table of kinds), of whole weights (`residency`), and of programs (`issued`).
    """

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem, self.plan, self.index, self.ticks = problem, plan, plan.index, problem.step_ticks
        self.devices = problem.settled_placement.devices
        self._task = {backward: forward for forward, backward in plan.pairs.items()}  # of a part of a forward's task
        machines, places = (np.full(self.index.size, -1) for _ in range(2))
        for machine, line in enumerate(plan.own_lines):
            machines[line], places[line] = machine, np.arange(len(line))
        backwards, forwards = column(self._task.keys()), column(self._task.values())
        machines[backwards], places[backwards] = machines[forwards], places[forwards]
        self._machine: list[int] = machines.tolist()  # of each operation, -1 where the plan lacks it
        self._place: list[int] = places.tolist()  # there

    @cached_property
    def _latest(self) -> dict[range, list[int]]:
        """A cache: a row, and its last operation on each device or lane. Of B and W of a stage it is the last of both.

        These rows are filled beforehand, by a scan from the end of each device.
        """
        rows: dict[range, list[int]] = {}
        for device, order in enumerate(self.plan.orders):
            last = ends_of_stages(order, self.plan.pairs, self.index, self.devices.count(device))
            for kind in (kind for kind in "BW" if kind in self.index.letters):
                rows |= {self.index.row(kind, stage): [order[place]] for stage, place in last.items()}
        return rows

    def tasks(self, first_lane: int) -> Iterator[tuple[int, int, int]]:
        """Yield duration, resource and device of each operation of the step, by their numbers."""
        for letter in (rows.kind for rows in self.index.scoped):
            kind = ALL_KINDS[letter]
            is_side, lanes = kind.scope is Scope.SIDE, first_lane if kind.resource is Resource.NETWORK else 0
            for place, row in enumerate(self.index.rows(letter)):
                is_of_each = is_side and len(getattr(self.problem.side[place], kind.cost) or ()) > 1
                known: dict[tuple[int, int], int] = {}
                for which, number in enumerate(row):
                    device = max(self._machine[number], 0) if is_side else self.devices[place]
                    if kind.resource is Resource.NOTHING or self._machine[number] < 0:
                        yield 0, NOWHERE, device
                        continue
                    alike = device, which if is_of_each else 0
                    if alike not in known and is_side:
                        known[alike] = self.ticks.side_lasts(kind.cost, place, which, device)
                    elif alike not in known:
                        cost: int | tuple[int, ...] = getattr(self.ticks, kind.cost)
                        known[alike] = cost if isinstance(cost, int) else cost[place]
                    yield known[alike], lanes + device, device

    def issued(self) -> Edges:
        """Return the wait of each operation of a lane for the slot behind which it is issued."""
        entries = [(after, number) for number, after in chain(*self.plan.network) if after != NOTHING_BEFORE]
        return arrows((self._task.get(one, one), number, 0) for one, number in entries if self._machine[number] >= 0)

    def needs(self) -> Iterator[Edges]:
        """Yield what the table of kinds says, of operations that the plan has."""
        index, present = self.index, {*self.index.kinds}
        needs = [(letter, need) for letter in index.kinds for need in ALL_KINDS[letter].needs if need.letter in present]
        reduces_each = any(rows.numbered for rows in index.scoped if rows.kind == "REDUCE_GRAD")
        planned = sum(map(len, self.plan.orders)) + sum(map(len, chain(*self.plan.lanes)))
        slots = sum(rows.size for rows in index.scoped if ALL_KINDS[rows.kind].resource is Resource.DEVICE)
        every = sum(rows.size for rows in index.scoped if ALL_KINDS[rows.kind].resource is not Resource.NOTHING)
        found = sum(machine >= 0 for machine in self._machine[index.passes : index.first_message])
        # the plan has every operation, each as a task of its own
        is_whole = not self.plan.pairs and planned == index.passes + slots and found == every
        for letter, need in needs:
            if letter in index.letters and need.letter in index.letters:
                continue
            scope = ALL_KINDS[letter].scope
            is_by_microbatch = need.join is Join.SIDES or (need.join is None and scope is Scope.SIDE)
            is_reduction = need.join is Join.MICROBATCHES and scope is Scope.REDUCTION and reduces_each
            if is_whole and (is_by_microbatch or is_reduction):
                yield from self._bundles(letter, need)
            else:
                there = (number for number in index.of_kind(letter) if self._machine[number] >= 0)
                yield arrows(chain.from_iterable(self._waits(number, need) for number in there))
        if self.problem.clip:  # by their global norm: every optimizer waits for all gradients
            kinds = [need.letter for need in WHEN_CLIPPED if need.letter in present]
            latest = self._latest_of([row for kind in kinds for row in index.rows(kind)])
            yield arrows((before, after, 0) for after in index.of_kind("OPTIMIZER") for before in latest)

    def _bundles(self, letter: str, need: Need) -> Iterator[Edges]:
        """Yield what `_waits` says of each operation of a kind, a row at once: each has a task, which is its own."""
        index, slices = self.index, self.index.slices
        if need.join is Join.SIDES:
            for number, item in enumerate(self.problem.side):
                is_behind = ALL_KINDS[letter].scope is Scope.SIDE
                kinds = (need.letter, letter) if is_behind else (letter, need.letter)
                passes, side = index.row(kinds[0], item.into), index.row(kinds[1], number)
                there, late = self.devices[item.into], self.ticks.side_p2p[number]
                lags = [0 if self._machine[one] == there else late for one in side]
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

    def _waits(self, number: int, need: Need) -> Iterator[tuple[int, int, int]]:
        """Yield by `need` the precedences of an operation, as arrows."""
        index, op, task = self.index, self.index.op(number), self._task.get(number, number)
        if need.join is not Join.SIDES:
            yield from ((before, task, 0) for before in self._latest_of(self._needed(op, need)))
            return
        # Of side work an earlier one may have the longer latency, so that each one counts. `_latest` is not asked: with
        # one microbatch its B is the row of the stage, of which a W may come last, and G waits for B or I alone.
        for before in chain.from_iterable(map(self._reduced, self._needed(op, need))):
            side, other = (number, before) if ALL_KINDS[op.kind].scope is Scope.SIDE else (before, number)
            is_there = max(self._machine[side], 0) == self.devices[index.stage_of(other)]
            yield before, task, 0 if is_there else self.ticks.side_p2p[index.stage_of(side)]

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
        """Return the last of some operations on each device or lane, as tasks."""
        last: dict[int, tuple[int, int]] = {}
        for number in numbers:
            machine, place = self._machine[number], self._place[number]
            if machine >= 0 and (machine not in last or last[machine][0] < place):
                last[machine] = place, self._task.get(number, number)
        return [task for _, task in last.values()]

    def residency(self, *, every: bool = False) -> Iterator[tuple[int, int, int]]:
        """Yield the wait of the first pass behind each UNSHARD, with `every` also of those behind it on the device."""
        index, pairs, first = self.index, self.plan.pairs, self.index.passes
        unshards, is_divided = index.of_kind("UNSHARD"), self.problem.sharding.divides(WEIGHTS)
        for order, program in zip(self.plan.orders, self.plan.network, strict=False):
            by_slot = defaultdict[int, dict[int, int]](dict)  # gathers behind each slot, by their stages
            for number, after in program:
                if number in unshards:
                    by_slot[after if is_divided else NOTHING_BEFORE][index.stage_of(number)] = number
            coming, left = by_slot[NOTHING_BEFORE], sum(map(len, by_slot.values()))
            for slot in order:
                if not left:
                    break
                for one in (slot, pairs[slot]) if slot in pairs else (slot,):
                    stage = index.stage_of(one) if one < first else -1
                    if stage in coming:
                        left -= not every
                        yield coming[stage] if every else coming.pop(stage), slot, 0
                coming.update(by_slot.get(slot, ()))

    def tied(self) -> Iterator[Edges]:
        """Yield what makes REDUCE_TIED of both ends one: each waits for what comes before the other on its lane."""
        tied = [number for number in self.index.of_kind("REDUCE_TIED") if self._machine[number] >= 0]
        lanes = self.plan.machines
        for here, there in zip(tied, reversed(tied), strict=True):
            machine, place = self._machine[there], self._place[there]
            if place and here != there:
                yield arrow(lanes[machine][place - 1], here)
        waits = [(before, after) for before, after in waits_of(self.plan) if after in tied]
        yield from (arrow(before, other) for before, after in waits for other in tied if other != after)
