"""Messages as operations: which there are, where PyTorch's runtime puts their ends, and what they wait for as tasks.

A message is one task, which stands in the queues of both of its devices. Its ends are the SEND of the device that made
its tensor, and the RECV of the one that needs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from pipesched.core.arrays import Ints, Kernels, column, np
from pipesched.core.clock import look
from pipesched.core.tasks import NOWHERE, Edges, TaskGraph, WaitTable
from pipesched.core.timing import UNTIMED, Times
from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.pipeline.kinds import GRADIENT_LETTERS
from pipesched.pipeline.model import StepModel
from pipesched.pipeline.ops import Op, OpIndex, ScopedRows
from pipesched.pipeline.plan import NOTHING_BEFORE, MessageProgram, Plan, ends_of_stages, with_parts
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.step import AUTO, EDGE, ON_DEVICE, PAIR, WEIGHTS, Messages
from pipesched.pipeline.step_plan import with_step
from pipesched.pipeline.units import FORWARD_ONLY

Issued = tuple[Op, Op | None] | tuple[Op, Op | None, int]  # an end of a message, and behind what it stands
AHEAD = 3  # stages that PyTorch's runtime gathers ahead (`_add_unshard_reshard`), sharded or not


class Sent:
    """The messages of a plan as columns by message: the tasks that make and need each, its devices and its length.

    `is_run` says of each whether there is one: its operations are planned, on two devices.
    """

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self._problem, self._plan, self.model = problem, plan, problem.model
        model = self.model
        self.index = index = _with_messages(plan.index, model)
        self._planned = np.zeros(index.first_message, dtype=bool)  # of the operations of devices
        for numbers in (*plan.own_lines[: len(plan.orders)], column(plan.pairs.values())):
            self._planned[numbers] = True
        parts = [(column(()),) * 5, *self._passes(model), *self._side(model)]
        source, target, self.sender, self.receiver, self.length = (
            np.concatenate([part[at] for part in parts]) for at in range(5)
        )
        self.is_run = (source >= 0) & (target >= 0) & (self.sender != self.receiver)
        if plan.pairs:
            task = np.arange(index.first_message + 1)  # the last stands for what the plan lacks
            task[column(plan.pairs.values())] = column(plan.pairs.keys())
            source, target = task[source], task[target]
        self.source, self.target = source, target

    def _first_of(self, kinds: str) -> Ints:
        """Return the operation of some kinds by stage and unit, -1 where none is planned."""
        index = self._plan.index
        found: Ints = np.full((index.stages, index.units), -1)
        for row in (index.of_kind(kind) for kind in kinds if kind in index.letters):
            numbers = np.arange(row.start, row.stop)
            found = np.where(self._planned[row.start : row.stop], numbers, found.ravel()).reshape(found.shape)
        return found

    def _passes(self, model: StepModel) -> Iterator[tuple[Ints, ...]]:
        """Yield the messages of all boundaries: there, and back."""
        crossed = np.flatnonzero((model.where[1:] != model.where[:-1]).any(axis=1))
        here, there = (model.where[at].ravel() for at in (crossed, crossed + 1))
        forwards = self._first_of("F")
        yield forwards[crossed].ravel(), forwards[crossed + 1].ravel(), here, there, model.there[crossed].ravel()
        if model.mode != FORWARD_ONLY:
            back = self._first_of(GRADIENT_LETTERS)
            yield back[crossed + 1].ravel(), back[crossed].ravel(), there, here, model.back[crossed].ravel()

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
        """Return numbers for the queues of each message at its two ends."""
        here, there = self.sender, self.receiver
        if queue not in (EDGE, PAIR):
            return here, there
        first, second = (np.minimum(here, there), np.maximum(here, there)) if queue == PAIR else (here, there)
        both = first * self._problem.devices + second
        return both, both

    def programs(self, rows: Sequence[MessageProgram]) -> Plan:
        """Return the plan with these programs of its devices."""
        found = with_parts(self._plan, index=self.index, messages=rows)
        vars(found)["own_lines"] = self._plan.own_lines
        return found


def _with_messages(index: OpIndex, model: StepModel) -> OpIndex:
    """Return the index with rows for the messages that may be sent: over boundaries between devices, of side items."""
    crossed = (model.where[1:] != model.where[:-1]).any(axis=1) if index.stages > 1 else column(())
    units = tuple(index.units * int(one) for one in crossed)
    back = () if model.mode == FORWARD_ONLY else (ScopedRows("SEND_B", (0, *units)),)
    side = [ScopedRows(f"SEND_{kind}", tuple(map(len, index.rows(kind)))) for kind in "EG" if kind in index.kinds]
    return index._replace(sent=(ScopedRows("SEND_F", (*units, 0)), *back, *side))


def without_messages(plan: Plan) -> Plan:
    """Return the plan without queues of messages."""
    return with_parts(plan, index=plan.index._replace(sent=()), messages=()) if plan.index.sent else plan


def pytorch_programs(problem: Problem, plan: Plan) -> Plan:
    """Return the plan with messages where PyTorch's runtime puts them (`_add_send_recv`).

    The devices take turns, and each does one action if its input is there. A SEND stands right behind the pass that
    makes its tensor, the RECV at that moment at the end of what the other device has done so far. Gathers, frees and
    reductions take turns too, whether or not weights are sharded. Of messages that one operation makes, those to other
    stages come first. Raises InvalidSchedule where devices wait in a circle.
    """
    look()
    plan = without_messages(plan)
    sent, devices = Sent(problem, plan), len(plan.orders)
    lines, there = plan.own_lines[:devices], np.flatnonzero(sent.is_run)
    stops = np.cumsum([0, *map(len, lines)])
    order, begins = np.concatenate([column(()), *lines]), stops[:-1]
    idle = _turns(problem, plan, order, stops)
    forward = {backward: one for one, backward in plan.pairs.items()}
    waits = column([forward.get(number, number) for pair in plan.waits for number in pair]).reshape(-1, 2)
    waits = waits[np.isin(waits, order).all(axis=1)] if len(waits) else waits  # of slots alone: turns keep them
    number = np.append(there, len(sent.is_run) + np.arange(len(waits)))
    keys = (np.append(tasks_of[there], waits[:, at]) for at, tasks_of in ((1, sent.target), (0, sent.source)))
    none = 0 * number
    needs, makes = (WaitTable(key, number, none, sent.index.first_message) for key in keys)
    sender, receiver = (np.append(ends, 0 * waits[:, 0] + NOTHING_BEFORE) for ends in (sent.sender, sent.receiver))
    ends = np.bincount(sent.sender[there], minlength=devices) + np.bincount(sent.receiver[there], minlength=devices)
    bounds, kernels = np.cumsum([0, *ends.tolist()]), Kernels()
    given = (order, stops[1:], idle, needs.first, needs.task, makes.first, makes.task, sender, receiver)
    left = idle[np.minimum(begins, len(idle) - 1)]
    state = [kernels.blank(len(sender)), *map(kernels.give, (begins.copy(), left))]
    state += [kernels.blank(devices, NOTHING_BEFORE), kernels.blank(devices), kernels.give(bounds[:-1].copy())]
    run, *found = (kernels.blank(count) for count in (len(order) + len(there), *(int(bounds[-1]),) * 4))
    if kernels.lists.take_turns(*map(kernels.give, given), *state, run, *found):
        raise InvalidSchedule("the operations of the plan wait for each other")
    columns = [*map(column, found)]
    parts = [slice(*both) for both in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]
    made = sent.programs([MessageProgram(*(values[part] for values in columns)) for part in parts])
    vars(made)["turns"] = sent, column(run)  # in which order all operations and messages can run
    return made


def _turns(problem: Problem, plan: Plan, order: Ints, stops: Ints) -> Ints:
    """Return how many turns gathers, frees and reductions take before each slot: as planned, or as PyTorch plans."""
    index, turns = plan.index, np.zeros(len(order) + 1, dtype=np.int64)
    is_divided = problem.sharding.divides(WEIGHTS) and bool(plan.network)
    reductions = index.of_kind("REDUCE_GRAD") if index.scoped else range(0)
    if not is_divided:
        stage, other = order // index.units % index.stages, np.full(len(order), NOTHING_BEFORE)
        if plan.pairs:
            at = np.flatnonzero(np.isin(order, column(plan.pairs.keys())))
            other[at] = column(map(plan.pairs.__getitem__, order[at].tolist())) // index.units % index.stages
            other[other == stage] = NOTHING_BEFORE
        if index.scoped:
            stage[order >= index.passes] = NOTHING_BEFORE
        kernels = Kernels()
        coming = [kernels.blank(index.stages) for _ in range(2)], kernels.blank(index.stages, NOTHING_BEFORE)
        found = kernels.blank(len(turns))
        columns = map(kernels.give, (stops[:-1], stops[1:], stage, other))
        kernels.lists.fetches(*columns, AHEAD, *coming[0], coming[1], found)
        turns = column(found)
    counts = Counter(chain.from_iterable(map(set[int], zip(*(way.devices for way in problem.model.ways), strict=True))))
    for device, slots in enumerate(plan.orders):
        place = {number: at for at, number in enumerate(slots)} if is_divided else {}
        program = plan.network[device] if is_divided else ()
        frees = index.of_kind("REDUCE_TIED")
        behind = [place.get(after, -1) for number, after in program if number not in frees]
        ends = ends_of_stages(slots, plan.pairs, index, counts[device])
        reduced = {index.stage_of(number) for number, _ in program if number in reductions}
        behind += [at for stage, at in ends.items() if stage not in reduced]
        places = column(behind) + 1
        np.add.at(turns, places[places < len(slots)] + stops[device], 1)
    return turns


def given_programs(problem: Problem, plan: Plan, rows: Sequence[Sequence[Issued]]) -> Plan:
    """Return the plan, with its step, and the SEND and RECV of each device.

    Each stands behind a slot (None: before all) and so many operations of its network. Raises InvalidSchedule for one
    that is none of the plan, and ConfigError where the step is still open.
    """
    if problem.sharding.ahead == AUTO:
        raise ConfigError("of a plan go with a number of stages ahead (`shard.ahead`), not auto", "messages")
    plan = with_step(problem, plan)
    sent = Sent(problem, plan)
    first, due = sent.index.first_message, dict[tuple[int, int], int]()
    for sends, homes in ((1, sent.sender), (0, sent.receiver)):
        due |= {(number + first, sends): int(homes[number]) for number in np.flatnonzero(sent.is_run).tolist()}
    programs = []
    for device, row in enumerate(rows):
        slots, columns = {NOTHING_BEFORE, *plan.orders[device]}, list[tuple[int, ...]]()
        for op, slot, *behind in row:
            number, after = (NOTHING_BEFORE if one is None else _number(sent.index, one) for one in (op, slot))
            sends = int(op.kind.startswith("SEND"))
            if due.pop((number, sends), None) != device:
                raise InvalidSchedule(f"{op} on device {device} is not sent or received there, or stands twice")
            if after not in slots:
                raise InvalidSchedule(f"{op} on device {device} stands after what is no slot there")
            columns.append((number, sends, after, *(behind or [0])))
        programs.append(MessageProgram(*column(chain.from_iterable(columns)).reshape(-1, 4).T))
    for (number, sends), device in due.items():
        raise InvalidSchedule(f"{sent.index.end(number, sends)} is missing on device {device}")
    return sent.programs(programs)


def _number(index: OpIndex, op: Op) -> int:
    """Return the number of an operation; one that none has where there is none."""
    try:
        return index.number(op)
    except (ValueError, IndexError):
        return index.size


def resolved(problem: Problem, order: str) -> Problem:
    """Return the problem with the order that its messages are issued in."""
    known = problem.messages
    return problem if known is None or known.order == order else with_queues(problem, Messages(known.queue, order))


def with_queues(problem: Problem, messages: Messages | None) -> Problem:
    """Return the problem with other queues; all that is known of it stays, since nothing of that depends on them."""
    changed = object.__new__(Problem)
    vars(changed).update({**vars(problem), "messages": messages})
    return changed


def require_free(problem: Problem, what: str) -> None:
    """Raise ConfigError where messages queue, in what knows only free ones."""
    if problem.messages is not None:
        queue = problem.messages.queue
        raise ConfigError(f"must be free here, not queue by {queue}: {what} knows no queues", "messages")


def with_message_tasks(graph: TaskGraph, problem: Problem, plan: Plan) -> TaskGraph:
    """Return the graph with the messages of the plan, which wait for each other by the queues of the problem.

    Each occupies its queues at its one time, so that what comes behind it at either end waits for it.
    """
    sent, queue = Sent(problem, plan), problem.messages.queue if problem.messages else EDGE
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

    `graph` is without messages, which stand in two queues each. `lengths` are own ones, in ticks.
    """
    sent, order = vars(plan).get("turns", (None, ()))
    if sent is None or sent.model is not problem.model or plan.lanes or plan.network or problem.messages is None:
        return None
    queue, first, waits, devices = problem.messages.queue, len(graph), graph.waits, problem.devices
    duration, length = (graph.duration, sent.length) if lengths is None else (lengths[:first], lengths[first:])
    machine, beyond = np.zeros(first, dtype=np.int64), 0 if queue == ON_DEVICE else devices
    for device, line in enumerate(plan.own_lines):
        machine[line] = device
    kernels = Kernels(duration, waits.lag, length)
    given = (order, waits.first, waits.task, waits.lag, duration, machine, sent.source, sent.target, length)
    clock, ready = kernels.blank(devices * (devices + 1)), kernels.blank(first)
    start, end = (kernels.blank(first + len(length), UNTIMED) for _ in range(2))
    done = kernels.lists.run_in_turn(
        *map(kernels.give, (*given, *sent.queues(queue))), beyond, clock, ready, start, end
    )
    return Times(start, end) if done == len(order) else None


def queues_of(plan: Plan, queue: str) -> Iterator[Ints]:
    """Yield what goes one after another, in order: messages, and tasks; not what `Plan.queues` has."""
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
