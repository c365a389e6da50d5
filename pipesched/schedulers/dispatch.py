"""Dispatching of a repeated block: devices run what is ready, earliest in the block first, and W where they would idle.

Where `squeeze` fixes a time for each operation and fits the later ones around it, here all devices go through time
together, so that a W can fill a gap that the block does not have. Costs far from the block's own do less harm.

There is no deadlock while forwards keep the order of the block: the earliest operation that has not run has its inputs,
and memory holds no more than in the block. A forward may overtake others (`Policy.ahead`) while memory is kept free for
them; where too little is kept, a deadlock is possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from pipesched.core.arrays import Ints, Kernels, column, lists, np
from pipesched.core.clock import look
from pipesched.core.tasks import TaskGraph, WaitTable
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.block import Block

LOOK = 64  # how many forwards of a device are looked at for one that may overtake
AT_ONCE = 500_000  # events between two looks at the clock


class Policy(NamedTuple):
    """The choices that a block leaves open; what is best depends on the costs."""

    patience: Fraction = Fraction(0)  # a W may keep the next operation waiting for this part of the W's length
    weight_first: bool = True  # where memory keeps a ready F waiting: W before I
    ahead: int = 0  # an F overtakes others if its device would idle, with memory kept free for so many of them


def dispatch(
    problem: Problem, index: OpIndex, block: Block, capacities: Sequence[int], policy: Policy
) -> list[list[int]] | None:
    """Return the order of each device, with at most `capacities[d]` grains of activations on device d.

    None for a deadlock, to which an `ahead` smaller than what is overtaken can lead.
    """
    return Dispatcher(lower(problem, index), index, block).orders(capacities, policy)


class Dispatcher:
    """A block on a task graph, to be dispatched by several policies."""

    def __init__(self, graph: TaskGraph, index: OpIndex, block: Block) -> None:
        self.graph, self.index = graph, index
        size, times = index.size, block.times_of(index)
        by_rank = np.argsort(times, kind="stable")
        rank = np.empty(size, dtype=np.int64)
        rank[by_rank] = np.arange(size)
        self._after = WaitTable(graph.edges.before, graph.edges.after, graph.edges.lag, size)
        is_weight = np.zeros(size, dtype=np.int64)
        row = index.of_kind("W")
        is_weight[row.start : row.stop] = 1
        self._ranks = rank, by_rank, is_weight

        forwards = (order := block.order_of(index))[order < index.stages * index.units]
        self._forwards = forwards[np.argsort(graph.resource[forwards], kind="stable")]

    def orders(self, capacities: Sequence[int], policy: Policy) -> list[list[int]] | None:
        """Return the order of each device; None for a deadlock."""
        graph, size, devices = self.graph, self.index.size, len(capacities)
        forward_count = self.index.stages * self.index.units
        counts, stops, arriving = (
            np.bincount(column(machines), minlength=devices)
            for machines in (graph.resource, graph.resource[self._forwards], graph.resource[graph.edges.after])
        )
        share = policy.patience
        grace = graph.duration * share.numerator // share.denominator
        limits = column(capacities)
        kernels = Kernels(graph.duration, graph.edges.lag, graph.take, graph.give, limits, grace)
        columns = (graph.duration, graph.take, graph.give, graph.resource, grace, self._after.first, self._after.task,
                   self._after.lag, *self._ranks, self._forwards, np.cumsum(stops), _begins(counts), _begins(arriving),
                   np.diff(graph.waits.first))  # fmt: skip
        order, taken = kernels.blank(size), kernels.blank(devices)
        lanes = (kernels.blank(size), kernels.blank(devices), kernels.blank(size), kernels.blank(devices))
        coming = (kernels.blank(len(graph.edges)), kernels.blank(devices))
        most = len(graph.edges) + 3 * size + devices
        event_times, event_codes = kernels.blank(most), kernels.give(_codes(devices, size, most))
        state = (kernels.blank(size), kernels.give(_begins(stops)), kernels.give(limits.copy()), kernels.blank(devices))
        given = [*map(kernels.give, columns)]
        left = devices
        while left:
            look()
            left = kernels.run.dispatch(
                AT_ONCE, policy.ahead, LOOK, int(policy.weight_first), size, forward_count, *given, *state, *lanes,
                *coming, order, taken, event_times, event_codes, left,
            )  # fmt: skip
        if sum(lists(taken)) < size:
            return None
        listed, bounds = lists(order), [0, *np.cumsum(counts).tolist()]
        return [listed[begin:stop] for begin, stop in pairwise(bounds)]


def _begins(counts: Ints) -> Ints:
    """Return where the parts of so many begin that stand one behind the other."""
    begins: Ints = np.cumsum(counts) - counts
    return begins.astype(np.int64)


def _codes(devices: int, size: int, most: int) -> Ints:
    """Return the codes of the first events, a choice of each device, and room for others."""
    codes = np.zeros(most, dtype=np.int64)
    codes[:devices] = (2 * devices + np.arange(devices)) * size
    return codes
