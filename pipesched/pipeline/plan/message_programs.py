"""The order in which devices issue messages, by `with_messages`: a file's, PyTorch's, or the best one found.

A message has two ends, SEND and RECV, which stand in the programs of their devices, each behind a slot.
`given_programs` takes those of a file, `pytorch_programs` plays PyTorch's runtime, `BestOrder` searches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from math import inf

from pipesched.core.arrays import Ints, column, np, run_kernel
from pipesched.core.clock import check_deadline
from pipesched.core.tasks import Edges, WaitTable
from pipesched.core.timing import Retiming, heads, tails
from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.pipeline.plan.lowering import Sent, lower_plan, queues_of
from pipesched.pipeline.plan.plan import NOTHING_BEFORE, MessageProgram, Plan, with_parts
from pipesched.pipeline.plan.step import AUTO, BEST, EDGE, OF_FILE, ON_DEVICE, PYTORCH, WEIGHTS, Messages
from pipesched.pipeline.plan.step_plan import ends_of_stages, with_step
from pipesched.pipeline.problem.ops import Op, OpIndex
from pipesched.pipeline.problem.problem import Problem

Issued = tuple[Op, Op | None] | tuple[Op, Op | None, int]  # an end of a message, and behind what it stands
AHEAD = 3  # stages that PyTorch's runtime gathers ahead (`_add_unshard_reshard`), sharded or not


def without_messages(plan: Plan) -> Plan:
    """Return the plan without queues of messages."""
    return with_parts(plan, index=replace(plan.index, sent=()), messages=()) if plan.index.sent else plan


def pytorch_programs(problem: Problem, plan: Plan) -> Plan:
    """Return the plan with messages where PyTorch's runtime puts them (`_add_send_recv`).

    The devices take turns, and each does one action if its input is there. A SEND stands right behind the pass that
    makes its tensor, the RECV at that moment at the end of what the other device has done so far. Gathers, frees and
    reductions take turns too, whether or not weights are sharded. Of messages that one operation makes, those to other
    stages come first. Raises InvalidSchedule where devices wait in a circle.
    """
    check_deadline()
    plan = without_messages(plan)
    sent, devices = Sent(problem, plan), len(plan.orders)
    stops = np.cumsum([0, *map(len, plan.orders)])
    order = np.concatenate([column(()), *plan.own_lines[:devices]])
    planned = np.zeros(sent.index.first_message, dtype=bool)
    planned[order] = True
    if np.count_nonzero(planned) < len(order):  # the kernel writes each message once
        raise InvalidSchedule("an operation stands twice in the plan")
    idle = _turns(problem, plan, order, stops)
    given, there = [sent.source, sent.target, sent.sender, sent.receiver], sent.is_run
    there = slice(None) if there.all() else there
    sends, receipts = (np.bincount(one[there], minlength=devices) for one in given[2:])
    bounds = np.cumsum([0, *(sends + receipts)])
    if plan.waits:  # those of slots alone: turns keep them
        forward = {backward: one for one, backward in plan.pairs.items()}
        waits = column([forward.get(number, number) for pair in plan.waits for number in pair]).reshape(-1, 2)
        waits = waits[planned[waits].all(axis=1)]
        nobody = np.full(len(waits), NOTHING_BEFORE)
        given = [np.append(*both) for both in zip(given, (*waits.T, nobody, nobody), strict=True)]
    # messages that tasks wait for, and make; then of each device its place, its last task, its turns and its next end
    listed = [np.full(count, fill) for count, fill in ((len(planned), 0), (len(planned), -1), (len(given[0]), -1))]
    state = [stops[:-1].copy(), np.full(devices, NOTHING_BEFORE), 0 * bounds[1:], bounds[:-1].copy()]
    blank = (np.zeros(count, int) for count in (len(order) + int(bounds[-1]) // 2, *(int(bounds[-1]),) * 4))
    arguments = (order, stops[1:], idle, *given, *listed, *state, *blank)
    is_stuck, (run, *columns) = run_kernel("take_turns", *arguments, written=5)
    if is_stuck:
        raise InvalidSchedule("the operations of the plan wait for each other")
    parts = [slice(*both) for both in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]
    made = sent.programs([MessageProgram(*(values[part] for values in columns)) for part in parts])
    vars(made)["turns"] = sent, run  # in which order all operations and messages can run
    return made


def _turns(problem: Problem, plan: Plan, order: Ints, stops: Ints) -> Ints:
    """Return how many turns gathers, frees and reductions take before each slot: as planned, or as PyTorch plans."""
    index, turns = plan.index, np.zeros(len(order) + 1, dtype=np.int64)
    is_divided = problem.sharding.divides(WEIGHTS) and bool(plan.network)
    tied, reductions = map(index.of_kind, ("REDUCE_TIED", "REDUCE_GRAD"))
    if not is_divided:
        stage = other = (rows := order // index.units) - rows // index.stages * index.stages  # faster than a remainder
        if plan.pairs:
            other, at = stage.copy(), np.flatnonzero(np.isin(order, column(plan.pairs.keys())))
            other[at] = column(map(plan.pairs.__getitem__, order[at].tolist())) // index.units % index.stages
        if index.scoped:
            stage[order >= index.passes] = NOTHING_BEFORE
        coming = (np.zeros(index.stages, int), np.zeros(index.stages, int), np.full(index.stages, NOTHING_BEFORE))
        columns = (stops[:-1], stops[1:], stage, other)
        _, (turns,) = run_kernel("fetches", *columns, AHEAD, *coming, np.zeros(len(turns), int), written=1)
    counts = Counter(chain.from_iterable(map(set[int], zip(*(way.devices for way in problem.model.ways), strict=True))))
    for device, slots in enumerate(plan.orders):
        place = {number: at for at, number in enumerate(slots)} if is_divided else {}
        program = plan.network[device] if is_divided else ()
        behind = [place.get(after, -1) for number, after in program if number not in tied]
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


ROUNDS = 8  # of choosing anew by what follows each message in the best order so far


def with_messages(problem: Problem, plan: Plan) -> tuple[Problem, Plan]:
    """Return the problem with the order of its messages named, and the plan with them, or without where none queue.

    Messages that a plan has already stay as they are. Raises ConfigError where the order is to be that of a file, which
    has none, and InvalidSchedule where devices wait in a circle.
    """
    known = problem.messages
    if known is None:
        return problem, without_messages(plan)
    if known.order == OF_FILE and not plan.messages:
        raise ConfigError("file: the plan says no SEND and RECV", "messages", entry="order")
    if known.order is None:
        problem = with_queues(problem, Messages(known.queue, OF_FILE if plan.messages else PYTORCH))
    if plan.messages:
        return problem, plan
    plan = pytorch_programs(problem, plan)
    return problem, plan if known.order != BEST else BestOrder(problem, plan).plan()


class BestOrder:
    """The search for the order of messages in which a plan is shortest, its operations in the orders that they have.

    Whenever queues are free, of the messages that are made, the one goes that the longest way to the end follows. From
    then on these ways count the queues too, and the choice is made again. `bound` is a lower bound in ticks on all
    orders: free messages, and in each queue what comes before its first, all of them, and what follows its last.
    """

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem, self.given = problem, plan
        assert problem.messages is not None
        self.queue = problem.messages.queue
        self.sent, self.first = Sent(problem, plan), plan.index.first_message
        graph = lower_plan(with_queues(problem, Messages(EDGE)), plan)
        lines = plan.own_lines
        self.graph = graph.changed(edges=[graph.edges, *(Edges(line[:-1], line[1:]) for line in lines if len(line))])
        self.lines = lines
        self.ends = np.concatenate([line[-1:] for line in lines])
        # a route: what needs the same two resources (`one`, `two`), which are queues, or on devices the device itself;
        # `base` is how many messages the routes before have, `touched` which routes need each resource
        sent, queue, devices = self.sent, self.queue, self.problem.devices
        (edge, _), (one, two) = map(sent.queues, (EDGE, queue))
        here, there = (np.where(sent.is_run, ends, NOTHING_BEFORE) for ends in (sent.sender, sent.receiver))
        none = np.full(self.first, NOTHING_BEFORE)
        self.here, self.there = np.append(none, here), np.append(none, there)
        for device, line in enumerate(self.lines[:devices]):
            self.here[line] = device
        is_message = np.append(np.zeros(self.first, dtype=bool), sent.is_run)
        own = np.where(is_message, np.append(none, edge), NOTHING_BEFORE)
        if queue == ON_DEVICE:
            own = np.where(is_message, own, np.where(self.here >= 0, devices * devices + self.here, NOTHING_BEFORE))
        first_one, first_two = np.append(self.here[: self.first], one), np.append(self.here[: self.first], two)
        of_route, members = np.unique(own[own >= 0], return_index=True)
        members = np.flatnonzero(own >= 0)[members]
        self.route = np.where(own >= 0, np.searchsorted(of_route, own), NOTHING_BEFORE)
        resources, numbers = np.unique(np.concatenate([first_one[members], first_two[members]]), return_inverse=True)
        self.one, self.two = numbers[: len(members)], numbers[len(members) :]
        counts = np.bincount(self.route[own >= 0], minlength=len(members))
        self.base = np.cumsum(counts) - counts
        every = np.arange(len(members))
        both, is_other = np.append(self.one, self.two), self.one != self.two
        users = np.append(every, every[is_other])
        keys = both[np.append(every, every[is_other] + len(every))]
        self.touched = WaitTable(keys, users, 0 * users, len(resources))

    def plan(self) -> Plan:
        """Return the plan with the best order found: never longer than with the one that it has."""
        best, least = self.given, self._makespan(self.given)
        bound, edges = self.bound, self.graph.edges
        for _ in range(ROUNDS if self.route.max(initial=NOTHING_BEFORE) >= 0 else 0):
            if least <= bound:
                break
            found = self._chosen(column(tails(self.graph.changed(edges=edges))))
            length = self._makespan(found)
            rows = [Edges(row[:-1], row[1:]) for row in (*queues_of(found, self.queue), *found.queues)]
            edges = Edges.joined([self.graph.edges, *rows])
            if length < least:
                best, least = found, length
        return best

    def _makespan(self, plan: Plan) -> float:
        """Return the last end in ticks; infinite where messages wait for each other in a circle."""
        times = Retiming(lower_plan(self.problem, plan), plan.lines).tried()
        return inf if times is None else int(times.end[self.ends].max())

    @property
    def bound(self) -> int:
        """A lower bound on the last end, in ticks, in whichever order messages go."""
        graph = self.graph
        begin, follow = (column(values) for values in (heads(graph), tails(graph)))
        found = int((begin + graph.duration + follow).max(initial=0))
        for resource in range(len(self.touched.first) - 1):
            routes = self.touched.task[self.touched.first[resource] : self.touched.first[resource + 1]]
            own = np.flatnonzero(np.isin(self.route, routes))
            found = max(found, int(begin[own].min() + graph.duration[own].sum() + follow[own].min()))
        return found

    def _chosen(self, follow: Ints) -> Plan:
        """Return the plan in which of two messages at the heads of queues the one goes that more follows."""
        check_deadline()
        graph, size = self.graph, len(self.graph)
        by_rank = np.lexsort((np.arange(size), -(follow + graph.duration)))
        rank = np.empty(size, dtype=np.int64)
        rank[by_rank] = np.arange(size)
        followers, left = graph.followers, np.diff(graph.waits.first)
        columns = (graph.duration, followers.first, followers.task, followers.lag, self.route, self.one, self.two,
                   self.base, self.touched.first, self.touched.task, rank, by_rank, self.here, self.there)  # fmt: skip
        routes, resources = len(self.one), len(self.touched.first) - 1
        blanks = [np.zeros(count, int) for count in (size, size, routes, resources, routes, routes)]
        blanks += [np.full(self.problem.devices, NOTHING_BEFORE), *(np.zeros(2 * size, int) for _ in range(2))]
        blanks += [np.zeros(size, int) for _ in range(4)]
        count, (picked, behind_here, behind_there) = run_kernel("match", *columns, left, *blanks, written=3)
        picked, rows, place = picked[:count], [], np.full(self.first + 1, NOTHING_BEFORE)
        for device, line in enumerate(self.lines[: self.problem.devices]):
            own = picked[(self.here[picked] == device) | (self.there[picked] == device)]
            sends = (self.here[own] == device).astype(np.int64)
            after = np.where(sends, behind_here[own], behind_there[own])
            if self.queue != ON_DEVICE:  # early as can be, where messages hold no devices
                place[line] = np.arange(len(line))
                made = np.where(sends, place[self.sent.source[own - self.first]], NOTHING_BEFORE)
                after = np.append(line, NOTHING_BEFORE)[np.maximum.accumulate(made)]
            rows.append(MessageProgram(own, sends, after, 0 * own))
        return self.sent.programs(rows)
