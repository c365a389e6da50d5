"""Dispatching of a repeated block: devices run what is ready, earliest in the block first, and W where they would idle.

Where `squeeze` fixes a time for each operation and fits the later ones around it, here all devices go through time
together, so that a W can fill a gap that the block does not have. Costs far from the block's own do less harm.

There is no deadlock while forwards keep the order of the block: the earliest operation that has not run has its inputs,
and memory holds no more than in the block. A forward may overtake others (`Policy.ahead`) while memory is kept free for
them; where too little is kept, a deadlock is possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from pipesched.core.arrays import Ints, Kernels, column, in_range, lists, np, total
from pipesched.core.clock import look
from pipesched.core.tasks import TaskGraph, WaitTable
from pipesched.pipeline.ops import OpIndex
from pipesched.schedulers.block import Block

LOOK = 64  # how many forwards of a device are looked at for one that may overtake
AT_ONCE = 100_000  # events between two looks at the clock


class Policy(NamedTuple):
    """The choices that a block leaves open; what is best depends on the costs."""

    patience: int = 0  # a W may keep the next operation waiting for so many quarters of the W's length
    weight_first: bool = True  # where memory keeps a ready F waiting: W before I
    ahead: int = 0  # an F overtakes others if its device would idle, with memory kept free for so many of them


class Dispatcher:
    """A block of operations, which are the tasks of a graph, to be dispatched by several policies."""

    def __init__(self, graph: TaskGraph, index: OpIndex, block: Block) -> None:
        self._graph, self._forward_count = graph, index.stages * index.units
        after = WaitTable(graph.edges.before, graph.edges.after, graph.edges.lag, len(graph))
        by_rank = np.argsort(block.times(index), kind="stable")
        rank, is_weight = np.empty(index.size, dtype=np.int64), np.zeros(index.size, dtype=np.int64)
        rank[by_rank] = np.arange(index.size)
        weights = index.of_kind("W")
        is_weight[weights.start : weights.stop] = 1
        forwards = by_rank[by_rank < self._forward_count]
        machines = (graph.resource, graph.resource[forwards], graph.resource[after.task])
        self._begins, self._first_forwards, coming = (_begins(one, len(graph.unit_counts)) for one in machines)
        forwards = forwards[np.argsort(graph.resource[forwards], kind="stable")]
        self._block = (after.first, after.task, after.lag, rank, by_rank, is_weight, forwards,
                       self._first_forwards[1:], self._begins[:-1], coming[:-1])  # fmt: skip

    def orders(self, capacities: Sequence[int], policy: Policy) -> list[list[int]] | None:
        """Return the order of each device, with at most `capacities[d]` grains of activations on device d.

        None for a deadlock, to which an `ahead` smaller than what is overtaken can lead.
        """
        graph, size, devices, edges = self._graph, len(self._graph), len(capacities), len(self._graph.edges)
        grace = in_range(graph.duration, total(graph.duration) * policy.patience) * policy.patience // 4
        rooms = column([*capacities])
        kernels = Kernels(graph.duration, graph.edges.lag, graph.take, graph.give, rooms, grace)
        tasks = (graph.duration, graph.take, graph.give, graph.resource, grace)
        given = [*map(kernels.give, (*tasks, *self._block, np.diff(graph.waits.first)))]
        started, nexts = kernels.blank(size), kernels.give(self._first_forwards[:-1].copy())
        lanes = [kernels.blank(count) for count in (devices, size, devices, size, devices, edges, devices)]
        order, counts = kernels.blank(size), kernels.blank(devices)
        events = [kernels.blank(edges + devices) for _ in range(2)]
        choices = (kernels.give(np.arange(devices)), kernels.blank(devices, 1), kernels.give(column([0, 0, devices])))
        switches = (policy.ahead, LOOK, int(policy.weight_first), self._forward_count)
        room, left = kernels.give(rooms), devices
        while left:
            look()
            left = kernels.run.dispatch(
                AT_ONCE, *switches, *given, started, nexts, room, *lanes, order, counts, *events, *choices
            )
        if sum(counts) < size:
            return None
        listed = lists(order)
        return [listed[begin:stop] for begin, stop in pairwise(self._begins.tolist())]


def _begins(machines: Ints, count: int) -> Ints:
    """Return where the tasks of each machine begin if they are sorted by machine, and where the last ones end."""
    begins: Ints = np.concatenate([[0], np.bincount(machines, minlength=count).cumsum()])
    return begins
