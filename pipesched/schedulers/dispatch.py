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
from heapq import heappop, heappush
from typing import NamedTuple

from pipesched.core.clock import EVERY, look
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.block import Block

LOOK = 64  # how many forwards of a device are looked at for one that may overtake
_END, _ARRIVAL, _CHOICE = range(3)  # what happens at one moment, in this order


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
    run = _Dispatcher(problem, index, block, capacities, policy)
    run.run()
    orders = [device.order for device in run.devices]
    return orders if sum(map(len, orders)) == index.size else None


class _Ready:
    """A device during dispatch: what it may run, and the order that it has run so far."""

    def __init__(self, forwards: list[int], capacity: int) -> None:
        self.forwards, self.next_forward = forwards, 0
        self.inputs: list[tuple[int, int]] = []  # ready I (or B), by their time in the block
        self.weights: list[tuple[int, int]] = []
        self.coming: list[int] = []  # when inputs from other devices arrive
        self.capacity = capacity
        self.order: list[int] = []
        self.busy = False


class _Dispatcher:
    """The state of a run: coming events, and what each operation still waits for."""

    def __init__(
        self, problem: Problem, index: OpIndex, block: Block, capacities: Sequence[int], policy: Policy
    ) -> None:
        self.graph, self.policy = lower(problem, index), policy
        self.index = index
        self.grace = {length: int(policy.patience * length) for length in set(self.graph.durations)}
        self.times = block.times(index)
        self.started = bytearray(index.size)
        self.waits = [len(before) for before in self.graph.predecessors]
        self.is_weight = bytearray(index.size)
        for task in index.of_kind("W") if "W" in index.letters else ():
            self.is_weight[task] = 1
        forwards: list[list[int]] = [[] for _ in capacities]
        for task in block.order(index):
            if index.is_forward(task):
                forwards[self.graph.resources[task]].append(task)
        self.devices = [_Ready(tasks, capacity) for tasks, capacity in zip(forwards, capacities, strict=True)]
        self.events: list[tuple[int, int, int, int]] = [(0, _CHOICE, number, 0) for number in range(len(capacities))]

    def run(self) -> None:
        """Go from event to event: operations end, inputs arrive, devices choose."""
        steps = 0
        while self.events:
            steps += 1
            if not steps & EVERY:
                look()
            now, event, number, task = heappop(self.events)
            device = self.devices[number]
            if event == _CHOICE:
                choice = None if device.busy else self._choice(device, now)
                if choice is not None:
                    self._start(device, choice, now)
                continue
            if event == _END:
                device.busy = False
                device.capacity += self.graph.gives[task]
            else:
                heappop(device.coming)
                self._receive(device, task)
            heappush(self.events, (now, _CHOICE, number, 0))

    def _start(self, device: _Ready, task: int, now: int) -> None:
        if self.index.is_forward(task):
            self.started[task] = 1
            while device.next_forward < len(device.forwards) and self.started[device.forwards[device.next_forward]]:
                device.next_forward += 1
        else:
            heappop(device.weights if self.is_weight[task] else device.inputs)
        device.capacity -= self.graph.takes[task]
        device.order.append(task)
        device.busy = True
        end = now + self.graph.durations[task]
        heappush(self.events, (end, _END, self.graph.resources[task], task))
        for after, lag in self.graph.successors[task]:
            there = self.graph.resources[after]
            heappush(self.events, (end + lag, _ARRIVAL, there, after))
            heappush(self.devices[there].coming, end + lag)

    def _receive(self, device: _Ready, task: int) -> None:
        self.waits[task] -= 1
        if not self.waits[task] and not self.index.is_forward(task):
            heappush(device.weights if self.is_weight[task] else device.inputs, (self.times[task], task))

    def _choice(self, device: _Ready, now: int) -> int | None:
        """Return what a free device runs next; None if it waits."""
        forward = device.forwards[device.next_forward] if device.next_forward < len(device.forwards) else None
        if forward is not None and self.waits[forward]:
            forward = None
        full = forward is not None and self.graph.takes[forward] > device.capacity
        if full and device.weights and self.policy.weight_first:
            return device.weights[0][1]
        if (
            forward is not None
            and not full
            and not (device.inputs and device.inputs[0] < (self.times[forward], forward))
        ):
            return forward
        if device.inputs:
            return device.inputs[0][1]
        overtaking = self._overtaking(device) if self.policy.ahead else None
        if overtaking is not None:
            return overtaking
        if device.weights and (full or self._has_time(device, device.weights[0][1], now)):
            return device.weights[0][1]
        return None

    def _has_time(self, device: _Ready, weight: int, now: int) -> bool:
        """Return whether a W ends before the next input arrives, or not too long after."""
        length = self.graph.durations[weight]
        return not device.coming or now + length <= device.coming[0] + self.grace[length]

    def _overtaking(self, device: _Ready) -> int | None:
        """Return the first ready F of the device, if it fits beside those that it overtakes."""
        capacity, overtaken = device.capacity, 0
        for task in device.forwards[device.next_forward : device.next_forward + LOOK]:
            if self.started[task]:
                continue
            if not self.waits[task]:
                return task if self.graph.takes[task] <= capacity else None
            if overtaken < self.policy.ahead:
                capacity -= self.graph.takes[task]
            if capacity < 0:
                return None
            overtaken += 1
        return None
