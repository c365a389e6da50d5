"""The order in which devices issue messages: a file's, PyTorch's, or the best one found."""

from __future__ import annotations

from math import inf

from pipesched.core.arrays import Ints, Kernels, column, np
from pipesched.core.clock import look
from pipesched.core.tasks import Edges, WaitTable
from pipesched.core.timing import Retiming, heads, tails
from pipesched.errors import ConfigError
from pipesched.pipeline.lowering import lower_plan
from pipesched.pipeline.message_programs import (
    Sent,
    pytorch_programs,
    queues_of,
    resolved,
    with_queues,
    without_messages,
)
from pipesched.pipeline.plan import NOTHING_BEFORE, MessageProgram, Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.step import BEST, EDGE, OF_FILE, ON_DEVICE, PYTORCH, Messages

ROUNDS = 8  # of choosing anew by what follows each message in the best order so far


def with_messages(problem: Problem, plan: Plan) -> tuple[Problem, Plan]:
    """Return the problem with the order of its messages named, and the plan with them, or without where none queue.

    Messages that a plan has already stay as they are. Raises ConfigError where the order is to be that of a file, which
    has none, and InvalidSchedule where devices wait in a circle.
    """
    known = problem.messages
    if known is None:
        return problem, without_messages(plan)
    if plan.messages:
        return resolved(problem, known.order or OF_FILE), plan
    if known.order == OF_FILE:
        raise ConfigError("file: the plan says no SEND and RECV", "messages", entry="order")
    problem = resolved(problem, known.order or PYTORCH)
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
        self._lay_out()

    def _lay_out(self) -> None:
        """Give numbers to the resources that messages need, and the lines of those that need the same ones."""
        sent, queue, devices = self.sent, self.queue, self.problem.devices
        (edge, _), (one, two) = map(sent.queues, (EDGE, queue))
        here, there = (np.where(sent.is_run, ends, NOTHING_BEFORE) for ends in (sent.sender, sent.receiver))
        none = np.full(self.first, NOTHING_BEFORE)
        self.here, self.there = np.append(none, here), np.append(none, there)
        for device, line in enumerate(self.lines[:devices]):
            self.here[line] = device
        is_message = np.append(np.zeros(self.first, dtype=bool), sent.is_run)
        line = np.where(is_message, np.append(none, edge), NOTHING_BEFORE)
        if queue == ON_DEVICE:
            line = np.where(is_message, line, np.where(self.here >= 0, devices * devices + self.here, NOTHING_BEFORE))
        first_one, first_two = np.append(self.here[: self.first], one), np.append(self.here[: self.first], two)
        of_line, members = np.unique(line[line >= 0], return_index=True)
        members = np.flatnonzero(line >= 0)[members]
        self.line = np.where(line >= 0, np.searchsorted(of_line, line), NOTHING_BEFORE)
        resources, numbers = np.unique(np.concatenate([first_one[members], first_two[members]]), return_inverse=True)
        self.one, self.two = numbers[: len(members)], numbers[len(members) :]
        counts = np.bincount(self.line[line >= 0], minlength=len(members))
        self.base = np.cumsum(counts) - counts
        lines = np.arange(len(members))
        both, is_other = np.append(self.one, self.two), self.one != self.two
        users = np.append(lines, lines[is_other])
        keys = both[np.append(lines, lines[is_other] + len(lines))]
        self.touched = WaitTable(keys, users, 0 * users, len(resources))

    def plan(self) -> Plan:
        """Return the plan with the best order found: never longer than with the one that it has."""
        best, least = self.given, self._makespan(self.given)
        bound, edges = self.bound, self.graph.edges
        for _ in range(ROUNDS if self.line.max(initial=NOTHING_BEFORE) >= 0 else 0):
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
            lines = self.touched.task[self.touched.first[resource] : self.touched.first[resource + 1]]
            own = np.flatnonzero(np.isin(self.line, lines))
            found = max(found, int(begin[own].min() + graph.duration[own].sum() + follow[own].min()))
        return found

    def _chosen(self, follow: Ints) -> Plan:
        """Return the plan in which of two messages at the heads of queues the one goes that more follows."""
        look()
        graph, size = self.graph, len(self.graph)
        by_rank = np.lexsort((np.arange(size), -(follow + graph.duration)))
        rank = np.empty(size, dtype=np.int64)
        rank[by_rank] = np.arange(size)
        followers, left = graph.followers, np.diff(graph.waits.first)
        kernels = Kernels(graph.duration, followers.lag)
        columns = (graph.duration, followers.first, followers.task, followers.lag, self.line, self.one, self.two,
                   self.base, self.touched.first, self.touched.task, rank, by_rank, self.here, self.there)  # fmt: skip
        lines, resources = len(self.one), len(self.touched.first) - 1
        blanks = [kernels.blank(count) for count in (size, size, lines, resources, lines, lines)]
        blanks += [kernels.blank(self.problem.devices, NOTHING_BEFORE), *(kernels.blank(2 * size) for _ in range(2))]
        found = [kernels.blank(size) for _ in range(4)]
        count = kernels.run.match(*map(kernels.give, columns), kernels.give(left), *blanks, *found)
        _, picked, here, there = map(column, found)
        return self._programs(picked[:count], here, there)

    def _programs(self, picked: Ints, behind_here: Ints, behind_there: Ints) -> Plan:
        """Return the plan with messages in the order in which they were picked.

        Where they hold devices each stands where it was; else as early as that order lets it, a SEND behind its source.
        """
        rows, place = [], np.full(self.first + 1, NOTHING_BEFORE)
        for device, line in enumerate(self.lines[: self.problem.devices]):
            own = picked[(self.here[picked] == device) | (self.there[picked] == device)]
            sends = (self.here[own] == device).astype(np.int64)
            after = np.where(sends, behind_here[own], behind_there[own])
            if self.queue != ON_DEVICE:
                place[line] = np.arange(len(line))
                made = np.where(sends, place[self.sent.source[own - self.first]], NOTHING_BEFORE)
                after = np.append(line, NOTHING_BEFORE)[np.maximum.accumulate(made)]
            rows.append(MessageProgram(own, sends, after, 0 * own))
        return self.sent.programs(rows)
