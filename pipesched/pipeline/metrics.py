"""The metrics of a schedule, one property each, with its formula.

They are in the user's units. Those that end in `_ticks` or `_grains` are the integers inside: `problem.ticks.per_unit`
ticks are one of the user's time units, `problem.grains.per_unit` grains one of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import chain
from operator import itemgetter

from pipesched.core.arrays import Ints, column, np
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import Times
from pipesched.pipeline.kinds import KINDS
from pipesched.pipeline.plan import Plan, require_device
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import in_units, plain
from pipesched.pipeline.step_memory import SIDE, WHOLE_GRADIENTS, WHOLE_WEIGHTS, Stay, stays
from pipesched.pipeline.step_metrics import StepTimes, span_ticks as step_span

ACTIVATIONS = "activations"
HELD = (ACTIVATIONS, WHOLE_WEIGHTS, WHOLE_GRADIENTS, SIDE)  # the classes of what comes and goes


class ScheduleMetrics:
    """What a schedule measures: time, idle time and memory of its devices, from its plan and its times."""

    problem: Problem
    plan: Plan
    start_ticks: Sequence[int]
    end_ticks: Sequence[int]

    @cached_property
    def times(self) -> Times:
        """The times, as arrays."""
        raise NotImplementedError

    @cached_property
    def graph(self) -> TaskGraph:
        """The task graph of the plan, with the durations of its operations."""
        raise NotImplementedError

    def _time(self, ticks: int) -> int | float:
        return in_units(ticks, self.problem.ticks.per_unit)

    @cached_property
    def slot_start_ticks(self) -> list[tuple[int, ...]]:
        """The starts of the slots of each device, in order."""
        return [pick(self.start_ticks) for pick in self._pickers]

    @cached_property
    def slot_end_ticks(self) -> list[tuple[int, ...]]:
        """The ends of the slots of each device, in order."""
        return [pick(self.end_ticks) for pick in self._pickers]

    @cached_property
    def _pickers(self) -> list[Callable[[Sequence[int]], tuple[int, ...]]]:
        return [picker(order) for order in self.plan.orders]

    @cached_property
    def first_start_ticks(self) -> list[int]:
        """The start of each device's first slot (0 for a device without work)."""
        return [int(self.times.start[line[0]]) if len(line) else 0 for line in self._lines]

    @cached_property
    def last_end_ticks(self) -> list[int]:
        """The end of each device's last slot (0 for a device without work)."""
        return [int(self.times.end[line[-1]]) if len(line) else 0 for line in self._lines]

    @property
    def _lines(self) -> list[Ints]:
        """The order of each device."""
        return self.plan.lines[: len(self.plan.orders)]

    @cached_property
    def makespan_ticks(self) -> int:
        """Last end minus first start, over all devices and network lanes."""
        return self.last_ticks - min([*self.first_start_ticks, *(self.start_ticks[lane[0]] for lane in self._lanes)])

    @cached_property
    def last_ticks(self) -> int:
        """The end of all that runs on devices and network lanes."""
        return max([*self.last_end_ticks, *(self.end_ticks[lane[-1]] for lane in self._lanes)])

    @cached_property
    def _lanes(self) -> list[list[int]]:
        """What each network lane moves, of those that move something."""
        return [lane for lane in self.plan.network_lanes if lane]

    @cached_property
    def step(self) -> StepTimes | None:
        """What the step costs beside its passes; None where the problem has no step."""
        return StepTimes(self) if self.problem.has_step else None

    @property
    def makespan(self) -> int | float:
        """Last end minus first start, over all devices, in the user's time unit."""
        return self._time(self.makespan_ticks)

    @cached_property
    def span_ticks(self) -> int:
        """The largest over devices of (last end - own first start); with a step over network lanes and stages too."""
        if self.problem.has_step:
            return step_span(self)
        return max(end - start for end, start in zip(self.last_end_ticks, self.first_start_ticks, strict=True))

    @property
    def span(self) -> int | float:
        """The largest over devices of (last end - own first start): an iteration's time when iterations tile."""
        return self._time(self.span_ticks)

    @cached_property
    def busy_ticks(self) -> list[int]:
        """The time that each device works."""
        lengths = self.times.end - self.times.start
        return [int(lengths[line].sum()) for line in self._lines]

    @property
    def busy(self) -> list[int | float]:
        """The time that each device works, in the user's time unit."""
        return [*map(self._time, self.busy_ticks)]

    @cached_property
    def idle_ticks(self) -> list[int]:
        """The time within the makespan that each device does not work."""
        return [self.makespan_ticks - busy for busy in self.busy_ticks]

    @property
    def idle(self) -> list[int | float]:
        """The time within the makespan that each device does not work, in the user's time unit."""
        return [*map(self._time, self.idle_ticks)]

    @cached_property
    def useful_ticks(self) -> list[int]:
        """The useful work of each device: its busy time without what it recomputes."""
        if not self._extra:
            return self.busy_ticks
        extra = np.where(self._is_extra, self.graph.duration, 0)
        return [busy - int(extra[line].sum()) for busy, line in zip(self.busy_ticks, self._lines, strict=True)]

    @property
    def useful(self) -> list[int | float]:
        """The useful work of each device: its busy time without what it recomputes, in the user's time unit."""
        return [*map(self._time, self.useful_ticks)]

    @property
    def ideal_ticks(self) -> int:
        """The largest useful work of a device."""
        return max(self.useful_ticks)

    @property
    def ideal(self) -> int | float:
        """The largest useful work of a device (its busy time without what it recomputes), in the user's time unit."""
        return self._time(self.ideal_ticks)

    @property
    def bottleneck(self) -> int:
        """The device with the most useful work, the first of several."""
        return self.useful_ticks.index(self.ideal_ticks)

    @property
    def balanced_ticks(self) -> Fraction:
        """The mean useful work of a device: the time of a step in which no device ever waits for another."""
        return Fraction(sum(self.useful_ticks), self.problem.devices)

    @property
    def balanced(self) -> int | float:
        """The mean useful work of a device: the time of a step in which no device ever waits, in the user's unit."""
        return plain(self.balanced_ticks / self.problem.ticks.per_unit)

    @cached_property
    def _is_extra(self) -> Ints:
        """Which operations are no part of the ideal: every R."""
        found = np.zeros(self.plan.index.size, dtype=bool)
        for row in (self.plan.index.of_kind(one) for one in self.plan.index.letters if not KINDS[one].in_ideal):
            found[row.start : row.stop] = True
        return found

    @cached_property
    def _extra(self) -> int:
        return sum(int(self._is_extra[line].sum()) for line in self._lines) if self._is_extra.any() else 0

    @property
    def recomputed(self) -> int:
        """The number of activations that are recomputed."""
        return self._extra

    @property
    def offloaded(self) -> int:
        """The number of activations that are offloaded."""
        return sum(len(pair.offloads) for pair in self.plan.lanes)

    @property
    def bubble(self) -> float:
        """Idle device-time / (devices x makespan). 1F1B with equal stages: (P-1)/(M+P-1)."""
        return _ratio(sum(self.idle_ticks), self.problem.devices * self.makespan_ticks)

    @property
    def imbalance(self) -> float:
        """The part of the bubble that uneven work makes: (P x largest useful work - its sum) / (P x makespan)."""
        uneven = self.problem.devices * self.ideal_ticks - sum(self.useful_ticks)
        return _ratio(uneven, self.problem.devices * self.makespan_ticks)

    @property
    def utilization(self) -> float:
        """Useful work / (devices x makespan): 1 - bubble, less what is recomputed."""
        return _ratio(sum(self.useful_ticks), self.problem.devices * self.makespan_ticks)

    @property
    def bubble_over_ideal(self) -> float:
        """(makespan - ideal) / ideal: Megatron's figure."""
        return _ratio(self.makespan_ticks - self.ideal_ticks, self.ideal_ticks)

    @property
    def bubble_span(self) -> float:
        """1 - ideal / span: Zero Bubble's figure."""
        return _ratio(self.span_ticks - self.ideal_ticks, self.span_ticks)

    @cached_property
    def peak_grains(self) -> list[int]:
        """The largest activation memory of each device over time, in grains.

        What is freed at a time counts before what is taken then.
        """
        devices = range(self.problem.devices)
        if self._beside:
            return [max(level for _, level in self.memory_steps(device)) for device in devices]
        return self._peak_activations

    @cached_property
    def _beside(self) -> list[Stay]:
        """What comes and goes beside activations; trials of passes alone have nothing."""
        if not self.plan.index.scoped:
            return []
        return [*stays(self.problem, self.plan, self.start_ticks, self.end_ticks)]

    @cached_property
    def _peak_activations(self) -> list[int]:
        # Transfers take and free at any time, and slots of no length several times at one instant.
        if self.plan.lanes or not self.graph.duration.all():
            return [max(level for _, level in self._steps(device, ())) for device in range(self.problem.devices)]
        take, give, peaks = self.graph.take, self.graph.give, []
        for line in self._lines:  # the peak is at some start, where every slot takes time
            levels = np.cumsum(take[line] - give[line]) + give[line]
            peaks.append(max(int(levels.max()), 0) if len(line) else 0)
        return peaks

    def peak_of(self, what: str) -> list[int | float]:
        """Return the largest memory of one class on each device: "activations", "weights", "gradients" or "side"."""
        return [in_units(peak, self.problem.grains.per_unit) for peak in self.peak_grains_of(what)]

    def peak_grains_of(self, what: str) -> list[int]:
        """Return the same in grains."""
        devices = range(self.problem.devices)
        return self._peak_activations if what == ACTIVATIONS else [self._peak_beside(one, what) for one in devices]

    def _peak_beside(self, device: int, what: str) -> int:
        changes = _changes(stay for stay in self._beside if (stay.device, stay.what) == (device, what))
        return max(level for _, level in _levels(*changes))

    @property
    def peak_memory(self) -> list[int | float]:
        """The largest activation memory of each device over time, in the user's memory unit."""
        return [in_units(peak, self.problem.grains.per_unit) for peak in self.peak_grains]

    @property
    def memory_grains(self) -> list[int]:
        """What each device holds at most: its peak of activations and its static memory, in grains."""
        return [peak + self.problem.static_grains(device) for device, peak in enumerate(self.peak_grains)]

    @property
    def memory(self) -> list[int | float]:
        """What each device holds at most: its peak of activations and its static memory, in the user's memory unit."""
        return [in_units(held, self.problem.grains.per_unit) for held in self.memory_grains]

    def memory_steps(self, device: int) -> Iterator[tuple[int, int]]:
        """Return the memory of a device over time that is not static: (tick, grains from then on), ticks rising.

        Raises ConfigError for a device that the problem does not have.
        """
        device = require_device(device, self.problem.devices)
        return self._steps(device, [stay for stay in self._beside if stay.device == device])

    def _steps(self, device: int, beside: Sequence[Stay]) -> Iterator[tuple[int, int]]:
        tasks, more = np.append(self.plan.lines[device], self._transfers[device]), _changes(beside)
        times = np.concatenate([self.times.start[tasks], self.times.end[tasks], more[0]])
        changes = np.concatenate([self.graph.take[tasks], -self.graph.give[tasks], more[1]])
        return _levels(times, changes)

    @cached_property
    def _transfers(self) -> list[Ints]:
        """The offloads and loads of each device."""
        tasks = column(chain.from_iterable(chain.from_iterable(self.plan.lanes)))
        return [tasks[self.graph.pool[tasks] == device] for device in range(self.problem.devices)]

    @property
    def fits(self) -> bool:
        """Whether every device's peak and static memory stay within its budget (true without one)."""
        return not self.over_budget

    @property
    def over_budget(self) -> list[int]:
        """The devices whose peak and static memory exceed their budget."""
        pairs = zip(self.peak_grains, self.problem.capacity_grains, strict=True)
        return [device for device, (peak, capacity) in enumerate(pairs) if capacity is not None and peak > capacity]


def picker(positions: Sequence[int]) -> Callable[[Sequence[int]], tuple[int, ...]]:
    """Return a function that picks these positions out of a sequence, at twice the speed of a loop."""
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda values: tuple(values[position] for position in positions)


def _changes(beside: Iterable[Stay]) -> tuple[Ints, Ints]:
    """Return what stays take and give back: ticks, and grains."""
    held = [*beside]
    times = [*(stay.start for stay in held), *(stay.end for stay in held)]
    return column(times), column([*(stay.grains for stay in held), *(-stay.grains for stay in held)])


def _levels(times: Ints, changes: Ints) -> Iterator[tuple[int, int]]:
    """Yield the level from each time on: (tick, grains), from 0 on."""
    order = np.argsort(times, kind="stable")
    rising, levels = times[order], np.cumsum(changes[order])
    lasts = np.append(rising[1:] != rising[:-1], True)[: len(rising)]  # what happens at a time counts together
    if not len(rising) or rising[0]:
        yield 0, 0
    yield from zip(rising[lasts].tolist(), levels[lasts].tolist(), strict=True)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
