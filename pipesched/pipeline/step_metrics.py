"""What a step costs beside its passes, and after which time the next one may follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from operator import sub
from typing import Any, Protocol

from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import Retiming, Times
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.step_plan import NOTHING_BEFORE, SIDE_KINDS, lane_of, stages_along

PARTS = {"gather": ("UNSHARD",), "reduce": ("REDUCE_GRAD",), "tied": ("REDUCE_TIED",), "optimizer": ("OPTIMIZER",)}
NETWORK = ("gather", "reduce", "tied")


class TimedStep(Protocol):
    """What of a schedule these measures look at."""

    problem: Problem
    plan: Plan
    start_ticks: Sequence[int]
    end_ticks: Sequence[int]

    @property
    def graph(self) -> TaskGraph:
        """The task graph of the plan, with the durations of its operations."""

    @property
    def makespan_ticks(self) -> int:
        """Last end minus first start, over all devices and network lanes."""

    @property
    def last_ticks(self) -> int:
        """The end of all that runs on devices and network lanes."""

    @property
    def first_start_ticks(self) -> list[int]:
        """The start of each device's first slot."""

    @property
    def last_end_ticks(self) -> list[int]:
        """The end of each device's last slot."""


class StepTimes:
    """What of a schedule's makespan the step costs beside its passes; times are in the user's unit.

    Each number is the makespan less that of the same plan with some durations 0; they need not add up. `exposed` names
    the operations of network lanes that cannot end later without a later makespan.
    """

    def __init__(self, schedule: TimedStep) -> None:
        self._schedule = schedule
        self._times: dict[tuple[str, ...], Times] = {
            (): Times([*schedule.start_ticks], [*schedule.end_ticks])
        }  # by the parts that last no time
        self._numbers = {
            part: [*chain.from_iterable(map(schedule.plan.index.of_kind, kinds))] for part, kinds in PARTS.items()
        }

    def __repr__(self) -> str:
        shown = ", ".join(self.exposed) or "nothing"
        return f"StepTimes(pipeline {self.pipeline}, network {self.network}, exposed {shown})"

    def _units(self, ticks: int) -> int | float:
        return in_units(ticks, self._schedule.problem.ticks.per_unit)

    @cached_property
    def _replay(self) -> Retiming:
        return Retiming(self._schedule.graph, self._schedule.plan.machines)

    def _times_without(self, parts: tuple[str, ...]) -> Times:
        """Return when all runs where these parts last no time: as with all but the last, until that would begin."""
        if parts not in self._times:
            before = self._times_without(parts[:-1])
            durations = [*self._schedule.graph.durations]
            for number in chain.from_iterable(self._numbers[part] for part in parts):
                durations[number] = 0
            since = min(before.starts[number] for number in self._numbers[parts[-1]])
            self._times[parts] = self._replay.changed(before, durations, since)
        return self._times[parts]

    def exposed_ticks(self, *parts: str) -> int:
        """Return how much shorter the step is where these parts last no time."""
        durations = self._schedule.graph.durations
        lasting = tuple(part for part in PARTS if part in parts and any(durations[one] for one in self._numbers[part]))
        if not lasting:
            return 0
        ends = self._times_without(lasting).ends
        return self._schedule.makespan_ticks - max(
            ends[order[-1]] for order in self._schedule.plan.machines if len(order)
        )

    @cached_property
    def pipeline(self) -> int | float:
        """The makespan of the passes and side work alone."""
        return self._units(self._schedule.makespan_ticks - self.exposed_ticks(*PARTS))

    @cached_property
    def network(self) -> int | float:
        """What gathers and reductions cost together."""
        return self._units(self.exposed_ticks(*NETWORK))

    def cost(self, part: str) -> int | float:
        """Return what one of "gather", "reduce", "tied" and "optimizer" costs alone."""
        return self._units(self.exposed_ticks(part))

    def time(self, part: str) -> list[int | float]:
        """Return how long each network lane, or for "optimizer" each device, is busy with one of these."""
        schedule = self._schedule
        numbers, durations = {*self._numbers[part]}, schedule.graph.durations
        rows: Sequence[Iterable[int]] = schedule.plan.orders if part == "optimizer" else schedule.plan.network_lanes
        return [self._units(sum(durations[number] for number in row if number in numbers)) for row in rows]

    @cached_property
    def _exposed(self) -> list[int]:
        schedule = self._schedule
        critical = self._replay.critical(self._times[()])
        tied = self._numbers["tied"]  # one operation on two lanes
        if any(critical[number] for number in tied):
            for number in tied:
                critical[number] = 1
        lanes = chain.from_iterable(schedule.plan.network_lanes)
        return [number for number in lanes if schedule.graph.durations[number] and critical[number]]

    @cached_property
    def exposed(self) -> list[str]:
        """The operations of network lanes without slack that last some time, device by device in the lanes' order."""
        return [*map(str, map(self._schedule.plan.index.op, self._exposed))]

    def exposed_of(self, part: str) -> list[int]:
        """Return the numbers of those of one of "gather", "reduce" and "tied"."""
        numbers = {*self._numbers[part]}
        return [number for number in self._exposed if number in numbers]

    def hidden_on(self, part: str) -> list[int]:
        """Return the devices on whose lanes one of "gather", "reduce" and "tied" lasts, and none of it is exposed."""
        exposed, durations = {*self._exposed}, self._schedule.graph.durations
        lasting = {number for number in self._numbers[part] if durations[number]}
        rows = [lasting.intersection(lane) for lane in self._schedule.plan.network_lanes]
        return [device for device, row in enumerate(rows) if row and exposed.isdisjoint(row)]

    @cached_property
    def document(self) -> dict[str, Any]:
        """All of it, by the names of the JSON document."""
        parts = {part: {"time": self.time(part), "exposed": self.cost(part)} for part in PARTS}
        return {"pipeline": self.pipeline, "network": self.network, **parts, "exposed": self.exposed}


def span_ticks(schedule: TimedStep) -> int:
    """Return the smallest time after which the next step may follow as the same picture.

    The largest (last end - first start) over devices, over network lanes, and over stages. The gathers at the head of a
    lane count as late as they may stand without moving a slot or the network operation behind them.
    """
    late, durations = dict(_late_heads(schedule)), schedule.graph.durations

    def times(number: int) -> tuple[int, int]:
        start = late.get(number, schedule.start_ticks[number])
        return start, start + durations[number] if number in late else schedule.end_ticks[number]

    spans: list[int] = [*map(sub, schedule.last_end_ticks, schedule.first_start_ticks)]
    spans += [times(lane[-1])[1] - times(lane[0])[0] for lane in schedule.plan.network_lanes if lane]
    plan, index, there = schedule.plan, schedule.plan.index, schedule.problem.settled_placement.devices
    kinds = [rows.kind for rows in index.scoped if rows.kind not in NOT_OF_STAGES]
    for device, order in enumerate(plan.orders):
        firsts, lasts = (stages_along(one, plan.pairs, index, there.count(device)) for one in (order, reversed(order)))
        for stage in firsts.keys() & lasts.keys():  # a plan with passes on other devices than theirs lacks some
            beside = (number for kind in kinds for number in index.row(kind, stage))
            starts, ends = zip(*map(times, (firsts[stage], lasts[stage], *beside)), strict=True)
            spans.append(max(ends) - min(start for start in starts if start >= 0))
    return max(spans)


NOT_OF_STAGES = (*SIDE_KINDS, "RESHARD")


def _late_heads(schedule: TimedStep) -> list[tuple[int, int]]:
    """Return the starts of the gathers at the heads of lanes where each stands as late as it may."""
    graph, index = schedule.graph, schedule.plan.index
    gathers = index.of_kind("UNSHARD")
    late: dict[int, int] = {}
    for program in schedule.plan.network:
        lane = lane_of(program, index)
        issued = dict(program)
        heads = [number for number in lane if number in gathers and issued[number] == NOTHING_BEFORE]
        heads = heads[: next((place for place, (a, b) in enumerate(zip(heads, lane, strict=False)) if a != b), None)]
        behind = lane[len(heads) : len(heads) + 1]
        limit = schedule.start_ticks[behind[0]] if behind else None
        for number in reversed(heads):
            ready = [schedule.start_ticks[after] - lag for after, lag in graph.successors[number]]
            most = min([*ready, *(() if limit is None else (limit,))], default=schedule.end_ticks[number])
            limit = late[number] = most - graph.durations[number]
    return [*late.items()]
