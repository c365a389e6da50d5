"""From pipelines to the core: operations become tasks, devices resources, activations memory.

`lower_plan` makes the tasks of a plan, `lower` those of all operations in any order; `plan_of_times` goes back.
The numbers of the tasks are the numbers of the operations in the plan's OpIndex. The table of kinds says what each kind
needs, takes and gives; between two devices the latency of the boundary is added. Where messages queue, each is one task
too, which stands in the queues of both of its devices: the SEND of what made its tensor, the RECV of what needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

from pipesched.core.arrays import Ints, column, np, run_kernel
from pipesched.core.tasks import NOWHERE, Edges, TaskGraph
from pipesched.core.timing import UNTIMED, Times, in_order
from pipesched.errors import ConfigError
from pipesched.pipeline.plan.plan import LanePair, MessageProgram, Plan, mismatch, with_parts
from pipesched.pipeline.plan.step import EDGE, ON_DEVICE, PAIR
from pipesched.pipeline.plan.step_plan import waits_of, with_step_tasks
from pipesched.pipeline.problem.kinds import GRADIENT_LETTERS, KINDS, LANES, STEP_SLOTS
from pipesched.pipeline.problem.model import StepModel
from pipesched.pipeline.problem.ops import OpIndex, ScopedRows
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.units import FORWARD_ONLY


def lower_plan(problem: Problem, plan: Plan) -> TaskGraph:
    """Return the task graph, in ticks and grains, of the operations of `plan`; a pair is the task of its forward.

    Raises ConfigError for a plan of another problem.
    """
    wrong = mismatch(problem, plan)
    if wrong:
        raise ConfigError(wrong, "plan")
    absent: Set[int] = frozenset()
    slots = sum(rows.size for rows in plan.index.scoped if rows.kind in STEP_SLOTS)
    planned = sum(map(len, plan.orders)) - slots + sum(map(len, chain(*plan.lanes))) + len(plan.pairs)
    if planned < plan.index.passes:
        absent = set(range(plan.index.passes)).difference(*plan.orders, *chain(*plan.lanes), plan.pairs.values())
    passes = replace(plan.index, scoped=(), sent=())
    graph = lower(problem, passes, absent, plan.pairs, waits_of(plan) if plan.waits else ())
    graph = with_step_tasks(graph, problem, plan) if plan.index.scoped else graph
    return with_message_tasks(graph, problem, plan) if plan.messages else graph


def lower(
    problem: Problem,
    index: OpIndex,
    absent: Set[int] = frozenset(),
    pairs: Mapping[int, int] = MappingProxyType({}),
    waits: Iterable[tuple[int, int]] = (),
) -> TaskGraph:
    """Return the task graph, in ticks and grains, of all operations of `index`.

    The `absent` ones become tasks of no length on no resource. Memory pools are the devices; resources are the devices
    and then, with transfers, two lanes (to host memory, back) for each device. `pairs` maps forwards to the backwards
    that run with them, `waits` are further precedences. With none of these it is one graph.
    """
    known: dict[OpIndex, TaskGraph] = {} if absent or pairs or waits else problem.known
    if index in known:
        return known[index]
    model, kinds = problem.model, [KINDS[letter] for letter in index.letters]
    changes = zip(*(model.changes(kind.letter) for kind in kinds), strict=True)
    tables = [model.ticks[kind.cost] for kind in kinds], *changes, [model.where] * len(kinds)
    duration, take, give, pool = (np.array(several).ravel() for several in tables)
    lanes = [kind for kind in kinds if kind.resource in LANES]
    resource = pool.copy() if lanes or absent or pairs else pool
    for kind in lanes:
        row = index.of_kind(kind.letter)
        of_device = column(problem.resource(device, kind.resource) for device in range(problem.devices))
        resource[row.start : row.stop] = of_device[pool[row.start : row.stop]]
    for kind in (kind for kind in kinds if kind.forward_gives is not None):
        row = index.of_kind(kind.letter)
        there = [number - row.start for number in row if number not in absent]
        give[there] = model.column(kind.forward_gives).ravel()[there]  # forwards are numbered first
    edges = _precedences(problem, index)[0]
    further = Edges(*map(column, zip(*waits, strict=True))) if (waits := [*waits]) else Edges((), ())
    if absent or pairs:
        last = max(further.before.max(initial=0), further.after.max(initial=0))  # waits may be of the step
        task = np.arange(max(index.size, last + 1))
        forwards, backwards = column(pairs.keys()), column(pairs.values())
        task[backwards] = forwards
        gone = column(absent)
        for values in (duration, take, give):
            values[gone] = 0
        together = duration[forwards] + duration[backwards]
        duration[forwards] = together if model.overlap is None else model.overlap.ravel().take(forwards, mode="clip")
        duration[backwards] = 0
        resource[gone] = resource[backwards] = NOWHERE
        for values in (take, give):
            values[forwards] += values[backwards]
            values[backwards] = 0
        is_gone = np.zeros(index.size, dtype=bool)
        is_gone[gone] = True
        edges = edges.where(~(is_gone[edges.before] | is_gone[edges.after]))
        edges, further = (Edges(task[one.before], task[one.after], one.lag) for one in (edges, further))
    count = problem.devices + (2 * problem.devices if lanes else 0)
    return known.setdefault(index, TaskGraph(duration, resource, (1,) * count, [edges, further], take, give, pool))


class PrecedenceRow(NamedTuple):
    """The precedences between two rows of operations: each of `before` ends `lag` ticks before its counterpart starts.

    `boundary` is the one between stages whose latency the lag is, -1 inside a device.
    """

    before: range
    after: range
    lag: int = 0
    boundary: int = -1


def precedence_rows(problem: Problem, index: OpIndex) -> Iterator[PrecedenceRow]:
    """Yield the precedences of data between all operations of `index`, row by row."""
    edges, others = _precedences(problem, index)
    stages, places, boundaries = (np.concatenate(parts, axis=None) for parts in others)
    is_other = (np.diff(stages) != 0) | (np.diff(places) != 0) | (np.diff(edges.lag) != 0)
    begins = np.flatnonzero(np.append(True, is_other)).tolist() if len(edges) else []
    for begin, stop in pairwise([*begins, len(edges)]):
        rows_of = (ends[begin:stop].tolist() for ends in (edges.before, edges.after))
        before, after = (range(row[0], row[-1] + 1, row[1] - row[0] if len(row) > 1 else 1) for row in rows_of)
        yield PrecedenceRow(before, after, int(edges.lag[begin]), int(boundaries[begin]))


def _precedences(problem: Problem, index: OpIndex) -> tuple[Edges, Sequence[Sequence[Ints]]]:
    """Return all precedences of data: by stage those inside it, by boundary those over it, those of rounds.

    Each has the two numbers of its row, and the boundary between stages that it crosses, or -1, in parts to be joined.
    """
    model, units, count = problem.model, np.arange(index.units), index.slices
    begin = {letter: index.row(letter, 0).start for letter in index.letters}
    needs = [(letter, need) for letter in index.letters for need in KINDS[letter].needs if need.letter in begin]
    inside, over = list[tuple[Ints, Ints]](), list[tuple[Ints, Ints]]()
    for letter, need in needs:
        before, after, shift = begin[need.letter] + units, begin[letter] + units, need.slice
        if shift:
            firsts = range(max(-shift, 0), count - max(shift, 0))
            inside += [(before[first + shift :: count], after[first::count]) for first in firsts]
        elif need.stage:  # of the stage before or behind the boundary
            over.append((before + index.units * (need.stage > 0), after + index.units * (need.stage < 0)))
        else:
            inside.append((before, after))
    ways = [model.there if need.stage < 0 else model.back for _, need in needs if need.stage and not need.slice]
    again = index.units - problem.batches if model.rounds > 1 else 0  # forwards that follow those of a round
    blocks = [(rows, stages) for rows, stages in ((inside, index.stages), (over, index.stages - 1)) if rows and stages]
    count = sum(stages * sum(len(row) for row, _ in rows) for rows, stages in blocks) + again
    edges = Edges(*(np.zeros(count, kind) for kind in (np.int64, np.int64, np.result_type(np.int64, *ways))))
    others, stop = list[tuple[Ints, ...]](), 0
    for rows, stages in blocks:
        places = np.repeat(np.arange(len(rows)), [len(row) for row, _ in rows])
        shape, at = (stages, len(places)), slice(stop, stop := stop + stages * len(places))
        first, boundary = np.arange(stages)[:, None], column([-1])
        for numbers, ends in zip((edges.before, edges.after), zip(*rows, strict=True), strict=True):
            np.add(np.concatenate(ends), first * index.units, out=numbers[at].reshape(shape))
        if rows is over:
            boundary = np.where(model.where[:-1, :1] == model.where[1:, :1], -1, first)  # and so on the way back
            np.concatenate([way[:stages] for way in ways], axis=1, out=edges.lag[at].reshape(shape))
        others.append(tuple(np.broadcast_to(one, shape) for one in (first, places, boundary)))
    if again:  # the next round of a microbatch begins behind its last stage
        edges.before[stop:], edges.after[stop:] = index.row("F", index.stages - 1)[:again], index.row("F", 0)[-again:]
        edges.lag[stop:] = model.around
        others.append(tuple(np.full(again, one) for one in (-1, -1, -int(model.where[0, 0] == model.where[-1, 0]))))
    return edges, [*zip(*others, strict=True)] or [(column(()),)] * 3


class MemoryEvent(NamedTuple):
    """An operation that takes memory at its start, or gives some back at its end; on a lane, or else in a slot."""

    number: int
    gives: bool
    on_lane: bool


def memory_waits(changes: Iterable[MemoryEvent]) -> Iterator[tuple[int, int]]:
    """Yield the wait edges (before, after) for the memory of one device, whose changes come in a good order.

    Slots run in their order, and so do the offloads of a lane: to wait for the last that gave memory is enough.
    """
    slot = offload = None
    for change in changes:
        if change.gives and change.on_lane:
            offload = change.number
        elif change.gives:
            slot = change.number
        else:
            if change.on_lane and slot is not None:
                yield slot, change.number
            if offload is not None:
                yield offload, change.number


def plan_of_times(problem: Problem, index: OpIndex, starts: Sequence[int]) -> Plan:
    """Return the plan of a legal schedule from its starts in ticks (UNTIMED: the operation does not run).

    `schedule_plan` starts nothing of it later, and no device then holds more memory (except where several operations of
    no length take and give at one instant).
    """
    graph = lower(problem, index, {number for number, start in enumerate(starts) if start == UNTIMED})

    def key(task: int) -> tuple[int, int, bool, int]:  # at one instant, what gives memory before what takes it
        return starts[task], starts[task] + graph.durations[task], graph.takes[task] > 0, task

    rank = np.argsort(sorted(range(len(graph)), key=key))
    order = in_order(graph, np.flatnonzero(graph.resource != NOWHERE), rank).tolist()
    rows = graph.by_resource(order)
    lanes = rows[problem.devices :]
    return Plan(
        index,
        rows[: problem.devices],
        lanes=[LanePair(*pair) for pair in zip(lanes[::2], lanes[1::2], strict=True)],
        waits=waits_of_times(graph, starts, order, problem.devices) if lanes else [],
    )


def waits_of_times(
    graph: TaskGraph, starts: Sequence[int], order: Sequence[int], devices: int
) -> list[tuple[int, int]]:
    """Return the wait edges (before, after) with which a schedule keeps its memory.

    `starts` are in ticks; `order` holds the tasks that run by their starts, each behind all that it waits for.
    """
    events: list[list[tuple[int, int, MemoryEvent]]] = [[] for _ in range(devices)]
    for position, number in enumerate(order):
        start, on_lane = starts[number], graph.resources[number] >= devices
        end = start + graph.durations[number]
        if graph.takes[number]:
            events[graph.pools[number]].append((start, position, MemoryEvent(number, False, on_lane)))
        if graph.gives[number]:
            rank = position if start == end else -1
            events[graph.pools[number]].append((end, rank, MemoryEvent(number, True, on_lane)))
    in_time = (sorted(happened, key=lambda event: event[:2]) for happened in events)  # at a time, given before taken
    return [*chain.from_iterable(memory_waits(change for _, _, change in happened) for happened in in_time)]


class Sent:
    """The messages of a plan as columns by message: the tasks that make and need each, its devices and its length.

    They are numbered as `index` numbers them: those of F over each boundary, those back, then those of side items.
    `is_run` says of each whether there is one: its operations are planned, on two devices.
    """

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self._problem, self._plan, self.model = problem, plan, problem.model
        model = self.model
        crossed = (model.where[1:] != model.where[:-1]).any(axis=1) if plan.index.stages > 1 else column(())
        units = tuple(plan.index.units * int(one) for one in crossed)
        back = () if model.mode == FORWARD_ONLY else (ScopedRows("SEND_B", (0, *units)),)
        side = [ScopedRows(f"SEND_{rows.kind}", rows.counts) for rows in plan.index.scoped if rows.kind in ("E", "G")]
        self.index = index = replace(plan.index, sent=(ScopedRows("SEND_F", (*units, 0)), *back, *side))
        self._planned = np.zeros(index.first_message, dtype=bool)  # of the operations of devices
        for numbers in (*plan.own_lines[: len(plan.orders)], column(plan.pairs.values())):
            self._planned[numbers] = True
        over: Any = slice(None) if crossed.all() else crossed  # boundaries between devices: there, and back
        here, there, forwards = model.where[:-1][over], model.where[1:][over], self._first_of("F")
        parts: list[tuple[Ints, ...]] = [(forwards[:-1][over], forwards[1:][over], here, there, model.there[over])]
        if model.mode != FORWARD_ONLY:
            gradients = self._first_of(GRADIENT_LETTERS)
            parts.append((gradients[1:][over], gradients[:-1][over], there, here, model.back[over]))
        parts += self._side(model)
        columns = (np.concatenate(several, axis=None) for several in zip(*parts, strict=True))
        source, target, self.sender, self.receiver, self.length = columns
        self.is_run = (source >= 0) & (target >= 0) & (self.sender != self.receiver)
        source[~self.is_run] = -1
        if plan.pairs:
            task = np.append(np.arange(index.first_message), -1)  # the last stands for what the plan lacks
            task[column(plan.pairs.values())] = column(plan.pairs.keys())
            source, target = task[source], task[target]
        self.source, self.target = source, target

    def _first_of(self, kinds: str) -> Ints:
        """Return the operation of some kinds by stage and unit, -1 where none is planned."""
        index = self._plan.index
        found: Ints = np.full((index.stages, index.units), -1)
        for row in (index.of_kind(kind) for kind in kinds if kind in index.letters):
            numbers, is_planned = np.arange(row.start, row.stop), self._planned[row.start : row.stop]
            np.copyto(found, numbers.reshape(found.shape), where=is_planned.reshape(found.shape))
        return found

    def _side(self, model: StepModel) -> Iterator[tuple[Ints, ...]]:
        """Yield the messages of side items into their stages, and those back."""
        plan, index = self._plan, self._plan.index
        if not self._problem.side:
            return
        runs_on = np.full(index.first_message, -1)
        for device, slots in enumerate(plan.step_slots):
            runs_on[column([number for _, number in slots])] = device
        for kind, letters in (("E", "F"), ("G", GRADIENT_LETTERS)):
            for side, item in enumerate(self._problem.side):
                row = column(index.row(kind, side)) if kind in index.kinds else column(())
                if len(row):
                    passes = self._first_of(letters)[item.into, :: index.slices][: len(row)]
                    there = model.where[item.into, :: index.slices][: len(row)]
                    own = np.where(self._planned[row], row, -1), runs_on[row]
                    lag = np.full(len(row), self._problem.step_ticks.side_p2p[side])
                    both = (own[0], passes, own[1], there) if kind == "E" else (passes, own[0], there, own[1])
                    yield (*both, lag)

    def queues(self, queue: str) -> tuple[Ints, Ints]:
        """Return numbers for the queues of each message at its two ends: devices, or from-to pairs of devices."""
        here, there = self.sender, self.receiver
        if queue not in (EDGE, PAIR):
            return here, there
        first, second = (np.minimum(here, there), np.maximum(here, there)) if queue == PAIR else (here, there)
        both = first * self._problem.devices + second
        return both, both

    def programs(self, rows: Sequence[MessageProgram]) -> Plan:
        found = with_parts(self._plan, index=self.index, messages=rows)
        vars(found)["own_lines"] = self._plan.own_lines
        return found


def with_message_tasks(graph: TaskGraph, problem: Problem, plan: Plan) -> TaskGraph:
    """Return the graph with the messages of the plan, which wait for each other by the queues of the problem.

    Each occupies its queues at its one time, so that what comes behind it at either end waits for it.
    """
    sent, queue = Sent(problem, plan), problem.messages.queue if problem.messages else EDGE
    if sent.index.sent != plan.index.sent:
        raise ConfigError("the plan has other messages than those between the devices of the problem", "plan")
    first, none = len(graph), np.zeros(len(sent.is_run), dtype=np.int64)
    there = np.flatnonzero(sent.is_run)
    edges = [graph.edges, Edges(sent.source[there], there + first), Edges(there + first, sent.target[there])]
    edges += [Edges(row[:-1], row[1:]) for row in queues_of(plan, queue)]
    return graph.changed(
        durations=np.append(graph.duration, np.where(sent.is_run, sent.length, 0)),
        resources=np.append(graph.resource, none + NOWHERE),
        edges=Edges.joined(edges),
        takes=np.append(graph.take, none),
        gives=np.append(graph.give, none),
        pools=np.append(graph.pool, sent.sender),
    )


def times_in_turn(graph: TaskGraph, problem: Problem, plan: Plan, lengths: Ints | None) -> Times | None:
    """Return the times of a plan in PyTorch's order, in one pass over its turns; None where these do not say all.

    Turns are an order in which all operations and messages can run; `pytorch_programs` leaves it in the plan it makes.
    `graph` is without messages, which stand in two queues each. `lengths` are own ones, in ticks.
    """
    sent, order = vars(plan).get("turns", (None, ()))  # plans of other orders have none
    if sent is None or sent.model is not problem.model or plan.lanes or plan.network or problem.messages is None:
        return None
    queue, first, edges, devices = problem.messages.queue, len(graph), graph.edges, problem.devices
    duration, length = (graph.duration, sent.length) if lengths is None else (lengths[:first], lengths[first:])
    machine, beyond = np.zeros(first, dtype=np.int64), 0 if queue == ON_DEVICE else devices
    for device, line in enumerate(plan.own_lines):
        machine[line] = device  # that runs these tasks
    # `clock`: until when each device is taken, and `beyond` them each queue (on devices, a queue is the device itself);
    # `ready`: when the last message into a task is there
    clock, ready = np.zeros(devices * (devices + 1), int), np.full(first, 0)
    times = [np.full(first + len(length), UNTIMED) for _ in range(2)]
    given = (order, duration, machine, sent.target, length, *sent.queues(queue), beyond)
    columns = (*given, edges.before, edges.after, edges.lag, clock, ready, *times)
    is_kept, found = run_kernel("run_in_turn", *columns, written=2)
    return Times(*found) if is_kept else None


def queues_of(plan: Plan, queue: str) -> Iterator[Ints]:
    """Yield what goes one after another beside `Plan.queues`: messages of a pair or rank, or all a device issues."""
    for device in range(len(plan.messages) * (queue != EDGE)):
        yield from [merged(plan, device)] if queue == ON_DEVICE else (row for _, row in plan.queues_on(device, queue))


def merged(plan: Plan, device: int) -> Ints:
    """Return all that a device issues: its slots, and its messages behind them."""
    line, program = plan.own_lines[device], plan.messages[device]
    place = np.full(plan.index.size + 1, -1)
    place[line] = np.arange(len(line))
    keys = np.concatenate([place[program.after], np.arange(len(line))])
    is_slot = np.concatenate([np.ones(len(program.number), dtype=bool), np.zeros(len(line), dtype=bool)])
    found: Ints = np.concatenate([program.number, line])[np.lexsort((is_slot, keys))]
    return found
