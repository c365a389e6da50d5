"""A greedy for one stage a device and a split backward: all devices move through time together.

A free device runs the backward that has come (I), else the forward (F) that its memory has room for, and a weight
gradient (W) where it would idle or where its memory is full. How long it rather waits for an I is a `Switches`.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem

KINDS = "FIW"
FORWARD, INPUT, WEIGHT, WAIT = 0, 1, 2, -1
_NEVER = 1 << 80


class Switches(NamedTuple):
    """What the greedy may do one way or another.

    A patience is in halves of an operation's length: the operation is not started when what comes next is known to
    come sooner than that. 0 never waits, 2 never delays what comes next.
    """

    in_flight: Sequence[int]  # the most forwards without their I, per device
    alternate: bool  # F and I in turn where both could run; else I first
    first_patience: int  # of a forward, before the first I
    patience: int  # of a forward, later
    weight_patience: int


def greedy_orders(problem: Problem, rooms: Sequence[int], switches: Switches) -> list[list[int]]:
    """The order of each device, as numbers of OpIndex("FIW", ...). `rooms` holds what activations may take, in grains.

    Never stuck when every room holds one activation: the oldest unfinished microbatch can always go on. O(operations
    x log devices).
    """
    devices = [_Device(problem, number, room, switches) for number, room in enumerate(rooms)]
    hops, last = problem.costs.p2p, problem.devices - 1
    devices[0].forwards_at = [0] * problem.microbatches
    events = [(0, 0)]  # (time, device): when to look at a device
    while events:
        now, number = heappop(events)
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
            devices[number + 1].forwards_at.append(end + hops[number])
            heappush(events, (end + hops[number], number + 1))
        elif kind == FORWARD:
            device.inputs_at.append(end)
        elif kind == INPUT and number:
            devices[number - 1].inputs_at.append(end + hops[number - 1])
            heappush(events, (end + hops[number - 1], number - 1))
    return [device.order for device in devices]


class _Device:
    """One device in the middle of its work: what has come, what is done, what is held."""

    __slots__ = (
        "after_forward", "changes", "done", "durations", "forwards_at", "free_at", "in_flight", "inputs_at", "numbers",
        "order", "room", "size", "switches", "wake_at",
    )  # fmt: skip

    def __init__(self, problem: Problem, number: int, room: int, switches: Switches) -> None:
        costs, memory = problem.costs, problem.memory
        self.durations = (costs.forward[number], costs.backward_input[number], costs.backward_weight[number])
        self.size, kept = memory.activation[number], memory.retained[number]
        self.changes = (-self.size, self.size - kept, kept)  # of the room that is left
        self.room = room
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
        """The kind to run now; or WAIT, until `wake_at` or until something comes."""
        forwards, inputs, weights = self.done
        input_at = self.inputs_at[inputs] if inputs < len(self.inputs_at) else _NEVER
        forward_at = _NEVER
        if self.size <= self.room and forwards - inputs < self.in_flight and forwards < len(self.forwards_at):
            forward_at = self.forwards_at[forwards]
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
        """Run the next operation of that kind now; its end."""
        self.order.append(self.numbers[kind][self.done[kind]])
        self.done[kind] += 1
        self.room += self.changes[kind]
        if kind != WEIGHT:
            self.after_forward = kind == FORWARD
        self.free_at = now + self.durations[kind]
        return self.free_at
