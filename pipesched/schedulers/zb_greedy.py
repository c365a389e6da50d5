"""A greedy scheduler for one stage a device and a split backward: all devices move through time together.

A free device runs the backward that has come (I), else the forward (F) that fits in its memory, and a weight gradient
(W) where it would idle or where its memory is full. `Switches` says how long it rather waits for an I.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipesched.core.arrays import Kernels, column, in_range, lists, np
from pipesched.core.clock import look
from pipesched.pipeline.problem import Problem

KINDS = "FIW"
AT_ONCE = 200_000  # looks at devices between two looks at the clock


class Switches(NamedTuple):
    """The settings of the greedy scheduler.

    A patience is in halves of an operation's length: the operation is not started when what comes next is known to
    come sooner than that. 0 never waits, 2 never delays what comes next.
    """

    in_flight: Sequence[int]  # the most forwards without their I, per device
    alternate: bool  # F and I in turn where both could run; else I first
    first_patience: int  # of a forward, before the first I
    patience: int  # of a forward, later
    weight_patience: int


def greedy_orders(problem: Problem, capacities: Sequence[int], switches: Switches) -> list[list[int]]:
    """Return the order of each device, as numbers of OpIndex("FIW", ...).

    `capacities` holds what activations may take of each device, in grains. There is no deadlock when every capacity
    holds one activation and what its I takes: the oldest unfinished microbatch can always go on. O(operations x log
    devices).
    """
    ticks, grains, devices, count = problem.ticks, problem.grains, problem.devices, problem.microbatches
    times = column([*ticks.forward, *ticks.backward_input, *ticks.backward_weight])
    size, kept = grains.activation, grains.retained
    left = [whole - part for whole, part in zip(size, kept, strict=True)]
    changes = column([*(-whole for whole in size), *left, *kept])
    latest = (sum(map(int, times)) + sum(ticks.p2p) + sum(ticks.p2p_back)) * (count + 1) * devices  # of a look
    rooms = column([*capacities])
    fixed = (in_range(times, 4 * latest), changes, *map(column, (size, grains.caught, ticks.p2p, ticks.p2p_back)))
    kernels = Kernels(*fixed, rooms)
    counts = [0] * (3 * devices) + [count] + [0] * (2 * devices - 1)  # all inputs of the first device are there
    columns = (column(switches.in_flight), *fixed, rooms.copy(), column(counts))
    given = [*map(kernels.give, columns)]
    heap = kernels.blank((6 * count + 2) * devices)
    state = [kernels.blank(number) for number in (devices, devices, devices * count, devices * count)]
    order, looks = kernels.blank(3 * count * devices), 1
    patience = (int(switches.alternate), *switches[2:])
    while looks:
        look()
        looks = kernels.run.greedy(AT_ONCE, looks, heap, *patience, count, *given, *state, order)
    done = np.array(lists(given[-1])[: 3 * devices]).reshape(3, devices).sum(axis=0).tolist()
    listed = lists(order)
    return [listed[3 * count * device :][: done[device]] for device in range(devices)]
