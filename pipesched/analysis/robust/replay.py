"""Many replays of a plan at once: a row of numbers for each operation, with its end in every sample.

Rows are in an order in which each waits for earlier ones alone. What the last reader of an end has read is written
again, so that few ends are held.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from pipesched.analysis.robust.variation import Factors, Variation, block_sizes
from pipesched.core.arrays import Ints, in_range, np, total
from pipesched.core.clock import look
from pipesched.core.sweep import CaseSweep
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.quantities import plain
from pipesched.pipeline.schedule import Schedule

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS = 32  # operations whose factors are drawn together


class Replay:
    """The order of a schedule, ready to be timed with other durations; `texts` and `ticks` by row."""

    def __init__(self, schedule: Schedule) -> None:
        plan, graph, self.devices = schedule.plan, schedule.graph, schedule.problem.devices
        self.per_unit = schedule.problem.ticks.per_unit
        self._sweep = CaseSweep(len(graph), plan.lines, graph.edges)
        edges = self._sweep.edges
        self._lag = np.where(edges >= 0, graph.edges.lag[edges], 0) if len(graph.edges) else edges * 0
        self.ticks = graph.duration[self._sweep.tasks]
        self._machines = np.minimum(self._sweep.machines, self.devices)  # the number of devices stands for all lanes
        transfers = range(self.devices, self.devices + 2 * len(plan.lanes))  # they end no schedule
        rows = self._sweep.rows
        self._last = np.array([own[-1] for n, own in enumerate(rows) if len(own) and n not in transfers], dtype=np.intp)
        self._vector, self._vectors = self._sweep.vectors(self._last)
        texts = _texts(plan)
        self.texts = [texts[task] for task in self._sweep.tasks.tolist()]

    def makespans(self, variation: Variation, blocks: range | None = None) -> NDArray[np.float64]:
        """Return the makespan of each sample, or of each in some blocks of them, in the user's time unit."""
        widths = block_sizes(variation.samples)
        chosen = range(len(widths)) if blocks is None else blocks
        parts = [self._block(Factors(variation.seed, block, widths[block]), variation) for block in chosen]
        return np.concatenate(parts) / self.per_unit

    def stragglers(self, slowness: Fraction) -> list[int | float]:
        """Return for each device the makespan, in the user's time unit, when its operations take so many times as long.

        Transfers and network lanes keep their durations, and latencies too. Everything is computed in integers.
        """
        up, down = slowness.as_integer_ratio()
        most = (total(self.ticks) + total(self._lag)) * max(up, down)
        ticks, lag = in_range(self.ticks, most), in_range(self._lag, most)

        def slowed(lengths: Ints, part: slice) -> None:
            lengths[:] = ticks[part, None] * down
            machines = self._machines[part]
            slow = np.flatnonzero(machines < self.devices)
            lengths[slow, machines[slow]] = ticks[part][slow] * up

        found = self._makespans(slowed, self.devices, lag * down)
        return [plain(Fraction(ticks, down * self.per_unit)) for ticks in found.tolist()]

    def _block(self, factors: Factors, variation: Variation) -> NDArray[np.float64]:
        """Return the makespan of each sample of a block, in ticks."""
        of_devices = np.ones((self.devices + 1, factors.width))  # the last one is that of the lanes
        names = [f"device {device}" for device in range(self.devices)]
        factors.fill(of_devices[:-1], names, variation.device_noise)
        ticks = self.ticks.astype(np.float64)

        def drawn(lengths: NDArray[np.float64], part: slice) -> None:
            factors.fill(lengths, self.texts[part], variation.noise)
            lengths *= ticks[part, None]
            if variation.device_noise:
                lengths *= of_devices[self._machines[part]]

        return self._makespans(drawn, factors.width, self._lag.astype(np.float64))

    def _makespans(self, fill: Callable[[Ints, slice], None], cases: int, lag: Ints) -> Ints:
        """Return the makespan of each case, the last end of a device or a network lane; something starts at 0.

        `fill` puts the lengths of some rows into an array, which is written again for the next ones.
        """
        rows, ends = np.empty((ROWS, cases), dtype=lag.dtype), np.zeros((self._vectors, cases), dtype=lag.dtype)
        for first in range(0, len(self.ticks), ROWS):
            look()
            part = slice(first, first + ROWS)
            lengths = rows[: len(self.ticks[part])]
            fill(lengths, part)
            self._sweep.advance(first, lengths, ends, self._vector, lag)
        makespans: Ints = ends[self._vector[self._last]].max(axis=0)
        return makespans


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
