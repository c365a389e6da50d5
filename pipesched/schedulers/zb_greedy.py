"""A greedy scheduler for one stage a device and a split backward: all devices move through time together.

A free device runs the backward that has come (I), else the forward (F) that fits in its memory, and a weight gradient
(W) where it would idle or where its memory is full. `Switches` says how long it rather waits for an I.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from pipesched.core.clock import EVERY, look
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem

KINDS = "FIW"
FORWARD, INPUT, WEIGHT, WAIT = 0, 1, 2, -1
_NEVER = 1 << 200


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
    devices = [_Pipe(problem, number, capacity, switches) for number, capacity in enumerate(capacities)]
    ticks, last = problem.ticks, problem.devices - 1
    devices[0].forwards_at = [0] * problem.microbatches
    events, steps = [(0, 0)], 0  # (time, device): when to look at a device
    while events:
        now, number = heappop(events)
        steps += 1
        if not steps & EVERY:
            look()
        device = devices[number]
        if device.free_at > now:
            continue
        kind = device.choose(now)
        if kind == WAIT:
            if device.wake_at < _NEVER:
                heappush(events, (device.wake_at, number))
            continue
        end = device.start(kind, now)
        heappush(events, (end, number))
        if kind == FORWARD and number < last:
            devices[number + 1].forwards_at.append(end + ticks.p2p[number])
            heappush(events, (end + ticks.p2p[number], number + 1))
        elif kind == FORWARD:
            device.inputs_at.append(end)
        elif kind == INPUT and number:
            devices[number - 1].inputs_at.append(end + ticks.p2p_back[number - 1])
            heappush(events, (end + ticks.p2p_back[number - 1], number - 1))
    return [device.order for device in devices]


class _Pipe:
    """The state of a device: which inputs have come, which operations are done, how much memory is left."""

    __slots__ = (
        "after_forward", "capacity", "caught", "changes", "done", "durations", "forwards_at", "free_at",
        "in_flight", "inputs_at", "numbers", "order", "size", "switches", "wake_at",
    )  # fmt: skip

    def __init__(self, problem: Problem, number: int, capacity: int, switches: Switches) -> None:
        ticks, grains = problem.ticks, problem.grains
        self.durations = (ticks.forward[number], ticks.backward_input[number], ticks.backward_weight[number])
        self.size, kept = grains.activation[number], grains.retained[number]
        self.caught = grains.caught[number]
        self.changes = (-self.size, self.size - kept, kept)  # of the capacity that is left
        self.capacity = capacity
        self.switches, self.in_flight = switches, switches.in_flight[number]
        index = OpIndex(KINDS, problem.stages, problem.microbatches)
        self.numbers = [index.row(kind, number) for kind in KINDS]
        self.forwards_at: list[int] = []  # when the input of each F comes, as far as it is known
        self.inputs_at: list[int] = []  # of each I
        self.done = [0, 0, 0]
        self.order: list[int] = []
        self.free_at = self.wake_at = 0
        self.after_forward = False

    def choose(self, now: int) -> int:
        """Return the kind to run now; or WAIT, until `wake_at` or until something comes."""
        forwards, inputs, weights = self.done
        input_at = self.inputs_at[inputs] if inputs < len(self.inputs_at) else _NEVER
        forward_at = _NEVER
        room = self.size + self.caught  # a device full of activations could start no I
        if room <= self.capacity and forwards - inputs < self.in_flight and forwards < len(self.forwards_at):
            forward_at = self.forwards_at[forwards]
        if input_at <= now and self.caught > self.capacity:
            return WEIGHT
        if input_at <= now:
            takes_turns = self.switches.alternate and not self.after_forward
            return FORWARD if forward_at <= now and takes_turns else INPUT
        if forward_at <= now:
            patience = self.switches.patience if inputs else self.switches.first_patience
            if 2 * (input_at - now) >= patience * self.durations[FORWARD]:
                return FORWARD
            forward_at = _NEVER
        self.wake_at = min(input_at, forward_at)
        gap = self.wake_at - now
        if weights < inputs and 2 * gap >= self.switches.weight_patience * self.durations[WEIGHT]:
            return WEIGHT
        return WAIT

    def start(self, kind: int, now: int) -> int:
        """Run the next operation of that kind now, and return its end."""
        self.order.append(self.numbers[kind][self.done[kind]])
        self.done[kind] += 1
        self.capacity += self.changes[kind]
        if kind != WEIGHT:
            self.after_forward = kind == FORWARD
        self.free_at = now + self.durations[kind]
        return self.free_at
