"""Many replays of a plan at once: each operation is a vector with its end in every sample.

What is prepared once is a list of steps in topological order. A step reads the ends of the operations that it waits for
and writes its own; a vector whose last reader has run is written again by a later step, so that few are alive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from pipesched.analysis.robust.variation import Factors, Variation, block_sizes
from pipesched.core.clock import look
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.schedule import Schedule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROWS = 32  # operations whose factors are drawn together
ABSENT = -1  # the machine of an operation that does not run
Wait = tuple[int, int]  # what is waited for (an operation, or its vector), and the ticks after its end
Step = tuple[int, list[Wait], bool]  # the vector it writes, those that it waits for, whether it may end the schedule


class Replay:
    """The order of a schedule, ready to be timed with other durations.

    `steps` are in topological order, `texts` and `ticks` are their operations and durations, `machines` what runs them:
    a device's number, or the number of devices for a lane.
    """

    def __init__(self, schedule: Schedule) -> None:
        plan, graph, self.devices = schedule.plan, schedule.graph, schedule.problem.devices
        self.per_unit = schedule.problem.ticks.per_unit
        machine = [ABSENT] * plan.index.size
        for number, order in enumerate(plan.machines):
            for task in order:
                machine[task] = number
        last = {order[-1] for order in chain(plan.orders, plan.network_lanes) if order}
        tasks = [*chain.from_iterable(plan.machines)]
        tasks_in_order, self.steps, self.vectors = _steps(_waits(schedule, machine), tasks, last)
        texts = _texts(plan)
        self.texts = [texts[task] for task in tasks_in_order]
        self.ticks = [float(graph.durations[task]) for task in tasks_in_order]
        self.machines = [min(machine[task], self.devices) for task in tasks_in_order]

    def makespans(self, variation: Variation, blocks: range | None = None) -> NDArray[np.float64]:
        """Return the makespan of each sample, or of each in some blocks of them, in the user's time unit."""
        import numpy as np

        widths = block_sizes(variation.samples)
        chosen = range(len(widths)) if blocks is None else blocks
        parts = [self._block(Factors(variation.seed, block, widths[block]), variation) for block in chosen]
        return np.concatenate(parts) / self.per_unit

    def _block(self, factors: Factors, variation: Variation) -> NDArray[np.float64]:
        """Return the makespan of each sample of a block, in ticks: the last end of a device or a network lane.

        Something starts at 0.
        """
        import numpy as np

        add, maximum = np.add, np.maximum
        ends = [np.empty(factors.width) for _ in range(self.vectors)]
        latest, first, other = np.zeros(factors.width), np.empty(factors.width), np.empty(factors.width)
        for lengths, steps in self._chunks(factors, variation):
            for length, (written, waits, is_last) in zip(lengths, steps, strict=False):
                start = None
                for before, lag in waits:
                    if start is None:
                        start = add(ends[before], lag, out=first) if lag else ends[before]
                    else:
                        ready = add(ends[before], lag, out=other) if lag else ends[before]
                        start = maximum(start, ready, out=first)
                end = ends[written]
                if start is None:
                    end[:] = length
                else:
                    add(start, length, out=end)
                if is_last:
                    maximum(latest, end, out=latest)
        return latest

    def _chunks(self, factors: Factors, variation: Variation) -> Iterator[tuple[NDArray[np.float64], Sequence[Step]]]:
        """Yield steps with their durations in each sample, some at a time; the array is written again by the next."""
        import numpy as np

        of_devices = np.ones((self.devices + 1, factors.width))  # the last one is that of the lanes
        names = [f"device {device}" for device in range(self.devices)]
        factors.fill(of_devices[:-1], names, variation.device_noise)
        rows = np.empty((ROWS, factors.width))
        ticks, machines = np.array(self.ticks), np.array(self.machines, dtype=np.intp)
        for first in range(0, len(self.steps), ROWS):
            look()
            part = slice(first, first + ROWS)
            lengths = rows[: len(self.texts[part])]
            factors.fill(lengths, self.texts[part], variation.noise)
            lengths *= ticks[part, None]
            if variation.device_noise:
                lengths *= of_devices[machines[part]]
            yield lengths, self.steps[part]


def _texts(plan: Plan) -> list[str]:
    """Return the text of each operation by its number; a pair's stands at its forward.

    Both ends of tied gradients have that of the first: they are one.
    """
    names = [str(plan.index.op(number)) for number in plan.index.row("F", 0)]
    units = [name.removeprefix("0F") for name in names]
    texts = plan.index.spread(lambda letter, stage: [f"{stage}{letter}{unit}" for unit in units])
    for forward in plan.pairs:
        texts[forward] = str(plan.slot(forward))
    texts += [str(plan.index.op(number)) for number in range(plan.index.passes, plan.index.size)]
    ends = plan.index.of_kind("REDUCE_TIED")
    for number in ends:
        texts[number] = texts[ends[0]]
    return texts


def _waits(schedule: Schedule, machine: Sequence[int]) -> list[list[Wait]]:
    """Return what each operation waits for: the one before it on its machine, and those of the edges."""
    waits: list[list[Wait]] = [[] for _ in machine]
    for order in schedule.plan.machines:
        for before, task in pairwise(order):
            waits[task].append((before, 0))
    for earlier, later, lag in schedule.graph.arrows():
        here = machine[later]
        if here != ABSENT and (lag or machine[earlier] != here):  # else the order says it
            waits[later].append((earlier, lag))
    return waits


def _steps(waits: list[list[Wait]], tasks: Sequence[int], last: Collection[int]) -> tuple[list[int], list[Step], int]:
    """Return `tasks` in topological order, those that can start first at the front, their steps, and how many vectors.

    A step may write a vector that it reads: it reads first.
    """
    readers: list[list[int]] = [[] for _ in waits]
    for task in tasks:
        for before, _ in waits[task]:
            readers[before].append(task)
    ready = [task for task in tasks if not waits[task]]
    open_waits, open_reads = [*map(len, waits)], [*map(len, readers)]
    vector, vectors = [ABSENT] * len(waits), 0
    free: list[int] = []
    steps = []
    for task in ready:  # grows while it is walked
        read = [(vector[before], lag) for before, lag in waits[task]]
        for before, _ in waits[task]:
            open_reads[before] -= 1
            if not open_reads[before]:
                free.append(vector[before])
        if not free:
            free.append(vectors)
            vectors += 1
        written = vector[task] = free.pop()
        steps.append((written, read, task in last))
        if not readers[task]:
            free.append(written)
        for after in readers[task]:
            open_waits[after] -= 1
            if not open_waits[after]:
                ready.append(after)
    return ready, steps, vectors
