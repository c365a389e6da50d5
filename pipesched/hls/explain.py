"""Why a schedule of operations on functional units takes as long as it does: `pipesched.hls.explain`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from pipesched.checks import shown
from pipesched.core.optimum import lower_bound
from pipesched.core.reasons import NOTHING, Arc, TimedTasks, idle_gaps
from pipesched.core.sensitivity import path_counts
from pipesched.core.timing import Times
from pipesched.errors import ConfigError
from pipesched.hls.explanation import ClassSensitivity, HardwareExplanation
from pipesched.hls.outcome import HardwareOutcome
from pipesched.hls.schedule import HardwareSchedule, checked
from pipesched.hls.units import UnitClass, lower


def explain_hardware(schedule: HardwareSchedule | HardwareOutcome) -> HardwareExplanation:
    """Say why a schedule takes as many cycles as it does, and what the latency of each unit class does to it.

    Sensitivities are those of the same operations on the same units in the same order, as early as they can be. Raises
    ConfigError for what is no schedule, and for one of a loop; InvalidSchedule for one that breaks a rule.
    """
    outcome = schedule if isinstance(schedule, HardwareOutcome) else None
    subject = outcome.schedule if outcome is not None else schedule
    if not isinstance(subject, HardwareSchedule):
        raise ConfigError(f"must be a HardwareSchedule or a HardwareOutcome, not {shown(schedule)}", "schedule")
    if subject.interval is not None:
        raise ConfigError("is of a loop, whose iterations overlap; only one that runs once is explained", "schedule")
    tasks = timed_units(checked(subject))
    starts, ends = _earliest(subject, tasks)
    early = replace(tasks, starts=starts, ends=ends)
    return HardwareExplanation(
        schedule=subject,
        bound=outcome.bound if outcome else lower_bound(lower(subject.graph, subject.units, subject.classes))[0],
        tasks=tasks,
        gap_cycles=[*idle_gaps(tasks, [0] * len(subject.graph), lambda _task, _time: True)],
        sensitivity=[*_sensitivities(subject, tasks, early)],
        early_latency=early.makespan,
        method="" if outcome is None else outcome.method,
    )


def timed_units(schedule: HardwareSchedule) -> TimedTasks:
    """Return the operations as tasks; every unit that exists is a device, by class and instance.

    An operation lasts as long as it occupies its unit. What its latency lasts beyond that is the lag to its consumers,
    and its delivery; where there is such a rest, its tag is the number of the unit class.
    """
    units, classes = schedule.units, schedule.classes
    first, devices = [], 0
    for unit in units:
        first.append(devices)
        devices += unit.count
    orders: list[list[int]] = [[] for _ in range(devices)]
    _, instances = schedule.unrolled(1)
    for task in sorted(range(len(classes)), key=schedule.starts.__getitem__):
        orders[first[classes[task]] + instances[task]].append(task)
    graph = lower(schedule.graph, units, classes)
    tags = [number if has_rest(units[number]) else NOTHING for number in classes]
    inputs = [[Arc(before, lag, tags[before]) for before, lag in row] for row in graph.predecessors]
    ends = [start + duration for start, duration in zip(schedule.starts, graph.durations, strict=True)]
    waits: list[list[int]] = [[] for _ in classes]
    return TimedTasks(graph.durations, inputs, waits, orders, devices, schedule.starts, ends, graph.deliveries, tags)


def has_rest(unit: UnitClass) -> bool:
    """Return whether a unit is free at another time than its result is there: then only the latter is its latency."""
    return unit.interval != unit.latency


def _sensitivities(schedule: HardwareSchedule, tasks: TimedTasks, early: TimedTasks) -> Iterator[ClassSensitivity]:
    """Yield the sensitivity to the latency of each class that runs something; `early` are the tasks at their earliest.

    The latency of a class counts once for each operation on a path, or if it has a rest for each that a path leaves by
    that rest.
    """
    units, classes = schedule.units, schedule.classes
    own = [[] if has_rest(units[number]) else [number] for number in classes]
    ranges = path_counts(early, lambda task: own[task], len(units))
    counts = Counter(number for task in tasks.critical_path for number in own[task])
    arcs = [tasks.tight[task] for task in tasks.critical_path]
    counts.update([tasks.delivery_tags[tasks.last], *(arc.tag for arc in arcs if arc is not None)])
    for number, unit in enumerate(units):
        if number in classes:
            faster = None if unit.latency == 1 else _latency(schedule, tasks, number, -1)
            slower = _latency(schedule, tasks, number, 1)
            yield ClassSensitivity(unit.name, counts[number], *ranges[number], faster, slower)


def _earliest(schedule: HardwareSchedule, tasks: TimedTasks, number: int = NOTHING, more: int = 0) -> Times:
    """Return the earliest times in the orders; the latency of the class `number` has so many cycles `more`.

    Where that class has a rest its arcs have its tag, and become longer; else its operations do.
    """
    lasting = number if number != NOTHING and not has_rest(schedule.units[number]) else NOTHING
    starts, ends = [0] * len(tasks.durations), [0] * len(tasks.durations)
    for task in tasks.topological:
        arriving = (ends[arc.before] + arc.lag + (arc.tag == number) * more for arc in tasks.arcs(task))
        starts[task] = max(arriving, default=0)
        ends[task] = starts[task] + tasks.durations[task] + (schedule.classes[task] == lasting) * more
    return Times(starts, ends)


def _latency(schedule: HardwareSchedule, tasks: TimedTasks, number: int, more: int) -> int:
    """Return the latency of the same orders where the latency of one class has so many cycles `more`."""
    _, ends = _earliest(schedule, tasks, number, more)
    added = [(tag == number) * more for tag in tasks.delivery_tags]
    return max(map(sum, zip(ends, tasks.deliveries, added, strict=True)))
